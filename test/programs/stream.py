#!/usr/bin/env python3
"""One plain TCP stream: what a link carries without any filesystem.

stream.py serve PORT BYTES            sends BYTES to everyone who connects
stream.py fetch HOST PORT [TIMEOUT]   receives to the end and prints bytes and seconds
"""
import socket
import sys
import time


def serve(port, total):
    block = bytes(1 << 20)
    listener = socket.create_server(("", port), reuse_port=False)
    print("listening", flush=True)
    while True:
        peer, _ = listener.accept()
        left = total
        try:
            while left:
                left -= peer.send(block[: min(left, len(block))])
        except OSError:
            pass
        peer.close()


def fetch(host, port, timeout):
    start = time.monotonic()
    stream = socket.create_connection((host, port), timeout=timeout)
    received = 0
    while True:
        piece = stream.recv(1 << 20)
        if not piece:
            break
        received += len(piece)
    print(received, time.monotonic() - start)


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]), int(sys.argv[3]))
else:
    fetch(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]) if len(sys.argv) > 4 else 60)

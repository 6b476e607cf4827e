#!/usr/bin/env python3
"""Small files on a mount, in units of one small message there and back.

latency.py echo                   answers small messages on port 9001
latency.py MOUNT SERVER_ADDRESS   measures; MOUNT has a file "small" of 4 KiB, and SERVER_ADDRESS runs the echo
"""
import os
import socket
import statistics
import sys
import time

ROUNDS = 300


def median(action):
    times = []
    for number in range(ROUNDS):
        start = time.perf_counter()
        action(number)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


if sys.argv[1] == "echo":
    listener = socket.create_server(("", 9001))
    print("listening", flush=True)
    while True:
        peer, _ = listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := peer.recv(64):
            peer.sendall(data)

mount, server = sys.argv[1:3]
peer = socket.create_connection((server, 9001), timeout=10)
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def ping(_):
    peer.sendall(b"x" * 40)
    peer.recv(64)


def read(_):
    fd = os.open(os.path.join(mount, "small"), os.O_RDONLY)
    assert len(os.read(fd, 8192)) == 4096
    os.close(fd)


def create(number):
    fd = os.open(os.path.join(mount, "new%d" % number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(fd, b"k" * 4096)
    os.close(fd)


turn = median(ping)
print("one small message there and back: %.0f us" % (turn * 1e6))
for what, action in (("open+read+close of 4 KiB", read), ("create+write+close of 4 KiB", create)):
    took = median(action)
    print("%s: %.0f us = %.1f turns" % (what, took * 1e6, took / turn))

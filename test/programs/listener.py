#!/usr/bin/env python3
"""Writes all TCP payload that an interface sees to a file: listener.py INTERFACE FILE; until it is killed."""
import socket
import sys

raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
raw.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
raw.bind((sys.argv[1], 0))
with open(sys.argv[2], "wb", buffering=0) as out:
    while True:
        out.write(raw.recv(1 << 17))

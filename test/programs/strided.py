#!/usr/bin/env python3
"""Interleaved records of one file, as an N-to-1 checkpoint writes them.

strided.py write FILE RANK RANKS RECORD COUNT    writes records RANK, RANK + RANKS, ... and prints seconds of write and of close
strided.py check FILE RANK RANKS RECORD COUNT    every byte of all ranks' records is as written, and nothing follows
"""
import os
import sys
import time


def record(number, size):
    pattern = b"%010d|" % number
    return (pattern * (size // len(pattern) + 1))[:size]


mode, path = sys.argv[1:3]
rank, ranks, size, count = map(int, sys.argv[3:7])
if mode == "write":
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    start = time.monotonic()
    for step in range(count):
        number = step * ranks + rank
        data = record(number, size)
        if os.pwrite(fd, data, number * size) != len(data):
            sys.exit("short write")
    middle = time.monotonic()
    os.close(fd)
    print(middle - start, time.monotonic() - middle)
else:
    with open(path, "rb") as file:
        for number in range(count * ranks):
            data = file.read(size)
            if data != record(number, size):
                want = record(number, size)
                bad = next((i for i in range(size) if data[i : i + 1] != want[i : i + 1]), 0)
                sys.exit("record %d (rank %d) differs at byte %d: %r" % (number, number % ranks, bad, data[bad : bad + 24]))
        if file.read(1):
            sys.exit("bytes after the last record")

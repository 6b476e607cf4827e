#!/usr/bin/env python3
"""One node's program in test/growth/run: what it does begins when the file GO is there, and it prints when it began and ended.

node.py read FILE GO                             reads FILE from beginning to end; prints its CRC, too
node.py flush FILE GO RANK RANKS RECORD COUNT    writes records RANK, RANK + RANKS, ... (as test/programs/strided.py), then closes FILE
node.py open DIRECTORY                           opens the files there; prints how many
"""
import os
import sys
import time
import zlib


def wait_for(go):
    print("ready", file=sys.stderr, flush=True)
    while not os.path.exists(go):
        time.sleep(0.001)
    return time.monotonic()


def record(number, size):
    pattern = b"%010d|" % number
    return (pattern * (size // len(pattern) + 1))[:size]


mode, path = sys.argv[1:3]
if mode == "read":
    began, crc = wait_for(sys.argv[3]), 0
    with open(path, "rb", buffering=0) as file:
        while data := file.read(128 << 10):
            crc = zlib.crc32(data, crc)
    print(began, time.monotonic(), crc)
elif mode == "flush":
    rank, ranks, size, count = map(int, sys.argv[4:8])
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    for number in range(rank, count * ranks, ranks):
        data = record(number, size)
        if os.pwrite(fd, data, number * size) != size:
            sys.exit("short write")
    began = wait_for(sys.argv[3])
    os.close(fd)
    print(began, time.monotonic(), 0)
else:
    names = os.listdir(path)
    for name in names:
        os.close(os.open(os.path.join(path, name), os.O_RDONLY))
    print(len(names))

#!/usr/bin/env python3
"""Writes a pattern and keeps the file open without closing or syncing it, until killed.

hold.py FILE BYTES TOLD       writes BYTES in odd pieces, then creates TOLD and waits
hold.py --check FILE BYTES    the file has exactly these bytes
"""
import os
import sys
import time


def pattern(size):
    line = b"0123456789abcdefghijklmnopqrstuvwxyz-"
    return (line * (size // len(line) + 1))[:size]


if sys.argv[1] == "--check":
    with open(sys.argv[2], "rb") as file:
        data = file.read()
    want = pattern(int(sys.argv[3]))
    if data != want:
        bad = next((i for i in range(min(len(data), len(want))) if data[i] != want[i]), min(len(data), len(want)))
        sys.exit("%s: %d bytes instead of %d, first difference at %d" % (sys.argv[2], len(data), len(want), bad))
else:
    data, offset = pattern(int(sys.argv[2])), 0
    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    while offset < len(data):
        offset += os.pwrite(fd, data[offset : offset + 99991], offset)
    with open(sys.argv[3], "w") as told:
        told.write("written\n")
    while True:
        time.sleep(3600)

#!/usr/bin/env python3
"""A file that grows on one node and is mapped on another: growing.py write|read FILE RECORDS."""
import mmap
import os
import sys

SIZE = 5000


def record(number):
    return bytes([number % 250 + 1]) * SIZE


def write(path, count):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    for number in range(count):
        assert os.write(fd, record(number)) == SIZE


def read(path, count):
    fd = os.open(path, os.O_RDONLY)
    seen = 0
    while seen < count:
        there = os.fstat(fd).st_size // SIZE
        if there == seen:
            continue
        with mmap.mmap(fd, there * SIZE, prot=mmap.PROT_READ) as mapping:
            for number in range(seen, there):
                assert mapping[number * SIZE:(number + 1) * SIZE] == record(number), number
        seen = there


{"write": write, "read": read}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))

#!/usr/bin/env python3
"""Bytes that come in batches wait for the end of the burst (flush_backlog in kairanfs(8)).    burst.py MOUNT EXPORT

The mount has a flush_backlog of 64 KiB and a flush_age that never comes."""
import ctypes
import fcntl
import mmap
import os
import struct
import sys
import time

mount, export = sys.argv[1:3]
HEAD, EXTENT, MAGIC, BATCH = struct.Struct("=II16sQ"), struct.Struct("=QQ"), 0x6B726231, 0x80106B72
page = mmap.mmap(-1, 1 << 20)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
libc = ctypes.CDLL(None, use_errno=True)
door = os.open(os.path.join(mount, ".kairan"), os.O_RDWR)


def write_batch(key, offset, data):
    packet = HEAD.pack(MAGIC, 1, key, len(data)) + EXTENT.pack(offset, len(data)) + data
    page[:len(packet)] = packet
    assert libc.write(door, ctypes.c_void_p(address), ctypes.c_size_t(len(packet))) == len(packet)


def at_server(name):
    return os.stat(os.path.join(export, name)).st_size


def attempt(name):
    """Whether the machine was fast enough to tell."""
    fd = os.open(os.path.join(mount, name), os.O_RDWR | os.O_CREAT)
    key = fcntl.ioctl(fd, BATCH, bytes(16))
    last = time.monotonic()
    for turn in range(8):
        if turn % 2:
            write_batch(key, 0, os.urandom(500000))
        else:  # a write through the handle belongs to the burst
            os.pwrite(fd, os.urandom(500000), 0)
        written = time.monotonic()
        time.sleep(0.25)
        size = at_server(name)
        if time.monotonic() - last > 0.8:  # between two batches, or between the last one and the look
            return False
        assert size == 0, "%d bytes of a burst are at the server" % size
        last = written
    deadline = time.monotonic() + 100
    while at_server(name) != 500000:
        assert time.monotonic() < deadline, "the burst is over, and its backlog is not flushed"
        time.sleep(0.05)
    os.close(fd)
    return True


for number in range(40):
    if attempt("burst%d" % number):
        print("burst: right, at attempt %d" % (number + 1))
        break
else:
    print("burst: the machine is too slow to tell")

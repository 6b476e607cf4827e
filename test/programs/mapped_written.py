#!/usr/bin/env python3
"""One process stores into each page of a mapped file while another writes into the same page.    mapped_written.py FILE [ELSEWHERE]

The bytes of both must be there afterwards, through the mapping and through the descriptor.  ELSEWHERE is the file on another node,
where it is read all the while.
"""
import mmap
import os
import random
import signal
import struct
import sys

path, elsewhere = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
PAGE, PAGES, ROUNDS = 4096, 200, 1 if elsewhere else 3
turn = mmap.mmap(-1, PAGE)  # how far each of the two has come


def in_step(me, at):
    """Goes on when the other is as far."""
    struct.pack_into("Q", turn, 8 * me, at)
    while struct.unpack_from("Q", turn, 8 * (1 - me))[0] < at:
        os.sched_yield()


def read_for_ever():
    fd = os.open(elsewhere, os.O_RDONLY)
    while True:
        os.pread(fd, PAGE, random.randrange(PAGES) * PAGE)


for number in range(1, ROUNDS + 1):
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.ftruncate(fd, PAGE * PAGES)
    turn[:16] = bytes(16)
    reader = os.fork() if elsewhere else -1
    if reader == 0:
        read_for_ever()
    writer = os.fork()
    if writer == 0:
        for page in range(PAGES):
            in_step(0, page + 1)
            os.pwrite(fd, struct.pack("Q", number), page * PAGE + 1024)
        os._exit(0)
    with mmap.mmap(fd, PAGE * PAGES) as view:
        for page in range(PAGES):
            in_step(1, page + 1)
            view[page * PAGE + 3072 : page * PAGE + 3080] = struct.pack("Q", number)
        assert os.waitpid(writer, 0)[1] == 0
        if reader > 0:
            os.kill(reader, signal.SIGKILL)
            os.waitpid(reader, 0)
        for page in range(PAGES):
            for way, data in (("mapping", view[page * PAGE : (page + 1) * PAGE]), ("descriptor", os.pread(fd, PAGE, page * PAGE))):
                for what, at in (("written", 1024), ("stored", 3072)):
                    got = struct.unpack_from("Q", data, at)[0]
                    assert got == number, "round %d, page %d: what was %s is %d through the %s" % (number, page, what, got, way)
    os.close(fd)
os.unlink(path)

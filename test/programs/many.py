#!/usr/bin/env python3
"""Holds many files with unflushed bytes open, each 20th of them removed if asked to, and looks after them in the end.

many.py DIRECTORY COUNT GO [removed]         says "written", waits for GO to be there, says "good", or what is wrong
many.py --check DIRECTORY COUNT [removed]    every file that was not removed has its bytes
"""
import os
import sys
import time


def content(number):
    return b"%d-" % number * 40


def removed(number):
    return sys.argv[-1] == "removed" and number % 20 == 7


if sys.argv[1] == "--check":
    directory, count = sys.argv[2], int(sys.argv[3])
    for number in range(count):
        path = os.path.join(directory, str(number))
        if removed(number):
            assert not os.path.exists(path), path
        else:
            with open(path, "rb") as file:
                assert file.read() == content(number), path
    sys.exit()
directory, count, go = sys.argv[1], int(sys.argv[2]), sys.argv[3]
fds = []
for number in range(count):
    path = os.path.join(directory, str(number))
    fds.append(os.open(path, os.O_RDWR | os.O_CREAT, 0o666))
    os.pwrite(fds[-1], content(number), 0)
    if removed(number):
        os.unlink(path)
print("written", flush=True)
while not os.path.exists(go):
    time.sleep(0.05)
for number, fd in enumerate(fds):
    got = os.pread(fd, 1000, 0)
    assert got == content(number), (number, got)
    os.pwrite(fd, b"!", 999)
    os.fsync(fd)
    assert os.fstat(fd).st_size == 1000, number
    os.ftruncate(fd, len(content(number)))
print("good", flush=True)

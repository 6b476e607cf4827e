#!/usr/bin/env python3
"""Where a file ends for the kernel of a node that was just being told of it when the file was cut.

cut.py FAULT_FILE FILE_HERE FILE_ELSEWHERE

A thread asks for the file's size, and the daemon here, which takes orders from FAULT_FILE, lingers before, or while, it makes its kernel
believe in it; meanwhile the file is cut.  What is read when both have returned must end there, and not be filled with zeros.
"""
import os
import sys
import threading
import time

LONG, SHORT, MILLISECONDS = 3000, 100, 1500


def wait_until_gone(path):
    deadline = time.monotonic() + 60
    while os.path.exists(path):
        assert time.monotonic() < deadline, "nobody tells the kernel a size"
        time.sleep(0.001)


def check(what, fault, point, here, by):
    with open(here, "wb") as file:
        file.write(b"#" * LONG)
    fd = os.open(here, os.O_RDONLY)
    assert len(os.pread(fd, LONG + 1, 0)) == LONG
    os.truncate(here, LONG)  # so the kernel is to be told again
    with open(fault + ".order", "w") as file:
        file.write("%s:delay-%d:1" % (point, MILLISECONDS))
    os.rename(fault + ".order", fault)
    asker = threading.Thread(target=os.fstat, args=(fd,))
    asker.start()
    wait_until_gone(fault)
    os.truncate(by, SHORT)
    assert len(os.pread(fd, LONG - 1, 0)) == SHORT  # the kernel has a page of it
    asker.join()
    got = os.pread(fd, LONG - 1, 0)
    assert len(got) == SHORT, "%s: %d bytes of a file of %d are read, %d of them zeros" % (what, len(got), SHORT, got.count(b"\0"))
    os.close(fd)


def main():
    fault, here, elsewhere = sys.argv[1:]
    for point in "size.tell", "size.telling":
        for by in here, elsewhere:
            check("%s, cut %s" % (point, "here" if by == here else "elsewhere"), fault, point, here, by)


main()

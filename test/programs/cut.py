#!/usr/bin/env python3
"""Where a file ends for the kernel of a node that was just being told of it, or was just reading it, when the file was cut.

cut.py FAULT_FILE FILE_HERE FILE_ELSEWHERE

The daemon here takes orders to linger from FAULT_FILE.  What is read when the cut has returned must end where the file does, and not be filled
with zeros up to where it ended before.
"""
import ctypes
import os
import sys
import threading
import time

EMPTY_PATH, FORCE_SYNC, BASIC = 0x1000, 0x2000, 0x7FF  # of statx(2)
PAGE, LONG, SHORT, MILLISECONDS = 4096, 3000, 100, 1500


def order(fault, point, milliseconds):
    with open(fault + ".order", "w") as file:
        file.write("%s:delay-%d:1" % (point, milliseconds))
    os.rename(fault + ".order", fault)


def wait_until_gone(path, meanwhile=lambda: None):
    deadline = time.monotonic() + 60
    while os.path.exists(path):
        assert time.monotonic() < deadline, "nobody comes to where the daemon is to linger"
        meanwhile()
        time.sleep(0.001)


def ask_size(fd):
    """fstat that asks the daemon, whatever the kernel knows."""
    assert ctypes.CDLL(None).statx(fd, b"", EMPTY_PATH | FORCE_SYNC, BASIC, ctypes.create_string_buffer(256)) == 0


def start(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    return thread


def check_end(what, fd, length):
    got = os.pread(fd, length, 0)
    assert len(got) == SHORT, "%s: %d bytes of a file of %d are read, %d of them zeros" % (what, len(got), SHORT, got.count(b"\0"))


def filled(path, length):
    with open(path, "wb") as file:
        file.write(b"#" * length)
    return os.open(path, os.O_RDONLY)


def check_told(what, fault, point, here, by):
    """A thread asks for the size, and the daemon lingers before, or while, it makes the kernel believe in it."""
    fd = filled(here, LONG)
    assert len(os.pread(fd, LONG + 1, 0)) == LONG
    os.truncate(here, LONG)  # so the kernel is to be told again
    order(fault, point, MILLISECONDS)
    asker = start(os.fstat, fd)
    wait_until_gone(fault)
    os.truncate(by, SHORT)
    assert len(os.pread(fd, LONG - 1, 0)) == SHORT  # the kernel has a page of it
    asker.join()
    check_end(what, fd, LONG - 1)
    os.close(fd)


def check_late_answer(fault, here, elsewhere):
    """A thread asks for the size, and runs on with the old one while another reads what has been cut meanwhile."""
    for _ in range(20):
        fd = filled(here, LONG)  # no page of it is read, so that the cut has none dropped
        for _ in range(3):
            os.fstat(fd)
        order(fault, "size.known", MILLISECONDS)
        asker = start(ask_size, fd)
        wait_until_gone(fault)
        os.truncate(elsewhere, SHORT)
        late = asker.is_alive()  # else it had to ask the server, and the cut had to wait for it
        if late:
            order(fault, "read.answer", MILLISECONDS + 500)
        check_end("a size told late", fd, LONG - 1)
        asker.join()
        os.close(fd)
        if late:
            return
        time.sleep(0.2)  # until attributes are remembered again
    assert False, "no answer is late"


def check_reading(fault, here, elsewhere):
    """A read of one page has begun, and waits, because another node wants to cut the file, and has to wait for a read of another page."""
    fd = filled(here, 3 * PAGE)
    os.pread(fd, 1, 0)  # with a lease
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    order(fault, "read.fast", MILLISECONDS)
    first = start(os.pread, fd, 1, PAGE)
    wait_until_gone(fault)
    cutter = start(os.truncate, elsewhere, SHORT)
    time.sleep(MILLISECONDS / 3000)
    second = start(os.pread, fd, 1, 0)
    cutter.join()
    check_end("a read while it is cut", fd, PAGE)
    first.join()
    second.join()
    os.close(fd)


def main():
    fault, here, elsewhere = sys.argv[1:]
    for point in "size.tell", "size.telling":
        for by in here, elsewhere:
            check_told("%s, cut %s" % (point, "here" if by == here else "elsewhere"), fault, point, here, by)
    check_late_answer(fault, here + ".late", elsewhere + ".late")
    check_reading(fault, here + ".read", elsewhere + ".read")


main()

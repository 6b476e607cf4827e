#!/usr/bin/env python3
"""A mapping writer, a reader of cached pages, and a writer elsewhere in the file.   mapped.py EXPORT FAULT MOUNT1 MOUNT2 MOUNT3
FAULT: what makes the daemon of MOUNT2 stand still where it drops pages (common/base/fault.h), or "" without that part."""
import mmap
import os
import sys
import time

export, fault, one, two, three = sys.argv[1:6]
SIZE = 10 * 4096


def until(what, happened):
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline, "no " + what
        time.sleep(0.01)


class Case:
    """A file mapped on node 1, and all of it cached on node 2."""

    def __init__(self, name):
        self.name = name
        with open(os.path.join(one, name), "wb") as file:
            file.write(b"a" * SIZE)
        self.fd = os.open(os.path.join(one, name), os.O_RDWR)
        self.view = mmap.mmap(self.fd, SIZE)
        self.reader = os.open(os.path.join(two, name), os.O_RDONLY)
        self.store(b"a")

    def store(self, byte):
        """The store is in node 1's pages alone, and what was before it in node 2's."""
        assert os.pread(self.reader, SIZE, 0)[:4096] == self.view[:4096]
        self.view[:4096] = byte * 4096

    def check(self, byte, when):
        got = os.pread(self.reader, 4096, 0)
        assert got == byte * 4096, "%s: %r is read %s, not %r" % (self.name, got[:1], when, byte)

    def exported(self):
        with open(os.path.join(export, self.name), "rb") as file:
            return file.read(1)


def write_apart(mount, name, byte):
    fd = os.open(os.path.join(mount, name), os.O_WRONLY)
    os.pwrite(fd, byte, SIZE - 1)
    os.close(fd)


class Process:
    """A function in a process of its own: Python lets no other thread run during an msync."""

    def __init__(self, function, *arguments):
        self.pid = os.fork()
        if self.pid == 0:
            try:
                function(*arguments)
                os._exit(0)
            finally:
                os._exit(1)
        self.status = None

    def ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def join(self, what):
        until("end of " + what, self.ended)
        assert self.status == 0, what + " failed"


def while_the_reader_stands_still(case, byte, act):
    """ACT makes the store count, while READ is recalled from everybody because of a write on node 3, and node 2 does not drop its pages."""
    case.store(byte)
    with open(fault + ".new", "w") as file:
        file.write("recall.drop:hold")
    os.rename(fault + ".new", fault)
    writer = Process(write_apart, three, case.name, byte)
    until("store at the server", lambda: case.exported() == byte)
    actor = Process(act)
    time.sleep(0.3)
    if actor.ended():
        case.check(byte, "after its end")
    os.unlink(fault)
    actor.join("what makes it count")
    case.check(byte, "after its end")
    writer.join("a write")


# who reads them writes elsewhere
case = Case("own")
for step in range(5):
    byte = b"%d" % step
    case.store(byte)
    write_apart(two, "own", byte)
    case.view.flush()
    case.check(byte, "after msync")

if not fault:
    sys.exit()

case = Case("synced")
while_the_reader_stands_still(case, b"s", case.view.flush)


def close():
    case.view.close()
    os.close(case.fd)


case = Case("closed")
while_the_reader_stands_still(case, b"c", close)

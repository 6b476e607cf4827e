#!/usr/bin/env python3
"""Programs on two nodes that store into the same mapped pages, without a word to the filesystem.   mapped_pair.py WHAT MOUNT1 MOUNT2
WHAT: count, apart, seen, crowd, sizes, grown, locked, wal, rate."""
import ctypes
import fcntl
import mmap
import os
import random
import sqlite3
import struct
import sys
import time

from pair import at_once, enter

what, mounts = sys.argv[1], sys.argv[2:4]


def both(function, nodes=(0, 1)):
    """Runs FUNCTION(node, mount) on both nodes at once, each in a process of its own."""
    at_once(function, {node: mounts[node] for node in nodes})


def make(name, size):
    with open(os.path.join(mounts[0], name), "wb") as file:
        file.write(bytes(size))


def mapped(mount, name):
    fd = os.open(os.path.join(mount, name), os.O_RDWR)
    return fd, mmap.mmap(fd, 0)


def mapped_beyond(fd, length, prot):
    """A mapping that may be longer than the file: Python's own may not."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    address = libc.mmap(None, length, prot, mmap.MAP_SHARED, fd, 0)
    assert address != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
    return (ctypes.c_char * length).from_address(address)


def number(view, at):
    return struct.unpack_from("Q", view, at)[0]


def put(view, at, value):
    """In one store: struct.pack_into writes zeros first, which other programs see."""
    view[at:at + 8] = struct.pack("Q", value)


def count():
    """Counters in one page, each increment under a lock."""
    rounds = int(os.environ.get("MAPPED_ROUNDS", 100))

    def work(node, mount):
        fd, view = mapped(mount, "counters")
        for _ in range(rounds):
            fcntl.lockf(fd, fcntl.LOCK_EX, 1)
            for at in (0, 8, 4088):
                put(view, at, number(view, at) + 1)
            fcntl.lockf(fd, fcntl.LOCK_UN, 1)

    make("counters", 4096)
    both(work)
    fd, view = mapped(mounts[1], "counters")
    got = [number(view, at) for at in (0, 8, 4088)]
    assert got == [2 * rounds] * 3, "%r of %d increments" % (got, 2 * rounds)


def apart():
    """Each node stores into every second byte of two pages, and finds there what it has stored."""
    def work(node, mount):
        fd, view = mapped(mount, "apart")
        for step in range(1, 5):
            for at in range(node, 8192, 2):
                assert view[at] == (step - 1) % 256, "byte %d was %d in step %d" % (at, view[at], step)
                view[at] = step
                if at % 512 == node:
                    os.sched_yield()

    make("apart", 8192)
    both(work)
    for mount in mounts:
        with open(os.path.join(mount, "apart"), "rb") as file:
            got = file.read()
        wrong = [at for at in range(8192) if got[at] != 4]
        assert not wrong, "%d bytes of 8192 are old, the first at %d" % (len(wrong), wrong[0])


def seen():
    """What is stored on one node is read on the other, by read(2) past and through the pages and by a mapping; munmap or not."""
    make("seen", 20000)
    one, view = mapped(mounts[0], "seen")
    two = os.open(os.path.join(mounts[1], "seen"), os.O_RDWR)
    cached = os.open(os.path.join(mounts[1], "seen"), os.O_RDONLY)
    other = mmap.mmap(cached, 0, prot=mmap.PROT_READ)
    for step in range(1, 60):
        at = step * 300
        view[at:at + 8] = struct.pack("Q", step)
        if step % 3 == 0:
            view.close()
        got = [os.pread(two, 8, at), os.pread(cached, 8, at), other[at:at + 8]][step % 2:]
        assert [struct.unpack("Q", bytes(each))[0] for each in got] == [step] * len(got), "step %d: %r" % (step, got)
        if step % 3 == 0:
            view = mmap.mmap(one, 0)
        os.pwrite(two, struct.pack("Q", step), at + 8)
        assert number(view, at + 8) == step, "step %d: a write elsewhere is not in the mapping" % step
        assert number(view, at) == step, "step %d: what was stored is gone" % step


def crowd():
    """Several processes of each node store into slots of their own, one in each page of some files, while others read: what was seen does not go back."""
    files, pages, processes, rounds = int(os.environ.get("MAPPED_FILES", 3)), 20, int(os.environ.get("MAPPED_PROCESSES", 6)), int(os.environ.get("MAPPED_ROUNDS", 100))
    seed = int(os.environ.get("MAPPED_SEED", time.time()))
    print("MAPPED_SEED=%d" % seed)

    def slot(page, process):
        return 4096 * page + 8 * process

    def store(dice, mount, process):
        maps = [mapped(mount, "crowd%d" % each) for each in range(files)]
        mine = [[0] * pages for _ in range(files)]
        for _ in range(rounds):
            each, page = dice.randrange(files), dice.randrange(pages)
            fd, view = maps[each]
            got = number(view, slot(page, process))
            assert got == mine[each][page], "file %d page %d: %d, not %d" % (each, page, got, mine[each][page])
            mine[each][page] += 1
            put(view, slot(page, process), mine[each][page])
            if dice.randrange(20) == 0:
                got = struct.unpack("Q", os.pread(fd, 8, slot(page, process)))[0]
                assert got == mine[each][page], "file %d page %d: %d is read, not %d" % (each, page, got, mine[each][page])
            if dice.randrange(50) == 0:
                view.flush()
            if dice.randrange(50) == 0:
                view.close()
                os.close(fd)
                maps[each] = mapped(mount, "crowd%d" % each)

    def watch(dice, mount):
        fds = [os.open(os.path.join(mount, "crowd%d" % each), os.O_RDONLY) for each in range(files)]
        last = {}
        for _ in range(rounds):
            each, page = dice.randrange(files), dice.randrange(pages)
            got = struct.unpack("%dQ" % (2 * processes), os.pread(fds[each], 16 * processes, slot(page, 0)))
            before = last.get((each, page), got)
            assert all(new >= old for new, old in zip(got, before)), "file %d page %d: %r after %r" % (each, page, got, before)
            last[each, page] = got

    def work(node, mount):
        children = []
        for process in range(processes + 1):
            pid = os.fork()
            if pid == 0:
                code = 1
                dice = random.Random(seed * 100 + node * 10 + process)
                try:
                    store(dice, mount, node * processes + process) if process < processes else watch(dice, mount)
                    code = 0
                except Exception as error:
                    print("node %d process %d: %r" % (node + 1, process, error), file=sys.stderr)
                finally:
                    os._exit(code)
            children.append(pid)
        assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * len(children)

    for each in range(files):
        make("crowd%d" % each, 4096 * pages)
    both(work)
    total = 0
    for each in range(files):
        with open(os.path.join(mounts[0], "crowd%d" % each), "rb") as file:
            total += sum(sum(struct.unpack_from("%dQ" % (2 * processes), file.read(4096), 0)) for _ in range(pages))
    assert total == 2 * processes * rounds, "%d stores of %d" % (total, 2 * processes * rounds)


def sizes():
    """The kernel writes no page back while it sets the file's size."""
    def work(node, mount):
        fd = os.open(os.path.join(mount, "sizes"), os.O_RDWR)
        view = mmap.mmap(fd, 4096)
        for step in range(1, 100):
            assert number(view, 8 * node) == step - 1, "%d, not %d" % (number(view, 8 * node), step - 1)
            put(view, 8 * node, step)
            os.ftruncate(fd, 4096 + 4096 * ((step + node) % 3))

    make("sizes", 4096)
    both(work)


def grown():
    """A mapping reaches beyond the file's end, as LMDB's do.  Who sees in a page that another node has made the file longer also has the new pages."""
    rounds = 60

    def reader(name, flags, prot):
        file = os.open(os.path.join(mounts[1], name), flags)
        view = mapped_beyond(file, 4096 * rounds + 4096, prot)
        seen = 0
        while seen < rounds:
            end = number(view, 0)
            for page in range(seen + 1, end + 1):
                assert number(view, 4096 * page) == page, "page %d holds %d" % (page, number(view, 4096 * page))
            seen = end

    def writer(name):
        file = os.open(os.path.join(mounts[0], name), os.O_RDWR)
        for page in range(1, rounds + 1):
            os.pwrite(file, struct.pack("Q", page) + bytes(4088 if page % 3 else 1), 4096 * page)
            os.pwrite(file, struct.pack("Q", page), 0)
            time.sleep(random.choice((0, 0, 0.002, 0.02)))

    for name, flags, prot in (("grown", os.O_RDONLY, mmap.PROT_READ), ("grown-rw", os.O_RDWR, mmap.PROT_READ | mmap.PROT_WRITE)):
        make(name, 4096)
        at_once(lambda node, _: reader(name, flags, prot) if node else writer(name), {0: None, 1: None})


def locked():
    """What is written to one file while another is locked, first on the node of which unordered bytes would win."""
    make("lock", 1)
    make("data", 100)
    files = [[os.open(os.path.join(mount, name), os.O_RDWR) for name in ("lock", "data")] for mount in mounts]
    for step in range(10):
        for lock, data in reversed(files):
            fcntl.lockf(lock, fcntl.LOCK_EX, 1)
            os.pwrite(data, b"%d from %d" % (step, data), step * 10)
            fcntl.lockf(lock, fcntl.LOCK_UN, 1)
    for step in range(10):
        got, want = os.pread(files[1][1], 10, step * 10).rstrip(b"\0"), b"%d from %d" % (step, files[0][1])
        assert got == want, "%r is left, not %r" % (got, want)


def wal():
    """One SQLite database in WAL mode."""
    commits = int(os.environ.get("MAPPED_COMMITS", 60))

    def connect(mount):
        connection = sqlite3.connect(os.path.join(enter(mount), "database"), timeout=120, isolation_level=None)
        connection.execute("PRAGMA synchronous=%s" % os.environ.get("MAPPED_SYNC", "NORMAL"))
        connection.execute("PRAGMA wal_autocheckpoint=20")
        return connection

    def work(node, mount):
        connection = connect(mount)
        last = 0
        for step in range(commits):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO said VALUES (?, ?, ?)", (node, step, "x" * 300))
            connection.execute("UPDATE total SET n = n + 1")
            connection.execute("COMMIT")
            got = connection.execute("SELECT n, (SELECT count(*) FROM said) FROM total").fetchone()
            assert got[0] == got[1] and got[0] > last, "%r after %r" % (got, last)
            last = got[0]

    def begin(node, mount):
        connection = connect(mount)
        assert connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal"
        connection.execute("CREATE TABLE said (node, step, text)")
        connection.execute("CREATE TABLE total (n)")
        connection.execute("INSERT INTO total VALUES (0)")
        connection.close()

    def check(node, mount):
        connection = connect(mount)
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        got = connection.execute("SELECT n, (SELECT count(*) FROM said) FROM total").fetchone()
        assert got == (2 * commits,) * 2, "%r of %d commits" % (got, 2 * commits)

    both(begin, [0])
    both(work)
    both(check)


def rate():
    """How often a page goes from one node to the other: each waits for the other's store before its own."""
    turns = int(os.environ.get("MAPPED_TURNS", 400))

    def work(node, mount):
        fd, view = mapped(mount, "rate")
        begin = time.monotonic()
        while True:
            n = number(view, 0)
            if n >= turns:
                break
            if n % 2 == node:
                put(view, 0, n + 1)
        if node == 0:
            print("%.0f turns/s" % (turns / (time.monotonic() - begin)))

    make("rate", 4096)
    both(work)


begun = time.monotonic()
{"count": count, "apart": apart, "seen": seen, "crowd": crowd, "sizes": sizes, "grown": grown, "locked": locked, "wal": wal, "rate": rate}[what]()
print("%s: %.1f s" % (what, time.monotonic() - begun))

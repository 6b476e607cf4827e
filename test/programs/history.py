#!/usr/bin/env python3
"""Concurrent readers and writers on several mounts; their history is checked against the coherence promises.

history.py [--seed N] [--seconds S] [--threads T] [--ordered] [--ends] [--failing] MOUNT...

Every file is a row of cells at unaligned offsets.  A write fills one cell with a number that no other write uses; a read of
a cell returns which numbers it saw.  All clocks are one machine's, so "before" is certain.  For each cell and read (P1):
  - the number seen was written by a write that began before the read ended;
  - no other write of the cell lies wholly between that write and the read, unless the two are unordered (P3: writes of
    different nodes without a read of these bytes between them);
  - two reads one after the other do not go back in time.
Names are registers too: a unique file is renamed onto a name, and whoever opens the name sees which one it was.  A stat that
starts after a write returned shows at least its end.  At the end all mounts must show the same bytes (P3), which only writers
that nobody followed can have written (P2: a cell never holds a mixture of finished writes).
A run in which a mount has read little, or nothing that another mount wrote, has checked nothing: on a busy machine it takes up to
ten times its seconds until each has, and then that is a problem, too.
"""
import argparse
import errno
import os
import random
import struct
import sys
import threading
import time

from registers import Event, Register

CELLS = [(0, 37), (37, 4059), (4096, 4096), (8192, 5000), (13192, 118000), (131192, 70000), (400001, 9)]
READS_MIN = 20  # of each mount, while others write


def fill(value, length):
    return (struct.pack("<Q", value) * (length // 8 + 1))[:length]


def values_in(data):
    """The numbers that a cell's bytes consist of."""
    seen = set()
    for at in range(0, len(data) - 7, 8):
        seen.add(data[at : at + 8])
    if not seen:
        seen.add(data)
    return {int.from_bytes(piece, "little") for piece in seen}


def hear(call):
    """What reports that a sync has failed; nothing is lost by it, nor in another order."""
    try:
        call()
    except OSError as error:
        if not arguments.failing or error.errno != errno.EIO:
            raise


class History:
    def __init__(self, mounts, seed, files, names):
        self.mounts, self.seed = mounts, seed
        self.cells = {(f, c): Register() for f in range(files) for c in range(len(CELLS))}
        self.names = {n: Register(strict=True) for n in range(names)}
        self.sizes = {f: [] for f in range(files)}
        self.stats = []
        self.files, self.problems, self.counter, self.lock = files, [], 1, threading.Lock()
        self.enough = False  # the threads end
        now = time.monotonic()
        for register in self.cells.values():
            register.writes[0] = Event(now, now, 0)
        for n in range(names):
            self.names[n].writes[0] = Event(now, now, 0)

    def unique(self):
        with self.lock:
            self.counter += 1
            return self.counter

    def path(self, mount, f):
        return os.path.join(self.mounts[mount], "file%d" % f)

    def write(self, mount, fd, f, c):
        value, (offset, length) = self.unique(), CELLS[c]
        event = Event(time.monotonic(), float("inf"), value, mount)
        register = self.cells[f, c]
        register.writes[value] = event
        done = os.pwrite(fd, fill(value, length), offset)
        event.end = time.monotonic()
        if done != length:
            self.problems.append("short write")
        self.sizes[f].append((event.end, offset + length))

    def read(self, mount, fd, f, c):
        offset, length = CELLS[c]
        start = time.monotonic()
        data = os.pread(fd, length, offset)
        end = time.monotonic()
        register = self.cells[f, c]
        data += bytes(length - len(data))
        values = values_in(data)
        for value in values:
            register.reads.append(Event(start, end, value, mount, torn=len(values) > 1))

    def stat(self, mount, f):
        start = time.monotonic()
        size = os.stat(self.path(mount, f)).st_size
        self.stats.append((start, f, size))

    def rename(self, mount, n, tag):
        value = self.unique()
        temporary = os.path.join(self.mounts[mount], "tmp-%s-%d" % (tag, value))
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(fd, b"%d" % value)
        hear(lambda: os.close(fd))
        event = Event(time.monotonic(), float("inf"), value)
        register = self.names[n]
        register.writes[value] = event
        os.rename(temporary, os.path.join(self.mounts[mount], "name%d" % n))
        event.end = time.monotonic()

    def look(self, mount, n):
        """A file that is replaced twice between its lookup and its open is stale, as on NFS: asked again then."""
        while not self.look_once(mount, n):
            pass

    def look_once(self, mount, n):
        start = time.monotonic()
        try:
            with open(os.path.join(self.mounts[mount], "name%d" % n), "rb") as file:
                value = int(file.read() or b"-1")
        except FileNotFoundError:
            value = 0
        except OSError as error:
            if error.errno == errno.ESTALE:
                return False
            raise
        self.names[n].reads.append(Event(start, time.monotonic(), value))
        return True

    def thread(self, mount, index):
        rng = random.Random("%d %d %d" % (self.seed, mount, index))
        tag = "%d-%d" % (mount, index)
        fds = {}
        try:
            while not self.enough:
                f = rng.randrange(self.files)
                what = rng.random()
                if f not in fds or what < 0.06:
                    if f in fds:
                        hear(lambda: os.close(fds.pop(f)[0]))
                    writable = rng.random() < 0.6
                    fds[f] = (os.open(self.path(mount, f), os.O_RDWR if writable else os.O_RDONLY), writable)
                fd, writable = fds[f]
                cell = rng.randrange(len(CELLS))
                if what < 0.40 and writable:
                    for _ in range(rng.randrange(1, 6)):
                        self.write(mount, fd, f, rng.randrange(len(CELLS)))
                elif what < 0.80:
                    for _ in range(rng.randrange(1, 6)):
                        self.read(mount, fd, f, cell)
                elif what < 0.85:
                    hear(lambda: os.fsync(fd))
                elif what < 0.90:
                    self.stat(mount, f)
                elif what < 0.94:
                    self.rename(mount, rng.randrange(len(self.names)), tag)
                else:
                    self.look(mount, rng.randrange(len(self.names)))
                if rng.random() < 0.02:
                    time.sleep(rng.random() * 0.05)
            for fd, _ in fds.values():
                hear(lambda: os.close(fd))
        except OSError as error:
            self.problems.append("node %d thread %d: %s" % (mount, index, error))

    def little_read(self):
        """Which mounts have not read enough, or nothing of what others wrote."""
        for mount in range(len(self.mounts)):
            reads = [(register, read) for register in self.cells.values() for read in register.reads if read.node == mount]
            foreign = sum(read.value in register.writes and register.writes[read.value].node not in (None, mount) for register, read in reads)
            if len(reads) < READS_MIN or (len(self.mounts) > 1 and not foreign):
                yield "too little was read to tell: node %d made %d reads, %d of them of what other nodes wrote" % (mount, len(reads), foreign)

    def run(self, seconds, threads):
        for f in range(self.files):
            os.close(os.open(self.path(0, f), os.O_CREAT | os.O_RDWR, 0o644))
        self.enough, begun = not seconds, time.monotonic()
        running = [threading.Thread(target=self.thread, args=(m, t), daemon=True)
            for m in range(len(self.mounts)) for t in range(threads)]
        for thread in running:
            thread.start()
        time.sleep(seconds)
        while any(self.little_read()) and any(t.is_alive() for t in running) and time.monotonic() < begun + 10 * seconds:
            time.sleep(0.2)
        self.enough = True
        limit = time.monotonic() + 60 + seconds
        for thread in running:
            thread.join(max(0.1, limit - time.monotonic()))
            if thread.is_alive():
                print("a thread is stuck: no operation may wait for ever")
                os._exit(1)
        self.problems += self.little_read()
        finals = []
        for mount in range(len(self.mounts)):
            state = []
            for f in range(self.files):
                fd = os.open(self.path(mount, f), os.O_RDONLY)
                for c in range(len(CELLS)):
                    self.read(mount, fd, f, c)
                os.lseek(fd, 0, os.SEEK_SET)
                state.append(os.read(fd, 1 << 20))
                os.close(fd)
            finals.append(state)
        if any(state != finals[0] for state in finals):
            self.problems.append("the mounts do not agree on the final bytes")
        if arguments.ends:
            return
        for (f, c), register in self.cells.items():
            if CELLS[c][1] >= 16:
                register.check("file%d cell %d" % (f, c), self.problems)
        for n, register in self.names.items():
            register.check("name%d" % n, self.problems)
        for start, f, size in self.stats:
            needed = max((end for when, end in self.sizes[f] if when < start), default=0)
            if size < needed:
                self.problems.append("file%d: stat said %d after a write up to %d had returned" % (f, size, needed))


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=None)
parser.add_argument("--seconds", type=float, default=8)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--files", type=int, default=3)
parser.add_argument("--ordered", action="store_true", help="the mounts are coherence=ordered: real time orders all writes")
parser.add_argument("--ends", action="store_true", help="nothing fails, nothing waits for ever, and all see the same in the end; no more")
parser.add_argument("--failing", action="store_true", help="syncs fail at the server now and then: fsync and close may say so")
parser.add_argument("mounts", nargs="+")
arguments = parser.parse_args()
Register.ordered = arguments.ordered
seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 30)
print("seed %d" % seed, flush=True)
history = History(arguments.mounts, seed, arguments.files, 3)
history.run(arguments.seconds, arguments.threads)
for problem in history.problems[:20]:
    print(problem)
writes = sum(len(r.writes) - 1 for r in history.cells.values())
reads = sum(len(r.reads) for r in history.cells.values())
print("%d writes, %d cell reads, %d problems" % (writes, reads, len(history.problems)))
sys.exit(bool(history.problems))

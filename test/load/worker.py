#!/usr/bin/env python3
"""The programs of one node in a load test: threads that do mixed operations on its mount and note what happened.

worker.py CONFIG(JSON)      ends when the beats file's first byte is set (see beats.py)

The mount may die under them at any moment and be mounted again: operations then fail in ways that are allowed for a dead
mount only, descriptors are lost, and the thread goes on with the next mount.  Nothing here retries anything else: an error
of an operation on a living mount is noted as one.  What is noted, one JSON list a line, judge.py reads:
  ["w", register, start, end|null, value]      ["r", register, start, end, [value...]]     ["s", file, start, end]
  ["a", file, start, end|null, thread, number, length]     ["l", start, end, [name slots there]]
  ["k", lock, start, end]                      ["e", operation, start, end, text]          ["c", operation]
"""
import array
import errno
import fcntl
import json
import mmap
import os
import random
import signal
import struct
import sys
import threading
import time

import place
from beats import Beats

DEAD = (errno.ENOTCONN, errno.ECONNABORTED, errno.ECONNREFUSED, errno.ENODEV)
now = time.monotonic


class Died(Exception):
    """The mount is not there any more."""


def pread_all(fd, length, offset):
    """Fewer bytes: the file ends there.  A single read ends also where the mount dies, behind the pages that the kernel has."""
    data = os.pread(fd, length, offset)
    while data and len(data) < length:
        more = os.pread(fd, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


class Mount:
    """The root of the mount, as a descriptor: paths are relative to it, so that none falls through to what lies below."""

    def __init__(self, path, stopping):
        self.path, self.stopping, self.lock = path, stopping, threading.Lock()
        self.fd, self.generation = -1, 0

    def below(self):
        return os.stat(os.path.dirname(self.path)).st_dev

    def connect(self, generation):
        """Another mount than that of the generation; waits for it."""
        with self.lock:
            while self.generation == generation and not self.stopping():
                try:
                    fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
                except OSError:
                    time.sleep(0.05)
                    continue
                try:
                    os.listdir(fd)
                    alive = os.fstat(fd).st_dev != self.below()
                except OSError:
                    alive = False
                if alive:
                    self.fd, self.generation = fd, self.generation + 1
                else:
                    os.close(fd)
                    time.sleep(0.05)


class Thread:
    def __init__(self, worker, index):
        self.worker, self.index = worker, index
        self.node, self.sizes, self.mount = worker.node, worker.sizes, worker.mount
        self.rng = random.Random("%d %d %d" % (worker.config["seed"], self.node, index))
        self.generation, self.counter = 0, 0
        self.kept, self.appenders, self.orphans = {}, {}, []
        self.records = {}

    # --- helpers ---------------------------------------------------------------------------------------------------------

    def unique(self):
        self.counter += 1
        return (self.node + 1) << 40 | (self.index + 1) << 34 | self.counter

    def note(self, *what):
        self.worker.note(what)

    def skewed(self, count):
        return int(count * self.rng.random() ** 2)

    def open(self, name, flags, mode=0o644):
        return os.open(name, flags, mode, dir_fd=self.mount.fd)

    def write_noted(self, register, value, function):
        start = now()
        self.note("w", register, start, None, value)
        function()
        self.note("w", register, start, now(), value)

    # --- bytes -----------------------------------------------------------------------------------------------------------

    def cell_file(self):
        """A file of cells that is kept open: its register's name, its descriptor, whether it can be written, its cells."""
        what = self.rng.random()
        if what < 0.75:
            f = self.skewed(self.sizes.cells)
            return "cells/%d" % f, [(c, offset, length) for c, (offset, length) in enumerate(place.CELLS)]
        if what < 0.92:
            return "wide", [(n, n * place.WIDE_CELL, place.WIDE_CELL) for n in range(self.sizes.nodes)]
        n = self.rng.randrange(self.sizes.nodes)
        return "mapped/%d" % n, [(c, c * place.MAPPED_CELL, place.MAPPED_CELL) for c in range(place.MAPPED_CELLS)]

    def handle(self, name):
        if name not in self.kept:
            writable = not name.startswith("mapped") and self.rng.random() < 0.6
            self.keep(name, self.open(name, os.O_RDWR if writable else os.O_RDONLY), writable)
        return self.kept[name]

    def keep(self, name, fd, writable=False):
        if len(self.kept) >= self.worker.config["open"]:
            old = self.rng.choice(list(self.kept))
            self.close(old)
        self.kept[name] = (fd, writable)

    def close(self, name):
        fd, writable = self.kept.pop(name)
        start = now()
        os.close(fd)
        if writable and not self.worker.config["async"]:
            self.note("s", name, start, now())

    def op_write_cells(self):
        name, cells = self.cell_file()
        fd, writable = self.handle(name)
        if not writable:
            return
        for _ in range(self.rng.randrange(1, 4)):
            c, offset, length = cells[self.node] if name == "wide" else self.rng.choice(cells)
            value = self.unique()
            data = place.fill(value, length)
            self.write_noted("%s:%d" % (name, c), value, lambda: self.check_length(os.pwrite(fd, data, offset), length))

    @staticmethod
    def check_length(done, length):
        if done != length:
            raise AssertionError("a short write: %d of %d bytes" % (done, length))

    def op_read_cells(self):
        name, cells = self.cell_file()
        fd, _ = self.handle(name)
        for _ in range(self.rng.randrange(1, 4)):
            c, offset, length = self.rng.choice(cells)
            start = now()
            data = pread_all(fd, length, offset)
            end = now()
            self.note("r", "%s:%d" % (name, c), start, end, sorted(place.values_in(data + bytes(length - len(data)), offset)))

    def op_sync(self):
        writable = [name for name, (_, writable) in self.kept.items() if writable]
        if writable:
            name = self.rng.choice(writable)
            start = now()
            os.fsync(self.kept[name][0])
            self.note("s", name, start, now())

    def op_close(self):
        if self.kept:
            self.close(self.rng.choice(list(self.kept)))

    def op_append(self):
        f = self.rng.randrange(self.sizes.appends)
        if f not in self.appenders:
            self.appenders[f] = self.open("appends/%d" % f, os.O_WRONLY | os.O_APPEND)
        number = self.records[f] = self.records.get(f, 0) + 1
        length = self.rng.choice((1, 20, 300, 5000))
        data = place.record(self.node, self.index, number, length)
        start = now()
        self.note("a", f, start, None, self.index, number, length)
        self.check_length(os.write(self.appenders[f], data), len(data))
        self.note("a", f, start, now(), self.index, number, length)

    def op_read_big(self):
        b, length = self.rng.randrange(self.sizes.big), self.rng.choice((5000, 70000, 300000))
        offset = self.rng.randrange(place.BIG_BYTES - length)
        name = "big/%d" % b
        fd, _ = self.kept.get(name) or (self.open(name, os.O_RDONLY), False)
        if name not in self.kept:
            self.keep(name, fd)
        if pread_all(fd, length, offset) != place.big_bytes(b, offset, length):
            raise AssertionError("%s has other bytes from %d to %d" % (name, offset, offset + length))

    def op_pool(self):
        number = self.rng.randrange(self.sizes.pool)
        name = place.pool_path(number)
        fd, _ = self.kept.get(name) or (self.open(name, os.O_RDONLY), False)
        if name not in self.kept:
            self.keep(name, fd)
        if pread_all(fd, 100000, 0) != place.pool_bytes(number):
            raise AssertionError("%s has other bytes" % name)

    # --- names and sizes -------------------------------------------------------------------------------------------------

    def op_replace(self):
        slot, value = self.rng.randrange(self.sizes.names), self.unique()
        temporary = "names/t%d" % value
        fd = self.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            os.write(fd, b"%d" % value)
        finally:
            os.close(fd)
        root = self.mount.fd
        self.write_noted("name:%d" % slot, value,
            lambda: os.rename(temporary, "names/%d" % slot, src_dir_fd=root, dst_dir_fd=root))

    def op_unlink(self):
        slot, value = self.rng.randrange(self.sizes.names), self.unique()
        start = now()
        self.note("w", "name:%d" % slot, start, None, -value)
        try:
            os.unlink("names/%d" % slot, dir_fd=self.mount.fd)
        except FileNotFoundError:
            self.note("r", "name:%d" % slot, start, now(), [0])
            self.note("x", "name:%d" % slot, start, now(), -value)  # this write was none
            return
        self.note("w", "name:%d" % slot, start, now(), -value)

    def op_look(self):
        slot = self.rng.randrange(self.sizes.names)
        while True:
            start = now()
            try:
                fd = self.open("names/%d" % slot, os.O_RDONLY)
            except FileNotFoundError:
                self.note("r", "name:%d" % slot, start, now(), [0])
                return
            except OSError as error:
                if error.errno != errno.ESTALE:  # replaced more than once between lookup and open
                    raise
                self.note("c", "ESTALE of a replaced name")
                continue
            break
        try:
            data = os.read(fd, 100)
        finally:
            os.close(fd)
        self.note("r", "name:%d" % slot, start, now(), [int(data or b"-1")])

    def op_list(self):
        fd = self.open("names", os.O_RDONLY | os.O_DIRECTORY)
        try:
            start = now()
            names = os.listdir(fd)
            self.note("l", start, now(), [int(name) for name in names if name.isdigit()])
        finally:
            os.close(fd)

    def op_truncate(self):
        self.counter += 1
        f, value = self.rng.randrange(self.sizes.sizes), (self.node + 1) << 22 | self.index << 19 | self.counter
        name = "sizes/%d" % f
        fd = self.open(name, os.O_RDWR)
        try:
            if self.rng.random() < 0.5 and os.fstat(fd).st_size > 4096 + 6:  # all are longer, once one has been set
                os.pwrite(fd, b"inside", self.rng.randrange(4096))
            self.write_noted("size:%d" % f, value, lambda: os.ftruncate(fd, value))
        finally:
            os.close(fd)

    def op_stat(self):
        f = self.rng.randrange(self.sizes.sizes)
        start = now()
        size = os.stat("sizes/%d" % f, dir_fd=self.mount.fd).st_size
        self.note("r", "size:%d" % f, start, now(), [size])

    def op_tree(self):
        """Small files and directories of its own, as an unpacked archive or a compiler makes them."""
        top = "own/%d/d%d-%d" % (self.node, self.index, self.unique())
        root = self.mount.fd
        os.mkdir(top, dir_fd=root)
        for i in range(self.rng.randrange(1, 5)):
            data = os.urandom(self.rng.choice((0, 10, 3000, 40000)))
            fd = self.open("%s/a%d" % (top, i), os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                os.write(fd, data)
            finally:
                os.close(fd)
            os.rename("%s/a%d" % (top, i), "%s/b%d" % (top, i), src_dir_fd=root, dst_dir_fd=root)
            fd = self.open("%s/b%d" % (top, i), os.O_RDONLY)
            try:
                if pread_all(fd, 100000, 0) != data:
                    raise AssertionError("%s/b%d has other bytes than were written" % (top, i))
            finally:
                os.close(fd)
        fd = self.open(top, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in os.listdir(fd):
                os.unlink(name, dir_fd=fd)
        finally:
            os.close(fd)
        os.rmdir(top, dir_fd=root)

    def op_orphan(self):
        """A file that is removed while it is open, and read later."""
        if len(self.orphans) >= 4 or (self.orphans and self.rng.random() < 0.5):
            fd, data = self.orphans.pop(0)
            try:
                if pread_all(fd, 100000, 0) != data:
                    raise AssertionError("a removed file has other bytes")
            finally:
                os.close(fd)
            return
        name, data = "own/%d/o%d" % (self.node, self.unique()), os.urandom(9000)
        fd = self.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self.orphans.append((fd, data))
        os.write(fd, data)
        os.unlink(name, dir_fd=self.mount.fd)

    # --- locks -----------------------------------------------------------------------------------------------------------

    def op_lock(self):
        """The counter of a lock's file is read and written under the lock; the time that it was held is noted."""
        lock = self.rng.randrange(2 * self.sizes.locks)
        wait = self.rng.random() < 0.7
        fd = self.open("locks/%d" % lock, os.O_RDWR)
        try:
            if not self.take(fd, lock % 2, wait):
                return
            start = now()
            try:
                data = pread_all(fd, 800, 0)
                self.note("r", "locks/%d:0" % lock, start, now(), sorted(place.values_in(data + bytes(800 - len(data)), 0)))
                value = self.unique()
                self.write_noted("locks/%d:0" % lock, value,
                    lambda: self.check_length(os.pwrite(fd, place.fill(value, 800), 0), 800))
            finally:
                self.note("k", lock, start, now())
            if self.rng.random() < 0.5:
                self.take(fd, lock % 2, False, fcntl.F_UNLCK)
        finally:
            os.close(fd)

    @staticmethod
    def take(fd, flock, wait, kind=fcntl.F_WRLCK):
        try:
            if flock:
                how = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX
                fcntl.flock(fd, how | (0 if wait else fcntl.LOCK_NB))
            else:
                command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
                fcntl.fcntl(fd, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 10, 0))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES) and not wait:
                return False
            raise
        return True

    # --- the life of a thread --------------------------------------------------------------------------------------------

    OPERATIONS = [("read_cells", 20), ("write_cells", 16), ("sync", 4), ("close", 4), ("append", 8), ("read_big", 4),
        ("pool", 14), ("replace", 6), ("unlink", 2), ("look", 8), ("list", 2), ("truncate", 2), ("stat", 4), ("tree", 3),
        ("orphan", 2), ("lock", 5)]

    def drop_all(self):
        fds = [fd for fd, _ in self.kept.values()] + list(self.appenders.values()) + [fd for fd, _ in self.orphans]
        for fd in fds:
            try:
                os.close(fd)
            except OSError:
                pass
        self.kept, self.appenders, self.orphans = {}, {}, []

    def once(self, operation):
        start = now()
        self.worker.beats.begin(self.slot, operation)
        try:
            getattr(self, "op_" + operation)()
            self.note("c", operation)
        except OSError as error:
            if error.errno in DEAD or self.mount_is_dead():
                raise Died() from error
            self.note("e", operation, start, now(), str(error))
        except AssertionError as error:
            self.note("e", operation, start, now(), str(error))
        finally:
            self.worker.beats.end(self.slot)

    def mount_is_dead(self):
        try:
            os.fstat(self.mount.fd)
            os.listdir(self.mount.fd)
        except OSError:
            return True
        return False

    def run(self, slot):
        self.slot = slot
        names, weights = zip(*self.OPERATIONS)
        first = ["pool"] * (self.worker.config["open"] // 2)
        while not self.worker.stopping():
            if self.generation != self.mount.generation or not self.mount.generation:
                self.drop_all()
                if not self.mount.generation:
                    self.mount.connect(0)
                self.generation = self.mount.generation
                continue
            operation = first.pop() if first else self.rng.choices(names, weights)[0]
            try:
                self.once(operation)
            except Died:
                self.mount.connect(self.generation)
                continue
            if not first:
                time.sleep(self.rng.random() * 2 * self.worker.config["pace"])
        self.finish()

    def finish(self):
        self.worker.beats.begin(self.slot, "close all")
        for name in list(self.kept):
            try:
                self.close(name)
            except OSError as error:
                self.note("e", "close", now(), now(), str(error))
        self.drop_all()
        self.worker.beats.end(self.slot)


class Mapper(Thread):
    """Stores through mappings, in a process of its own because a mount that dies under a mapping means SIGBUS."""

    def op_store(self):
        fd = self.open("mapped/%d" % self.node, os.O_RDWR)
        try:
            with mmap.mmap(fd, place.MAPPED_CELL * place.MAPPED_CELLS) as pages:
                for _ in range(self.rng.randrange(1, 4)):
                    c, value = self.rng.randrange(place.MAPPED_CELLS), self.unique()
                    register, start = "mapped/%d:%d" % (self.node, c), now()
                    self.note("w", register, start, None, value)
                    self.worker.flush()
                    pages[c * place.MAPPED_CELL : (c + 1) * place.MAPPED_CELL] = place.fill(value, place.MAPPED_CELL)
                    pages.flush()
                    self.note("w", register, start, now(), value)
        finally:
            os.close(fd)

    def op_map_big(self):
        b = self.rng.randrange(self.sizes.big)
        fd = self.open("big/%d" % b, os.O_RDONLY)
        try:
            with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as pages:
                offset = self.rng.randrange(place.BIG_BYTES - 50000)
                if pages[offset : offset + 50000] != place.big_bytes(b, offset, 50000):
                    raise AssertionError("big/%d has other bytes from %d, mapped" % (b, offset))
        finally:
            os.close(fd)

    OPERATIONS = [("store", 3), ("map_big", 1)]


class Worker:
    def __init__(self, config):
        self.config, self.node = config, config["node"]
        self.sizes = place.Sizes(config["nodes"])
        self.beats = Beats(config["beats"])
        self.mount = Mount(config["mount"], self.stopping)
        self.log = open(config["log"], "a", buffering=1 << 16)
        self.lock = threading.Lock()

    def stopping(self):
        return self.beats.stopping()

    def note(self, what):
        line = json.dumps(what)
        with self.lock:
            self.log.write(line + "\n")

    def flush(self):
        with self.lock:
            self.log.flush()

    def run(self):
        kind = Mapper if self.config["mapper"] else Thread
        slots = self.config["slots"]
        # The mapper goes on counting where the one before it, killed by SIGBUS, ended at the latest.
        threads = []
        for index, slot in enumerate(slots):
            thread = kind(self, index + (8 if self.config["mapper"] else 0))
            thread.counter = self.config["life"] << 24
            threads.append(threading.Thread(target=thread.run, args=(slot,), daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.flush()


signal.signal(signal.SIGTERM, signal.SIG_IGN)
Worker(json.loads(sys.argv[1])).run()

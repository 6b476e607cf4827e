#!/usr/bin/env python3
"""The programs of one node in test/power/run: threads that do mixed operations on its mount and note what happened.

worker.py CONFIG(JSON)      ends when the file "stop" exists

The machine of the server dies under them and comes back; operations wait meanwhile, and none may fail.  A byte is added to the
file "beat" after each.  What is noted, one JSON list a line, judge.py reads:
  ["w", register, start, end|null, value]        ["r", register, start, end, [value...]]
  ["s", file, start, end, "close"|"fsync"]
  ["n", name, "close"|"fsync", end]              ["v", name, start, end, state]
  ["a", file, start, end|null, thread, number]   ["p", file, start, end, bytes up to the last record of others, their sum]
  ["k", file, start, when found, end|null, found, written]   ["e", operation, start, end, text]
"""
import fcntl
import json
import os
import random
import sys
import threading
import time
import traceback

import layout
from layout import CELLS, KINDS
from place import fill, record

THREADS = 3
now = time.monotonic


class Thread(threading.Thread):
    def __init__(self, config, index, notes, beat):
        super().__init__()
        self.config, self.index, self.notes, self.beat = config, index, notes, beat
        self.mount, self.me = config["mount"], config["node"] * 1000 + config["life"]
        self.random = random.Random("%d %d %d" % (config["seed"], self.me, index))
        self.counter, self.kept, self.seen, self.dirty = 0, {}, [], set()
        self.ops = [(12, self.write), (5, self.write_and_close), (4, self.sync), (3, self.close), (14, self.read), (5, self.make), (8, self.look),
            (3, self.list), (4, self.append), (4, self.read_appended), (2, self.truncate), (3, self.stat), (4, self.count), (2, self.rename), (3, self.read_renamed)]

    def note(self, *what):
        os.write(self.notes, (json.dumps(what) + "\n").encode())

    def unique(self):
        self.counter += 1
        return self.counter << 12 | self.config["life"] << 5 | self.config["node"] << 3 | self.index + 1

    def path(self, name):
        return os.path.join(self.mount, name)

    def pick(self, kind):
        return "%s/%d" % (kind, self.random.randrange(KINDS[kind]))

    def run(self):
        weights = [weight for weight, _ in self.ops]
        while not os.path.exists(self.config["stop"]):
            operation = self.random.choices(self.ops, weights)[0][1]
            start = now()
            try:
                operation()
            except OSError as error:
                self.note("e", operation.__name__, start, now(), str(error))
            except Exception:
                self.note("e", operation.__name__, start, now(), traceback.format_exc())
            os.write(self.beat, b".")
            time.sleep(self.random.uniform(0, 0.02))
        for fd in self.kept.values():
            os.close(fd)

    # --- bytes -------------------------------------------------------------------------------------------------------------

    def handle(self, name):
        if name not in self.kept:
            self.kept[name] = os.open(self.path(name), os.O_RDWR)
        return self.kept[name]

    def write_cells(self, name, fd):
        for _ in range(self.random.randrange(1, 4)):
            cell = min(self.random.randrange(len(CELLS)), self.random.randrange(len(CELLS)))
            offset, length = CELLS[cell]
            value, start, register = self.unique(), now(), "%s:%d" % (name, cell)
            self.note("w", register, start, None, value)
            assert os.pwrite(fd, fill(value, length), offset) == length
            self.note("w", register, start, now(), value)

    def write(self):
        name = self.pick("cells")
        self.write_cells(name, self.handle(name))
        self.dirty.add(name)

    def write_and_close(self):
        name = self.pick("cells")
        fd = os.open(self.path(name), os.O_WRONLY)
        self.write_cells(name, fd)
        if self.random.random() < 0.3:
            start = now()
            os.fsync(fd)
            self.note("s", name, start, now(), "fsync")
        start = now()
        os.close(fd)
        self.note("s", name, start, now(), "close")

    def sync(self):
        if self.dirty:
            name = self.random.choice(sorted(self.dirty))
            start = now()
            os.fsync(self.kept[name])
            self.note("s", name, start, now(), "fsync")
            self.dirty.discard(name)

    def close(self):
        if self.kept:
            name = self.random.choice(sorted(self.kept))
            start = now()
            os.close(self.kept.pop(name))
            self.note("s", name, start, now(), "close")
            self.dirty.discard(name)

    def read(self):
        name, cell = self.pick("cells"), self.random.randrange(len(CELLS))
        offset, length = CELLS[cell]
        start = now()
        if self.random.random() < 0.5:
            data = os.pread(self.handle(name), length, offset)
        else:
            with open(self.path(name), "rb", buffering=0) as file:
                data = os.pread(file.fileno(), length, offset)
        self.note("r", "%s:%d" % (name, cell), start, now(), layout.values(data, length))

    # --- new files -----------------------------------------------------------------------------------------------------------

    def make(self):
        value, length = self.unique(), self.random.choice((20, 3000, 9000, 60000))
        name = layout.new_name(value, length)
        fd = os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        assert os.write(fd, fill(value, length)) == length
        if self.random.random() < 0.3:
            os.fsync(fd)
            self.note("n", name, "fsync", now())
        os.close(fd)
        self.note("n", name, "close", now())
        self.seen.append(name)

    def look_at(self, name):
        start = now()
        try:
            state = layout.new_state(name, layout.read_whole(self.path(name)))
        except FileNotFoundError:
            state = "gone"
        self.note("v", name, start, now(), state)

    def look(self):
        if self.seen:
            self.look_at(self.random.choice(self.seen[-20:] if self.random.random() < 0.7 else self.seen))

    def list(self):
        names = ["new/" + name for name in os.listdir(self.path("new")) if ".conflict" not in name]
        self.seen = sorted(set(self.seen + names), key=lambda name: int(name[4:].split(".")[0]))
        for name in self.random.sample(self.seen[-12:], min(4, len(self.seen))):
            self.look_at(name)

    # --- appends, sizes, names, locks ------------------------------------------------------------------------------------------

    def append(self):
        name, number = self.pick("appends"), self.unique()
        data = record(self.me, self.index, number, self.random.choice((1, 50, 700)))
        start = now()
        self.note("a", name, start, None, self.index, number)
        fd = os.open(self.path(name), os.O_WRONLY | os.O_APPEND)
        assert os.write(fd, data) == len(data)
        os.close(fd)
        self.note("a", name, start, now(), self.index, number)

    def read_appended(self):
        name, start = self.pick("appends"), now()
        data = layout.read_whole(self.path(name))
        end = now()
        found, _ = layout.records(data)
        others = max([at for node, _, _, at in found if node != self.me], default=0)
        self.note("p", name, start, end, others, layout.prefix(data, others))

    def truncate(self):
        name, value, start = self.pick("sizes"), self.unique(), now()
        self.note("w", name, start, None, value)
        os.truncate(self.path(name), value)
        self.note("w", name, start, now(), value)

    def stat(self):
        name, start = self.pick("sizes"), now()
        size = os.stat(self.path(name)).st_size
        self.note("r", name, start, now(), [size])

    def rename(self):
        name, value = self.pick("renamed"), self.unique()
        temporary = self.path("%s.%d" % (name, value))
        with open(temporary, "wb", buffering=0) as file:
            file.write(fill(value, layout.RENAMED_BYTES))
            os.fsync(file.fileno())
        start = now()
        self.note("w", name, start, None, value)
        os.rename(temporary, self.path(name))
        self.note("w", name, start, now(), value)

    def read_renamed(self):
        name, start = self.pick("renamed"), now()
        data = layout.read_whole(self.path(name))
        self.note("r", name, start, now(), layout.values(data, layout.RENAMED_BYTES))

    def count(self):
        number = self.random.randrange(KINDS["locks"])
        lock = os.open(self.path("locks/%d" % number), os.O_RDWR)
        counted = os.open(self.path("counted/%d" % number), os.O_RDWR)
        try:
            # Locks of one process do not exclude each other: with the descriptor's own, threads are as programs.
            fcntl.flock(lock, fcntl.LOCK_EX)
            start = now()
            found = int.from_bytes(os.pread(counted, 8, 0), "little")
            read = now()
            self.note("k", "counted/%d" % number, start, read, None, found, found + 1)
            os.pwrite(counted, (found + 1).to_bytes(8, "little"), 0)
            end = now()
            fcntl.flock(lock, fcntl.LOCK_UN)
            self.note("k", "counted/%d" % number, start, read, end, found, found + 1)
        finally:
            os.close(counted)
            os.close(lock)


config = json.loads(sys.argv[1])
notes = os.open(config["notes"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
beat = os.open(config["beat"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
threads = [Thread(config, index, notes, beat) for index in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

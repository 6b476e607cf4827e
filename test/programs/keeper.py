#!/usr/bin/env python3
"""Promises through kills, JuiceFS-style: a writer that notes outside of the mount what it was promised, and the checker of the notes.

keeper.py write MOUNT EXPORT NODE NODES SEED NOTES STOP   until the file STOP exists; goes on after its mount has died and come back
keeper.py check EXPORT NODES NOTES...                     what is in the export against all notes

Notes, one a line: "a FILE SLOT VERSION" before a write, "w FILE SLOT VERSION" when it has returned; "s FILE" after fsync or close;
"m NAME GENERATION" before and "r NAME GENERATION" after a file was replaced by the rename-over idiom (write temp, fsync, rename).
Checked: a write that returned is there, or a later one of that slot; after fsync it is in the export at once; under a name that is
replaced there is always one whole generation, not older than the last that was promised.
"""
import errno
import os
import random
import sys
import time

SIZE, SLOTS = 5003, 60


def record(name, slot, version):
    head = b"<%s %d %d>" % (name.encode(), slot, version)
    return (head * (SIZE // len(head) + 1))[:SIZE]


def version_of(name, slot, data):
    """0: never written; -1: what nobody wrote."""
    if not any(data):
        return 0
    try:
        version = int(data.split(b">", 1)[0].split()[2])
    except (IndexError, ValueError):
        return -1
    return version if data == record(name, slot, version) else -1


def generation(name, number):
    return record(name, 0, number) * 5


DEAD = (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO, errno.ENODEV, errno.ENOENT, errno.ESTALE, errno.EINTR, errno.EBADF)


class Writer:
    def __init__(self, mount, export, node, nodes, seed, notes, stop):
        self.mount, self.export, self.node, self.nodes, self.stop = mount, export, int(node), int(nodes), stop
        self.random = random.Random("%s %s" % (seed, node))
        self.notes = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.versions, self.synced, self.generations, self.fds = {}, {}, {}, {}
        self.root = -1
        self.wait_for_mount()

    def note(self, *words):
        os.write(self.notes, (" ".join(map(str, words)) + "\n").encode())

    def wait_for_mount(self):
        """The descriptors are of a daemon that is gone."""
        for fd in self.fds.values():
            try:
                os.close(fd)
            except OSError:
                pass
        self.fds = {}
        while not os.path.exists(self.stop):
            # Names are looked up from the mount's own root: never in the directory that lies below it.
            if self.root >= 0:
                os.close(self.root)
                self.root = -1
            try:
                self.root = os.open(self.mount, os.O_RDONLY | os.O_DIRECTORY)
                os.stat("here", dir_fd=self.root)
                return
            except OSError:
                time.sleep(0.02)

    def fd_of(self, name):
        if name not in self.fds:
            self.fds[name] = os.open(name, os.O_RDWR | os.O_CREAT, 0o644, dir_fd=self.root)
        return self.fds[name]

    def write(self, name, slot):
        key = name, slot
        fd = self.fd_of(name)
        version = self.versions.get(key, 0) + 1
        self.versions[key] = version
        self.note("a", name, slot, version)
        assert os.pwrite(fd, record(name, slot, version), slot * SIZE) == SIZE
        self.note("w", name, slot, version)
        self.synced.setdefault(name, {})[slot] = version

    def in_export(self, name, written):
        with open(self.export + "/" + name, "rb") as file:
            for slot, version in written.items():
                file.seek(slot * SIZE)
                found = version_of(name, slot, file.read(SIZE))
                assert found >= version, "BROKEN: %s, slot %d was synced as version %d and is %d" % (name, slot, version, found)

    def sync(self, name, close):
        if name not in self.fds:
            return
        # What was written before a kill counts too: the journal has brought it back.
        written = dict(self.synced.get(name, {}))
        if close:
            fd = self.fds.pop(name)
            os.close(fd)
        else:
            os.fsync(self.fds[name])
        self.in_export(name, written)
        self.note("s", name)

    def replace(self, name):
        number = self.generations.get(name, 0) + 1
        self.generations[name] = number
        fd = os.open(name + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644, dir_fd=self.root)
        try:
            os.write(fd, generation(name, number))
            os.fsync(fd)
        finally:
            os.close(fd)
        self.note("m", name, number)
        os.rename(name + ".new", name, src_dir_fd=self.root, dst_dir_fd=self.root)
        self.note("r", name, number)

    def step(self):
        mine = "own%d.%d" % (self.node, self.random.randrange(3))
        what = self.random.randrange(20)
        if what < 8:
            self.write(mine, self.random.randrange(SLOTS))
        elif what < 13:
            self.write("shared", self.random.randrange(SLOTS) * self.nodes + self.node)
        elif what < 15:
            self.sync(mine, close=False)
        elif what < 16:
            self.sync("shared", close=False)
        elif what < 18:
            self.sync(self.random.choice([mine, "shared"]), close=True)
        else:
            self.replace("replaced%d" % self.node)

    def run(self):
        while not os.path.exists(self.stop):
            try:
                self.step()
            except OSError as error:
                if error.errno not in DEAD:
                    raise
                self.wait_for_mount()
        for fd in self.fds.values():
            try:
                os.close(fd)
            except OSError:
                pass


def check(export, nodes, notes):
    least, most, names, renamed, begun = {}, {}, set(), {}, {}
    writes = syncs = renames = 0
    for path in notes:
        for line in open(path):
            kind, name, *rest = line.split()
            if kind == "a":
                most[name, int(rest[0])] = int(rest[1])
                names.add(name)
            elif kind == "w":
                least[name, int(rest[0])] = int(rest[1])
                writes += 1
            elif kind == "s":
                syncs += 1
            elif kind == "m":
                begun[name] = int(rest[0])
            elif kind == "r":
                renamed[name] = int(rest[0])
                renames += 1
    for name in sorted(names):
        data = open(export + "/" + name, "rb").read() if any(n == name for n, _ in least) else b""
        for slot in range(SLOTS * nodes):
            found = version_of(name, slot, data[slot * SIZE : (slot + 1) * SIZE].ljust(SIZE, b"\0") if data[slot * SIZE :] else b"")
            low, high = least.get((name, slot), 0), most.get((name, slot), 0)
            if not low <= found <= high:
                sys.exit("BROKEN: %s, slot %d is version %d; promised was %d, tried up to %d" % (name, slot, found, low, high))
    for name, number in begun.items():
        try:
            data = open(export + "/" + name, "rb").read()
        except FileNotFoundError:
            data = b""
        found = version_of(name, 0, data[:SIZE])
        if found < renamed.get(name, 0) or found > number or (found > 0 and data != generation(name, found)):
            sys.exit("BROKEN: %s is generation %d, %d bytes; promised was %d, tried up to %d" % (name, found, len(data),
                renamed.get(name, 0), number))
    print("%d writes, %d fsyncs and closes, %d replacements: every promise held" % (writes, syncs, renames))


if sys.argv[1] == "write":
    Writer(*sys.argv[2:9]).run()
else:
    check(sys.argv[2], int(sys.argv[3]), sys.argv[4:])

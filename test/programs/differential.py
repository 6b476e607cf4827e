#!/usr/bin/env python3
"""The same random operations on a reference directory and on one or several mounts of one export.

differential.py [--seed N] [--ops N] REFERENCE MOUNT...

Each operation runs on the reference and on a mount chosen at random (open files stay with the mount they were opened on), one
after the other, so that every result has to be equal: return values, errno, attributes, bytes.  With several mounts this is
also the sequential half of the coherence promise.  Prints the seed; a failure prints the operations that led to it.
"""
import argparse
import errno
import mmap
import os
import random
import re
import stat
import sys
import time

LOG = int(os.environ.get("DIFFERENTIAL_LOG", "25"))
MAPS_WRITTEN = [int(n) for n in re.findall("[0-9]+", os.uname().release)[:2]] >= [6, 6]  # docs/limits.md
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
FALLOC_KEEP, FALLOC_PUNCH, FALLOC_ZERO = 1, 2, 16
import ctypes

LIBC = ctypes.CDLL(None, use_errno=True)


def renameat2(a, b, flags):
    if LIBC.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), flags):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def fallocate(fd, mode, offset, length):
    if LIBC.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class Pair:
    """An open file: its descriptor on the reference and on one mount."""

    def __init__(self, reference, mounted, where):
        self.fds = (reference, mounted)
        self.where = where


class Test:
    def __init__(self, seed, reference, mounts):
        self.random = random.Random(seed)
        self.reference, self.mounts = reference, mounts
        self.log, self.open, self.dirs, self.counter = [], [], [""], 0
        self.exact_mtime = set()

    def name(self, new=False):
        """A path: often one that exists, from a small name space so that operations meet."""
        directory = self.random.choice(self.dirs)
        kind = self.random.random()
        if kind < 0.02:
            leaf = "n" * self.random.choice([200, 255, 256])
        elif kind < 0.05:
            leaf = "".join(chr(self.random.choice([1, 9, 10, 32, 92, 127, 0xDCFF, 0xE9])) for _ in range(5)) + "x"
        else:
            leaf = "f%d" % self.random.randrange(12)
        return os.path.join(directory, leaf)

    def both(self, what, operation, describe=True):
        """operation(root, fd index) on the reference and one mount; equal outcomes or the test ends."""
        where = self.random.randrange(len(self.mounts))
        return self.compare(what, where, lambda: operation(self.reference, 0), lambda: operation(self.mounts[where], 1))

    def compare(self, what, where, on_reference, on_mount):
        outcomes = []
        for run in (on_reference, on_mount):
            try:
                outcomes.append((0, run()))
            except OSError as error:
                outcomes.append((error.errno, None))
        self.log.append("%s @%d -> %s" % (what, where, describe(outcomes[0])))
        if outcomes[0] != outcomes[1]:
            a, b = outcomes[0][1], outcomes[1][1]
            if isinstance(a, bytes) and isinstance(b, bytes):
                differ = [i for i in range(min(len(a), len(b))) if a[i] != b[i]]
                self.log.append("%d and %d bytes, %d differ, from %s to %s" % (len(a), len(b), len(differ), differ[:1], differ[-1:]))
            self.die("reference: %s\nmount:     %s" % (describe(outcomes[0]), describe(outcomes[1])))
        return outcomes[0][1] if outcomes[0][0] == 0 else None

    def die(self, message):
        print("\n".join(self.log[-LOG:]))
        print(message)
        sys.exit(1)

    # -- operations -------------------------------------------------------------------------------------------------

    def op_open(self):
        path = self.name()
        flags = self.random.choice([os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR, os.O_RDWR])
        for flag, chance in ((os.O_CREAT, 0.7), (os.O_EXCL, 0.1), (os.O_TRUNC, 0.1), (os.O_APPEND, 0.15)):
            if self.random.random() < chance:
                flags |= flag
        if flags & os.O_EXCL and not flags & os.O_CREAT:
            flags &= ~os.O_EXCL
        if flags & os.O_TRUNC and flags & 3 == os.O_RDONLY:
            flags &= ~os.O_TRUNC
        mode = self.random.choice([0o644, 0o600, 0o755, 0o4755, 0o666])
        where = self.random.randrange(len(self.mounts))
        fds = []

        def run(root):
            fd = os.open(os.path.join(root, path), flags | os.O_NOFOLLOW | os.O_NONBLOCK, mode)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                return "not a file"
            fds.append(fd)

        result = self.compare("open %r %#o" % (path, flags), where, lambda: run(self.reference), lambda: run(self.mounts[where]))
        if len(fds) == 2:
            self.open.append(Pair(fds[0], fds[1], where))
        return result

    def some_open(self):
        return self.random.choice(self.open) if self.open else None

    def on_open(self, what, operation, writes=False):
        pair = self.some_open()
        if pair:
            if writes and len(self.mounts) > 1:
                self.separate(pair)
            self.compare("%s fd %d" % (what, pair.fds[0]), pair.where, lambda: operation(pair.fds[0]), lambda: operation(pair.fds[1]))

    def separate(self, pair):
        """Bytes that two nodes write with nothing between are one's or the other's (P3); a read between orders them."""
        for fd in pair.fds:
            again = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY)
            os.pread(again, 1, 0)
            os.close(again)

    def op_close(self):
        if len(self.open) > 3:
            pair = self.open.pop(self.random.randrange(len(self.open)))
            self.compare("close fd %d" % pair.fds[0], pair.where, lambda: os.close(pair.fds[0]), lambda: os.close(pair.fds[1]))

    def place(self):
        offset = self.random.choice([0, 1, 511, 4095, 4096, 65536, 131071, 131072, 262143]) + self.random.randrange(3000)
        length = self.random.choice([1, 10, 511, 4096, 5000, 70000, 131072, 300000])
        return offset, self.random.randrange(1, length + 1)

    def op_pwrite(self):
        offset, length = self.place()
        data = self.random.randbytes(min(length, 64)) * (length // 64 + 1)
        self.on_open("pwrite %d+%d" % (offset, length), lambda fd: os.pwrite(fd, data[:length], offset), writes=True)

    def op_write(self):
        data = self.random.randbytes(self.random.randrange(1, 5000))
        self.on_open("write %d" % len(data), lambda fd: os.write(fd, data), writes=True)

    def op_pread(self):
        offset, length = self.place()
        self.on_open("pread %d+%d" % (offset, length), lambda fd: os.pread(fd, length, offset))

    def op_seek_read(self):
        self.on_open("read all", lambda fd: (os.lseek(fd, 0, os.SEEK_SET), os.read(fd, 1 << 20)))

    def op_ftruncate(self):
        size = self.random.choice([0, 1, 5000, 131072, 200001])
        self.on_open("ftruncate %d" % size, lambda fd: os.ftruncate(fd, size))

    def op_truncate(self):
        path, size = self.name(), self.random.choice([0, 3, 4097, 140000])
        self.both("truncate %r %d" % (path, size), lambda root, _: os.truncate(os.path.join(root, path), size))

    def op_fallocate(self):
        mode = self.random.choice([0, FALLOC_KEEP, FALLOC_KEEP | FALLOC_PUNCH, FALLOC_ZERO, FALLOC_ZERO | FALLOC_KEEP])
        offset, length = self.place()
        self.on_open("fallocate %d %d+%d" % (mode, offset, length), lambda fd: fallocate(fd, mode, offset, length))

    def op_fsync(self):
        self.on_open("fsync", os.fsync)

    def op_fstat(self):
        self.on_open("fstat", lambda fd: attributes(os.fstat(fd)))

    def op_fchmod(self):
        mode = self.random.choice([0o644, 0o400, 0o777, 0o6755])
        self.on_open("fchmod %o" % mode, lambda fd: os.fchmod(fd, mode))

    def op_mmap(self):
        pair = self.some_open()
        if not pair or os.fstat(pair.fds[0]).st_size == 0:
            return
        size = os.fstat(pair.fds[0]).st_size
        spot, data = self.random.randrange(size), self.random.randbytes(9)

        def run(fd):
            import fcntl

            if not MAPS_WRITTEN or fcntl.fcntl(fd, fcntl.F_GETFL) & 3 != os.O_RDWR:
                return None
            with mmap.mmap(fd, size) as view:
                before = view[:]
                end = min(size, spot + len(data))
                view[spot:end] = data[: end - spot]
                view.flush()
                return before, view[:]

        self.compare("mmap fd %d at %d" % (pair.fds[0], spot), pair.where, lambda: run(pair.fds[0]), lambda: run(pair.fds[1]))

    def op_direct(self):
        path = self.name()
        data = mmap.mmap(-1, 8192)
        data.write(self.random.randbytes(8192))
        offset = 4096 * self.random.randrange(8)

        def run(root):
            fd = os.open(os.path.join(root, path), os.O_RDWR | os.O_DIRECT | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    return None
                return os.pwrite(fd, data, offset)
            finally:
                os.close(fd)

        self.both("O_DIRECT write %r at %d" % (path, offset), lambda root, _: run(root))

    def op_copy(self):
        a, b = self.some_open(), self.some_open()
        if not a or a.where != b.where or a is b:
            return
        length, start, to = self.random.randrange(1, 200000), self.random.randrange(70000), self.random.randrange(70000)

        def run(i):
            done = 0  # the amount of one call is the filesystem's choice; what counts is where the loop ends
            if os.fstat(a.fds[i]).st_ino == os.fstat(b.fds[i]).st_ino:
                return None
            while done < length:
                step = os.copy_file_range(a.fds[i], b.fds[i], length - done, start + done, to + done)
                if step == 0:
                    break
                done += step
            return done

        self.compare("copy_file_range fd %d to %d" % (a.fds[0], b.fds[0]), a.where, lambda: run(0), lambda: run(1))

    def op_stat(self):
        path = self.name()
        self.both("stat %r" % path, lambda root, _: attributes(os.lstat(os.path.join(root, path))))

    def op_read_file(self):
        path = self.name()

        def run(root):
            fd = os.open(os.path.join(root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                return os.read(fd, 1 << 20) if stat.S_ISREG(os.fstat(fd).st_mode) else None
            finally:
                os.close(fd)

        self.both("cat %r" % path, lambda root, _: run(root))

    def op_unlink(self):
        path = self.name()
        self.both("unlink %r" % path, lambda root, _: os.unlink(os.path.join(root, path)))

    def op_rename(self):
        a, b, flags = self.name(), self.name(), self.random.choice([0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE])
        self.both("rename %r %r %d" % (a, b, flags), lambda root, _: renameat2(os.path.join(root, a), os.path.join(root, b), flags))

    def op_link(self):
        a, b = self.name(), self.name()
        self.both("link %r %r" % (a, b), lambda root, _: os.link(os.path.join(root, a), os.path.join(root, b), follow_symlinks=False))

    def op_symlink(self):
        path = self.name()
        target = self.random.choice(["f1", "../x", "t" * 300, "/no/such/place"]) # never one that exists: writes follow it
        self.both("symlink %r" % path, lambda root, _: os.symlink(target, os.path.join(root, path)))

    def op_readlink(self):
        path = self.name()
        self.both("readlink %r" % path, lambda root, _: os.readlink(os.path.join(root, path)))

    def op_mkdir(self):
        if len(self.dirs) > 8:
            return
        path = os.path.join(self.random.choice(self.dirs), "d%d" % self.random.randrange(4))
        self.both("mkdir %r" % path, lambda root, _: os.mkdir(os.path.join(root, path), 0o755))
        if path not in self.dirs and os.path.isdir(os.path.join(self.reference, path)):
            self.dirs.append(path)

    def op_rmdir(self):
        path = self.random.choice(self.dirs[1:] or ["d9"])
        self.both("rmdir %r" % path, lambda root, _: os.rmdir(os.path.join(root, path)))
        self.dirs = [d for d in self.dirs if os.path.isdir(os.path.join(self.reference, d))]

    def op_list(self):
        path = self.random.choice(self.dirs)
        self.both("list %r" % path, lambda root, _: sorted(os.listdir(os.path.join(root, path))))

    def op_mkfifo(self):
        path = self.name()
        self.both("mkfifo %r" % path, lambda root, _: os.mkfifo(os.path.join(root, path), 0o640))

    def op_chmod(self):
        path, mode = self.name(), self.random.choice([0o644, 0o755, 0o4711, 0o000])
        self.both("chmod %r" % path, lambda root, _: os.chmod(os.path.join(root, path), mode))

    def op_chown(self):
        path, uid = self.name(), self.random.choice([0, 1, 1000, 65534])
        self.both("chown %r" % path, lambda root, _: os.chown(os.path.join(root, path), uid, -1, follow_symlinks=False))

    def op_utime(self):
        path = self.name()
        times = (self.random.randrange(10**18), self.random.randrange(2 * 10**18))

        def run(root):
            os.utime(os.path.join(root, path), ns=times, follow_symlinks=False)
            return os.lstat(os.path.join(root, path)).st_mtime_ns

        self.both("utime %r" % path, lambda root, _: run(root))

    def op_xattr(self):
        path, name = self.name(), "user.%d" % self.random.randrange(3)
        value = self.random.randbytes(self.random.choice([0, 1, 100, 3000]))
        flags = self.random.choice([0, 0, os.XATTR_CREATE, os.XATTR_REPLACE])

        def run(root):
            full = os.path.join(root, path)
            os.setxattr(full, name, value, flags, follow_symlinks=False)
            return os.getxattr(full, name, follow_symlinks=False), sorted(os.listxattr(full, follow_symlinks=False))

        self.both("setxattr %r %s %d" % (path, name, len(value)), lambda root, _: run(root))

    def op_removexattr(self):
        path, name = self.name(), "user.%d" % self.random.randrange(3)
        self.both("removexattr %r %s" % (path, name), lambda root, _: os.removexattr(os.path.join(root, path), name, follow_symlinks=False))

    def run(self, count):
        weights = {"op_pwrite": 6, "op_pread": 5, "op_open": 5, "op_stat": 4, "op_close": 4, "op_write": 3, "op_fstat": 3, "op_read_file": 4, "op_rename": 2}
        operations = [name for name in dir(self) if name.startswith("op_")]
        chances = [weights.get(name, 1) for name in operations]
        os.umask(0o022)
        for _ in range(count):
            self.counter += 1
            getattr(self, self.random.choices(operations, chances)[0])()
        while self.open:
            pair = self.open.pop()
            self.compare("last close", pair.where, lambda: os.close(pair.fds[0]), lambda: os.close(pair.fds[1]))
        reference = tree(self.reference)
        for mount in self.mounts:
            if tree(mount) != reference:
                for path, entry in reference.items():
                    if tree(mount).get(path) != entry:
                        self.die("final state of %r on %s: %s, reference %s" % (path, mount, describe(tree(mount).get(path)), describe(entry)))
                self.die("final trees differ")


def describe(outcome):
    text = repr(outcome)
    if isinstance(outcome, tuple) and outcome and outcome[0] in errno.errorcode:
        text = errno.errorcode[outcome[0]]
    return text if len(text) < 200 else text[:150] + "... (%d characters, hash %x)" % (len(text), hash(text) & 0xFFFFFFFF)


def attributes(st):
    size = st.st_size if not stat.S_ISDIR(st.st_mode) else 0
    recent = abs(st.st_mtime - time.time()) < 300
    return (st.st_mode, st.st_nlink, st.st_uid, st.st_gid, size, "now" if recent else st.st_mtime_ns)


def tree(root):
    found = {}
    for directory, names, files in os.walk(root):
        if directory == root and ".kairan" in names:
            names.remove(".kairan")
        for name in names + files:
            path = os.path.join(directory, name)
            st = os.lstat(path)
            content = None
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            elif stat.S_ISLNK(st.st_mode):
                content = os.readlink(path)
            found[os.path.relpath(path, root)] = attributes(st) + (content,)
    return found


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=None)
parser.add_argument("--ops", type=int, default=2000)
parser.add_argument("reference")
parser.add_argument("mounts", nargs="+")
arguments = parser.parse_args()
seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 30)
print("seed %d" % seed, flush=True)
test = Test(seed, arguments.reference, arguments.mounts)
test.run(arguments.ops)
print("%d operations equal" % test.counter)

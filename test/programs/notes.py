#!/usr/bin/env python3
"""What one node changed, every other sees at once: names, absence, attributes, extended attributes, ACLs, links.

notes.py [--seed N] [--seconds S] REFERENCE MOUNT MOUNT...

First a random walk: each step is done through one mount and in the local directory REFERENCE; then all mounts must show what REFERENCE
shows, and have just before been made to note what was there.  Then registers: through one mount a number is written into a thing
(a mode, a size, an xattr, a name, a link's target, bytes at the end), always a larger one; through the others threads look at it all the
time.  A look must not find less than what had been written when it began, nor more than what was being written when it ended."""
import argparse
import errno
import os
import random
import shutil
import stat
import struct
import sys
import threading
import time

NAMES = ["a", "b", "c", "d", "e"]
DIRS = ["", "one", "two"]


def acl(mode_of_other):
    """An access ACL: user::rw-, user 1000 with MODE_OF_OTHER, group::r--, mask::rwx, other::r--."""
    entries = [(1, 6, 0xFFFFFFFF), (2, mode_of_other, 1000), (4, 4, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 4, 0xFFFFFFFF)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def attempt(function, *arguments, **named):
    try:
        return function(*arguments, **named)
    except OSError as error:
        return errno.errorcode[error.errno]


def look(path):
    """All that can be seen of PATH without its bytes."""
    found = attempt(os.lstat, path)
    if isinstance(found, str):
        return found
    seen = [stat.S_IFMT(found.st_mode), stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid]
    if not stat.S_ISDIR(found.st_mode):
        seen += [found.st_nlink, found.st_size]
    if stat.S_ISLNK(found.st_mode):
        return seen + [attempt(os.readlink, path)]
    for name in ("user.note", "system.posix_acl_access", "security.capability"):
        seen.append(attempt(os.getxattr, path, name, follow_symlinks=False))
    return seen + [sorted(attempt(os.listxattr, path, follow_symlinks=False)), attempt(os.access, path, os.X_OK)]


def view(root):
    seen = {}
    for directory in DIRS:
        seen[directory] = sorted(os.listdir(os.path.join(root, directory)))
        for name in NAMES:
            path = os.path.join(directory, name)
            seen[path] = look(os.path.join(root, path))
    return seen


def write(path, size):
    with open(path, "wb") as f:
        f.write(b"x" * size)


def append(path, size):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, b"y" * size)
    finally:
        os.close(fd)


def a_step(rng):
    """A change, as a function of a root."""
    def place():
        return os.path.join(rng.choice(DIRS), rng.choice(NAMES))
    one, two, number = place(), place(), rng.randrange(8)
    return rng.choice([
        ("create", lambda root: write(os.path.join(root, one), number * 1000)),
        ("append", lambda root: append(os.path.join(root, one), number + 1)),
        ("truncate", lambda root: os.truncate(os.path.join(root, one), number * 700)),
        ("chmod", lambda root: os.chmod(os.path.join(root, one), 0o640 | number)),
        ("chown", lambda root: os.lchown(os.path.join(root, one), number, number + 1)),
        ("setxattr", lambda root: os.setxattr(os.path.join(root, one), "user.note", b"n" * number)),
        ("removexattr", lambda root: os.removexattr(os.path.join(root, one), "user.note")),
        ("set ACL", lambda root: os.setxattr(os.path.join(root, one), "system.posix_acl_access", acl(number))),
        ("remove ACL", lambda root: os.removexattr(os.path.join(root, one), "system.posix_acl_access")),
        ("unlink", lambda root: os.unlink(os.path.join(root, one))),
        ("rename", lambda root: os.rename(os.path.join(root, one), os.path.join(root, two))),
        ("link", lambda root: os.link(os.path.join(root, one), os.path.join(root, two), follow_symlinks=False)),
        ("symlink", lambda root: os.symlink("to%d" % number, os.path.join(root, one))),
        ("mkdir", lambda root: os.mkdir(os.path.join(root, one), 0o750 | number)),
        ("rmdir", lambda root: os.rmdir(os.path.join(root, one))),
    ]) + (one, two)


def walk(rng, seconds, reference, mounts):
    for root in (reference, mounts[0]):
        for directory in DIRS[1:]:
            os.mkdir(os.path.join(root, directory))
            for number, name in enumerate(NAMES[:3]):
                write(os.path.join(root, directory, name), number * 100)
    steps, done, until = 0, 0, time.monotonic() + seconds
    while time.monotonic() < until or done < 40:
        what, change, one, two = a_step(rng)
        for mount in mounts:
            view(mount)
        changer = rng.randrange(len(mounts))
        result, expected = attempt(change, mounts[changer]), attempt(change, reference)
        steps += 1
        done += expected is None
        if result != expected:
            sys.exit("step %d, %s %s %s on mount %d: %s, locally %s" % (steps, what, one, two, changer, result, expected))
        right = view(reference)
        for number in rng.sample(range(len(mounts)), len(mounts)):
            seen = view(mounts[number])
            for path in right:
                if seen[path] != right[path]:
                    sys.exit("step %d, %s %s %s on mount %d: mount %d sees %r as %s, it is %s" %
                             (steps, what, one, two, changer, number, path, seen[path], right[path]))
    print("walk: %d steps, %d of them changed something" % (steps, done))


class Register:
    """One thing that holds a number; SET(root, n) writes it and GET(root) tells what is seen."""

    def __init__(self, name, setter, getter):
        self.name, self.set, self.get = name, setter, getter
        self.started = self.done = 0
        self.looks = 0


def replace_link(root, number):
    os.symlink(str(number), os.path.join(root, "link.new"))
    os.rename(os.path.join(root, "link.new"), os.path.join(root, "link"))


def grow(root, number):
    fd = os.open(os.path.join(root, "grown"), os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, b"g")
    finally:
        os.close(fd)


def registers(root):
    for name in ("mode", "size", "grown", "xattr", "time"):
        write(os.path.join(root, name), 0)
    os.setxattr(os.path.join(root, "xattr"), "user.n", b"0")
    os.symlink("0", os.path.join(root, "link"))
    for name in ("many", "many2"):
        os.mkdir(os.path.join(root, name))
    os.utime(os.path.join(root, "time"), (0, 0))
    return [
        Register("size", lambda r, n: os.truncate(os.path.join(r, "size"), n), lambda r: os.stat(os.path.join(r, "size")).st_size),
        Register("mtime", lambda r, n: os.utime(os.path.join(r, "time"), (n, n)), lambda r: int(os.stat(os.path.join(r, "time")).st_mtime)),
        Register("owner", lambda r, n: os.chown(os.path.join(r, "mode"), n, 0), lambda r: os.stat(os.path.join(r, "mode")).st_uid),
        Register("xattr", lambda r, n: os.setxattr(os.path.join(r, "xattr"), "user.n", b"%d" % n),
                 lambda r: int(os.getxattr(os.path.join(r, "xattr"), "user.n"))),
        Register("link", replace_link, lambda r: int(os.readlink(os.path.join(r, "link")))),
        Register("grown", grow, lambda r: os.stat(os.path.join(r, "grown")).st_size),
        Register("entries", lambda r, n: os.close(os.open(os.path.join(r, "many", "n%d" % n), os.O_CREAT | os.O_EXCL)),
                 lambda r: len(os.listdir(os.path.join(r, "many")))),
        Register("nlink", lambda r, n: os.mkdir(os.path.join(r, "many2", "d%d" % n)), lambda r: os.stat(os.path.join(r, "many2")).st_nlink - 2),
    ]


def watch_registers(rng, seconds, mounts):
    things = registers(mounts[0])
    stop, wrong = threading.Event(), []

    def looker(root, seed):
        mine = random.Random(seed)
        while not stop.is_set():
            thing = mine.choice(things)
            least = thing.done
            try:
                value = thing.get(root)
            except OSError as error:
                if error.errno == errno.ESTALE and thing.name == "link":
                    continue # replaced between its lookup and its use, twice: docs/limits.md tells
                value = "an error: %s" % error
            most = thing.started
            thing.looks += 1
            if not isinstance(value, int) or not least <= value <= most:
                wrong.append("%s is %s, at least %d was written before and at most %d: on %s" % (thing.name, value, least, most, root))
                stop.set()

    lookers = [threading.Thread(target=looker, args=(mount, seed)) for seed, mount in enumerate(mounts * 2)]
    for thread in lookers:
        thread.start()
    until, writes = time.monotonic() + seconds, 0
    while (time.monotonic() < until or writes < 50) and not stop.is_set():
        thing = rng.choice(things)
        thing.started += 1
        thing.set(rng.choice(mounts), thing.started)
        thing.done = thing.started
        writes += 1
        if rng.random() < 0.3:
            time.sleep(rng.random() * 0.01)
    stop.set()
    for thread in lookers:
        thread.join()
    if wrong:
        sys.exit(wrong[0])
    print("registers: %d writes, %d looks" % (writes, sum(thing.looks for thing in things)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("reference")
    parser.add_argument("mounts", nargs="+")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    os.umask(0o022)
    roots = [os.path.join(mount, "notes") for mount in options.mounts]
    shutil.rmtree(options.reference, ignore_errors=True)
    os.mkdir(options.reference)
    os.mkdir(roots[0])
    walk(rng, options.seconds, options.reference, roots)
    watch_registers(rng, options.seconds, roots)


main()

#!/usr/bin/env python3
"""What stands for which name, after every kind of rename, on all mounts.

renames.py [--seed N] [--seconds S] DIRECTORY MOUNT...

Changes are made one at a time, through a mount chosen by chance.  After each one every mount is asked for names, files
and link counts of before and after, in an order chosen by chance, and must say what a model says.  Meanwhile programs
on each mount list the directories and look at all that is in them, so that names are cached, looked up ahead, and lent
to the kernel.
"""
import argparse
import ctypes
import errno
import multiprocessing
import os
import random
import sys
import time

NOREPLACE, EXCHANGE = 1, 2
AT_FDCWD = -100
TOPS, NAMES = ("a", "b", "c"), ("v", "w", "x", "y", "z")
libc = ctypes.CDLL(None, use_errno=True)


def renameat2(old, new, flags):
    if libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Node:
    """A file or a directory of the model."""

    def __init__(self, number, directory):
        self.number, self.links, self.names = number, 0, {} if directory else None


class Model:
    """The top directories, which stay, and what is in them."""

    def __init__(self):
        self.tops = {name: Node(0, True) for name in TOPS}

    def directories(self):
        """Paths of all directories, and the model's nodes."""
        found = []

        def walk(path, node):
            found.append((path, node))
            for name, inner in node.names.items():
                if inner.names is not None:
                    walk(path + "/" + name, inner)
        for name, node in self.tops.items():
            walk(name, node)
        return found


def below(node, other):
    """Whether OTHER is NODE or in it."""
    return node is other or (node.names is not None and any(below(inner, other) for inner in node.names.values()))


def rename_error(old, new, flags, source, target, into):
    """What rename(2) says, or 0."""
    if source is None:
        return errno.ENOENT
    if flags == NOREPLACE and target is not None:
        return errno.EEXIST
    if flags == EXCHANGE and target is None:
        return errno.ENOENT
    if source.names is not None and below(source, into):
        return errno.EINVAL
    if flags == EXCHANGE:
        return 0
    if target is None or target is source:
        return 0
    if (source.names is None) != (target.names is None):
        return errno.EISDIR if target.names is not None else errno.ENOTDIR
    return errno.ENOTEMPTY if target.names else 0


def change(rng, root, model):
    """Makes a change, through ROOT and in the model.  Returns what it was, and the places that it concerns."""
    places = model.directories()
    (path, directory), (to_path, to) = rng.choice(places), rng.choice(places)
    if rng.random() < 0.4:
        to_path, to = path, directory
    name, to_name = rng.choice(NAMES), rng.choice(NAMES)
    old, new = f"{root}/{path}/{name}", f"{root}/{to_path}/{to_name}"
    node, target = directory.names.get(name), to.names.get(to_name)
    concerned = [(path, directory, name), (to_path, to, to_name)]
    kind = rng.choice(("rename",) * 5 + ("exchange", "noreplace", "make", "make", "link", "remove", "mkdir"))
    what, error, said = f"{kind} {path}/{name} {to_path}/{to_name}", 0, 0
    try:
        if kind in ("rename", "exchange", "noreplace"):
            flags = {"rename": 0, "exchange": EXCHANGE, "noreplace": NOREPLACE}[kind]
            if flags == EXCHANGE and target is not None and target.names is not None and below(target, directory):
                return None
            if target is not None and target.names is not None and below(target, directory) and target is not node:
                return None # ENOTEMPTY, or another error: systems differ
            error = rename_error(old, new, flags, node, target, to)
            renameat2(old, new, flags)
        elif kind == "make":
            if node is not None:
                return None
            os.close(os.open(old, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        elif kind == "mkdir":
            if node is not None or path.count("/") > 2:
                return None
            os.mkdir(old)
        elif kind == "link":
            if node is None or node.names is not None or target is not None:
                return None
            os.link(old, new)
        elif node is None or node.names:
            return None
        elif node.names is None:
            os.unlink(old)
        else:
            os.rmdir(old)
    except OSError as failed:
        said = failed.errno
    if said != error:
        sys.exit(f"{what}: {said and errno.errorcode[said]} instead of {error and errno.errorcode[error]}")
    if error:
        return what, concerned
    if kind == "make" or kind == "mkdir":
        directory.names[name] = made = Node(os.lstat(old).st_ino, kind == "mkdir")
        made.links = 1
    elif kind == "link":
        to.names[to_name] = node
        node.links += 1
    elif kind == "remove":
        del directory.names[name]
        node.links -= 1
    elif kind == "exchange":
        directory.names[name], to.names[to_name] = target, node
    elif target is not node:
        del directory.names[name]
        to.names[to_name] = node
        if target:
            target.links -= 1
    return what, concerned


def check(rng, mount, root, model, concerned, what):
    ways = [(directory, path, name) for path, directory, name in concerned] + [(directory, path, None) for path, directory, _ in concerned]
    rng.shuffle(ways)
    now = {id(node): path for path, node in model.directories()}
    for directory, path, name in ways:
        path = now.get(id(directory))
        if path is None:
            continue
        if name is None:
            listed = sorted(os.listdir(f"{root}/{path}"))
            if listed != sorted(directory.names):
                sys.exit(f"after {what}: mount {mount} lists {path} as {listed} instead of {sorted(directory.names)}")
            continue
        node = directory.names.get(name)
        try:
            found = os.lstat(f"{root}/{path}/{name}")
        except FileNotFoundError:
            found = None
        if (found.st_ino if found else None) != (node.number if node else None):
            sys.exit(f"after {what}: mount {mount} finds {found and found.st_ino} as {path}/{name} instead of {node and node.number}")
        if node and node.names is None and found.st_nlink != node.links:
            sys.exit(f"after {what}: mount {mount} says {found.st_nlink} links of {path}/{name} instead of {node.links}")
        if node and node.names is not None and found.st_nlink != 2 + sum(n.names is not None for n in node.names.values()):
            sys.exit(f"after {what}: mount {mount} says {found.st_nlink} links of directory {path}/{name}")


def looker(root, seed, enough):
    rng = random.Random(seed)
    while not enough.is_set():
        for top, directories, files in os.walk(root):
            for name in directories + files:
                try:
                    os.lstat(os.path.join(top, name))
                except (FileNotFoundError, NotADirectoryError):
                    pass
        time.sleep(rng.random() * 0.05)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--alone", action="store_true", help="all changes are made through the first mount")
    parser.add_argument("directory")
    parser.add_argument("mounts", nargs="+")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    roots = [os.path.join(mount, options.directory) for mount in options.mounts]
    os.mkdir(roots[0])
    for name in TOPS:
        os.mkdir(os.path.join(roots[0], name))
    ends = time.monotonic() + options.seconds
    enough = multiprocessing.Event()
    lookers = [multiprocessing.Process(target=looker, daemon=True, args=(root, options.seed * 10 + n, enough)) for n, root in enumerate(roots)]
    for process in lookers:
        process.start()
    rng, model, count = random.Random(options.seed), Model(), 0
    while time.monotonic() < ends or count < 50: # a slow machine takes longer
        through = 0 if options.alone else rng.randrange(len(roots))
        made = change(rng, roots[through], model)
        if not made:
            continue
        what, concerned = made
        what = f"change {count}, {what} through {through}"
        order = list(enumerate(roots))
        rng.shuffle(order)
        for mount, root in order:
            check(rng, mount, root, model, concerned, what)
        count += 1
    enough.set()
    for process in lookers:
        process.join()
    print(f"{count} changes")
    if any(process.exitcode for process in lookers):
        sys.exit("a looker failed")


main()

#!/usr/bin/env python3
"""The kernel answers stat(2) by itself, and never with what was before a change that has returned.

kernel_attrs.py [--seed N] [--seconds S] DIRECTORY MOUNT MOUNT...

Things carry a number that only grows: a file's mtime, its size, the mtime of a file that is replaced and then changed at once (the kernel
does not know its inode yet), a directory's number of links, a file's number of links.  Writers, on the first and the second mount, make it
larger, and publish it when the call has returned.  Readers, on all mounts, take the published number, then look (by name, through an open
file, through O_PATH), and must not find less."""
import argparse
import ctypes
import multiprocessing
import os
import random
import sys
import time

KINDS = ["mtime", "size", "replaced", "directory", "links"]
LINKS_MAX = 400


def grow(kind, path, number):
    """Makes the thing at PATH show NUMBER; returns what it shows at least."""
    if kind == "mtime":
        os.utime(path, (number, number))
    elif kind == "size":
        if number % 3:
            os.truncate(path, number)
        else:
            with open(path, "r+b", buffering=0) as file:
                file.seek(number - 1)
                file.write(b"x")
    elif kind == "replaced":
        with open(path + ".new", "wb"):
            pass
        os.utime(path + ".new", (number, number))
        os.rename(path + ".new", path)
        os.utime(path, (number + 1, number + 1))
        return number + 1
    elif kind == "directory":
        os.mkdir(os.path.join(path, str(number)))
    else:
        os.link(path, f"{path}.{number}")
    return number


def shown(kind, status):
    if kind in ("mtime", "replaced"):
        return int(status.st_mtime)
    return {"size": status.st_size, "directory": status.st_nlink - 2, "links": status.st_nlink - 1}[kind]


def write(mount, things, seed, deadline, published, counts):
    rng = random.Random(seed)
    numbers = {thing: 0 for thing in things}
    while time.monotonic() < deadline:
        thing = rng.choice(things)
        kind = KINDS[thing % len(KINDS)]
        if kind in ("directory", "links") and numbers[thing] >= LINKS_MAX:
            continue
        path = os.path.join(mount, f"thing{thing}")
        for _ in range(rng.choice((1, 1, 3))):
            number = grow(kind, path, numbers[thing] + 1)
            numbers[thing] = published[thing] = number
            counts[0] += 1
            seen = shown(kind, os.stat(path))
            if seen < number:
                sys.exit(f"the writer of thing{thing} ({kind}) has made it {number}, and sees {seen}")
        time.sleep(rng.choice((0, 0, 0.001, 0.005)))


def look(path, how):
    if how == "name":
        return os.stat(path)
    descriptor = os.open(path, os.O_PATH if how == "path" else os.O_RDONLY)
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def read(mount, seed, deadline, published, counts, index):
    rng = random.Random(seed)
    held = {}
    while time.monotonic() < deadline:
        thing = rng.randrange(len(published))
        kind = KINDS[thing % len(KINDS)]
        path = os.path.join(mount, f"thing{thing}")
        for _ in range(rng.choice((1, 4))):
            least = published[thing]
            if kind != "replaced" and rng.random() < 0.3:
                how = "held"
                if thing not in held:
                    held[thing] = os.open(path, os.O_PATH)
                status = os.fstat(held[thing])
            else:
                how = rng.choice(("name", "name", "path", "open"))
                status = look(path, how)
            seen = shown(kind, status)
            counts[index] += 1
            if seen < least:
                sys.exit(f"thing{thing} ({kind}) had become {least}, and {mount} shows {seen} ({how})")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--things", type=int, default=20)
    parser.add_argument("directory")
    parser.add_argument("mounts", nargs="+")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    roots = [os.path.join(mount, options.directory) for mount in options.mounts]
    os.mkdir(roots[0])
    for thing in range(options.things):
        path = os.path.join(roots[0], f"thing{thing}")
        if KINDS[thing % len(KINDS)] == "directory":
            os.mkdir(path)
        else:
            with open(path, "wb"):
                pass
            os.utime(path, (0, 0))
    published = multiprocessing.Array(ctypes.c_long, options.things, lock=False)
    deadline = time.monotonic() + options.seconds
    processes, counts = [], []
    for index, root in enumerate(roots[:2]):
        mine = [thing for thing in range(options.things) if thing // len(KINDS) % 2 == index]
        counts.append(multiprocessing.Array(ctypes.c_long, 1, lock=False))
        processes.append(multiprocessing.Process(
            target=write, args=(root, mine, options.seed * 100 + index, deadline, published, counts[-1])))
    looks = multiprocessing.Array(ctypes.c_long, 2 * len(roots), lock=False)
    for index in range(2 * len(roots)):
        processes.append(multiprocessing.Process(
            target=read, args=(roots[index % len(roots)], options.seed * 100 + 50 + index, deadline, published, looks, index)))
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print(f"{sum(count[0] for count in counts)} changes, {sum(looks)} looks")
    if any(process.exitcode for process in processes):
        sys.exit("a look found what was before a change")
    if sum(looks) < 100 * options.seconds:
        sys.exit("too few looks")


main()

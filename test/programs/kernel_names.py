#!/usr/bin/env python3
"""The kernel walks names by itself, and never one that was gone when a change had returned.

kernel_names.py [--seed N] [--seconds S] DIRECTORY MOUNT MOUNT

Things have a number in their names.  Changers on both mounts give them the next number (rename in the directory, rename to another one,
remove and make anew), and publish it when the call has returned.  Lookers on both mounts list the directories and look at all that is in
them, as `ls -l` does; in between they watch a thing's name until its next number is published, so that the kernel has just walked it: the
name with the number before must be gone, the name with that number must be there unless the thing has got another one meanwhile."""
import argparse
import ctypes
import multiprocessing
import os
import random
import sys
import time

DIRECTORIES, LOOKS, CHANGES = 4, 200, 20
WATCH_S = 0.2


def place(root, thing, number):
    return os.path.join(root, f"dir{number // 3 % DIRECTORIES}", f"thing{thing}.{number}")


def change(root, thing, number):
    old, new = place(root, thing, number), place(root, thing, number + 1)
    if thing % 3 == 0:
        os.unlink(old)
        with open(new, "wb"):
            pass
    else:
        os.rename(old, new)


def goes_on(deadline, published, looks):
    """On a slow machine there are too few looks or changes at the deadline: a minute more, unless a looker has ended with what it found."""
    now = time.monotonic()
    return now < deadline or (now < deadline + 60 and min(looks) >= 0 and (sum(looks) < LOOKS or sum(published) < CHANGES))


def changer(root, things, seed, deadline, published, looks, pause):
    rng = random.Random(seed)
    while goes_on(deadline, published, looks):
        thing = rng.choice(things)
        change(root, thing, published[thing])
        published[thing] += 1
        time.sleep(rng.random() * pause)


def watch(root, thing, published):
    number, until = published[thing], time.monotonic() + WATCH_S
    while published[thing] == number and time.monotonic() < until:
        os.path.lexists(place(root, thing, number))


def check(root, thing, published):
    """What is wrong, if anything is."""
    number = published[thing]
    if number and os.path.lexists(place(root, thing, number - 1)):
        return f"thing{thing} is {number}, and {place(root, thing, number - 1)} is still there"
    # A rename may have been done, and not been published yet.
    found = os.path.lexists(place(root, thing, number)) or os.path.lexists(place(root, thing, number + 1))
    if thing % 3 and not found and published[thing] == number:
        return f"thing{thing} is {number}, and is not found in {root}"
    return None


def looker(root, seed, deadline, published, looks, index):
    rng = random.Random(seed)
    while goes_on(deadline, published, looks):
        directory = os.path.join(root, f"dir{rng.randrange(DIRECTORIES)}")
        for name in os.listdir(directory):
            for _ in range(3):
                try:
                    os.lstat(os.path.join(directory, name))
                except FileNotFoundError:
                    pass
            thing = rng.randrange(len(published))
            if rng.random() < 0.2:
                watch(root, thing, published)
            wrong = check(root, thing, published)
            if wrong:
                looks[index] = -1
                sys.exit(wrong)
            looks[index] += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--things", type=int, default=24)
    parser.add_argument("--pause", type=float, default=0.02)
    parser.add_argument("directory")
    parser.add_argument("mounts", nargs=2)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    roots = [os.path.join(mount, options.directory) for mount in options.mounts]
    os.mkdir(roots[0])
    for number in range(DIRECTORIES):
        os.mkdir(os.path.join(roots[0], f"dir{number}"))
    for thing in range(options.things):
        with open(place(roots[0], thing, 0), "wb"):
            pass
    published = multiprocessing.Array(ctypes.c_long, options.things, lock=False)
    looks = multiprocessing.Array(ctypes.c_long, 4, lock=False)
    deadline = time.monotonic() + options.seconds
    processes = []
    for index, root in enumerate(roots):
        things = list(range(index, options.things, 2))
        processes.append(multiprocessing.Process(
            target=changer, args=(root, things, options.seed * 100 + index, deadline, published, looks, options.pause)))
        for looking in range(2):
            processes.append(multiprocessing.Process(target=looker,
                args=(root, options.seed * 100 + 10 + 2 * index + looking, deadline, published, looks, 2 * index + looking)))
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print(f"{sum(published)} changes, {sum(looks)} looks")
    if any(process.exitcode for process in processes):
        sys.exit("a look found a name of before a change")
    if sum(looks) < LOOKS or sum(published) < CHANGES:
        sys.exit("too few looks or changes")


main()

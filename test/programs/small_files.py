#!/usr/bin/env python3
"""Small files that change on one mount, and are then read on all mounts at once: nobody may get old bytes.

small_files.py SEED SECONDS MOUNT...

A round gives some files new bytes, each on any mount: emptied and written, replaced by another file, or written in place.  When
the writers have closed them, a thread for each mount reads all files, in order or not.
"""
import os
import random
import sys
import threading
import time

FILES, REPEATS = 12, 2500  # of 8 bytes


def bytes_of(number):
    return b"%08d" % number * REPEATS


def write(path, flags, number):
    fd = os.open(path, os.O_WRONLY | flags, 0o644)
    os.pwrite(fd, bytes_of(number), 0)
    os.close(fd)


def change(mount, file, number, way):
    path = f"{mount}/{file}"
    if way == "emptied":
        write(path, os.O_CREAT | os.O_TRUNC, number)
    elif way == "replaced":
        write(path + ".new", os.O_CREAT | os.O_TRUNC, number)
        os.rename(path + ".new", path)
    else:
        write(path, 0, number)


def read_all(mount, order, present, problems):
    for file in order:
        with open(f"{mount}/{file}", "rb") as stream:
            got = stream.read()
        if got != bytes_of(present[file]):
            problems.append(f"{mount}: file {file} is {got[:8]} ({len(got)} bytes) and not {present[file]}")


def main():
    seed, seconds, mounts = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    chance, present, problems, number, rounds = random.Random(seed), {}, [], 0, 0
    print(f"seed {seed}")
    for file in range(FILES):
        number += 1
        change(mounts[0], file, number, "emptied")
        present[file] = number
    ends = time.monotonic() + seconds
    while not problems and (rounds < 2 or time.monotonic() < ends):
        for file in chance.sample(range(FILES), chance.randint(1, FILES)):
            number += 1
            change(chance.choice(mounts), file, number, chance.choice(("emptied", "replaced", "in place")))
            present[file] = number
        orders = [chance.sample(range(FILES), FILES) if chance.random() < 0.5 else range(FILES) for _ in mounts]
        readers = [
            threading.Thread(target=read_all, args=(mount, order, present, problems)) for mount, order in zip(mounts, orders)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        rounds += 1
    print(f"{rounds} rounds", *problems[:5], sep="\n")
    return 1 if problems else 0


sys.exit(main())

"""Rates in directories, one after the other in each round: view.py ROUNDS DIRECTORY...; the first one is what the others are compared with."""
import os
import statistics
import sys
import time

ROUNDS, DIRECTORIES = int(sys.argv[1]), sys.argv[2:]
FILE, FILES = 64 << 20, 1000


def write(path, piece):
    data = os.urandom(piece)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    began = time.monotonic()
    for offset in range(0, FILE, piece):
        os.pwrite(fd, data, offset)
    os.close(fd)
    return FILE / (time.monotonic() - began)


def read(path, piece):
    buffer = [bytearray(piece)]
    fd = os.open(path, os.O_RDONLY)
    began = time.monotonic()
    for offset in range(0, FILE, piece):
        os.preadv(fd, buffer, offset)
    rate = FILE / (time.monotonic() - began)
    os.close(fd)
    return rate


def create(directory):
    os.mkdir(directory)
    began = time.monotonic()
    for number in range(FILES):
        os.close(os.open("%s/%d" % (directory, number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    return FILES / (time.monotonic() - began)


def stat(directory):
    began = time.monotonic()
    for number in range(FILES):
        os.stat("%s/%d" % (directory, number))
    return FILES / (time.monotonic() - began)


def unlink(directory):
    began = time.monotonic()
    for number in range(FILES):
        os.unlink("%s/%d" % (directory, number))
    rate = FILES / (time.monotonic() - began)
    os.rmdir(directory)
    return rate


STEPS = (
    ("write 1 MiB", lambda d: write(d + "/file", 1 << 20)),
    ("read 1 MiB", lambda d: read(d + "/file", 1 << 20)),
    ("read again, 128 KiB", lambda d: read(d + "/file", 128 << 10)),
    ("write 128 KiB", lambda d: write(d + "/file", 128 << 10)),
    ("create", lambda d: create(d + "/files")),
    ("stat", lambda d: stat(d + "/files")),
    ("unlink", lambda d: unlink(d + "/files")),
)
rates = {}
for round_number in range(ROUNDS + 1):
    for name, step in STEPS:
        for directory in DIRECTORIES:
            os.sync()  # no one pays for what another has left to be written
            rate = step(directory)
            if round_number:  # the first one warms up
                rates.setdefault((name, directory), []).append(rate)
print("%-22s %12s" % ("", DIRECTORIES[0]) + "".join("%16s" % d for d in DIRECTORIES[1:]))
for name, _ in STEPS:
    bare = rates[name, DIRECTORIES[0]]
    best = max(bare)
    line = "%-22s %12s" % (name, "%.1f GB/s" % (best / 1e9) if best > 1e7 else "%.0f k/s" % (best / 1e3))
    for directory in DIRECTORIES[1:]:
        ratios = [one / other for one, other in zip(rates[name, directory], bare)]
        line += "%16s" % ("%.2f (%.2f)" % (max(rates[name, directory]) / best, statistics.median(ratios)))
    print(line)

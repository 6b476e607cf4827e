#!/usr/bin/env python3
"""Appends to one file, from several nodes.

appends.py write FILE WRITER COUNT      one record after the other, the shorter ones by far the most, some of hundreds of kB
appends.py locked FILE WRITER COUNT     the same, each under flock after having looked for the end, by fstat or lseek: the record says where it should lie
appends.py check FILE WRITERS COUNT     every record of each of WRITERS is there, whole, once, in its order, and nothing else is
"""
import fcntl
import os
import random
import sys

ANYWHERE = (1 << 63) - 1


def record(writer, number, at=ANYWHERE):
    """A line that nothing else looks like: its own length comes first."""
    choose = random.Random(writer * 1000003 + number)
    length = choose.randrange(150000, 400000) if number % 25 == 7 else choose.randrange(1, 3000)
    return b"%06d %019d %03d %06d %s\n" % (length, at, writer, number, bytes([97 + (writer * 7 + number) % 26]) * length)


HEAD = len(record(0, 0).split(b" ", 4)[0]) + 1 + 20 + 4 + 7


def write(path, writer, count, locked):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for number in range(count):
        at = ANYWHERE
        if locked:
            fcntl.flock(fd, fcntl.LOCK_EX)
            at = os.lseek(fd, 0, os.SEEK_END) if number % 2 else os.fstat(fd).st_size
        data = record(writer, number, at)
        assert os.write(fd, data) == len(data)
        if locked:
            fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def check(path, writers, count):
    with open(path, "rb") as file:
        data = file.read()
    position, following = 0, [0] * writers
    while position < len(data):
        try:
            length, at, writer, number = (int(field) for field in data[position : position + HEAD].split())
        except ValueError:
            sys.exit("no record at %d of %d: %r" % (position, len(data), data[position : position + 40]))
        whole = record(writer, number, at)
        if data[position : position + len(whole)] != whole:
            sys.exit("record %d of writer %d, at %d, is not whole" % (number, writer, position))
        if number != following[writer]:
            sys.exit("writer %d: record %d, at %d, where %d should come" % (writer, number, position, following[writer]))
        if at not in (ANYWHERE, position):
            sys.exit("writer %d: record %d is at %d, not at %d" % (writer, number, position, at))
        following[writer] += 1
        position += len(whole)
    if following != [count] * writers:
        sys.exit("%s records of %d" % (following, count))
    print("%d records, %d bytes" % (writers * count, len(data)))


action, path, number, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if action == "check":
    check(path, number, count)
else:
    write(path, number, count, action == "locked")

#!/usr/bin/env python3
"""A writer that notes what it was promised, and the checker of its notes.

promises.py write FILE PAUSE    writes numbered records at odd offsets, syncs and reopens; prints "wrote N" after write N returned;
                                pauses for so many seconds after each
promises.py check FILE <NOTES   every write that returned is in the file, and nothing else; a record in progress may be there or not
"""
import os
import sys
import time

SIZE, COUNT = 50021, 120  # so that some flushes go inline, and some as streams


def record(number):
    return (b"<%06d>" % number * (SIZE // 8 + 1))[:SIZE]


if sys.argv[1] == "write":
    fd = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT, 0o644)
    for number in range(COUNT):
        place = number * 7 % COUNT  # not in ascending order
        os.pwrite(fd, record(number), place * SIZE)
        sys.stdout.write("wrote %d\n" % number)
        sys.stdout.flush()
        time.sleep(float(sys.argv[3]))  # others shall ask for the lease now and then
        if number % 40 == 20:
            os.fsync(fd)
        if number % 40 == 35:
            os.close(fd)
            fd = os.open(sys.argv[2], os.O_RDWR)
        if number % 10 == 5:
            assert os.pread(fd, SIZE, place * SIZE) == record(number)
    os.close(fd)
else:
    wrote = [int(line.split()[1]) for line in sys.stdin if line.startswith("wrote ")]
    done = wrote[-1] + 1 if wrote else 0
    with open(sys.argv[2], "rb") as file:
        data = file.read()
    for number in range(COUNT):
        place = number * 7 % COUNT
        found = data[place * SIZE : (place + 1) * SIZE]
        want = record(number)
        if number < done:
            if found != want:
                sys.exit("record %d was written and is lost (of %d): %r" % (number, done, found[:24]))
        elif number > done and any(found):
            sys.exit("record %d was never written and is there" % number)
    print("%d records, all there" % done)

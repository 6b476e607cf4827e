#!/usr/bin/env python3
"""Reads a file with several programs at once, and looks at how it goes.

lanes.py read sequential|single STREAMS PATH SECONDS RECORD
    sequential: each of STREAMS threads reads its part of PATH from start to end; single: block by block in random order, so that
    none has more than one block asked.  Ends after SECONDS at the latest.  RECORD gets a line every 50 ms: seconds, bytes so far.
lanes.py rate RECORD MBIT [FROM [TO]]
    the rate in that time as a share of what MBIT carry, and the longest time without a byte.
"""
import os
import random
import sys
import threading
import time

BLOCK = 128 << 10
STEP = 0.05
PAYLOAD = 1448 / 1514  # of a packet on Ethernet


class Reader(threading.Thread):
    def __init__(self, path, mode, first, last):
        super().__init__(daemon=True)
        self.path, self.mode, self.first, self.last = path, mode, first, last
        self.bytes, self.done = 0, False

    def run(self):
        fd = os.open(self.path, os.O_RDONLY)
        blocks = list(range(self.first, self.last))
        if self.mode == "single":
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            random.Random(self.first).shuffle(blocks)
        for block in blocks:
            got = len(os.pread(fd, BLOCK, block * BLOCK))
            assert got == BLOCK, "block %d has %d bytes" % (block, got)
            self.bytes += got
        self.done = True


def read(mode, streams, path, seconds, record):
    each = os.stat(path).st_size // BLOCK // streams
    readers = [Reader(path, mode, i * each, (i + 1) * each) for i in range(streams)]
    start = time.monotonic()
    for reader in readers:
        reader.start()
    with open(record, "w", buffering=1) as out:
        while True:
            now = time.monotonic() - start
            alive = any(reader.is_alive() for reader in readers)
            print("%.3f %d" % (now, sum(reader.bytes for reader in readers)), file=out)
            if not alive or now > seconds:
                break
            time.sleep(STEP)
    if not alive and not all(reader.done for reader in readers):
        os._exit(1)
    os._exit(0)  # threads may wait for a block


def rate(record, mbit, begin=0.0, end=1e9):
    points = [tuple(map(float, line.split())) for line in open(record)]
    points = [point for point in points if begin <= point[0] <= end]
    if len(points) < 2:
        return float("nan"), float("nan")
    moved, gap = points[0], 0
    for point in points:
        if point[1] > moved[1]:
            moved = point
        gap = max(gap, point[0] - moved[0])
    speed = (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])
    return speed / (mbit * 1e6 / 8 * PAYLOAD), gap


if sys.argv[1] == "read":
    read(sys.argv[2], int(sys.argv[3]), sys.argv[4], float(sys.argv[5]), sys.argv[6])
else:
    print("%.3f %.2f" % rate(sys.argv[2], *map(float, sys.argv[3:])))

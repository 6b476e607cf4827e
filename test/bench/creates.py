#!/usr/bin/env python3
"""What test/bench/creates.sh needs: creates.py empty|4KiB|unlink DIRECTORY FILES START | table RESULTS FILES

START: CLOCK_MONOTONIC in seconds.  Prints when the work began and ended, in the same."""
import os
import statistics
import sys
import time


def work(what, directory, files, start):
    place = f"{directory}.{'4KiB' if what == '4KiB' else 'empty'}"
    if what != "unlink":
        os.mkdir(place)
    time.sleep(max(0, float(start) - time.monotonic()))
    began = time.monotonic()
    for i in range(int(files)):
        if what == "unlink":
            os.unlink(f"{place}/{i}")
            continue
        fd = os.open(f"{place}/{i}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        if what == "4KiB":
            os.write(fd, b"x" * 4096)
        os.close(fd)
    print(began, time.monotonic())


def table(path, files):
    found, systems = {}, []
    with open(path) as f:
        for line in f:
            system, number, count, what, *times, cpu = line.split()
            times = [float(t) for t in times]
            rate = int(count) * int(files) / (max(times[1::2]) - min(times[::2]))
            found.setdefault((what, int(count)), {}).setdefault(system, {})[number] = rate, int(cpu) / int(count) / int(files)
            if system not in systems:
                systems.append(system)
    others = systems[1:]
    print(f"{'':17} {'kairan/s':>9}" + "".join(f" {'of ' + other + ', median':>24}" for other in others) +
          f"   CPU ms for 1,000: {', '.join(systems)}")
    for (what, count), by in found.items():
        own = by["kairan"]
        print(f"{what:7} {count} node{'s' if count > 1 else ' '}   {statistics.median(v[0] for v in own.values()):9.0f}", end="")
        for other in others:
            ratios = sorted(own[n][0] / by[other][n][0] for n in own)
            print(f" {statistics.median(ratios):11.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})", end="")
        print("   " + ", ".join("%.0f" % (min(v[1] for v in by[s].values()) / 1e3) for s in systems))


command, *arguments = sys.argv[1:]
if command == "table":
    table(*arguments)
else:
    work(command, *arguments)

#!/usr/bin/env python3
"""What test/growth/run has measured beside what the simulator says of the same: report.py SIMULATE MEASURED MIB"""
import statistics
import subprocess
import sys

RECORD = 131001


def simulated(simulate, *arguments):
    """A dictionary for each number of nodes."""
    out = subprocess.run([simulate, *map(str, arguments)], check=True, capture_output=True, text=True).stdout
    return [{key: float(value) for key, value in (word.split("=") for word in line.split()[1:])} for line in out.splitlines()]


def main():
    simulate, measured, mib = sys.argv[1:4]
    times, link, message_us = {}, 0, 0
    for words in map(str.split, open(measured)):
        if words[0] == "link":
            link = max(link, float(words[1]) / float(words[2]) / 1e6)  # what it can, not what another program left of it
        elif words[0] == "message":
            message_us = float(words[2]) / float(words[1]) / 2 / 1e3  # a request is two messages
        else:
            times.setdefault((words[0], int(words[1])), []).append(float(words[2]))
    print(f"a plain TCP stream carries {link:.2f} MB/s; a message costs the server {message_us:.1f} us")
    print(f"{'':6} nodes   real s (range)         simulated s   error")
    for (workload, nodes), real in times.items():
        records = (int(mib) << 20) // RECORD // nodes
        (told,) = simulated(simulate, "-l", link, "-m", message_us, "-s", mib, "-n", records, workload, nodes)
        middle = statistics.median(real)
        print(f"{workload:6} {nodes:5} {middle:8.3f} ({min(real):.3f}-{max(real):.3f}) {told['seconds']:12.3f}   {told['seconds'] / middle - 1:+6.1%}")


if __name__ == "__main__":
    main()

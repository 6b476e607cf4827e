#!/usr/bin/env python3
"""What test/bench/small.sh needs: small.py create DIR N | random FILE N | cpu PID... | requests <STATUS | table RESULTS"""
import json
import os
import random
import statistics
import sys


def create(directory, count):
    os.mkdir(directory)
    for i in range(int(count)):
        fd = os.open(f"{directory}/{i}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(fd, b"x" * 4096)
        os.close(fd)


def random_writes(path, count):
    rng = random.Random(1)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    for _ in range(int(count)):
        os.pwrite(fd, b"y" * 4096, rng.randrange(16384) * 4096)
        os.fsync(fd)
    os.close(fd)


def cpu(*pids):
    """Nanoseconds that the processes have run for; one that has ended meanwhile is left out."""
    total = 0
    for pid in pids:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/schedstat") as f:
                    total += int(f.read().split()[0])
        except OSError:
            pass
    print(total)


def requests():
    types = json.load(sys.stdin)["requests"]
    print(sum(count for name, count in types.items() if name not in ("PING", "STATUS")))


def table(path):
    found = {}
    with open(path) as f:
        for line in f:
            system, number, what, *values = line.split()
            found.setdefault(what, {}).setdefault(system, {})[int(number)] = [int(v) for v in values]
    print(f"{'':20} {'of sshfs, median':>18} {'ms':>8} {'requests':>16} {'CPU ms':>9} {'sshfs':>7}")
    for what, systems in found.items():
        own, other = systems["kairan"], systems["sshfs"]
        ratios = sorted(own[i][0] / other[i][0] for i in own)
        sent = [own[i][2] for i in sorted(own)]
        print(f"{what:20} {statistics.median(ratios):6.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f}) {statistics.median(v[0] for v in own.values()) / 1e6:8.0f} "
              f"{'/'.join(map(str, sent[:3])):>16} {min(v[1] for v in own.values()) / 1e6:9.0f} {min(v[1] for v in other.values()) / 1e6:7.0f}")


command, *arguments = sys.argv[1:]
{"create": create, "random": random_writes, "cpu": cpu, "requests": requests, "table": table}[command](*arguments)

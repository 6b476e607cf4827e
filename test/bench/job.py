#!/usr/bin/env python3
"""What test/bench/job.sh needs:
  job.py disks MIB_PER_SECOND DISK...                       says what dd gets from them at once; fails if that is more
  job.py bare RESULTS ROUND MIB FILES DISK
  job.py measure RESULTS COLUMN ROUND MIB FILES [MOUNT DISK]...
  job.py seconds RESULTS COLUMN ROUND FIGURE NANOSECONDS
  job.py table RESULTS
  job.py remove NUMBER                                      a loop device that nobody uses
Results are lines of COLUMN <tab> ROUND <tab> FIGURE <tab> VALUE.
"""
import collections
import ctypes
import errno
import fcntl
import os
import random
import stat
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../programs"))
from pair import at_once  # noqa: E402

PIECE = 1 << 20
NOISE = random.Random(1).randbytes(2 * PIECE)
LOOP_CTL_REMOVE = 0x4C81
libc = ctypes.CDLL(None, use_errno=True)
# Figure -> its name, its unit, and the bare disk's figure that it is a multiple of.
FIGURES = {
    "write": ("own files written: until closed", "MiB/s", "write"),
    "write_sync": ("  ... until on the nodes' disks", "MiB/s", "write"),
    "read": ("own files read back", "MiB/s", "read"),
    "neighbour": ("files of a neighbour read", "MiB/s", "read"),
    "shared": ("parts of one file written: until closed", "MiB/s", "write"),
    "shared_sync": ("  ... until on the nodes' disks", "MiB/s", "write"),
    "shared_read": ("own parts read back", "MiB/s", "read"),
    "create": ("files of 4 KiB created", "/s", "create"),
    "unlink": ("  ... and removed", "/s", "unlink"),
    "start": ("start on 8 nodes", "s", None),
    "stop": ("removal on 8 nodes", "s", None),
}


class Results:
    def __init__(self, path, column, round_number):
        self.path, self.start = path, "%s\t%s" % (column, round_number)

    def add(self, figure, value):
        with open(self.path, "a") as file:
            file.write("%s\t%s\t%.6g\n" % (self.start, figure, value))


def sync(disk):
    fd = os.open(disk, os.O_RDONLY)
    if libc.syncfs(fd) != 0:
        raise OSError(ctypes.get_errno(), "syncfs of " + disk)
    os.close(fd)


def forget(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def forget_disk(disk):
    """All of its files' pages leave memory."""
    sync(disk)
    for directory, _, names in os.walk(disk):
        for name in names:
            path = os.path.join(directory, name)
            try:
                if stat.S_ISREG(os.lstat(path).st_mode):
                    forget(path)
            except FileNotFoundError:  # a daemon has removed it meanwhile
                pass


def content(rank, number):
    start = (rank * 12289 + number * 769) % PIECE
    return memoryview(NOISE)[start : start + PIECE]


def write(path, rank, pieces):
    """PIECES: pairs of the place in the file, and the number of what is written there. When the last close returned."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    for place, number in pieces:
        assert os.pwrite(fd, content(rank, number), place * PIECE) == PIECE
    os.close(fd)
    return time.monotonic()


def read(path, rank, pieces):
    buffer = bytearray(PIECE)
    fd = os.open(path, os.O_RDONLY)
    for place, number in pieces:
        assert os.preadv(fd, [buffer], place * PIECE) == PIECE, "%s is too short" % path
        assert buffer == content(rank, number), "%s has other bytes at %d MiB" % (path, place)
    os.close(fd)
    return time.monotonic()


def create(directory, files):
    for number in range(files):
        fd = os.open("%s/%d" % (directory, number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(fd, NOISE[:4096])
        os.close(fd)
    return time.monotonic()


def unlink(directory, files):
    for number in range(files):
        os.unlink("%s/%d" % (directory, number))
    return time.monotonic()


def seconds_of_all(function, places):
    """FUNCTION(node, place) on all nodes at once: until the last one says that it has ended."""
    began = time.monotonic()
    return max(at_once(function, places).values()) - began, began


def dd(*arguments):
    began = time.monotonic()
    subprocess.run(("dd", "bs=1M", "status=none") + arguments, check=True)
    return time.monotonic() - began


def disks(rate, *disks):
    count, said = 4 * int(rate), []
    for name, arguments in (
        ("oflag=direct", lambda disk: ("if=/dev/zero", "of=%s/dd" % disk, "oflag=direct")),
        ("conv=fsync", lambda disk: ("if=/dev/zero", "of=%s/dd" % disk, "conv=fsync")),
        ("iflag=direct", lambda disk: ("if=%s/dd" % disk, "of=/dev/null", "iflag=direct")),
    ):
        took = at_once(lambda _, disk: dd("count=%d" % count, *arguments(disk)), dict(enumerate(disks)))
        rates = sorted(count / seconds for seconds in took.values())
        said.append("%s %.1f-%.1f" % (name, rates[0], rates[-1]))
        if rates[-1] > 1.2 * int(rate):
            sys.exit("job: dd %s gets %.1f MiB/s from a disk that is limited to %s MiB/s" % (name, rates[-1], rate))
    for disk in disks:
        os.unlink(disk + "/dd")
    print("bare disk, all %d at once, MiB/s: %s" % (len(disks), ", ".join(said)), flush=True)


def bare(path, round_number, mib, files, disk):
    results, file, directory = Results(path, "bare", round_number), disk + "/file", disk + "/files"
    mib, files = int(mib), int(files)
    sync(disk)
    results.add("write", mib / dd("count=%d" % mib, "if=/dev/zero", "of=" + file, "conv=fsync"))
    results.add("read", mib / dd("if=" + file, "of=/dev/null", "iflag=direct"))
    os.unlink(file)
    os.mkdir(directory)
    for figure, function in (("create", create), ("unlink", unlink)):
        sync(disk)
        results.add(figure, files / seconds_of_all(lambda _, place: function(place, files), {0: directory})[0])
    os.rmdir(directory)
    sync(disk)


def measure(path, column, round_number, mib, files, *places):
    results = Results(path, column, round_number)
    mounts, disks = dict(enumerate(places[::2])), dict(enumerate(places[1::2]))
    nodes, mib, files = len(mounts), int(mib), int(files)

    def own(node):
        return "%s/own.%s.%d" % (mounts[node], round_number, node)

    def neighbours(node):
        return "%s/own.%s.%d" % (mounts[node], round_number, (node + 1) % nodes)

    def shared(node):
        return "%s/shared.%s" % (mounts[node], round_number)

    def whole():
        return ((number, number) for number in range(mib))

    def part(node):
        return ((number * nodes + node, number) for number in range(mib))

    def forget_all(name):
        at_once(lambda _, disk: forget_disk(disk), disks)
        for node in mounts if name else ():
            forget(name(node))

    def reading(figure, function):
        results.add(figure, nodes * mib / seconds_of_all(function, mounts)[0])

    def writing(figure, function):
        took, began = seconds_of_all(function, mounts)
        results.add(figure, nodes * mib / took)
        at_once(lambda _, disk: sync(disk), disks)
        results.add(figure + "_sync", nodes * mib / (time.monotonic() - began))

    forget_all(None)
    writing("write", lambda node, _: write(own(node), node, whole()))
    forget_all(own)
    reading("read", lambda node, _: read(own(node), node, whole()))
    forget_all(None)
    reading("neighbour", lambda node, _: read(neighbours(node), (node + 1) % nodes, whole()))
    for node in mounts:
        os.unlink(own(node))
    forget_all(None)
    writing("shared", lambda node, _: write(shared(node), node, part(node)))
    forget_all(shared)
    reading("shared_read", lambda node, _: read(shared(node), node, part(node)))
    os.unlink(shared(0))
    directories = {node: "%s/files.%d" % (mount, node) for node, mount in mounts.items()}
    for directory in directories.values():
        os.mkdir(directory)
    for figure, function in (("create", create), ("unlink", unlink)):
        forget_all(None)
        took, _ = seconds_of_all(lambda _, directory: function(directory, files), directories)
        results.add(figure, nodes * files / took)
    for directory in directories.values():
        os.rmdir(directory)


def seconds(path, column, round_number, figure, nanoseconds):
    Results(path, column, round_number).add(figure, int(nanoseconds) / 1e9)


def number(value):
    return "%.0f" % value if value >= 100 else "%.3g" % value


def spread(values, form):
    return "%s (%s-%s)" % (form % statistics.median(values), form % min(values), form % max(values)) if values else "-"


def table(path):
    values = collections.defaultdict(dict)  # (column, figure) -> round -> value
    with open(path) as file:
        for line in file:
            column, round_number, figure, value = line.rstrip("\n").split("\t")
            values[column, figure][round_number] = float(value)
    columns = list(dict.fromkeys(column for column, _ in values if column != "bare"))
    wide = max([34] + [len(column) + 2 for column in columns])
    print("%-42s %-12s" % ("", "bare disk") + "".join("%-*s" % (wide, column) for column in columns))
    for figure, (name, unit, bare_figure) in FIGURES.items():
        bare_values = values["bare", bare_figure]
        bare_cell = "%s %s" % (number(statistics.median(bare_values.values())), unit) if bare_values else ""
        line = "%-42s %-12s" % (name, bare_cell)
        for column in columns:
            found = values[column, figure]
            ratios = [value / bare_values[at] if bare_values else value for at, value in found.items()]
            cell = spread(ratios, "%.3f" if unit == "/s" else "%.2f")
            if found and bare_values:
                cell = "%s %s, %s" % (number(statistics.median(found.values())), unit, cell)
            line += "%-*s" % (wide, cell)
        print(line.rstrip())


def remove(device):
    with open("/dev/loop-control") as control:
        try:
            fcntl.ioctl(control, LOOP_CTL_REMOVE, int(device))
        except OSError as error:
            if error.errno != errno.EBUSY:  # another has it now
                raise


if __name__ == "__main__":
    commands = (disks, bare, measure, seconds, table, remove)
    {command.__name__: command for command in commands}[sys.argv[1]](*sys.argv[2:])

#!/usr/bin/env python3
"""What test/bench/share and share.sh need:
  share.py table RUNS RATE MEASURES BUILD...          drives a cluster of each build, and prints the table
  share.py measure NAME RUN EXPORT MOUNT...           inside a cluster: figures, as lines of LABEL <tab> UNIT <tab> VALUE
  share.py syncs <STATUS
"""
import collections
import fcntl
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "../programs")
sys.path.insert(0, PROGRAMS)
from pair import at_once, enter  # noqa: E402

BLOCK = b"k" * 4096
now = time.perf_counter


def say(label, unit, value):
    print("%s\t%s\t%.6g" % (label, unit, value), flush=True)


def say_ms(label, times):
    say(label, "ms", statistics.median(times) * 1e3)


def timed(action, *arguments):
    start = now()
    result = action(*arguments)
    return now() - start, result


def put(path, data=BLOCK):
    """Writes a new file; its close has returned, and took that many seconds."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(fd, data)
    return timed(os.close, fd)[0]


def get(path):
    """Seconds for the open, and for open, read and close together."""
    took, fd = timed(os.open, path, os.O_RDONLY)
    start = now()
    assert os.read(fd, 8192) == BLOCK, "other bytes in %s" % path
    os.close(fd)
    return took, took + now() - start


def take_turns(mounts, turns, prepare):
    """PREPARE(mount) makes a node's step(); nodes 1 and 2 take TURNS steps in all, one after the other. Seconds for a step."""
    pipes = [os.pipe() for _ in mounts[:2]]

    def work(node, mount):
        step = prepare(mount)
        for _ in range(turns // 2):
            os.read(pipes[node][0], 1)
            step()
            os.write(pipes[1 - node][1], b"x")

    os.write(pipes[0][1], b"x")
    return timed(at_once, work, dict(enumerate(mounts[:2])))[0] / turns


# --- measurements: of the directory of one run on each mount ---------------------------------------------------------------


def disk(_, export):
    times = []
    for i in range(20):
        fd = os.open("%s.disk%d" % (export, i), os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(fd, BLOCK)
        times.append(timed(os.fsync, fd)[0])
        os.close(fd)
    say_ms("the disk itself: fsync of a new 4 KiB file", times)


def opens(mounts, _):
    times = []
    for i in range(100):
        put("%s/open%d" % (mounts[0], i))
        times.append(get("%s/open%d" % (mounts[1], i)))
    say_ms("open on B of what A has just closed", [opened for opened, _ in times])
    say_ms("  ... open, read and close", [whole for _, whole in times])
    for i in range(100):
        put("%s/later%d" % (mounts[0], i))
    time.sleep(1.2)
    say_ms("open on B of what A closed a second ago", [get("%s/later%d" % (mounts[1], i))[0] for i in range(100)])


def files(mounts, _):
    made, read = os.path.join(mounts[0], "files"), os.path.join(mounts[1], "files")
    os.mkdir(made)
    took = timed(lambda: [put("%s/%d" % (made, i)) for i in range(1000)])[0]
    say("1,000 files of 4 KiB made on A", "s", took)
    again = timed(lambda: [get(entry.path) for entry in os.scandir(read)])
    assert len(again[1]) == 1000
    say("  ... and read on B at once", "s", again[0])


def make(mounts, _):
    units = 16
    for number in range(units):
        with open("%s/unit%d.c" % (mounts[0], number), "w") as file:
            file.write('#include "all.h"\n' + "".join("int f%d_%d(int x) { return x * %d + 1; }\n" % (number, i, i) for i in range(40)))
    with open(mounts[0] + "/all.h", "w") as file:
        file.write("#include <stddef.h>\n" + "".join("int f%d_1(int);\n" % number for number in range(units)))
    with open(mounts[0] + "/main.c", "w") as file:
        file.write('#include "all.h"\nint main(void) { return %s != %d; }\n' % (" + ".join("f%d_1(1)" % n for n in range(units)), 2 * units))
    with open(mounts[0] + "/Makefile", "w") as file:
        objects = " ".join("unit%d.o" % n for n in range(units)) + " main.o"
        file.write("prog: %s\n\tcd %s && cc -o $@ $^\n" % (objects, mounts[1]))
        for number, name in enumerate(objects.split()):
            source = name.replace(".o", ".c")
            file.write("%s: %s all.h\n\tcd %s && cc -c %s\n" % (name, source, mounts[number % 2], source))
    took, done = timed(lambda: subprocess.run(["make", "-s", "-j2", "-C", mounts[0]], capture_output=True))
    assert done.returncode == 0, done.stderr
    assert subprocess.run([mounts[0] + "/prog"]).returncode == 0
    say("make -j2, one half on each node", "s", took)


def appends(mounts, _):
    turns = 400

    def prepare(mount):
        fd = os.open(mount + "/appends", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        return lambda: os.write(fd, b"a" * 100)

    say("append, by turns on two nodes", "ms", take_turns(mounts, turns, prepare) * 1e3)
    assert os.stat(mounts[0] + "/appends").st_size == turns * 100


def tail(mounts, _):
    lines, wrote, seen = 40, [], []
    fd = os.open(mounts[0] + "/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, b"begin\n")
    follower = subprocess.Popen(["tail", "-n", "+1", "-s", "0.002", "-f", mounts[1] + "/log"], stdout=subprocess.PIPE)
    assert follower.stdout.readline() == b"begin\n"
    for number in range(lines):
        start = now()
        os.write(fd, b"%d\n" % number)
        wrote.append(now() - start)
        assert follower.stdout.readline() == b"%d\n" % number
        seen.append(now() - start)
        time.sleep(0.02)
    follower.kill()
    follower.wait()
    os.close(fd)
    say_ms("write to a log that is followed", wrote)
    say_ms("  ... until tail -f on B shows it", seen)


def database(mounts, mode):
    seconds = 1.5

    def connect(mount):
        connection = sqlite3.connect(os.path.join(enter(mount), mode), timeout=0, isolation_level=None)
        return connection

    def begin(_, mount):
        connection = connect(mount)
        connection.execute("PRAGMA journal_mode=" + mode)
        connection.execute("CREATE TABLE said (node, step, text)")
        connection.close()

    def work(node, mount):
        """Each asks again after a millisecond, and not after SQLite's own longer and longer ones."""
        connection, step, end = connect(mount), 0, now() + seconds
        while now() < end:
            try:
                if not connection.in_transaction:
                    connection.execute("BEGIN IMMEDIATE")
                    connection.execute("INSERT INTO said VALUES (?, ?, ?)", (node, step, "x" * 300))
                connection.execute("COMMIT")
                step += 1
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                time.sleep(0.001)
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.close()
        return step

    def count(_, mount):
        connection = connect(mount)
        while True:
            try:
                assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
                return connection.execute("SELECT count(*) FROM said").fetchone()[0]
            except sqlite3.OperationalError:
                time.sleep(0.001)

    at_once(begin, {0: mounts[0]})
    took, steps = timed(at_once, work, {0: mounts[0], 1: mounts[1]})
    found = at_once(count, {1: mounts[1]})[1]
    assert found == sum(steps.values()), "%d transactions are there, %r were made" % (found, steps)
    say("SQLite on two nodes, %s" % ("WAL" if mode == "wal" else "rollback journal"), "transactions/s", found / took)


def sqlite_rollback(mounts, _):
    database(mounts, "delete")


def sqlite_wal(mounts, _):
    database(mounts, "wal")


def pages(mounts, _):
    said = subprocess.run([sys.executable, PROGRAMS + "/mapped_pair.py", "rate", *mounts[:2]], env=dict(os.environ, MAPPED_TURNS="100"),
        capture_output=True, text=True, check=True).stdout
    say("mapped page, by turns on two nodes", "ms", 1e3 / float(said.split()[0]))


def locks(mounts, _):
    turns = 400
    put(mounts[0] + "/locked", bytes(8))

    def prepare(mount):
        fd = os.open(mount + "/locked", os.O_RDWR)

        def step():
            fcntl.lockf(fd, fcntl.LOCK_EX)
            os.pwrite(fd, (int.from_bytes(os.pread(fd, 8, 0), "big") + 1).to_bytes(8, "big"), 0)
            fcntl.lockf(fd, fcntl.LOCK_UN)

        return step

    say("lock, read, write and unlock, by turns", "ms", take_turns(mounts, turns, prepare) * 1e3)
    with open(mounts[1] + "/locked", "rb") as file:
        assert int.from_bytes(file.read(), "big") == turns


def alone(mounts, _):
    say_ms("close of 4 KiB, nobody else", [put("%s/close%d" % (mounts[0], i)) for i in range(100)])
    fd, times = os.open(mounts[0] + "/fsync", os.O_WRONLY | os.O_CREAT, 0o644), []
    for i in range(30):
        os.pwrite(fd, BLOCK, i * 4096)
        times.append(timed(os.fsync, fd)[0])
    os.close(fd)
    say_ms("fsync of 4 KiB, nobody else", times)


def recalls(mounts, _):
    put(mounts[0] + "/recall")
    one, two = (os.open(mount + "/recall", os.O_RDWR) for mount in mounts[:2])
    reads, writes = [], []
    for i in range(100):
        data = b"%04d" % i * 1024
        writes.append(timed(os.pwrite, one, data, 0)[0])
        took, got = timed(os.pread, two, 4096, 0)
        assert got == data
        reads.append(took)
    os.close(one)
    os.close(two)
    say_ms("read on B of what A has just written (recall)", reads)
    say_ms("  ... and the write on A (recall of READ)", writes[1:])


def untar(mounts, _):
    def extract():
        for number in range(1000):
            if number % 100 == 0:
                os.mkdir("%s/dir%d" % (mounts[0], number // 100))
            path = "%s/dir%d/%d" % (mounts[0], number // 100, number)
            put(path, b"t" * (100 + number * 3))
            os.utime(path, (1e9, 1e9))
            os.chmod(path, 0o640)

    say("1,000 small files with times and modes", "s", timed(extract)[0])


def strided(mounts, _):
    program, record, count = PROGRAMS + "/strided.py", "131001", "32"

    def write():
        writers = [subprocess.Popen([sys.executable, program, "write", mount + "/strided", str(rank), str(len(mounts)), record, count],
            stdout=subprocess.DEVNULL) for rank, mount in enumerate(mounts)]
        assert not any([writer.wait() for writer in writers])

    say("16 MiB of strided records from 4 nodes", "s", timed(write)[0])
    subprocess.run([sys.executable, program, "check", mounts[0] + "/strided", "0", str(len(mounts)), record, count], check=True)


MEASURES = {function.__name__: function for function in (
    disk, opens, files, make, appends, tail, sqlite_rollback, sqlite_wal, pages, locks, alone, recalls, untar, strided)}


def measure(name, run, export, *mounts):
    os.makedirs("%s/%s.%s" % (mounts[0], name, run))
    MEASURES[name](["%s/%s.%s" % (mount, name, run) for mount in mounts], export)


# --- the table ---------------------------------------------------------------------------------------------------------------


class Cluster:
    """Four nodes and a server of one build, and the bash that measures there (share.sh)."""

    def __init__(self, build, rate):
        self.process = subprocess.Popen([os.path.join(HERE, "../cluster"), "-b", build, "-r", rate, "4", "source", os.path.join(HERE, "share.sh")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.figures = collections.defaultdict(dict)  # label -> run -> value
        self.totals = collections.defaultdict(dict)  # measure -> run -> (syncs per second, CPU ms)

    def wait_ready(self):
        for line in self.process.stdout:
            if line == "ready\n":
                return
        sys.exit("share: no cluster")

    def measure(self, name, run, labels):
        self.process.stdin.write("%s %d\n" % (name, run))
        self.process.stdin.flush()
        for line in self.process.stdout:
            word, *rest = line.split()
            if word == "done":
                self.totals[name][run] = float(rest[0]) / float(rest[1]), float(rest[2]) / 1e6
                return
            if word == "failed":
                print("share: %s failed in run %d" % (name, run), file=sys.stderr)
                return
            label, unit, value = line.rstrip("\n").split("\t")
            labels.setdefault(label, (name, unit))
            self.figures[label][run] = float(value)
        sys.exit("share: the cluster ended in the middle of %s" % name)

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


def copied(build, directory):
    """The programs alone: somebody may go on building."""
    for program in ("server/kairand", "fuse/kairanfs", "tools/kairan"):
        os.makedirs(os.path.dirname(os.path.join(directory, program)))
        shutil.copy(os.path.join(build, program), os.path.join(directory, program))
    return directory


def number(value):
    return "%.0f" % value if value >= 100 else "%.3g" % value


def spread(values, digits=number):
    return "%s (%s-%s)" % (digits(statistics.median(values)), digits(min(values)), digits(max(values))) if values else "-"


def print_table(clusters, labels, names):
    wide = max([22] + [len(name) for name in names])
    print("%-46s %-14s" % ("", "") + "".join(" %*s" % (wide, name) for name in names) +
        (" %18s" % "ratio" if names[1:] else "") + "   syncs/s   CPU ms of all daemons")
    last = None
    for label, (name, unit) in labels.items():
        line = "%-46s %-14s" % (label, unit) + "".join(" %*s" % (wide, spread(list(c.figures[label].values()))) for c in clusters)
        if clusters[1:]:
            first, other = clusters[0].figures[label], clusters[-1].figures[label]
            ratios = [other[run] / first[run] for run in first if run in other and first[run] and other[run]]
            ratios = [1 / ratio for ratio in ratios] if unit.endswith("/s") else ratios
            line += " %18s" % spread(ratios, lambda ratio: "%.2f" % ratio)
        if name != last and all(c.totals[name] for c in clusters) and name not in ("disk", "memory"):
            line += "   %-9s %s" % (" / ".join(number(statistics.median(s for s, _ in c.totals[name].values())) for c in clusters),
                " / ".join(number(min(cpu for _, cpu in c.totals[name].values())) for c in clusters))
        last = name
        print(line)


def table(runs, rate, only, *builds):
    try:
        os.nice(-5)
    except OSError:
        pass
    builds = [os.path.realpath(build) for build in builds]
    names = [os.path.basename(build) for build in builds]
    if len(set(names)) < len(names):
        names = ["/".join(build.split("/")[-2:]) for build in builds]
    copies = tempfile.TemporaryDirectory(prefix="kairan-share.")
    clusters = [Cluster(copied(build, "%s/%d" % (copies.name, number)), rate) for number, build in enumerate(builds)]
    for cluster in clusters:
        cluster.wait_ready()
    labels, measures = {}, only.split(",") if only else [*MEASURES, "memory"]
    for run in range(int(runs)):
        for name in measures:
            for cluster in clusters if run % 2 == 0 else reversed(clusters):
                cluster.measure(name, run, labels)
    ends = [cluster.end() for cluster in clusters]
    print_table(clusters, labels, names)
    sys.exit(any(ends))


def syncs():
    """From kairand's status, wherever in it they stand."""
    def find(value):
        if isinstance(value, dict):
            if isinstance(value.get("syncs"), dict):
                return value["syncs"]["number"]
            return next((found for found in map(find, value.values()) if found is not None), None)
        return None

    print(find(json.load(sys.stdin)) or 0)


if __name__ == "__main__":
    {"table": table, "measure": measure, "syncs": syncs}[sys.argv[1]](*sys.argv[2:])

"""A program with open files while the cluster is upgraded: load.py MOUNT NODE SCRATCH.

It runs until SCRATCH/stop-NODE is there, and fails if an operation fails, a byte is not as it was written, or another node gets
its lock. What it has written it keeps in SCRATCH, where the next run on this node finds it and looks whether all is there.
"""
import fcntl
import json
import os
import random
import sys
import threading
import time

MOUNT, NODE, SCRATCH = sys.argv[1:]
RECORD = 64
SIZE = 1 << 20
MODEL = f"{SCRATCH}/model-{NODE}.json"
failed = []
longest = {}
count = {}


def record(number):
    return f"{NODE} {number}".encode().ljust(RECORD - 1) + b"\n"


def stopped():
    return failed or os.path.exists(f"{SCRATCH}/stop-{NODE}")


def timed(what, operation, *arguments):
    start = time.monotonic()
    result = operation(*arguments)
    longest[what] = max(longest.get(what, 0), time.monotonic() - start)
    count[what] = count.get(what, 0) + 1
    return result


def opened(name, flags=os.O_RDWR | os.O_CREAT):
    return os.open(f"{MOUNT}/{name}", flags, 0o644)


def sync_records(model):
    """A file that is open all the time, with an fsync for each record."""
    fd = opened(f"records-{NODE}")
    number = model["records"]
    for old in range(number):
        assert os.pread(fd, RECORD, old * RECORD) == record(old), old
    while not stopped():
        timed("write", os.pwrite, fd, record(number), number * RECORD)
        timed("fsync", os.fsync, fd)
        number += 1
        old = random.randrange(number)
        assert timed("read", os.pread, fd, RECORD, old * RECORD) == record(old), old
        time.sleep(0.01)
    assert os.fstat(fd).st_size == number * RECORD
    os.close(fd)
    model["records"] = number


def rewrite(model):
    """Random places of a file, without fsync."""
    fd = opened(f"random-{NODE}")
    path = f"{SCRATCH}/random-{NODE}"
    image = bytearray(open(path, "rb").read()) if os.path.exists(path) else bytearray(SIZE)
    if not model["records"]:
        os.ftruncate(fd, SIZE)
    assert os.pread(fd, SIZE, 0) == image, "what a former run has written"
    while not stopped():
        place = random.randrange(SIZE - 5000)
        data = random.randbytes(random.randrange(1, 5000))
        timed("write", os.pwrite, fd, data, place)
        image[place : place + len(data)] = data
        if random.randrange(20) == 0:
            assert timed("read", os.pread, fd, SIZE, 0) == image
        time.sleep(0.005)
    os.close(fd)
    with open(path, "wb") as file:
        file.write(image)


def append(model):
    """All nodes append to one file."""
    fd = opened("shared", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    while not stopped():
        timed("append", os.write, fd, record(model["appends"]))
        model["appends"] += 1
        time.sleep(0.03)
    os.close(fd)


def hold(model):
    """A lock that is held all the time, and tries to get that of the other node."""
    others = {"node1": "node2", "node2": "node1"}[NODE]
    place = {"node1": 0, "node2": 1}
    fd = opened("locked")
    held, theirs = (f"{SCRATCH}/held-{node}" for node in (NODE, others))

    def term(path):
        try:
            return open(path).read()
        except FileNotFoundError:
            return None

    timed("lock", fcntl.lockf, fd, fcntl.LOCK_EX, 1, place[NODE])
    with open(held + ".new", "w") as file:
        file.write(str(time.time()))
    os.rename(held + ".new", held)
    while not stopped():
        before = term(theirs)
        try:
            timed("try lock", fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place[others])
            assert before is None or before != term(theirs), f"the lock that {others} holds"
            fcntl.lockf(fd, fcntl.LOCK_UN, 1, place[others])
        except BlockingIOError:
            pass
        time.sleep(0.05)
    os.unlink(held)
    os.close(fd)


def names(model):
    """Files that come, are renamed, and go."""
    kept = model["names"]
    for name in kept:
        assert open(f"{MOUNT}/{name}").read() == name
    number = model["made"]
    while not stopped():
        name = f"name-{NODE}-{number}"
        fd = timed("create", opened, name + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(fd, name.encode())
        timed("close", os.close, fd)
        timed("rename", os.rename, f"{MOUNT}/{name}.new", f"{MOUNT}/{name}")
        kept.append(name)
        number += 1
        if len(kept) > 20:
            timed("unlink", os.unlink, f"{MOUNT}/{kept.pop(0)}")
        assert timed("stat", os.stat, f"{MOUNT}/{random.choice(kept)}").st_size > 0
        time.sleep(0.02)
    model["made"] = number
    there = sorted(n for n in os.listdir(MOUNT) if n.startswith(f"name-{NODE}-"))
    assert there == sorted(kept), (there, kept)


def run(work, model):
    try:
        work(model)
    except BaseException as error:
        failed.append(f"{NODE}, {work.__name__}: {error!r}")


model = {"records": 0, "appends": 0, "names": [], "made": 0}
if os.path.exists(MODEL):
    with open(MODEL) as file:
        model = json.load(file)
threads = [threading.Thread(target=run, args=(work, model)) for work in (sync_records, rewrite, append, hold, names)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for line in failed:
    print(line, file=sys.stderr)
if failed:
    sys.exit(1)
with open(MODEL, "w") as file:
    json.dump(model, file)
print(f"{NODE}: {sum(count.values())} operations, the longest took {max(longest.values()):.1f} s")

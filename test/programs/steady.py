#!/usr/bin/env python3
"""A program that must not notice anything: creates, writes, reads back, renames and removes, and keeps a log open.

steady.py PATH ROUNDS [STOP]    PATH is a prefix for its files; with STOP it goes on after ROUNDS until that file is there
"""
import itertools
import os
import sys

prefix, least, stop = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
log = os.open(prefix + ".log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
kept = os.open(prefix + ".unlinked", os.O_RDWR | os.O_CREAT, 0o644)
os.write(kept, b"still here")
os.unlink(prefix + ".unlinked")
for rounds in itertools.count():
    if rounds >= least and all(map(os.path.exists, stop)):
        break
    name = "%s.%d" % (prefix, rounds % 7)
    data = os.urandom(1 + rounds * 37 % 50000)
    with open(name, "wb") as file:
        file.write(data)
    with open(name, "rb") as file:
        assert file.read() == data, "round %d: other bytes" % rounds
    assert os.stat(name).st_size == len(data), "round %d: other size" % rounds
    os.rename(name, name + "x")
    assert not os.path.exists(name), "round %d: the old name is there" % rounds
    os.mkdir(name + "d")
    os.rmdir(name + "d")
    os.unlink(name + "x")
    os.write(log, b"%06d\n" % rounds)
    if rounds % 50 == 0:
        os.fsync(log)
assert os.pread(log, 7 * rounds + 1, 0) == b"".join(b"%06d\n" % i for i in range(rounds)), "the log differs"
assert os.pread(kept, 100, 0) == b"still here", "the unlinked file differs"
print("ok")

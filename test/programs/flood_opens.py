#!/usr/bin/python3
"""Opens files without end and closes none: flood_opens.py HOST PORT PID FILE KEY UID

One file again and again, very many files (FLOOD_FILES, 3000), files that are removed while they are open, and stagings (`kairan stage`) of a
file that nobody can have; with KEY, of a node or of the user UID.  Meanwhile FILE, which lies on an honest mount, is used, and the same must
hold as in flood_requests.py, but for 2 kB for each of these files, and for 30 s instead of 10; nor may the server PID keep more descriptors
open than 512."""
import os
import struct
import sys
import time

import flooding
from flooding import LEASE, OPEN, PING, REMOVE, STAGE, Session, cred, made, text

SAME, REMOVED, STAGINGS, STAGINGS_S, KEPT, FILES_MAX, NFILE, LONGEST_S = 10000, 1000, 16000, 2, 600, 1 << 18, 17, 30
FILES = int(os.environ.get("FLOOD_FILES", 3000))
host, port, server, honest = sys.argv[1], int(sys.argv[2]), flooding.Server(sys.argv[3]), flooding.Honest(sys.argv[4])
key, uid = sys.argv[5], int(sys.argv[6])
own = server.descriptors()
prefix = b"of-%d-" % uid


def session(number):
    return Session((host, port), number, key=key, uid=uid)


def opening(one, fid):
    return OPEN, cred(one.uid) + fid + struct.pack(">IB", 2, 0)


def taken(answers):
    """All are, until there are too many: which those are is known when others are under way, so give or take a few."""
    statuses = [status for status, _ in answers]
    assert set(statuses) <= {0, NFILE} and min(len(statuses), FILES_MAX - 8) <= statuses.count(0) <= FILES_MAX + 512, \
        "refused: %d with status %d" % (len(statuses) - statuses.count(0), max(statuses))
    assert server.descriptors() <= own + KEPT, "%d descriptors" % server.descriptors()
    return [fields for _, fields in answers]


def same():
    one = session(1)
    fid = one.create(prefix + b"same")
    taken(one.many([opening(one, fid)] * SAME))


def files():
    one = session(2)
    taken(one.many([one.making(prefix + b"file%d" % i) for i in range(FILES)]))


def removed():
    one = session(3)
    names = [prefix + b"removed%d" % i for i in range(REMOVED)]
    fids = [made(fields) for fields in taken(one.many([one.making(name) for name in names]))]
    taken(one.many([(REMOVE, cred(one.uid) + one.root + text(name) + b"\0") for name in names]))
    taken(one.many([opening(one, fid) for fid in fids]))


def stagings():
    """Nobody can have it: somebody has WRITE, and does not give it back."""
    one, holder = session(4), session(5)
    fid = holder.create(prefix + b"staged")
    assert one.create(prefix + b"staged") == fid
    holder.ask(LEASE, fid + bytes([2]))
    one.send(*[(STAGE, fid + struct.pack(">I", 1 << 31))] * STAGINGS)
    one.ask(PING, b"") # by now they are all there
    time.sleep(STAGINGS_S)


flooding.run(server, honest, [same, files, removed, stagings], LONGEST_S)

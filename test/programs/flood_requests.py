#!/usr/bin/python3
"""Floods a server without keys with what sessions may ask for, as they were made to hurt: flood_requests.py HOST PORT PID FILE [PHASE...]

Very many locks and waits for locks, circles of locks to be looked for, leases that nobody gives back, names that are not there.  Meanwhile FILE,
which lies on an honest mount, is written, read and looked up.  Status 1 if the server PID grows by more than 192 MiB, or the honest program
has to wait for one of its calls longer than 10 s, or (in the median) longer than 0.25 s and 100 times as long as before."""
import struct
import sys

import flooding
from flooding import LEASE, LOCK, LOOKUP, PING, Session, cred, text

LOCKS, WAITS, LEASES, NAMES, LEVELS, EACH = 16000, 4000, 8000, 30000, 17, 6
host, port, pid, file, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:]
UNLOCK, SHARED, EXCLUSIVE, END = 0, 1, 2, (1 << 63) - 1


def session(number, **more):
    return Session((host, port), number, **more)


def lock(fid, owner, kind, first, last, wait=0):
    return LOCK, fid + struct.pack(">QIBBBQQ", owner, 1, kind, 0, wait, first, last)


def locks():
    """Waiters for the ends of two locks that come and go, behind very many other locks."""
    holder, waiter, guard = session(1), session(2), session(3)
    fid = holder.create(b"locks")
    assert waiter.create(b"locks") == guard.create(b"locks") == fid
    holder.many([lock(fid, i, SHARED, i, i) for i in range(LOCKS)])
    guard.many([lock(fid, 1, EXCLUSIVE, 1 << 20, 1 << 20)])
    waiter.many([lock(fid, i, SHARED, i, 1 << 21, 1) for i in range(WAITS)], answered=False)
    for i in range(60):
        guard.many([lock(fid, i % 2, EXCLUSIVE, (1 << 20) + i % 2, (1 << 20) + i % 2), lock(fid, 1 - i % 2, UNLOCK, 0, END)] * 4)


def circles():
    """Everybody waits for everybody of the next file: there are EACH^LEVELS ways to follow."""
    one = session(4)
    fids = [one.create(b"circle%d" % level) for level in range(LEVELS + 1)]
    one.many([lock(fid, level * EACH + i, SHARED, 0, 0) for level, fid in enumerate(fids) for i in range(EACH)])
    for level in range(LEVELS)[::-1]:
        one.many([lock(fids[level + 1], level * EACH + i, EXCLUSIVE, 0, 0, 1) for i in range(EACH)], answered=False)
    assert one.wait(one.send(lock(fids[0], LEVELS * EACH, EXCLUSIVE, 0, 0, 1)))[0][0], "a circle is not seen"


def leases():
    """One does not give back what very many ask for."""
    holder, others = session(5), [session(6), session(7)]
    fid = holder.create(b"leases")
    for other in others:
        assert other.create(b"leases") == fid
    holder.ask(LEASE, fid + bytes([2]))
    for other in others:
        other.many([(LEASE, fid + bytes([1 + i % 2])) for i in range(LEASES)], answered=False)
        other.ask(PING, b"") # by now they are all there


def names():
    one = session(8, keeps_notes=True)
    one.many([(LOOKUP, cred() + one.root + text(b"not-there-%d" % i)) for i in range(NAMES)])


flooding.run(flooding.Server(pid), flooding.Honest(file), [flood for flood in (locks, circles, leases, names)
    if not wanted or flood.__name__ in wanted])

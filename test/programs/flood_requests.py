#!/usr/bin/python3
"""Floods a server without keys with what sessions may ask for, as they were made to hurt: flood_requests.py HOST PORT PID FILE [PHASE...]

Very many locks and waits for locks, circles of locks to be looked for, leases that nobody gives back, names that are not there.  Meanwhile FILE,
which lies on an honest mount, is written, read and looked up.  Status 1 if the server PID grows by more than 192 MiB, or the honest program
has to wait for one of its calls longer than 10 s, or (in the median) longer than 0.25 s and 100 times as long as before."""
import os
import signal
import socket
import statistics
import struct
import sys
import threading
import time
import traceback

LONGEST_S, USUAL_S, FACTOR, GROWTH = 10, 0.25, 100, 192 << 10
LOCKS, WAITS, LEASES, NAMES, LEVELS, EACH = 16000, 4000, 8000, 30000, 17, 6
host, port, pid, file, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:]
HELLO, PING, RECLAIM_DONE, LOOKUP, CREATE, LEASE, LOCK = 1, 2, 5, 16, 41, 60, 90
UNLOCK, SHARED, EXCLUSIVE, END = 0, 1, 2, (1 << 63) - 1
CRED = struct.pack(">III", 0, 0, 0)


def memory():
    return next(int(line.split()[1]) for line in open("/proc/%d/status" % pid) if line.startswith("VmRSS"))


def text(value):
    return struct.pack(">H", len(value)) + value + b"\0"


class Session:
    """Sends without waiting; a thread counts the answers, and questions are left unanswered."""

    def __init__(self, number, notes=0):
        self.socket = socket.create_connection((host, port), 60)
        self.socket.settimeout(None)
        self.answers, self.changed, self.sent, self.sending = {}, threading.Condition(), 0, threading.Lock()
        threading.Thread(target=self.listen, daemon=True).start()
        fields = self.ask(HELLO, struct.pack(">IIQQ", 2, 9, 0, notes) + text(b"flood%d" % number) + struct.pack(">QQ", 9, number) +
            struct.pack(">QQ", 1, 0) + text(b"") + struct.pack(">H", 0) + text(b"") + struct.pack(">I", 0) + text(b""))[1]
        self.root = fields[81:82 + fields[81]]
        self.ask(RECLAIM_DONE, b"")
        threading.Thread(target=self.live, daemon=True).start()

    def live(self):
        while True:
            time.sleep(3)
            self.send((PING, b""))

    def listen(self):
        stream = self.socket.makefile("rb")
        while header := stream.read(28):
            _, _, flags, id, status, length, data = struct.unpack(">IHHQIII", header)
            fields = stream.read(length + data)
            if flags & 1:
                with self.changed:
                    self.answers[id] = (status, fields)
                    self.changed.notify()

    def send(self, *requests):
        """Their ids."""
        with self.sending:
            first = self.sent + 1
            self.sent += len(requests)
            self.socket.sendall(b"".join(struct.pack(">IHHQIII", 0x4B52414E, type, 0, first + i, 0, len(fields), 0) + fields
                for i, (type, fields) in enumerate(requests)))
        return range(first, first + len(requests))

    def wait(self, ids):
        with self.changed:
            for id in ids:
                while id not in self.answers:
                    assert self.changed.wait(100), "no answer"
            return [self.answers.pop(id) for id in ids]

    def ask(self, type, fields):
        status, fields = self.wait(self.send((type, fields)))[0]
        assert status == 0, (type, status)
        return status, fields

    def create(self, name):
        fields = self.ask(CREATE, CRED + self.root + text(name) + struct.pack(">IIIBB", 0o100666, 0, os.O_RDWR, 0, 0))[1]
        return fields[2:3 + fields[2]]

    def many(self, requests, answered=True):
        """In parts that a session may have unanswered."""
        for at in range(0, len(requests), 4000):
            ids = self.send(*requests[at:at + 4000])
            if answered:
                self.wait(ids)


def lock(fid, owner, kind, first, last, wait=0):
    return LOCK, fid + struct.pack(">QIBBBQQ", owner, 1, kind, 0, wait, first, last)


# --- floods: each in a process of its own -----------------------------------------------------------------------------------------------


def locks():
    """Waiters for the ends of two locks that come and go, behind very many other locks."""
    holder, waiter, guard = Session(1), Session(2), Session(3)
    fid = holder.create(b"locks")
    assert waiter.create(b"locks") == guard.create(b"locks") == fid
    holder.many([lock(fid, i, SHARED, i, i) for i in range(LOCKS)])
    guard.many([lock(fid, 1, EXCLUSIVE, 1 << 20, 1 << 20)])
    waiter.many([lock(fid, i, SHARED, i, 1 << 21, 1) for i in range(WAITS)], answered=False)
    for i in range(60):
        guard.many([lock(fid, i % 2, EXCLUSIVE, (1 << 20) + i % 2, (1 << 20) + i % 2), lock(fid, 1 - i % 2, UNLOCK, 0, END)] * 4)


def circles():
    """Everybody waits for everybody of the next file: there are EACH^LEVELS ways to follow."""
    session = Session(4)
    fids = [session.create(b"circle%d" % level) for level in range(LEVELS + 1)]
    session.many([lock(fid, level * EACH + i, SHARED, 0, 0) for level, fid in enumerate(fids) for i in range(EACH)])
    for level in range(LEVELS)[::-1]:
        session.many([lock(fids[level + 1], level * EACH + i, EXCLUSIVE, 0, 0, 1) for i in range(EACH)], answered=False)
    assert session.wait(session.send(lock(fids[0], LEVELS * EACH, EXCLUSIVE, 0, 0, 1)))[0][0], "a circle is not seen"


def leases():
    """One does not give back what very many ask for."""
    holder, others = Session(5), [Session(6), Session(7)]
    fid = holder.create(b"leases")
    for other in others:
        assert other.create(b"leases") == fid
    holder.ask(LEASE, fid + bytes([2]))
    for other in others:
        other.many([(LEASE, fid + bytes([1 + i % 2])) for i in range(LEASES)], answered=False)
        other.ask(PING, b"") # by now they are all there


def names():
    session = Session(8, notes=1)
    requests = [(LOOKUP, CRED + session.root + text(b"not-there-%d" % i)) for i in range(NAMES)]
    session.many(requests)


# --- the honest one ----------------------------------------------------------------------------------------------------------------------


def use():
    """How long each call takes."""
    took, at = [], time.monotonic()

    def done():
        nonlocal at
        now = time.monotonic()
        took.append(now - at)
        at = now

    with open(file, "w") as out:
        done()
        out.write("word")
    done()
    assert open(file).read() == "word"
    done()
    os.stat(file)
    assert not os.path.exists(file + ".not")
    done()
    return took


def watch(flood):
    """Uses the mount for as long as FLOOD runs."""
    took = []
    child = os.fork()
    if child == 0:
        status = 1
        try:
            flood()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    status = None
    while status is None:
        took += use()
        done, code = os.waitpid(child, os.WNOHANG)
        status = code if done else None
    assert status == 0, "%s: status %d" % (flood.__name__, status)
    return took


signal.alarm(400)  # whatever hangs
use()
before, quiet = memory(), statistics.median(watch(lambda: time.sleep(2)))
print("quiet: %d kB, %.4f s for a call of the honest program" % (before, quiet), flush=True)
for flood in locks, circles, leases, names:
    if wanted and flood.__name__ not in wanted:
        continue
    began = time.monotonic()
    took = watch(flood)
    usual, longest = statistics.median(took), max(took)
    print("%s, %.0f s: %d kB, %.4f s for a call of the honest program, %.2f s at most of %d" % (flood.__name__, time.monotonic() - began,
        memory(), usual, longest, len(took)), flush=True)
    assert longest < LONGEST_S and usual < max(USUAL_S, FACTOR * quiet), "the honest program waits"
    assert memory() - before < GROWTH, "the server grows by %d kB" % (memory() - before)

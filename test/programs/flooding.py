"""For the programs that flood a server: sessions that speak its protocol, and the honest program that uses a mount meanwhile.  Imported."""
import hashlib
import os
import signal
import socket
import statistics
import struct
import sys
import threading
import time
import traceback

USUAL_S, FACTOR, GROWTH = 0.25, 100, (192 << 10) + int(os.environ.get("FLOOD_FILES", 0)) * 2
ATTEMPTS = 3  # of each flood
AT_ONCE = 4000  # requests; a session may have four times as many unanswered
HELLO, PING, RECLAIM_DONE, AUTH, AUTH_PROVE, LOOKUP, REMOVE, OPEN, CREATE, LEASE, RECALL, INVALIDATE, STAGE, BRING, LOCK = (
    1, 2, 5, 8, 9, 16, 22, 40, 41, 60, 62, 64, 74, 75, 90)
HEADER = ">IHHQIII"


def text(value):
    return struct.pack(">H", len(value)) + value + b"\0"


def cred(uid=0):
    return struct.pack(">III", uid, uid, 0)


class Session:
    """Sends without waiting; a thread counts the answers, and leaves questions unanswered, but for BRING, which it cannot,
    INVALIDATE, unless it KEEPS_NOTES, and RECALL that asks for no lease."""

    def __init__(self, address, number, keeps_notes=False, key=None, uid=0):
        self.socket = socket.create_connection(address, 60)
        self.socket.settimeout(None)
        self.keeps_notes = keeps_notes
        self.answers, self.changed, self.sent, self.sending, self.uid = {}, threading.Condition(), 0, threading.Lock(), uid
        threading.Thread(target=self.listen, daemon=True).start()
        if key:
            self.prove(dict(line.split(None, 1) for line in open(key).read().splitlines() if line and line[0] != "#"))
        fields = self.ask(HELLO, struct.pack(">IIQQ", 2, 9, 0, 0) + text(b"flood%d" % number) + struct.pack(">QQ", 9 + uid, number) +
            struct.pack(">QQ", 1, 0) + text(b"") + struct.pack(">H", 0) + text(b"") + struct.pack(">I", 0) + text(b""))
        self.root = fields[81:82 + fields[81]]
        self.ask(RECLAIM_DONE, b"")
        threading.Thread(target=self.live, daemon=True).start()

    def prove(self, key):
        """That we have this key, to a server that seals nothing (common/auth/auth.h, common/auth/handshake.h)."""
        id, secret, nonce, public = bytes.fromhex(key["id"]), bytes.fromhex(key["secret"]), os.urandom(32), b"\x09" + bytes(31)
        offer = nonce + public + bytes([0, 3])
        answer = self.ask(AUTH, struct.pack(">II", 2, 9) + id + offer)
        proto, theirs, now = answer[:4], answer[4:70], answer[70:82]
        context = hashlib.blake2b(struct.pack(">II", 2, 9) + proto + id + now, digest_size=32).digest()
        self.ask(AUTH_PROVE, hashlib.blake2b(b"kairan-2 key client".ljust(32, b"\0") + context + offer + theirs, digest_size=32,
            key=secret).digest())

    def live(self):
        while True:
            time.sleep(3)
            self.send((PING, b""))

    def listen(self):
        stream = self.socket.makefile("rb")
        while header := stream.read(28):
            _, type, flags, id, status, length, data = struct.unpack(HEADER, header)
            fields = stream.read(length + data)
            if type == BRING:
                with self.sending:
                    self.socket.sendall(struct.pack(HEADER, 0x4B52414E, BRING, 1, id, 4, 0, 0))
            elif (type == INVALIDATE and not self.keeps_notes) or (type == RECALL and fields[-1] & 3 == 0):
                with self.sending:
                    self.socket.sendall(struct.pack(HEADER, 0x4B52414E, type, 1, id, 0, 0, 0))
            if flags & 1:
                with self.changed:
                    self.answers[id] = (status, fields)
                    self.changed.notify()

    def send(self, *requests):
        """Their ids."""
        with self.sending:
            first = self.sent + 1
            self.sent += len(requests)
            self.socket.sendall(b"".join(struct.pack(HEADER, 0x4B52414E, type, 0, first + i, 0, len(fields), 0) + fields
                for i, (type, fields) in enumerate(requests)))
        return range(first, first + len(requests))

    def wait(self, ids):
        until = time.monotonic() + 100
        with self.changed:
            for id in ids:
                while id not in self.answers:
                    assert self.changed.wait(until - time.monotonic()), "no answer"
            return [self.answers.pop(id) for id in ids]

    def ask(self, type, fields):
        status, fields = self.wait(self.send((type, fields)))[0]
        assert status == 0, (type, status)
        return fields

    def making(self, name):
        """The request for a new file, or for one that is there."""
        return CREATE, cred(self.uid) + self.root + text(name) + struct.pack(">IIIBB", 0o100666, 0, os.O_RDWR, 0, 0)

    def create(self, name):
        return made(self.ask(*self.making(name)))

    def many(self, requests, answered=True):
        """In parts that a session may have unanswered. Their answers."""
        answers = []
        for at in range(0, len(requests), AT_ONCE):
            ids = self.send(*requests[at:at + AT_ONCE])
            if answered:
                answers += self.wait(ids)
        return answers


def made(fields):
    """The identity of what was created."""
    return fields[2:3 + fields[2]]


class Server:
    def __init__(self, pid):
        self.pid = int(pid)

    def memory(self):
        return next(int(line.split()[1]) for line in open("/proc/%d/status" % self.pid) if line.startswith("VmRSS"))

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))


class Honest:
    """A program on a mount, that uses one file there."""

    def __init__(self, file):
        self.file = file
        self.use()
        self.quiet = statistics.median(self.watch(lambda: time.sleep(2)))

    def use(self):
        """How long each call takes."""
        took, at = [], time.monotonic()

        def done():
            nonlocal at
            now = time.monotonic()
            took.append(now - at)
            at = now

        with open(self.file, "w") as out:
            done()
            out.write("word")
        done()
        assert open(self.file).read() == "word"
        done()
        os.stat(self.file)
        assert not os.path.exists(self.file + ".not")
        done()
        return took

    def watch(self, flood):
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
            took += self.use()
            done, code = os.waitpid(child, os.WNOHANG)
            status = code if done else None
        assert status == 0, "%s: status %d" % (flood.__name__, status)
        return took


def is_served(server, honest, flood, longest_s):
    """Whether the usual call of the honest program is as fast during FLOOD as it should be."""
    began = time.monotonic()
    took = honest.watch(flood)
    usual, longest = statistics.median(took), max(took)
    print("%s, %.0f s: %d kB, %d descriptors, %.4f s for a call of the honest program, %.2f s at most of %d" % (flood.__name__,
        time.monotonic() - began, server.memory(), server.descriptors(), usual, longest, len(took)), flush=True)
    assert longest < longest_s, "the honest program waits for a call"
    return usual < max(USUAL_S, FACTOR * honest.quiet)


def run(server, honest, floods, longest_s=10):
    """Each in a process of its own, while the honest program goes on; the assertions say what must not come of it."""
    signal.alarm(400)  # whatever hangs
    before, own = server.memory(), server.descriptors()
    print("quiet: %d kB, %d descriptors, %.4f s for a call of the honest program" % (before, own, honest.quiet), flush=True)
    for flood in floods:
        # The usual call is one of few where a flood is short, and slow by chance where the machine is busy.  A server that
        # prefers the flood makes it slow in each attempt.
        assert any(is_served(server, honest, flood, longest_s) for _ in range(ATTEMPTS)), "the honest program waits"
        assert server.memory() - before < GROWTH, "the server grows by %d kB" % (server.memory() - before)

#!/usr/bin/python3
"""A man in the middle who damages what passes: mutate.py PORT HOST SERVER_PORT SEED RATE HONEST_FILE

Listens on PORT, passes everything on to HOST:SERVER_PORT and back, and damages one in RATE of the frames that come from the server: a
byte of its fields or of its header, its status, its length; it sends it twice, or not at all.  Where frames are sealed, or garbled
already, it changes any byte of what comes, either way.  As long as HONEST_FILE exists it is honest; when that appears all
connections are cut once, so that what was lost is asked again.

It prints SEED, and what it damages.  What becomes of a frame depends on SEED, on the number of its connection, its direction and its
number there, not on what other connections do meanwhile: so the same seed does the same to who says the same again."""
import os
import random
import selectors
import socket
import struct
import sys

HEADER = struct.Struct(">IHHQIII")
MAGIC = 0x4B52414E
FRAME_MAX = 1 << 25


def damage(rng, frame):
    frame = bytearray(frame)
    choice, what = rng.randrange(9), "as it is"
    if choice <= 3 and len(frame) > HEADER.size:
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(HEADER.size, len(frame))
            frame[at] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
            what = "byte %d is %d" % (at, frame[at])
    elif choice == 4:
        status = rng.choice([0, 1, 2, 5, 9, 30, 1000, 0xFFFFFFFF])
        frame[16:20] = struct.pack(">I", status)
        what = "status %d" % status
    elif choice == 5:
        at = rng.randrange(HEADER.size)
        frame[at] ^= 1 << rng.randrange(8)
        what = "byte %d of the header is %d" % (at, frame[at])
    elif choice == 6:
        return bytes(frame) * 2, "twice"
    elif choice == 7:
        return b"", "dropped"
    else:
        request = rng.randrange(20)
        frame[8:16] = struct.pack(">Q", request)
        what = "request %d" % request
    return bytes(frame), what


class End:
    """One direction of a connection: from PEER's other side to this socket."""

    def __init__(self, sock, is_server, name, seed):
        self.sock, self.is_server, self.peer = sock, is_server, None
        self.name, self.count, self.rng = name, 0, random.Random("%d %s" % (seed, name))
        self.held, self.garbled = b"", False
        self.out = b""

    def frames(self, data):
        """Whole frames of what was received here; what cannot be cut into frames comes as it is."""
        self.held += data
        while len(self.held) >= HEADER.size and not self.garbled:
            magic, _, _, _, _, fields, size = HEADER.unpack_from(self.held)
            whole = HEADER.size + fields + size
            if magic != MAGIC or whole > FRAME_MAX:
                self.garbled = True
                break
            if len(self.held) < whole:
                return
            yield self.held[:whole]
            self.held = self.held[whole:]
        if self.garbled and self.held:
            yield self.held
            self.held = b""


class Proxy:
    def __init__(self, port, host, server_port, seed, rate, honest_file):
        self.server, self.seed, self.rate, self.honest_file = (host, server_port), seed, rate, honest_file
        self.selector, self.ends, self.damaged, self.connections = selectors.DefaultSelector(), set(), 0, 0
        self.honest = os.path.exists(honest_file)
        self.listener = socket.create_server(("0.0.0.0", port))
        self.selector.register(self.listener, selectors.EVENT_READ)

    def drop(self, end):
        for one in (end, end.peer):
            if one in self.ends:
                self.ends.remove(one)
                self.selector.unregister(one.sock)
                one.sock.close()

    def accept(self):
        node = self.listener.accept()[0]
        try:
            server = socket.create_connection(self.server, 10)
        except OSError:
            node.close()
            return
        self.connections += 1
        a = End(node, False, "connection %d, node" % self.connections, self.seed)
        b = End(server, True, "connection %d, server" % self.connections, self.seed)
        a.peer, b.peer = b, a
        for end in (a, b):
            end.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.sock.setblocking(False)
            self.ends.add(end)
            self.selector.register(end.sock, selectors.EVENT_READ, end)

    def passed_on(self, end, frame):
        end.count += 1
        chosen = end.rng.randrange(self.rate) == 0
        if self.honest or not chosen or not (end.is_server or end.garbled):
            return frame
        self.damaged += 1
        if end.garbled:
            at = end.rng.randrange(len(frame))
            passed, what = bytearray(frame), "byte %d" % at
            passed[at] ^= 1 << end.rng.randrange(8)
        else:
            passed, what = damage(end.rng, frame)
        print("%s, frame %d of type %d: %s" % (end.name, end.count, HEADER.unpack_from(frame)[1] if not end.garbled else 0, what), flush=True)
        return bytes(passed)

    def watch(self, end):
        """Nothing is read here while the other side does not take what it has got."""
        events = (selectors.EVENT_WRITE if end.out else 0) | (0 if len(end.peer.out) > 1 << 20 else selectors.EVENT_READ)
        self.selector.modify(end.sock, events or selectors.EVENT_WRITE, end)

    def serve(self, end, events):
        if events & selectors.EVENT_READ:
            data = end.sock.recv(1 << 16)
            if not data:
                self.drop(end)
                return
            for frame in end.frames(data):
                end.peer.out += self.passed_on(end, frame)
        for one in (end, end.peer):
            if one.out:
                try:
                    one.out = one.out[one.sock.send(one.out):]
                except BlockingIOError:
                    pass
        self.watch(end)
        self.watch(end.peer)

    def step(self):
        for key, events in self.selector.select(0.1):
            if key.fileobj is self.listener:
                self.accept()
            elif key.data in self.ends:
                try:
                    self.serve(key.data, events)
                except OSError:
                    self.drop(key.data)
        honest = os.path.exists(self.honest_file)
        if honest and not self.honest:
            print("%d frames damaged" % self.damaged, flush=True)
            for end in list(self.ends):
                if end in self.ends:
                    self.drop(end)
        self.honest = honest


def main():
    port, host, server_port, seed, rate = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
    proxy = Proxy(port, host, server_port, seed, rate, sys.argv[6])
    print("listening, seed %d" % seed, flush=True)
    while True:
        proxy.step()


main()

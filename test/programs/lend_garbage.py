#!/usr/bin/env python3
"""Connects to a lender (kairanfs --lend) without a key, and breaks the rules of LEND in common/rpc/msgs.def.

lend_garbage.py HOST PORT SEED ROUNDS [accepted]    accepted: the lender has no key, so that a correct LEND is served
"""
import random
import socket
import struct
import sys

LEND, READY, MESSAGE, PING, STATUS, ONEWAY = 120, 121, 122, 123, 5, 8
host, port, seed, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
accepted = sys.argv[5:] == ["accepted"]
rng = random.Random(seed)


def connect():
    connection = socket.create_connection((host, port), timeout=20)
    return connection


def frame(kind, flags, fields, data=b"", number=1):
    return struct.pack(">IHHQIII", 0x4B52414E, kind, flags, number, 0, len(fields), len(data)) + fields + data


def text(value):
    return struct.pack(">H", len(value)) + value + b"\0"


def lend(node=b"n9", source=b"127.0.0.1:1:/", mount_point=b"/m", ring=b"", token=bytes(16), version=1, close=0, coherence=0, flags=0):
    return (struct.pack(">I", version) + text(node) + text(source) + text(mount_point) + text(ring) + token
            + struct.pack(">QBBQQQQQQQQI", 0, close, coherence, 0, 0, 5000, 8 << 20, 0, 60000, 1000, 1000, flags))


def message(seq, ack, kind, number=0, status=0, groups=0):
    return struct.pack(">QQBQIIII", seq, ack, kind, number, status, 0, 0, groups) + bytes(4 * groups)


def is_closed(connection, why):
    """The lender may answer before it closes the connection."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass
    except socket.timeout:
        sys.exit("the lender keeps the connection after %s (seed %d)" % (why, seed))
    connection.close()


def provoke(what, *frames):
    connection = connect()
    try:
        for each in frames:
            connection.sendall(each)
    except ConnectionError:
        pass
    is_closed(connection, what)


wrong = [
    ("a node named ..", lend(node=b"..")), ("a node named ../x", lend(node=b"../x")), ("a node named -o", lend(node=b"-o")),
    ("a node without a name", lend(node=b"")), ("a long name", lend(node=b"n" * 200)), ("a source that is an option", lend(source=b"-f:/")),
    ("no source", lend(source=b"x")), ("a mount point that is none", lend(mount_point=b"m")), ("version 2", lend(version=2)),
    ("close=7", lend(close=7)), ("coherence=9", lend(coherence=9)), ("flags that there are not", lend(flags=1 << 20)),
    ("a long ring", lend(ring=b"r" * 100)), ("an unknown token", lend(token=bytes(range(16)))), ("fields that are short", lend()[:-3]),
    ("fields that are long", lend() + b"x"),
]
for what, fields in wrong:
    provoke(what, frame(LEND, 0, fields))
provoke("LEND without a reply", frame(LEND, ONEWAY, lend()))
provoke("a message before LEND", frame(MESSAGE, ONEWAY, message(1, 0, 1)))
provoke("data before LEND", frame(MESSAGE, ONEWAY, message(1, 0, 1), b"x" * 100))
provoke("a ping before LEND", frame(PING, 0, bytes(8)))
provoke("a status before LEND", frame(STATUS, 0, text(b"status") + text(b"")))
if accepted:
    good = frame(LEND, 0, lend())
    for what, bad in [("a gap", message(2, 0, 1)), ("an acknowledgement of nothing", message(1, 5, 1)), ("a strange kind", message(1, 0, 99)),
                      ("an answer", message(1, 0, 2)), ("an end", message(1, 0, 7)), ("too many groups", message(1, 0, 1, groups=1025))]:
        provoke(what, good, frame(MESSAGE, ONEWAY, bad))
    provoke("a second LEND", good, good)
    provoke("too much data", good, frame(MESSAGE, ONEWAY, message(1, 0, 1), bytes((1 << 20) + 8193)))
for _ in range(rounds):
    kind = rng.choice([LEND, READY, MESSAGE, PING, STATUS, rng.randrange(200)])
    fields = rng.randbytes(rng.choice([0, 8, 33, 100, 5000]))
    whole = frame(kind, rng.choice([0, ONEWAY, rng.randrange(256)]), fields)
    if rng.random() < 0.3:
        whole = rng.randbytes(rng.randrange(1, 300))
    connection = connect()
    try:
        connection.sendall(whole)
        if rng.random() < 0.5:
            connection.shutdown(socket.SHUT_WR)
    except OSError: # the lender was faster
        pass
    connection.close()

#!/usr/bin/python3
"""Floods a server without keys: flood.py HOST PORT PID FILE

Opens far more connections than strangers may have, silent ones and half handshakes, then many sessions, and after each kind uses FILE, which
lies on an honest mount.  Status 1 if the server PID keeps more strangers than it may (1024), grows by more than 64 MiB, does not take
the sessions, or lets the honest one wait for more than 30 s."""
import os
import resource
import socket
import struct
import sys
import time

STRANGERS, SLACK, GROWTH, PATIENCE_S = 1024, 150, 64 << 10, 30
host, port, pid, file = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)


def memory():
    return next(int(line.split()[1]) for line in open("/proc/%d/status" % pid) if line.startswith("VmRSS"))


def descriptors():
    return len(os.listdir("/proc/%d/fd" % pid))


def text(value):
    return struct.pack(">H", len(value)) + value + b"\0"


def hello(number):
    fields = struct.pack(">IIQQ", 2, 9, 0, 0) + text(b"flood") + struct.pack(">QQ", 7, number) + struct.pack(">QQ", 1, 0) + \
        text(b"") + struct.pack(">H", 0) + text(b"") + struct.pack(">I", 0) + text(b"")
    return struct.pack(">IHHQIII", 0x4B52414E, 1, 0, 1, 0, len(fields), 0) + fields


def flood(count, data):
    connections = []
    for number in range(count):
        connection = socket.create_connection((host, port), 60)
        try:
            connection.sendall(data(number))
        except OSError:
            pass # thrown out already
        connections.append(connection)
    return connections


def honest(what):
    began = time.monotonic()
    with open(file, "w") as out:
        out.write(what)
    assert open(file).read() == what
    took = time.monotonic() - began
    print("%s: %d descriptors, %d kB, %.2f s for the honest node" % (what, descriptors(), memory(), took), flush=True)
    assert took < PATIENCE_S, "the honest node waits"


before, own = memory(), descriptors()
honest("quiet")
for what, data in ("silent", lambda _: b""), ("half a handshake", lambda number: hello(number)[:30]):
    strangers = flood(2 * STRANGERS, data)
    honest(what)
    assert descriptors() <= own + STRANGERS + SLACK, "too many strangers"
    for each in strangers:
        each.close()
sessions = flood(STRANGERS, hello)
honest("sessions")
sessions[-1].settimeout(60)
assert struct.unpack(">IHHQIII", sessions[-1].recv(28))[4] == 0, "no session"
assert memory() - before < GROWTH, "the server grows by %d kB" % (memory() - before)

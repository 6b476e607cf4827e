"""What lies where in the export of test/power/run, shared by its programs: what each file's bytes say.

cells/N     registers (test/programs/registers.py) at the places of test/load/place.py
sizes/N     their size is a register
renamed/N   replaced by rename; the bytes are a register
appends/N   records, one after the other
counted/N   a number, which is raised under the lock of locks/N
new/V.L     made once: L bytes that V gives
"""
import hashlib
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../load"))
import place  # noqa: E402

CELLS = place.CELLS
KINDS = {"cells": 5, "sizes": 3, "renamed": 2, "appends": 2, "counted": 2, "locks": 2}
RENAMED_BYTES = 6000
FILES = {"%s/%d" % (kind, number): {"renamed": bytes(RENAMED_BYTES), "counted": bytes(8)}.get(kind, b"")
    for kind, count in KINDS.items() for number in range(count)}


def values(data, length):
    """Those that a register's bytes consist of; what is not there yet is zeros."""
    return sorted(place.values_in(data + bytes(length - len(data))))


def new_name(value, length):
    return "new/%d.%d" % (value, length)


def new_state(name, data):
    """Of a file in new: "whole", "empty", or "other"."""
    value, length = map(int, name.split("/")[1].split("."))
    return "whole" if data == place.fill(value, length) else "other" if data.strip(b"\0") else "empty"


def read_whole(path):
    with open(path, "rb") as file:
        return file.read()


def records(data):
    """(node * 1000 + life, thread, number, end) of each record of an append file; (message, bytes) of each gap."""
    found, wrong, at = [], [], 0
    while at < len(data):
        head = data[at : at + place.RECORD.size]
        if len(head) == place.RECORD.size and head[:4] == place.MAGIC:
            _, node, thread, number, length = place.RECORD.unpack(head)
            whole = place.record(node, thread, number, length)
            if data[at : at + len(whole)] == whole:
                at += len(whole)
                found.append((node, thread, number, at))
                continue
            text = "the record at %d, of node %d thread %d number %d, is damaged" % (at, node, thread, number)
        else:
            text = "no record at %d of %d: %r" % (at, len(data), data[at : at + 24])
        following = data.find(place.MAGIC, at + 1)
        following = following if following > 0 else len(data)
        wrong.append((text, data[at:following]))
        at = following
    return found, wrong


def prefix(data, length):
    return hashlib.md5(data[:length]).hexdigest()


def look_at(top):
    """All there is, by name: values of registers, bytes of appends, the number of counted, the state of new files; and "gone"."""
    found = {"gone": [name for name in [*FILES, "new"] if not os.path.exists(os.path.join(top, name))]}
    for name in FILES:
        kind = name.split("/")[0]
        data = read_whole(os.path.join(top, name)) if name not in found["gone"] and kind != "sizes" else b""
        if kind == "cells":
            for cell, (offset, length) in enumerate(CELLS):
                found["%s:%d" % (name, cell)] = values(data[offset : offset + length], length)
        elif kind == "sizes":
            found[name] = [os.path.getsize(os.path.join(top, name)) if name not in found["gone"] else 0]
        elif kind == "renamed":
            found[name] = values(data, RENAMED_BYTES)
        elif kind == "appends":
            found[name] = data
        elif kind == "counted":
            found[name] = int.from_bytes(data, "little")
    for entry in os.scandir(os.path.join(top, "new")) if "new" not in found["gone"] else []:
        name = "new/" + entry.name
        found[name] = new_state(name, read_whole(entry.path)) if ".conflict" not in name else "conflict"
    return found

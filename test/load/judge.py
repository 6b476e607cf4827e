"""Judges what a load test's programs noted, with what was done to the cluster and what the export holds at the end.

Registers: test/programs/registers.py.  Beside them: appends are whole, there once and in their node's order; two nodes never
hold one lock; no operation failed on a living mount.  A node that the server has called lost (`late`, with the time from
which on it may have been cut off until it was back) is excused for what it had not synced by then (P7), for locks that it
lost, and for pages that the kernel went on serving while its daemon was stopped.
"""
import bisect
import collections
import glob
import json
import os
import sys

import place

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
from registers import NEVER, Event, Register  # noqa: E402

FLUSHED_AFTER = 30  # seconds after which a write is at the server whatever happens: several times flush_age


class Notes:
    """What happened to the cluster, told by the driver."""

    def __init__(self):
        self.kills = []  # (node, time)
        self.late = []  # [node, from, until, daemon was stopped]

    def killed_within(self, node, start, end):
        return [time for by, time in self.kills if by == node and start <= time <= end]

    def late_within(self, node, start, end):
        return [late for late in self.late if late[0] == node and late[1] <= end and start <= late[2]]


class Judge:
    def __init__(self, sizes, notes, deadline):
        self.sizes, self.notes, self.deadline = sizes, notes, deadline
        self.registers = collections.defaultdict(lambda: Register())
        self.syncs, self.locks = collections.defaultdict(list), collections.defaultdict(list)
        self.appends, self.lists = {}, []
        self.problems, self.counts = [], collections.Counter()

    # --- reading the notes -------------------------------------------------------------------------------------------------

    def register(self, name):
        register = self.registers[name]
        if not register.writes:
            register.strict = name.startswith(("name:", "size:"))
            register.writes[0] = Event(0, 0, 0)
        return register

    def load(self, directory):
        for path in glob.glob(os.path.join(directory, "history-*")):
            node = int(path.rsplit("-", 2)[1])
            with open(path) as file:
                for line in file:
                    if not line.endswith("\n"):
                        break  # its writer was killed in the middle
                    what = json.loads(line)
                    getattr(self, "take_" + what[0])(node, *what[1:])

    def take_w(self, node, name, start, end, value):
        strict = name.startswith(("name:", "size:"))
        self.register(name).writes[value] = Event(start, NEVER if end is None else end, value, None if strict else node)
        self.register(name).writes[value].node = node

    def take_x(self, node, name, start, end, value):
        del self.register(name).writes[value]

    def take_r(self, node, name, start, end, values):
        register = self.register(name)
        if not register.strict and any(late[3] for late in self.notes.late_within(node, start, end)):
            self.counts["reads excused"] += 1
            return
        self.counts["reads"] += 1
        for value in values:
            register.reads.append(Event(start, end, value, node, torn=len(values) > 1))

    def take_s(self, node, name, start, end):
        self.syncs[name].append((node, start, end))

    def take_a(self, node, name, start, end, thread, number, length):
        self.appends[name, node, thread, number] = (start, NEVER if end is None else end, length)

    def take_l(self, node, start, end, slots):
        self.lists.append((node, start, end, set(slots)))

    def take_k(self, node, lock, start, end):
        self.locks[lock].append((start, end, node))

    def take_e(self, node, operation, start, end, text):
        if self.notes.killed_within(node, start - 1, end + 1):
            self.counts["errors of killed mounts"] += 1
        elif "Stale file handle" in text and self.notes.late_within(node, start - self.deadline, end):
            self.counts["stale handles of late nodes"] += 1
        elif operation == "lock" and "Input/output error" in text and self.notes.late_within(node, start - self.deadline, end):
            self.counts["lost locks of late nodes"] += 1
        else:
            self.problems.append("node %d: %s from %.4f to %.4f: %s" % (node, operation, start, end, text))

    def take_c(self, node, operation):
        self.counts[operation] += 1

    # --- judging -----------------------------------------------------------------------------------------------------------

    def unsure(self, node, start, end, synced):
        """Whether a write may be lost because its node was cut off before the bytes were at the server."""
        for _, begin, until, _ in self.notes.late_within(node, start, end + FLUSHED_AFTER):
            if start < until and not any(end < sync_start and sync_end < begin for by, sync_start, sync_end in synced if by == node):
                return True
        return False

    def judge_registers(self):
        for name, register in self.registers.items():
            register.syncs = [] if register.strict else self.syncs[name.rsplit(":", 1)[0]]
            if not register.strict:
                for write in register.writes.values():
                    write.unsure = self.unsure(write.node, write.start, min(write.end, self.deadline), register.syncs)
                    self.counts["writes unsure"] += write.unsure
            self.counts["writes"] += len(register.writes) - 1
            if name.startswith("name:"):
                self.resolve_absence(int(name.split(":")[1]), register)
            register.check(name, self.problems)

    def resolve_absence(self, slot, register):
        """Every unlink is a write of its own; who finds no name has seen one of them."""
        kinds = {True: [], False: []}  # of presence
        for write in sorted(register.writes.values(), key=lambda write: write.start):
            kinds[write.value > 0].append(write)
        starts = {kind: [write.start for write in writes] for kind, writes in kinds.items()}

        def one_of(kind, end):
            """Newest first: those that began before the read ended."""
            return tuple(write.value for write in reversed(kinds[kind][: bisect.bisect_right(starts[kind], end)]))

        for read in register.reads:
            if read.value == 0:
                read.value = one_of(False, read.end)
            elif read.value == -1:  # an empty file: a late node's, whose bytes went elsewhere
                read.value = tuple(write.value for write in kinds[True] if self.unsure(write.node, write.start, write.start, ()))
        for node, start, end, slots in self.lists:
            self.counts["names listed"] += 1
            register.reads.append(Event(start, end, one_of(slot in slots, end), node))

    def judge_locks(self):
        for lock, spans in self.locks.items():
            held = []
            for start, end, node in spans:
                ends = [end] + self.notes.killed_within(node, start, end) + [
                    late[1] for late in self.notes.late_within(node, start, end)]
                held.append((start, min(ends), node))
            held.sort()
            self.counts["locks held"] += len(held)
            latest = (0, 0, None)
            for start, end, node in held:
                if start < latest[1] and end > start:
                    self.problems.append("lock %d: node %d held it from %.4f, node %d until %.4f" % (lock, node, start, latest[2], latest[1]))
                latest = max(latest, (start, end, node), key=lambda span: span[1])

    def judge_appends(self, export):
        for f in range(self.sizes.appends):
            with open(os.path.join(export, "appends/%d" % f), "rb") as file:
                self.judge_append(f, file.read())

    def judge_append(self, f, data):
        at, found, last = 0, set(), {}
        while at < len(data):
            head = data[at : at + place.RECORD.size]
            if len(head) < place.RECORD.size or head[:4] != place.MAGIC:
                self.problems.append("appends/%d: no record at %d of %d: %r" % (f, at, len(data), data[at : at + 24]))
                return
            _, node, thread, number, length = place.RECORD.unpack(head)
            key = (f, node, thread, number)
            if key not in self.appends or data[at:][: place.RECORD.size + length] != place.record(node, thread, number, length):
                self.problems.append("appends/%d: damaged record at %d: node %d thread %d number %d" % (f, at, node, thread, number))
                return
            if key in found:
                self.problems.append("appends/%d: node %d thread %d number %d is there twice" % (f, node, thread, number))
            start, end, _ = self.appends[key]
            if number < last.get((node, thread), 0) and not self.unsure(node, start, min(end, self.deadline), ()):
                self.problems.append("appends/%d: node %d thread %d number %d comes after %d" % (f, node, thread, number, last[node, thread]))
            last[node, thread] = max(number, last.get((node, thread), 0))
            found.add(key)
            at += place.RECORD.size + length
        for key, (start, end, _) in self.appends.items():
            if key[0] != f or end == NEVER:
                continue
            self.counts["appends"] += 1
            if key not in found and not self.unsure(key[1], start, end, ()):
                self.problems.append("appends/%d: node %d thread %d number %d, appended from %.4f to %.4f, is lost" % (*key, start, end))

    def take_final(self, export):
        """What the export holds once everything is drained is the last read."""
        for name in list(self.registers):
            path, _, cell = name.rpartition(":")
            values = self.final_values(export, path, int(cell))
            for value in values:
                self.registers[name].reads.append(Event(self.deadline, self.deadline + 1, value, "server", torn=len(values) > 1))

    def final_values(self, export, path, cell):
        if path == "size":
            return {os.path.getsize(os.path.join(export, "sizes/%d" % cell))}
        if path == "name":
            try:
                with open(os.path.join(export, "names/%d" % cell)) as file:
                    return {int(file.read() or -1)}
            except FileNotFoundError:
                return {0}
        offset, length = {"wide": lambda: (cell * place.WIDE_CELL, place.WIDE_CELL), "cells": lambda: place.CELLS[cell],
            "mapped": lambda: (cell * place.MAPPED_CELL, place.MAPPED_CELL), "locks": lambda: (0, 800)}[path.split("/")[0]]()
        with open(os.path.join(export, path), "rb") as file:
            file.seek(offset)
            data = file.read(length)
        return place.values_in(data + bytes(length - len(data)), offset)

    def judge(self, export):
        self.take_final(export)
        self.judge_registers()
        self.judge_locks()
        self.judge_appends(export)
        return self.problems

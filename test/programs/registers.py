"""Registers with unique values, and which reads of them the promises allow.  All times are one machine's monotonic clock.

A register is a place that is written with values that no other write of it uses, and read.  An event lasts from `start` to
`end`; a write whose end is unknown (its node died) ends never: it may have happened or not.

strict     names, sizes: whatever began after another had returned came after it (P1).
otherwise  bytes: of two writes one after the other, the later is certain to win only where both are one node's, or where a
           read of the bytes by anybody, or a sync of the earlier writer, lies between them (P3).

A read that found several values, of writes in progress, is one event for each of them, all `torn`.
A write can be `unsure`: of a node that was cut off for longer than the lease time before it had synced (P7). Such bytes may
be seen, may be gone, and order nothing.

Checked, each in O(n log n):
  - a value that is read was written by a write that began before the read ended;
  - no write that certainly came after it had ended before the read began;
  - reads one after the other do not go back in time, and what was replaced does not come back.
"""
import bisect
import itertools

NEVER = float("inf")


class Event:
    __slots__ = ("start", "end", "value", "node", "unsure", "torn", "settled")

    def __init__(self, start, end, value, node=None, unsure=False, torn=False):
        self.start, self.end, self.value, self.node, self.unsure, self.torn = start, end, value, node, unsure, torn
        self.settled = NEVER


class Latest:
    """The greatest of the marks that were set before a moment."""

    def __init__(self, pairs):
        pairs = sorted(pairs)
        self.times = [time for time, _ in pairs]
        self.marks = list(itertools.accumulate((mark for _, mark in pairs), max))

    def before(self, time):
        index = bisect.bisect_left(self.times, time)
        return self.marks[index - 1] if index else -NEVER


class Earliest:
    """The earliest end of the events that began after a moment."""

    def __init__(self, pairs):
        pairs = sorted(pairs)
        self.starts = [start for start, _ in pairs]
        self.ends = list(itertools.accumulate((end for _, end in reversed(pairs)), min))[::-1]

    def after(self, time):
        index = bisect.bisect_right(self.starts, time)
        return self.ends[index] if index < len(self.ends) else NEVER


class Register:
    ordered = False  # writers on different nodes take turns (coherence=ordered): all registers are strict

    def __init__(self, strict=False):
        self.strict = strict
        self.writes = {}  # value -> Event
        self.reads = []  # Event, whose value is one value, or a tuple of which it was one
        self.syncs = []  # (node, start, end): what the node wrote before is at the server

    def settle(self):
        """From when on each write is certain to lose against any other that begins."""
        read_after = Earliest((read.start, read.end) for read in self.reads)
        synced_after = {}
        for node in {write.node for write in self.writes.values()}:
            synced_after[node] = Earliest((start, end) for by, start, end in self.syncs if by == node)
        for write in self.writes.values():
            if self.strict or self.ordered or write.node is None:
                write.settled = write.end
            else:
                write.settled = min(read_after.after(write.end), synced_after[write.node].after(write.end))

    @staticmethod
    def marks(pairs):
        """(time, write) pairs as what they say about all nodes, and about each."""
        pairs = [(time, write) for time, write in pairs if not write.unsure]
        of_all = Latest((time, write.start) for time, write in pairs)
        nodes = {write.node for _, write in pairs}
        return of_all, {node: Latest((t, w.start) for t, w in pairs if w.node == node) for node in nodes}

    @staticmethod
    def replaced(write, marks, time):
        """Whether a write that certainly came after this one was known before that time."""
        of_all, of_node = marks
        return write.settled < of_all.before(time) or (
            write.node in of_node and write.end < of_node[write.node].before(time))

    def check(self, what, problems):
        self.settle()
        written = self.marks((write.end, write) for write in self.writes.values())
        reads = sorted(self.reads, key=lambda read: read.start)
        single = [(r, self.writes[r.value]) for r in reads if not isinstance(r.value, tuple) and r.value in self.writes]
        seen = self.marks((read.end, write) for read, write in single)
        # Who sees part of a write in progress says nothing of the other part, which another may still see as it was.
        whole = self.marks((read.end, write) for read, write in single if not read.torn)
        for read in reads:
            self.check_read(what, read, written, whole if read.torn else seen, problems)
        self.check_returns(what, [pair for pair in single if not pair[1].unsure], problems)

    def check_read(self, what, read, written, seen, problems):
        values = read.value if isinstance(read.value, tuple) else (read.value,)
        complaint = "%s: node %s read %r, which nobody wrote" % (what, read.node, read.value)
        for value in values:
            write = self.writes.get(value)
            if write is None:
                continue
            if write.start > read.end:
                complaint = "%s: node %s read %r before its write began" % (what, read.node, value)
            elif write.unsure:
                return
            elif self.replaced(write, written, read.start):
                complaint = "%s: stale read: node %s read %r of node %s from %.4f to %.4f, which had ended at %.4f and was replaced since%s" % (
                    what, read.node, value, write.node, read.start, read.end, write.end, self.by_whom(write, read))
            elif self.replaced(write, seen, read.start):
                complaint = "%s: reads went back in time: node %s read %r of node %s from %.4f, somebody had read a later one" % (
                    what, read.node, value, write.node, read.start)
            else:
                return
        problems.append(complaint)

    def by_whom(self, write, read):
        later = [w for w in self.writes.values() if not w.unsure and w.end < read.start and
            (write.settled < w.start or (w.node == write.node and write.end < w.start))]
        last = max(later, key=lambda w: w.end)
        return ": node %s wrote %r from %.4f to %.4f" % (last.node, last.value, last.start, last.end)

    def check_returns(self, what, single, problems):
        """Between two reads of one value nobody reads another."""
        single = [pair for pair in single if not pair[0].torn]
        first, last = {}, {}
        for read, write in single:
            first[write.value] = min(first.get(write.value, NEVER), read.end)
            last[write.value] = max(last.get(write.value, -NEVER), read.start)
        spans = sorted((first[value], last[value], value) for value in first)
        index, top = 0, []  # the two spans that reach furthest, of those that have begun
        for read, write in single:  # by start
            while index < len(spans) and spans[index][0] < read.start:
                top = sorted(top + [(spans[index][1], spans[index][2])])[-2:]
                index += 1
            for end, value in top:
                if value != write.value and end > read.end:
                    problems.append("%s: node %s read %r at %.4f, between two reads of %r" % (
                        what, read.node, write.value, read.start, value))

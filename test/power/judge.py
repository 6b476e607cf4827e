"""Judges what the programs of test/power/run noted, with what the disk held after each cut.

A node in one of its lives is a writer and reader of its own: "NODE.LIFE".  What a node that went with the machine had written is sure
if it had fsynced it, or another had seen it; the rest may be there or not.  Two kinds of checks:
  - histories: registers (test/programs/registers.py), new files, appends and locks, as the programs and the last look saw them;
  - the disk at a cut: what was fsynced, or another node had seen, before the cut, or something later, is on it.
"""
import collections
import json
import os
import sys

import layout

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../programs"))
from registers import NEVER, Event, Register  # noqa: E402

SHOWN = 8  # problems of one kind that are printed


class Judge:
    def __init__(self, excused):
        self.excused = excused  # kinds of problems that do not count
        self.registers = collections.defaultdict(Register)
        self.syncs = collections.defaultdict(list)  # file -> (key, start, end, kind)
        self.made = collections.defaultdict(dict)  # new file -> "close" or "fsync" -> end
        self.looks = collections.defaultdict(list)  # new file -> (key, start, end, state)
        self.appends, self.prefixes = {}, collections.defaultdict(list)
        self.sections = collections.defaultdict(dict)  # counted file -> (key, start) -> (when found, end, found, written)
        self.cuts, self.lost = [], {}  # (when, what was on the disk); key -> when it went
        self.finally_at, self.finally_found = NEVER, None
        self.problems, self.told, self.counts = collections.defaultdict(list), set(), collections.Counter()

    def problem(self, kind, text, once=None):
        """ONCE: what is wrong, if others may find it, too, or another cut."""
        if once is None or (kind, once) not in self.told:
            self.told.add((kind, once))
            self.problems[kind].append(text)

    def node_lost(self, node, life, start):
        self.lost["%d.%d" % (node, life)] = start

    def cut(self, start, found):
        self.cuts.append((start, found))
        for name in found["gone"]:
            self.problem("on disk: fsynced", "%s: is not on the disk at the cut at %.4f" % (name, start), name)

    def final(self, start, found):
        """A last look, by a node; there is none where the run got stuck."""
        self.finally_at, self.finally_found = start, found

    # --- reading the notes -------------------------------------------------------------------------------------------------

    def register(self, name):
        register = self.registers[name]
        if not register.writes:
            register.strict = not name.startswith("cells")
            register.writes[0] = Event(0, 0, 0)
        return register

    def load(self, path):
        _, node, life = os.path.basename(path).split("-")
        with open(path) as file:
            for line in file:
                if not line.endswith("\n"):
                    break  # its writer was killed in the middle
                what = json.loads(line)
                getattr(self, "take_" + what[0])("%s.%s" % (node, life), *what[1:])

    def take_w(self, key, name, start, end, value):
        self.register(name).writes[value] = Event(start, NEVER if end is None else end, value, key)

    def take_r(self, key, name, start, end, values):
        self.counts["reads"] += 1
        for value in values:
            self.register(name).reads.append(Event(start, end, value, key, torn=len(values) > 1))

    def take_s(self, key, name, start, end, kind):
        self.syncs[name].append((key, start, end, kind))

    def take_n(self, key, name, kind, end):
        self.made[name][kind] = end
        self.made[name]["key"] = key

    def take_v(self, key, name, start, end, state):
        self.counts["reads"] += 1
        self.looks[name].append((key, start, end, state))

    def take_a(self, key, name, start, end, thread, number):
        node, life = map(int, key.split("."))
        self.appends[name, node * 1000 + life, thread, number] = (key, NEVER if end is None else end)

    def take_p(self, key, name, start, end, length, total):
        self.counts["reads"] += 1
        self.prefixes[name].append((key, start, end, length, total))

    def take_k(self, key, name, start, read, end, found, written):
        self.sections[name][key, start] = (read, NEVER if end is None else end, found, written)

    def take_e(self, key, operation, start, end, text):
        self.problem("errors", "node %s: %s from %.4f to %.4f: %s" % (key, operation, start, end, text))

    # --- registers -----------------------------------------------------------------------------------------------------------

    @staticmethod
    def seen_at(write, reads):
        """When another node had first read it, and nothing else beside it."""
        return min((read.end for read in reads if read.node != write.node and not read.torn), default=NEVER)

    def synced_at(self, write, name):
        return min((end for key, start, end, kind in self.syncs[name] if key == write.node and start >= write.end and kind == "fsync"), default=NEVER)

    def judge_register(self, name, register):
        file = name.split(":")[0]
        reads_of = collections.defaultdict(list)
        for read in register.reads:
            reads_of[read.value].append(read)
        synced, seen = {}, {}  # write -> since when it must outlive any loss of power
        for write in register.writes.values():
            self.counts["writes"] += write.node is not None
            synced[write] = self.synced_at(write, file) if not name.startswith("sizes") else write.end
            seen[write] = self.seen_at(write, reads_of[write.value])
            gone = self.lost.get(write.node, NEVER)
            write.unsure = gone < NEVER and min(synced[write], seen[write]) > gone
        register.syncs = [(key, start, end) for key, start, end, _ in self.syncs[file]]
        found = []
        values = self.finally_found[name] if self.finally_found else []
        for value in values:
            register.reads.append(Event(self.finally_at, self.finally_at + 1, value, "end", torn=len(values) > 1))
        register.check(name, found)
        for text in found:
            kind = "stale" if "stale read" in text else "seen" if "back in time" in text or "between two" in text else "other"
            self.problem("renames" if name.startswith("renamed") else kind, text)
        self.judge_register_on_disk(name, register, "on disk: fsynced", synced)
        self.judge_register_on_disk(name, register, "on disk: seen", seen)

    def judge_register_on_disk(self, name, register, kind, known):
        kind = "renames" if name.startswith("renamed") else kind
        for start, found in self.cuts:
            before = [write for write, time in known.items() if time <= start and not write.unsure]
            marks = Register.marks([(0, write) for write in before])
            self.counts["places looked at on the disk"] += 1
            for value in found[name]:
                write = register.writes.get(value)
                if write is None:
                    self.problem(kind, "%s: the disk has %r at the cut at %.4f, which nobody wrote" % (name, value, start))
                elif Register.replaced(write, marks, 1):
                    later = max((w for w in before if write.settled < w.start or (w.node == write.node and write.end < w.start)), key=lambda w: w.start)
                    self.problem(kind, "%s: the disk has %r at the cut at %.4f, not %r of node %s, written from %.4f to %.4f, so since %.4f" % (
                        name, value, start, later.value, later.node, later.start, later.end, known[later]), (name, value, later.value))

    # --- new files, appends, locks -------------------------------------------------------------------------------------------

    def judge_new(self):
        for name in sorted(set(self.made) | set(self.looks)):
            made = self.made[name]
            key = made.get("key")
            seen = min((end for by, _, end, state in self.looks[name] if state == "whole" and by != self.maker(name)), default=NEVER)
            gone = self.lost.get(self.maker(name), NEVER)
            self.counts["writes"] += key is not None
            looks = list(self.looks[name])
            if self.finally_found:
                looks.append(("end", self.finally_at, self.finally_at + 1, self.finally_found.get(name, "gone")))
            for by, start, end, state in looks:
                if state == "whole":
                    continue
                after = "node %s found %s %s at %.4f, " % (by, name, state, start)
                if made.get("fsync", NEVER) < start:
                    self.problem("fsynced", after + "node %s had fsynced it at %.4f" % (key, made["fsync"]), name)
                elif seen < start:
                    self.problem("seen", after + "a node had read it at %.4f" % seen, name)
                elif made.get("close", NEVER) < start and end < gone:
                    self.problem("closed", after + "node %s had closed it at %.4f" % (key, made["close"]), name)
            for start, found in self.cuts:
                for kind, known in (("fsynced", made.get("fsync", NEVER)), ("seen", seen)):
                    if known <= start:
                        self.counts["places looked at on the disk"] += 1
                        if found.get(name, "gone") != "whole":
                            self.problem("on disk: " + kind, "%s: %s on the disk at the cut at %.4f, %s at %.4f" % (name, found.get(name, "gone"), start, kind, known), name)
        self.counts["conflict files"] = sum(state == "conflict" for state in (self.finally_found or {}).values())

    @staticmethod
    def maker(name):
        value = int(name[4:].split(".")[0])
        return "%d.%d" % (value >> 3 & 3, value >> 5 & 127)

    def judge_appends(self):
        self.counts["writes"] += len(self.appends)
        for name in [name for name in layout.FILES if name.startswith("appends")]:
            if self.finally_found:
                self.judge_appended(name, self.finally_found[name])
            for key, start, end, length, total in self.prefixes[name]:
                for cut, disk in self.cuts:
                    if end <= cut:
                        self.counts["places looked at on the disk"] += 1
                        if layout.prefix(disk[name], length) != total:
                            self.problem("on disk: seen", "%s: the disk has not at the cut at %.4f the %d bytes that node %s read at %.4f" % (
                                name, cut, length, key, start), (name, length))

    def judge_appended(self, name, data):
        """What is there in the end."""
        found, wrong = layout.records(data)
        there = collections.Counter(record[:3] for record in found)
        lost = [record for (file, *record), (key, _) in self.appends.items()
                if file == name and key in self.lost and tuple(record) not in there]
        for text, gap in wrong:
            # A node that lost its power with the server may leave zeros: ext4 keeps the size that unsynced bytes made.
            if any(gap) or not lost:
                self.problem("appends", "%s: %s" % (name, text))
        for record, times in there.items():
            if times > 1 or (name, *record) not in self.appends:
                self.problem("appends", "%s: node %d thread %d number %d is there %d times" % (name, *record, times))
        for (file, *record), (key, end) in self.appends.items():
            if file == name and end < NEVER and key not in self.lost and tuple(record) not in there:
                self.problem("closed", "%s: node %d thread %d number %d, closed at %.4f, is lost" % (name, *record, end))
        for key, start, end, length, total in self.prefixes[name]:
            if layout.prefix(data, length) != total:
                self.problem("seen", "%s: node %s read %d bytes at %.4f that are not there any more" % (name, key, length, start), (name, length))

    def judge_locks(self):
        for name, sections in self.sections.items():
            last, maybe = (None, 0, 0), {0}  # of the last section that is sure: node, end, what it wrote; what may be found now
            handed = []  # (time, value): another node found it under the lock
            for (key, start), (read, end, found, written) in sorted(sections.items(), key=lambda item: item[0][1]):
                self.counts["locks"] += 1
                by, until, wrote = last
                if by is not None and start < min(until, self.lost.get(by, NEVER)):
                    self.problem("locks", "%s: node %s held the lock from %.4f, node %s until %.4f" % (name, key, start, by, until))
                may = maybe if until == NEVER or start > self.lost.get(by, NEVER) else {wrote}
                if found not in may:
                    self.problem("locks", "%s: node %s found %d under the lock at %.4f, not %s" % (name, key, found, start, sorted(may)))
                if by is not None and by != key:
                    handed.append((read, found))  # it may have waited for the value since it had the lock
                keeps = {found} if key not in self.lost else (maybe if by == key else {found})
                maybe = (keeps if key in self.lost or end == NEVER else set()) | {written}
                last = (key, end, written)
            for cut, disk in self.cuts:
                known = max((value for time, value in handed if time <= cut), default=0)
                self.counts["places looked at on the disk"] += 1
                if disk[name] < known:
                    self.problem("on disk: seen", "%s: the disk has %d at the cut at %.4f, another node had found %d under the lock" % (name, disk[name], cut, known))

    # --- the verdict -----------------------------------------------------------------------------------------------------------

    def verdict(self):
        for name in self.cuts[0][1]:
            if name.startswith(("cells", "sizes", "renamed")):
                self.judge_register(name, self.register(name))
        self.judge_new()
        self.judge_appends()
        self.judge_locks()
        for kind, texts in sorted(self.problems.items()):
            for text in texts[:SHOWN]:
                print("%s: %s" % (kind, text))
            if texts[SHOWN:]:
                print("%s: and %d more" % (kind, len(texts) - SHOWN))
        counted = {kind: texts for kind, texts in self.problems.items() if kind not in self.excused}
        print("%d cuts, %d with a node; %d writes, %d reads, %d locks, %d places looked at on the disk; %d conflict files, %d live nodes called lost; violations: %s" % (
            len(self.cuts), len(self.lost), self.counts["writes"], self.counts["reads"], self.counts["locks"],
            self.counts["places looked at on the disk"], self.counts["conflict files"], self.counts["lost"],
            ", ".join("%d %s" % (len(texts), kind) for kind, texts in sorted(self.problems.items())) or "none"))
        return 1 if counted else 0

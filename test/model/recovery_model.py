#!/usr/bin/env python3
"""Random model of the durability rules "commit on share": which rules are needed, and what breaks without each.

    test/model/recovery_model.py [--seed N] [--histories N] [--without RULE[,RULE]] [--with OPTION] [--replay SEED]
    test/model/recovery_model.py --table [--seed N] [--histories N]     leaves out each rule in turn

What is modelled: one server, NODES nodes, FILES files. A file has DATA bytes, and two cells more that are handled
like bytes: TIME (times and set-id bits) and NAME (whether the file exists). The value of a cell is the number of the
write that it is from. A server has a disk, a page cache that outlives the process, and memory that does not. A node
has a journal on disk, with a tail that is not synced, and memory.

How histories are generated: a history is a random sequence of operations (write, append, utimes, create, read, stat,
close, open, fsync, truncate, chmod, remove, lock) and faults. Faults also strike between two messages of an operation,
which then does not return. Step I of history SEED draws from a generator of its own, so that steps can be left out.
Faults: the server is killed, or loses power (also in mid-recovery); a sync fails, and the kernel may drop the page; the
disk is full; a node's daemon is killed; a node loses power, with a torn journal tail; a node is cut off, for less or
more than its lease or the grace period; a message is lost, comes late (also after its session has ended), or is sent
again. At the end all are back.

What is checked, on every read and at the end of each history:
  read       a read sees every write that is ordered before it (P1, P3)
  seen       what another node has read, listed, or got a lock for is not undone by any fault (commit on share)
  fsynced    what fsync acknowledged is there (P5)
  closed     what close acknowledged is lost only when the server and the node both lose power (P5)
  written    what write returned is lost only with the power of the node (P6)
  served     what the server executed alone (truncate, remove, chmod) is not undone
  late       bytes of a late node never overwrite what other nodes wrote since (P7); else a conflict file is counted
  nowhere    no acknowledged bytes vanish without a conflict file (P8)
A conflict file is counted as needless if no other node has written to the file since.

A failing history is shrunk: steps are left out as long as it fails. The trace of the rest is printed.
"""
import argparse
import collections
import random
import sys
import time

NODES, FILES, DATA, STEPS = 3, 2, 4, 60
TIME, NAME, WIDTH = DATA, DATA + 1, DATA + 2
CELLS = FILES * WIDTH

# RULE: what it says. The numbers are those of README.md.
RULES = {
    "journal": "the node keeps a record until it has heard that it is durable",
    "durable": "a recall, or a lock that passes, waits until the bytes are on the server's disk",
    "heard": "... and until the node that wrote them has heard so",
    "readback": "a recall of READ waits for the node's own bytes, too",
    "selfhear": "who gets READ has heard that its own applied bytes are durable",
    "open": "OPEN waits for the other nodes with applied bytes",
    "lockfiles": "a lock that passes waits for all files, not only for the locked one",
    "truncate": "truncate and remove wait until the caller's own bytes are heard durable",
    "attributes": "chmod waits until the caller's own bytes are heard durable",
    "synced": "what truncate and remove change is durable before they return",
    "shared": "what the server changed itself is durable before another node gets the file",
    "version": "a sync covers the change version",
    "name": "a sync covers a new file's name",
    "namerecord": "the journal has a new file's name; it is sent again with the bytes",
    "unique": "change versions never repeat, also after a loss of power",
    "trim": "'durable up to SEQ' is a journal record before any later version",
    "resend": "the server restarts: nodes send again all that they have not heard to be durable",
    "grace": "the server serves nobody before all members have sent again, or the grace period is over",
    "gracesync": "the grace period ends with a sync: what the page cache has of nodes that missed it is durable",
    "members": "the member list is on disk; a node leaves it before others get what it held",
    "inherit": "a new daemon inherits the session's leases",
    "first": "a new daemon sends its journal before it serves the file",
    "failed": "after a failed sync writers send again; nothing sent before counts as durable",
    "faillog": "the server keeps on disk that a sync of the file failed",
    "rewrite": "the server rewrites from its page cache what nobody can send again; no READ before",
    "late": "late bytes go in only if nobody else changed the file since",
    "latetimes": "late bytes set TIME only if nobody else changed the file or its attributes since",
    "applied": "the server remembers up to which journal number it applied each node's bytes",
    "power": "late bytes after a loss of the node's power are judged by the journal's version",
    "forgotten": "... if a failed sync came, too, what the server applied for the node itself counts as a change",
    "nameless": "late bytes of a file that is removed go to a conflict file",
    "lateheard": "late bytes are durable before their node is a member again",
    "refused": "refused bytes are late once their node has given WRITE back",
    "refusedmark": "... and the journal says so",
    "refusedversion": "... and they are judged by the journal's version, not by what this instance remembers",
    "together": "a message that tells a version first tells up to where the node's bytes are durable",
    "fence": "a message of a session or connection that has ended is dropped",
    "once": "a request that was executed is not executed again",
    "oncedisk": "... also after a restart: the record is durable when the file is handed over",
    "requestsfirst": "members send requests without an answer again before others are served, and before their bytes",
    "ring": "a node serves others only what it has heard to be durable",
}
OPTIONS = {
    "thirteen": "what is sent again sets TIME only if the server's version is older than the one the node was told",
}


class Abort(Exception):
    """The operation does not return: a participant died, is cut off, or refused."""


class Violation(Exception):
    """A promise is broken."""


def file_of(cell):
    return cell // WIDTH


def cells_of(f):
    return range(f * WIDTH, (f + 1) * WIDTH)


class Write:
    """One write of one cell, and what the judge knows about it. Server operations are writes without a journal."""

    def __init__(self, number, node, cell, kind, at):
        self.id, self.node, self.cell, self.kind, self.at = number, node, cell, kind, at
        self.f = file_of(cell)
        self.seq = 0
        self.pred = set()  # writes of this cell that are ordered before
        self.closed = self.fsynced = self.seen = False  # acknowledged
        self.node_lost = self.server_lost = False  # lost with the node's journal; with the server's page cache
        self.applied = self.durable = self.covered = self.conflict = False
        self.returned = not self.served

    @property
    def served(self):
        """Made by the server itself; no journal has it."""
        return self.kind in ("truncate", "remove", "chmod")


class Node:
    """A node: a journal on disk, and the memory of its daemon.

    Records: ("write", seq, cell, id), ("durable", f, seq), ("version", f, version), ("refused", f, seq),
    ("answered", f, seq).
    """

    def __init__(self, i):
        self.i = i
        self.log, self.synced, self.seq, self.power_lost = [], 0, 0, False
        self.leases = collections.defaultdict(set)
        self.answered = collections.defaultdict(int)  # file: up to where FLUSH was answered
        self.must_send = set()  # files that a new daemon must flush first
        self.stuck = set()  # files whose refused bytes are late
        self.gone = False  # the session has ended, though the node may not know
        self.daemon, self.session, self.connection = 0, 0, 0
        self.away = False
        self.waiting = []  # requests without an answer
        self.cache = {}  # cell: (version, value), for the ring
        self.lapse = [None] * FILES  # truth: since when others may have what it held

    def heard(self, f):
        for r in reversed(self.log):  # they only rise
            if r[0] == "durable" and r[1] == f:
                return r[2]
        return 0

    def unheard(self, f):
        heard, cells = self.heard(f), cells_of(f)
        return [r for r in self.log if r[0] == "write" and r[1] > heard and r[2] in cells]

    def answered_before(self, f):
        """Only rule "thirteen" needs this record."""
        return max((r[2] for r in self.log if r[0] == "answered" and r[1] == f), default=0)

    def version(self, f):
        return max((r[2] for r in self.log if r[0] == "version" and r[1] == f), default=0)

    def is_late(self, f):
        """It knows, or the server will say, that its bytes of the file are to be judged."""
        return self.gone or self.power_lost or f in self.stuck


class Server:
    def __init__(self):
        # On disk.
        self.disk, self.disk_version = [0] * CELLS, [0] * FILES
        self.members, self.failed = set(range(NODES)), set()
        self.done_disk, self.broken_disk = {}, set()
        # The page cache outlives the process.
        self.cache, self.dirty, self.version = [0] * CELLS, set(), [0] * FILES
        self.done_cache = {}
        self.instance = 0
        self.start()

    def start(self):
        """What a new process has in memory."""
        self.instance += 1
        self.up, self.serving = True, False
        self.leases = [collections.defaultdict(set) for _ in range(NODES)]
        self.applied = collections.defaultdict(int)  # (node, file): sent since; durable after the next good sync
        self.durable = collections.defaultdict(int)
        self.highest = collections.defaultdict(int)
        self.must_resend = set()  # (node, file)
        self.tainted = set(self.failed)  # cells whose sync has failed
        self.doubtful = set()  # (node, file): a failed sync may have lost what was applied, and it was not sent again
        self.reclaimed = set()
        self.lapsed = {}  # (node, file) of this instance: whether others changed the file since
        self.foreign = {(i, f): self.version[f] for i in range(NODES) for f in range(FILES)}
        self.done = {}  # (node, daemon, request): executed
        self.broken = set(self.broken_disk)  # of these: the answer is EIO
        self.in_flight = []
        self.full = False


class World:
    """One history."""

    def __init__(self, seed, without=(), options=(), trace=None):
        self.seed, self.trace = seed, trace
        self.rules = {rule: rule not in without for rule in RULES}
        self.options = options
        self.nodes, self.server, self.writes = [Node(i) for i in range(NODES)], Server(), {}
        self.clock = self.now = self.depth = self.requests = 0
        self.quiet = False
        self.ordered = [set() for _ in range(NODES)]  # writes ordered before what the node does next
        self.barrier = set()  # writes ordered before what anybody does next
        self.last_unlock = None  # (node, seq)
        self.removed = {}  # write of a NAME: what the file's cells are then
        self.recalling = None
        self.conflicts = self.needless = 0
        self.count = collections.Counter()
        self.rnd = random.Random(f"{seed}/start")
        r = self.rnd
        self.p_fault = r.choice([.02, .05, .1])
        self.p_sync_fails = r.choice([0, .05, .15, .4])
        self.span = r.choice([1, 3])
        menu = [(self.op_write, 6, 6, 4), (self.op_read, 4, 2, 4), (self.op_close, 2, 4, 1), (self.op_open, 2, 6, 0),
                (self.op_fsync, 2, 1, 1), (self.op_lock, 2, 0, 0), (self.op_append, 2, 0, 0),
                (self.op_truncate, 1, 0, 0), (self.op_utimes, 1, 0, 1), (self.op_chmod, 1, 1, 1),
                (self.op_remove, 1, 0, 0)]
        kind = r.choice([1, 2, 3])
        self.menu = [entry[0] for entry in menu for _ in range(entry[kind])]
        self.two_files = r.random() < .7
        self.server.reclaimed = set(range(NODES))
        self.server.serving = True

    def note(self, *words):
        if self.trace is not None:
            self.trace.append("  " * self.depth + " ".join(map(str, words)))

    def show(self, ids):
        return ", ".join(self.describe(i) for i in ids)

    def describe(self, number):
        if not number:
            return "nothing"
        w = self.writes[number]
        cell = w.cell % WIDTH
        return f"#{number}({'TIME' if cell == TIME else 'NAME' if cell == NAME else 'byte %d' % cell} of file {w.f})"

    # ------------------------------------------------------------------------------------------------ the judge

    def before(self, x, y):
        """Whether write X is ordered before write Y; 0 is what was there at first."""
        if x == 0 or y == 0 or x == y:
            return x != y and y != 0
        todo, done = [y], set()
        while todo:
            for p in self.writes[todo.pop()].pred:
                if p == x:
                    return True
                if p not in done:
                    done.add(p)
                    todo.append(p)
        return False

    def absent(self, w):
        """Only a late node knows this write: it comes in afterwards, or goes to a conflict file."""
        n = self.nodes[w.node]
        return not (w.applied or w.seen or w.fsynced or w.served) and (n.lapse[w.f] is not None or n.power_lost)

    def required(self, w):
        if w.fsynced or w.seen:
            return True
        if w.served:
            return w.returned and not (w.kind == "chmod" and w.server_lost)
        if w.conflict:
            return w.durable and not w.node_lost
        if w.closed:
            return not (w.node_lost and w.server_lost)
        return not w.node_lost

    def judge(self, cell, value, where):
        for w in self.writes.values():
            if w.cell != cell or w.id == value or not self.required(w) or self.absent(w) and not self.quiet:
                continue
            if self.before(value, w.id):
                why = ("fsynced" if w.fsynced else "seen" if w.seen else "served" if w.served else "closed" if w.closed
                       else "written" if self.quiet else "read")
                raise Violation(f"{why}: {where}: {self.describe(w.id)} of node {w.node} ({w.kind}) "
                                f"is undone by {self.describe(value)}")

    def is_late_too(self, w):
        """W's node has it in its journal, as late bytes, and no other node has acted on it: a failed sync wrote it to
        the disk without the change version, and the server lost power. Of two late nodes the first one may win."""
        m = self.nodes[w.node]
        kept = any(r[3] == w.id for r in m.unheard(w.f))
        return kept and m.is_late(w.f) and not (w.seen or w.fsynced or w.served)

    def judge_late(self, n, cell, number):
        x = self.server.cache[cell]
        since = n.lapse[file_of(cell)]
        if since is not None and x:
            over = self.writes[x]
            if over.node != n.i and over.returned and over.at > since and not over.cell % WIDTH == TIME:
                if self.is_late_too(over):  # it has to come again, or to be in a conflict file
                    over.applied = over.durable = False
                    return
                raise Violation(f"late: node {n.i} puts {self.describe(number)} over "
                                f"{self.describe(x)} of node {over.node}")

    def judge_end(self):
        s = self.server
        for cell in range(CELLS):
            self.judge(cell, s.cache[cell], "at the end")
            self.judge(cell, s.disk[cell], "on the disk at the end")
        for w in self.writes.values():
            if not w.served and self.required(w) and not (w.applied or w.conflict or w.covered):
                raise Violation(f"nowhere: {self.describe(w.id)} of node {w.node}")

    # ----------------------------------------------------------------------------------------------- the server

    def exists(self, value, f):
        """Whether NAME has a file. At first there is file 0 only."""
        return self.writes[value].kind == "create" if value else f == 0

    def next_version(self, f):
        self.clock += 1
        return self.clock if self.rules["unique"] else self.server.version[f] + 1

    def changed(self, f, by, data=True, served=False):
        """No journal has what the server executes itself: to judge late bytes it counts for its own node, too."""
        s = self.server
        s.version[f] = self.next_version(f)
        for i in range(NODES):
            if i != by or served:
                s.foreign[i, f] = s.version[f]
            if i != by and data and (i, f) in s.lapsed:
                s.lapsed[i, f] = True

    def apply(self, n, f, records):
        """FLUSH at the server."""
        s = self.server
        s.must_resend.discard((n.i, f))
        s.doubtful.discard((n.i, f))
        if not records:
            return
        top = records[-1][1]
        s.applied[n.i, f] = max(s.applied[n.i, f], top)
        s.highest[n.i, f] = max(s.highest[n.i, f], top)
        last = {cell: number for _, _, cell, number in records}
        if not self.exists(last.get(f * WIDTH + NAME, s.cache[f * WIDTH + NAME]), f):
            self.note("the file does not exist: bytes are dropped")
            return
        if "thirteen" in self.options and s.version[f] >= n.version(f) and n.lapse[f] is None:
            old = [r for r in records if r[2] % WIDTH == TIME and r[1] <= n.answered_before(f)]
            for r in old:
                self.writes[r[3]].covered = True
            last = {r[2]: r[3] for r in records if r not in old}
        for cell, number in last.items():
            self.judge_late(n, cell, number)
            s.cache[cell] = number
            s.dirty.add(cell)
            s.tainted.discard(cell)
            self.writes[number].applied = True
        for _, _, cell, number in records:
            if last.get(cell) != number:
                self.writes[number].covered = True
        self.changed(f, n.i)

    def lost_writer(self, cell):
        """Nobody can send again what the page cache has for this cell."""
        number = self.server.cache[cell]
        if not number:
            return True
        w = self.writes[number]
        n = self.nodes[w.node]
        return w.served or n.is_late(w.f) or w.seq <= n.heard(w.f)

    def write_out(self, cell):
        """One cell reaches the disk. The change version is the inode's ctime, so TIME and it are one write."""
        s = self.server
        s.disk[cell] = s.cache[cell]
        if cell % WIDTH == TIME:
            s.disk_version[file_of(cell)] = s.version[file_of(cell)]

    def sync(self, f):
        """Whether all of the file is durable now. A failed sync may or may not have written each cell."""
        s = self.server
        mine = set(cells_of(f))
        if not self.quiet and self.rnd.random() < self.p_sync_fails:
            cells = s.dirty & mine
            self.note("sync of file", f, "fails:", self.show(s.cache[c] for c in sorted(cells)))
            for c in sorted(cells):
                if self.rnd.random() < .5:
                    self.write_out(c)
            s.tainted |= cells
            s.dirty -= cells
            s.broken |= {key for key, file in s.done.items() if file == f and key not in s.done_disk}
            if self.rules["faillog"]:
                s.failed = set(s.tainted)
                s.broken_disk = set(s.broken)
            if self.rules["failed"]:
                for n in self.nodes:
                    if s.applied[n.i, f] > s.durable[n.i, f] and not n.is_late(f):
                        s.must_resend.add((n.i, f))
                        s.applied[n.i, f] = s.durable[n.i, f]
                    if s.highest[n.i, f] > s.durable[n.i, f]:
                        s.highest[n.i, f] = s.durable[n.i, f]
                        s.doubtful.add((n.i, f))
            return False
        if self.rules["rewrite"]:
            owing = any((i, f) in s.must_resend for i in range(NODES))
            again = {c for c in s.tainted & mine if not owing or self.lost_writer(c)}
            s.dirty |= again
            s.tainted -= again
        s.failed = set(s.tainted)
        for c in s.dirty & mine:
            if c % WIDTH != NAME or self.rules["name"]:
                s.disk[c] = s.cache[c]
                s.dirty.discard(c)
        if self.rules["version"]:
            s.disk_version[f] = s.version[f]
        s.done_disk.update({k: v for k, v in s.done_cache.items() if v == f})
        for i in range(NODES):
            if (i, f) not in s.must_resend:
                s.durable[i, f] = max(s.durable[i, f], s.applied[i, f])
        for w in self.writes.values():
            if w.f == f and (w.applied or w.covered) and w.cell not in s.tainted and w.cell not in s.dirty:
                w.durable, w.server_lost = True, False
        return True

    def sync_until_good(self, f, good=lambda: True):
        for _ in range(20):
            if self.sync(f) and good():
                return
        raise Abort

    def lapse(self, m, f):
        """From now on others may get what M held of the file."""
        s = self.server
        if self.rules["durable"]:
            self.sync_until_good(f, lambda: not self.rules["rewrite"] or not any(
                self.writes[s.cache[c]].node == m.i for c in s.tainted if s.cache[c] and file_of(c) == f))
        if m.lapse[f] is None:
            m.lapse[f] = self.now
        s.leases[m.i][f] = set()
        m.leases[f] = set()
        s.must_resend.discard((m.i, f))
        if f not in m.stuck or not self.rules["refusedversion"]:
            s.lapsed.setdefault((m.i, f), False)

    def expire(self, m):
        """The lease time of M, which is cut off, is over."""
        self.note("the session of node", m.i, "expires")
        m.gone = True
        for f in range(FILES):
            m.lapse[f] = self.now if m.lapse[f] is None else m.lapse[f]
        for f in range(FILES):
            self.lapse(m, f)
        if self.rules["members"]:
            self.server.members.discard(m.i)
        m.session += 1
        m.waiting = []

    # ------------------------------------------------------------------------------------------------ the nodes

    def reachable(self, n):
        return self.server.up and not n.away

    def ready(self, n, f):
        """The node can work on the file: it has a session, and none of its bytes is late."""
        if not self.server.serving or not self.reachable(n) or n.gone or n.power_lost:
            raise Abort
        if f in n.stuck:
            self.bring_in(n, f)

    def new_write(self, n, cell, kind):
        self.now += 1
        w = Write(len(self.writes) + 1, n.i, cell, kind, self.now)
        for o in self.writes.values():
            known = o.id in self.ordered[n.i] or o.id in self.barrier
            if o.cell == cell and (o.node == n.i or known and not self.absent(o)):
                w.pred.add(o.id)
        if not w.served:
            n.seq += 1
            w.seq = n.seq
        self.writes[w.id] = w
        return w

    def journal(self, n, cell, kind="write"):
        w = self.new_write(n, cell, kind)
        n.log.append(("write", w.seq, cell, w.id))
        n.cache.pop(cell, None)
        self.note(f"node {n.i}: {kind} {self.describe(w.id)}")

    def write_byte(self, n, cell, kind="write"):
        self.journal(n, cell, kind)
        self.journal(n, file_of(cell) * WIDTH + TIME, "time")

    def guard(self, *nodes):
        """A point between two messages, where a fault can strike."""
        was = self.server.instance, [n.daemon for n in nodes]
        self.point()
        if not self.server.up or was != (self.server.instance, [n.daemon for n in nodes]) or any(n.away for n in nodes):
            raise Abort

    def point(self):
        if self.quiet or self.depth > 2:
            return
        r = self.rnd.random()
        self.depth += 1
        if r < self.p_fault:
            self.fault()
        elif r < self.p_fault + .15:
            self.background()
        elif r < self.p_fault + .2:
            self.write_meanwhile(self.rnd.choice(self.nodes))
        self.depth -= 1

    def write_meanwhile(self, n):
        """A node that has WRITE needs nobody to write; it may be cut off."""
        f = self.pick_file()
        free = self.server.serving or n.away
        held = "W" in n.leases[f] and n.lapse[f] is None and f not in n.must_send
        if free and held and not n.power_lost and self.recalling != (n.i, f):
            if self.exists(self.view(n, f * WIDTH + NAME), f):
                self.write_byte(n, f * WIDTH + self.rnd.randrange(self.span))

    def background(self):
        s, r = self.server, self.rnd.random()
        if r < .35 and s.dirty:
            c = self.rnd.choice(sorted(s.dirty))
            self.write_out(c)
            s.dirty.discard(c)
        elif r < .45:
            f = self.pick_file()
            s.disk_version[f] = s.version[f]
        elif r < .55 and s.up:
            self.sync(self.pick_file())
        elif r < .75 and s.up:
            self.tell(self.rnd.choice(self.nodes), self.pick_file())
        elif r < .85 and s.up and s.in_flight:
            self.deliver(s.in_flight.pop(self.rnd.randrange(len(s.in_flight))))
        elif r > .97 and any(c % WIDTH < DATA for c in s.tainted):
            c = self.rnd.choice(sorted(c for c in s.tainted if c % WIDTH < DATA))
            s.cache[c] = s.disk[c]
            for w in self.writes.values():
                if w.cell == c and not w.durable and w.id != s.disk[c]:
                    self.lose_applied(w)
            self.note("evicted: cell", c % WIDTH, "of file", file_of(c))
        else:
            n = self.rnd.choice(self.nodes)
            n.synced = self.rnd.randint(n.synced, len(n.log))

    def deliver(self, message):
        """A FLUSH that comes late."""
        n, session, connection, f, records = message
        if (n.session, n.connection) == (session, connection) and self.server.serving or not self.rules["fence"]:
            self.note("a delayed FLUSH of node", n.i, "arrives:", self.show(r[3] for r in records))
            self.apply(n, f, records)

    def to_send(self, n, f):
        if (n.i, f) in self.server.must_resend:
            n.answered[f] = n.heard(f)
        return [r for r in n.unheard(f) if r[1] > n.answered[f]]

    def flush(self, n, f):
        """Send what FLUSH was not answered for."""
        s = self.server
        if not self.reachable(n):
            raise Abort
        records = self.to_send(n, f)
        if not records:
            s.must_resend.discard((n.i, f))
            return
        session, connection = n.session, n.connection
        try:
            self.guard(n)
        except Abort:
            if self.rnd.random() < .7:
                s.in_flight.append((n, session, connection, f, records))
            raise
        if n.is_late(f):
            raise Abort
        records = self.to_send(n, f)
        if s.full and self.rnd.random() < .8:
            self.note("node", n.i, "flushes file", f, "and is refused: no space")
            self.count["refused"] += 1
            raise Abort
        self.note(f"node {n.i} flushes {self.show(r[3] for r in records)}")
        self.apply(n, f, records)
        version = s.version[f]
        self.guard(n)  # the answer can be lost
        if records:
            n.answered[f] = max(n.answered[f], records[-1][1])
            n.log.append(("answered", f, n.answered[f]))
        self.tell_version(n, f, version)
        if not self.rules["ring"]:
            n.cache.update({r[2]: (version, r[3]) for r in records})
        if not self.rules["journal"] and n.answered[f] > n.heard(f):
            n.log.append(("durable", f, n.answered[f]))
        n.must_send.discard(f)

    def tell(self, n, f):
        """The node hears up to where its bytes are durable."""
        s = self.server
        if not self.reachable(n) or n.is_late(f) or n.i not in s.reclaimed:
            return False
        if s.durable[n.i, f] > n.heard(f):
            n.log.append(("durable", f, s.durable[n.i, f]))
            self.note(f"node {n.i} hears that file {f} is durable up to {s.durable[n.i, f]}")
        return True

    def tell_version(self, n, f, version):
        """Part of an answer."""
        if self.rules["together"]:
            self.tell(n, f)
        n.log.append(("version", f, version))

    def hand_over(self, m, f, wait_durable=True, wait_heard=True):
        """All that M has of the file is durable, and M has heard so; or M's bytes are late."""
        s = self.server
        for _ in range(12):
            if m.gone or f in m.stuck:
                return
            if not self.reachable(m) or m.power_lost:
                if s.up and (self.quiet or self.rnd.random() < .5):
                    self.expire(m)
                    return
                raise Abort
            try:
                self.flush(m, f)
            except Abort:
                if s.full and self.reachable(m) and not m.is_late(f) and m.unheard(f):
                    self.give_up(m, f)
                    return
                raise
            if not wait_durable:
                return
            self.guard(m)
            if not self.sync(f) or (m.i, f) in s.must_resend:
                continue
            if not wait_heard:
                if self.rnd.random() < .5:
                    self.tell(m, f)
                return
            self.guard(m)
            if self.tell(m, f) and not m.unheard(f):
                return
        raise Abort

    def give_up(self, m, f):
        """M gives WRITE back with bytes that the server refused: they are late from now on."""
        self.note("node", m.i, "gives file", f, "back with refused bytes")
        if self.rules["refused"]:
            m.stuck.add(f)
            if self.rules["refusedmark"]:
                m.log.append(("refused", f, m.unheard(f)[-1][1]))
                m.synced = len(m.log)
        self.lapse(m, f)

    def acquire(self, n, f, kinds):
        """Leases of the file: readers and writers on different nodes exclude each other."""
        s, rules = self.server, self.rules
        self.ready(n, f)
        daemon = n.daemon
        if f in n.must_send and rules["first"]:
            self.flush(n, f)
        for m in self.nodes:
            if m is n:
                continue
            back = {other for mine, other in ("RW", "WR") if mine in kinds and other in s.leases[m.i][f]}
            if not back:
                continue
            if not self.reachable(m) or m.power_lost:  # its old session answers nothing
                if self.rnd.random() < .5:
                    raise Abort
                self.expire(m)
                continue
            self.recalling = m.i, f
            try:
                if "W" in back:
                    self.hand_over(m, f, rules["durable"], rules["heard"])
                elif rules["readback"] and m.unheard(f):
                    self.hand_over(m, f)
            finally:
                self.recalling = None
            if m.lapse[f] is None:
                m.leases[f] -= back
                s.leases[m.i][f] -= back
                for c in cells_of(f):
                    m.cache.pop(c, None) if self.rnd.random() < .5 else None
                self.note(f"node {m.i} gives back {'/'.join(sorted(back))} of file {f}")
            self.guard(n)
        if "R" in kinds:
            self.prepare_read(n, f)
        if rules["shared"] and self.changed_for_others(n, f):
            if not self.sync(f):
                raise Abort
            self.guard(n)
        if n.daemon != daemon or n.is_late(f):
            raise Abort
        for m in self.nodes:  # another node may have come in between
            held = s.leases[m.i][f]
            if m is not n and ("R" in kinds and "W" in held or "W" in kinds and "R" in held):
                raise Abort
        s.leases[n.i][f] |= kinds
        version = s.version[f]
        self.guard(n)
        n.leases[f] |= kinds
        self.tell_version(n, f, version)

    def prepare_read(self, n, f):
        """READ: nothing is shown that a failed sync may have lost, or that only the server's page cache has."""
        s, rules, mine = self.server, self.rules, set(cells_of(f))
        if rules["rewrite"] and s.tainted & mine:
            for m in self.nodes:
                if (m.i, f) in s.must_resend:
                    self.hand_over(m, f)
            if s.tainted & mine and not (self.sync(f) and not s.tainted & mine):
                raise Abort
            self.guard(n)
        if rules["selfhear"] and n.unheard(f) and (n.answered[f] > n.heard(f) or (n.i, f) in s.must_resend):
            self.hand_over(n, f)

    def changed_for_others(self, n, f):
        """Whether the page cache has what the server executed for another node, and its disk may not."""
        s = self.server
        served = (self.writes[s.cache[c]] for c in (s.dirty | s.tainted) & set(cells_of(f)) if s.cache[c])
        return any(w.served and w.node != n.i for w in served)

    def view(self, n, cell):
        f = file_of(cell)
        mine = [r[3] for r in n.unheard(f) if r[2] == cell and r[1] > n.answered[f]] if n.lapse[f] is None else []
        return mine[-1] if mine else self.server.cache[cell]

    # ------------------------------------------------------------------------------------------ what programs do

    def pick_file(self):
        return self.rnd.randrange(FILES) if self.two_files else 0

    def pick(self, n):
        """A file for this operation; if it does not exist the node creates it."""
        f = self.pick_file()
        if not self.exists(self.view(n, f * WIDTH + NAME), f):
            self.op_create(n, f)
        return f

    def op_create(self, n, f):
        self.acquire(n, f, {"R", "W"})
        value = self.view(n, f * WIDTH + NAME)
        self.judge(f * WIDTH + NAME, value, f"create by node {n.i}")
        if self.exists(value, f):
            raise Abort
        self.see(n, f * WIDTH + NAME, value)
        self.journal(n, f * WIDTH + NAME, "create")
        self.journal(n, f * WIDTH + TIME, "time")
        self.flush(n, f)
        if not self.rules["namerecord"]:
            n.log = [r for r in n.log if r[0] != "write" or r[2] != f * WIDTH + NAME]

    def op_write(self, n, f=None):
        f = self.pick(n) if f is None else f
        self.acquire(n, f, {"W"})
        if not self.exists(self.view(n, f * WIDTH + NAME), f):
            raise Abort
        self.write_byte(n, f * WIDTH + self.rnd.randrange(self.span))

    def op_utimes(self, n):
        f = self.pick(n)
        self.acquire(n, f, {"W"})
        if self.exists(self.view(n, f * WIDTH + NAME), f):
            self.journal(n, f * WIDTH + TIME, "utimes")

    def op_read(self, n):
        """read, stat or lookup"""
        f = self.pick_file()
        self.acquire(n, f, {"R"})
        cell = self.rnd.choice(cells_of(f))
        value = self.view(n, cell)
        if not n.unheard(f) and self.rnd.random() < .5:
            value = self.read_over_ring(n, cell, value)
        self.note(f"node {n.i} reads {self.describe(value)} at cell {cell % WIDTH} of file {f}")
        self.judge(cell, value, f"read by node {n.i}")
        self.see(n, cell, value)
        if not any(r[2] == cell for r in n.unheard(f)):
            n.cache[cell] = self.server.version[f], value

    def read_over_ring(self, n, cell, value):
        version = self.server.version[file_of(cell)]
        for m in self.nodes:
            if m is not n and self.reachable(m) and cell in m.cache and m.cache[cell][0] == version:
                self.count["ring"] += 1
                self.note(f"node {n.i} gets cell {cell} from node {m.i}")
                return m.cache[cell][1]
        return value

    def see(self, n, cell, value):
        """What is shown is ordered before all that anybody does next, and may not be undone."""
        for w in self.writes.values():
            if w.cell == cell and not w.node_lost and w.returned and not w.conflict and not self.absent(w) and not (
                    w.served and not self.required(w)):
                if w.id != value and value and not self.before(value, w.id):
                    self.writes[value].pred.add(w.id)
                self.barrier.add(w.id)
        if value:
            w = self.writes[value]
            own = w.node == n.i and (w.served or any(r[3] == value for r in n.unheard(w.f)))
            if w.applied and not own:
                w.seen = True

    def op_close(self, n):
        f = self.pick_file()
        self.ready(n, f)
        if not n.unheard(f):
            raise Abort
        upto = n.seq
        self.flush(n, f)
        for w in self.writes.values():
            if w.node == n.i and w.f == f and not w.served and w.seq <= upto and not w.node_lost:
                w.closed = True
        self.note(f"node {n.i} has closed file {f}")

    def op_open(self, n):
        f = self.pick_file()
        self.ready(n, f)
        order, daemon = {w.id for w in self.writes.values() if w.f == f and w.closed and w.node != n.i}, n.daemon
        if self.rules["open"]:
            for m in self.nodes:
                if m is n or m.lapse[f] is not None:
                    continue
                if self.server.highest[m.i, f] > m.heard(f) or (m.i, f) in self.server.must_resend:
                    self.hand_over(m, f)
        self.guard(n)
        if n.daemon != daemon:
            raise Abort
        self.ordered[n.i] |= order
        self.note(f"node {n.i} has opened file {f}")
        if self.rnd.random() < .6 and self.exists(self.view(n, f * WIDTH + NAME), f):
            self.op_write(n, f)

    def op_fsync(self, n):
        f, s = self.pick_file(), self.server
        self.ready(n, f)
        upto = n.seq
        self.flush(n, f)
        self.guard(n)
        if not self.sync(f) or (n.i, f) in s.must_resend:
            return
        self.guard(n)
        self.tell(n, f)
        for w in self.writes.values():
            if w.node != n.i or w.f != f or w.served or w.node_lost or w.conflict:
                continue
            if w.seq <= min(upto, n.heard(f)):
                w.fsynced = w.closed = True
                self.barrier.add(w.id)
        self.note(f"node {n.i} has fsynced file {f}")

    def op_lock(self, n):
        """Lock, write to a file, which need not be the locked one, unlock."""
        f = self.pick_file()
        self.ready(n, f)
        order, daemon = set(), n.daemon
        if self.last_unlock and self.last_unlock[0] != n.i:
            m = self.nodes[self.last_unlock[0]]
            files = range(FILES) if self.rules["lockfiles"] else [0]
            order = {w.id for w in self.writes.values()
                     if w.node == m.i and not w.served and w.seq <= self.last_unlock[1] and not self.absent(w)}
            for g in files:
                if m.unheard(g) and not m.is_late(g):
                    self.hand_over(m, g, self.rules["durable"], self.rules["heard"])
                elif m.power_lost and m.lapse[g] is None:
                    raise Abort
            order = {i for i in order if not self.absent(self.writes[i])}
            self.guard(n)
        if n.daemon != daemon:
            raise Abort
        self.ordered[n.i] |= order
        self.op_write(n, f)
        self.last_unlock = n.i, n.seq

    def op_append(self, n):
        f = self.pick(n)
        self.acquire(n, f, {"R", "W"})
        if not self.exists(self.view(n, f * WIDTH + NAME), f):
            raise Abort
        cells = list(cells_of(f))[:DATA]
        used = [c for c in cells if self.view(n, c) and not self.writes[self.view(n, c)].served]
        end = max(used) + 1 if used else cells[0]
        if end not in cells:
            raise Abort
        self.judge(end, self.view(n, end), f"append by node {n.i}")
        for w in self.writes.values():
            if w.cell == end and not self.absent(w) and not w.node_lost and w.returned and not w.conflict:
                self.barrier.add(w.id)
        self.write_byte(n, end, "append")

    # ------------------------------------------------------------------ requests that the server executes itself

    def op_truncate(self, n):
        f = self.pick(n)
        self.request(n, f, "truncate", [*range(f * WIDTH, f * WIDTH + DATA + 1)])

    def op_remove(self, n):
        f = self.pick(n)
        self.request(n, f, "remove", [*cells_of(f)])

    def op_chmod(self, n):
        f = self.pick(n)
        self.request(n, f, "chmod", [f * WIDTH + TIME])

    def request(self, n, f, kind, cells):
        self.requests += 1
        self.execute(n, dict(key=(n.i, n.daemon, self.requests), f=f, kind=kind, cells=cells, session=n.session,
                             daemon=n.daemon, writes=[]))

    def execute(self, n, request):
        """Also when the node sends it again, as it does until it has the answer."""
        s, f, kind = self.server, request["f"], request["kind"]
        self.ready(n, f)
        if not (self.rules["once"] and request["key"] in s.done):
            self.acquire(n, f, {"R", "W"})
            if self.rules["attributes" if kind == "chmod" else "truncate"]:
                self.hand_over(n, f)
            else:
                self.flush(n, f)
            if n.is_late(f) or n.daemon != request["daemon"] or n.session != request["session"]:
                raise Abort
            if s.leases[n.i][f] != {"R", "W"}:
                raise Abort
            self.change(n, request)
        try:
            if kind != "chmod" and self.rules["synced"]:
                self.sync(f)
            broken = kind != "chmod" and request["key"] in s.broken
            self.guard(n)
        except Abort:
            alive = not n.gone and n.daemon == request["daemon"] and n.session == request["session"]
            if alive and request not in n.waiting:
                n.waiting.append(request)
            raise
        if request in n.waiting:
            n.waiting.remove(request)
        if broken:
            self.note("node", n.i, "gets EIO from", kind, "of file", f)
            return
        self.tell_version(n, f, s.version[f])
        self.note("node", n.i, "has the answer to", kind, "of file", f)
        for w in request["writes"]:
            w.returned = True
            self.barrier.add(w.id)
        self.barrier |= request["before"]

    def change(self, n, request):
        s, f, kind, cells = self.server, request["f"], request["kind"], request["cells"]
        again = request["writes"] and not any(w.server_lost for w in request["writes"])
        if not self.exists(s.cache[f * WIDTH + NAME], f) and not again:
            if request in n.waiting:
                n.waiting.remove(request)  # ENOENT
            raise Abort
        if not again:
            # No program has the answer: what the node wrote since the first execution is concurrent with the request.
            known = request.setdefault("known", len(self.writes))
            concurrent = {w.id for w in self.writes.values() if w.node == n.i and w.id > known}
            before = [w for w in self.writes.values()
                      if w.cell in cells and w.id not in concurrent and not self.absent(w)]
            request["before"] = {w.id for w in before}
            for w in request["writes"]:
                w.returned = False
            request["writes"] = []
            for c in cells:
                w = self.new_write(n, c, kind)
                w.pred = w.pred - concurrent | {o.id for o in before if o.cell == c}
                request["writes"].append(w)
        else:
            self.count["twice"] += 1
        for w in request["writes"]:
            w.applied = True
            s.cache[w.cell] = w.id
            s.dirty.add(w.cell)
            s.tainted.discard(w.cell)
            n.cache.pop(w.cell, None)
        if kind == "remove":
            self.removed[s.cache[f * WIDTH + NAME]] = [s.cache[c] for c in cells_of(f)]
        s.done[request["key"]] = f
        if self.rules["oncedisk"]:
            s.done_cache[request["key"]] = f
        self.note(f"the server executes {kind} of file {f} for node {n.i}{' again' if again else ''}:",
                  self.show(w.id for w in request["writes"]))
        self.changed(f, n.i, kind != "chmod", True)

    # --------------------------------------------------------------------------------------------------- faults

    def fault(self):
        r, n, s = self.rnd.random(), self.rnd.choice(self.nodes), self.server
        self.count["faults"] += 1
        if r < .15 and s.up:
            self.note("the server is killed")
            s.up = False
        elif r < .3:
            self.server_power()
        elif r < .48:
            self.node_kill(n)
        elif r < .6:
            self.node_power(n)
        elif r < .66:
            s.full = not s.full
            self.note("the server's disk is", "full" if s.full else "no longer full")
        elif r < .87:
            n.away = True
            self.note("node", n.i, "is cut off")
        elif n.away and s.up and s.serving and not n.gone:
            try:
                self.expire(n)
            except Abort:
                pass
        else:
            self.return_node(n)

    def return_node(self, n):
        if n.away:
            n.connection += 1
        n.away = False

    def server_power(self):
        s = self.server
        self.note("the server loses power")
        s.up = False
        gone = set()
        for f in range(FILES):
            name = s.disk[f * WIDTH + NAME]
            if not self.exists(name, f):  # bytes without a name are lost
                was = list(s.disk)
                for c, old in zip(cells_of(f), self.removed.get(name, [0] * WIDTH)):
                    s.disk[c] = old
                gone |= {c for c in cells_of(f) if was[c] != s.disk[c]}
        s.cache, s.version, s.dirty, s.failed = list(s.disk), list(s.disk_version), set(), set()
        s.done_cache, s.broken_disk = dict(s.done_disk), set()
        for w in self.writes.values():
            kept = w.durable and (w.cell not in gone or self.before(w.id, s.disk[w.cell]))
            if s.disk[w.cell] != w.id and not kept:
                self.lose_applied(w)

    def lose_applied(self, w):
        """The page cache had W, or what covers W, and has lost that."""
        covers = w.covered and not self.before(w.id, self.server.disk[w.cell])
        if w.applied or covers:
            w.server_lost, w.applied, w.covered = True, False, False

    def node_kill(self, n):
        self.note("the daemon of node", n.i, "is killed")
        self.new_daemon(n)
        n.must_send = {f for f in range(FILES) if n.unheard(f)}
        for f in range(FILES):
            if n.lapse[f] is None and not n.power_lost:  # after a loss of power no daemon has had a session yet
                if not n.unheard(f) or not self.rules["inherit"]:
                    n.leases[f] = set()
                if self.server.up:
                    self.server.leases[n.i][f] = set(n.leases[f])

    def new_daemon(self, n):
        n.daemon += 1
        n.connection += 1
        n.waiting, n.cache = [], {}
        n.answered = collections.defaultdict(int, {f: n.heard(f) for f in range(FILES)})
        n.stuck = {f for f in range(FILES) if any(r[:2] == ("refused", f) and r[2] > n.heard(f) for r in n.log)}

    def node_power(self, n):
        self.note("node", n.i, "loses power")
        before = {r[3] for f in range(FILES) for r in n.unheard(f)}
        n.log = n.log[:self.rnd.randint(n.synced, len(n.log))]
        if not self.rules["trim"]:
            n.log = [r for r in n.log if r[0] != "durable" or self.rnd.random() < .5]
        for number in before - {r[3] for r in n.log if r[0] == "write"}:
            self.writes[number].node_lost = True
            self.note(self.describe(number), "is lost with the tail of the journal")
        n.synced = len(n.log)
        self.new_daemon(n)
        n.must_send = set()
        n.power_lost, n.away = True, self.rnd.random() < .7
        n.leases = collections.defaultdict(set)

    # ------------------------------------------------------------------------------------------------- recovery

    def restart(self):
        s, rules = self.server, self.rules
        s.start()
        s.done = dict(s.done_cache)
        self.note("the server starts")
        order = self.nodes[:]
        self.rnd.shuffle(order)
        s.serving = not rules["grace"]
        for n in order:
            if n.away and self.rnd.random() < .4 and not self.quiet:
                continue
            self.return_node(n)
            if n.power_lost or rules["members"] and n.i not in s.members:
                continue
            self.reclaim(n)
            if not s.up:
                return
        if not rules["members"]:
            for n in self.nodes:
                if n.i in s.reclaimed and n.gone:  # it got through unnoticed
                    n.gone, n.lapse = False, [None] * FILES
        if rules["gracesync"]:
            for f in range(FILES):
                self.sync_until_good(f)
        if rules["members"]:
            s.members = set(s.reclaimed)
        for n in self.nodes:
            if n.i not in s.reclaimed:
                n.gone, n.waiting = True, []
                n.session += 1
                s.leases[n.i] = collections.defaultdict(set)
                n.leases = collections.defaultdict(set)
                n.lapse = [self.now if at is None else at for at in n.lapse]
                if rules["gracesync"]:
                    for f in range(FILES):
                        s.must_resend.discard((n.i, f))
                        self.sync_until_good(f)
        s.serving = True
        self.note("the grace period ends; members:", *sorted(s.reclaimed))

    def reclaim(self, n):
        """A member sends again all that it has not heard to be durable."""
        s = self.server
        n.connection += 1
        s.reclaimed.add(n.i)
        if self.rules["resend"]:
            for f in range(FILES):
                n.answered[f] = n.heard(f)
        if not self.rules["grace"] and self.rnd.random() < .5:
            return  # it comes some time
        for f in range(FILES):
            if f in n.stuck:
                continue
            if n.unheard(f):
                n.leases[f] = n.leases[f] | {"W"}
            s.leases[n.i][f] = set(n.leases[f])
        if self.rules["requestsfirst"]:
            for request in list(n.waiting):
                if not (self.rules["once"] and request["key"] in s.done):
                    self.change(n, request)
        for f in range(FILES):
            for again in (1, 2, 3):  # a daemon that is killed just then comes again
                if f in n.stuck:
                    break
                try:
                    self.flush(n, f)
                    break
                except Abort:
                    if not s.up:
                        return
                    if s.full and self.reachable(n) and not n.power_lost and n.unheard(f):
                        s.must_resend.add((n.i, f))  # refused: the node keeps WRITE, and its bytes
                        break
                    if again == 3 or n.away or n.power_lost:
                        s.reclaimed.discard(n.i)
                        s.leases[n.i] = collections.defaultdict(set)
                        return

    def come_back(self, n):
        """A node that is late brings what it has, then is a member again."""
        s = self.server
        if not s.up or not s.serving or n.away:
            raise Abort
        if not n.gone and n.i in s.reclaimed:  # it lost power: its old session ends
            self.expire(n)
        daemon = n.daemon
        for f in range(FILES):
            self.bring_in(n, f)
            if n.daemon != daemon:
                raise Abort
        s.members.add(n.i)
        s.reclaimed.add(n.i)
        n.session += 1
        n.gone = n.power_lost = False
        self.note(f"node {n.i} is back")

    def bring_in(self, n, f):
        """Late bytes of one file: with all other leases recalled, they go in, or to a conflict file."""
        s, rules = self.server, self.rules
        for m in self.nodes:
            if m is not n and s.leases[m.i][f]:
                if not self.reachable(m):
                    self.expire(m)
                    continue
                self.recalling = m.i, f
                try:
                    self.hand_over(m, f, rules["durable"], rules["heard"])
                finally:
                    self.recalling = None
                if m.lapse[f] is None:
                    m.leases[f] = set()
                s.leases[m.i][f] = set()
        if n.away or not s.up or s.full:
            raise Abort
        records = n.unheard(f)
        s.must_resend.discard((n.i, f))
        if rules["late"] and records:
            if rules["applied"] and s.highest[n.i, f] >= records[0][1]:
                self.sync_until_good(f)
                records = [r for r in records if r[1] > s.highest[n.i, f]]
            # Its journal is whole: since it lapsed. Else the journal may be an old one: since what that knows.
            if not n.power_lost and (n.i, f) in s.lapsed and (n.i, f) not in s.doubtful:
                conflict = s.lapsed[n.i, f]
            elif not rules["power"]:
                conflict = False
            elif rules["forgotten"] and n.power_lost and (n.i, f) in s.doubtful:
                conflict = s.version[f] > n.version(f)  # the journal may end before what the file has of this node
            else:
                conflict = s.foreign[n.i, f] > n.version(f)
            names = [r[3] for r in records if r[2] % WIDTH == NAME] or [s.cache[f * WIDTH + NAME]]
            conflict |= rules["nameless"] and not self.exists(names[-1], f)
            if conflict and records:
                self.conflict_file(n, f, records)
                records = []
        if rules["latetimes"] and s.foreign[n.i, f] > n.version(f):
            for r in records:
                self.writes[r[3]].conflict |= r[2] % WIDTH == TIME
            records = [r for r in records if r[2] % WIDTH != TIME]
        if records:
            self.note(f"node {n.i}: late bytes go in: {self.show(r[3] for r in records)}")
            self.apply(n, f, records)
        if rules["lateheard"]:
            for _ in range(20):  # durable at once: then nothing is left that could be late again
                if self.sync(f) and (n.i, f) not in s.must_resend:
                    break
                self.apply(n, f, records)
            else:
                raise Abort
            self.guard(n)
            if n.unheard(f):
                n.log.append(("durable", f, n.unheard(f)[-1][1]))
        n.seq = max([n.seq] + [s.highest[n.i, g] for g in range(FILES)])
        self.tell_version(n, f, s.version[f])
        n.answered[f] = n.heard(f)
        n.must_send.discard(f)
        n.stuck.discard(f)
        s.lapsed.pop((n.i, f), None)
        n.lapse[f] = None

    def conflict_file(self, n, f, records):
        self.conflicts += 1
        since = n.lapse[f]
        others = (w for w in self.writes.values() if w.f == f and w.node != n.i and w.applied)
        if since is None or not any(w.at > since for w in others):
            self.needless += 1
        self.note(f"node {n.i}: conflict file with {self.show(r[3] for r in records)}")
        for r in records:
            self.writes[r[3]].conflict = True

    # ------------------------------------------------------------------------------------------------ a history

    def step(self):
        s = self.server
        self.now += 1
        if not s.up:
            return self.restart()
        n = self.rnd.choice(self.nodes)
        if n.away:
            if self.rnd.random() < .25:
                self.return_node(n)
            elif self.rnd.random() < .1 and s.serving and not n.gone:
                self.expire(n)
            elif self.rnd.random() < .3:
                self.write_meanwhile(n)
            return None
        if n.gone or n.power_lost:
            return self.come_back(n)
        if n.waiting and self.rnd.random() < .5:
            return self.execute(n, self.rnd.choice(n.waiting))
        r = self.rnd.random()
        if r < self.p_fault:
            return self.fault()
        if r < .2:
            return self.background()
        self.count["operations"] += 1
        return self.rnd.choice(self.menu)(n)

    def run(self, steps):
        for i in steps:
            self.rnd = random.Random(f"{self.seed}/{i}")
            self.depth = 0
            if self.trace is not None:
                self.trace.append(f"step {i}")
            try:
                self.step()
            except Abort:
                self.recalling = None
        self.finish()
        self.judge_end()

    def finish(self):
        """No more faults; all nodes come back."""
        self.note("--- all come back")
        self.quiet, self.depth = True, 0
        self.rnd = random.Random(f"{self.seed}/end")
        for _ in range(60):
            self.server.full = False
            for n in self.nodes:
                self.return_node(n)
            try:
                if not self.server.up:
                    self.restart()
                for n in self.nodes:
                    if n.gone or n.power_lost:
                        self.come_back(n)
                    for f in sorted(n.stuck):
                        self.bring_in(n, f)
                for n in self.nodes:
                    for f in range(FILES):
                        self.hand_over(n, f)
                for f in range(FILES):
                    self.sync(f)
                return
            except Abort:
                continue
        raise Violation("never quiet")


# ------------------------------------------------------------------------------------------------------ histories

def run_history(seed, without=(), options=(), steps=range(STEPS), trace=None):
    """The world, and the promise that it broke or None."""
    world = World(seed, without, options, trace)
    try:
        world.run(steps)
    except Violation as broken:
        return world, str(broken)
    return world, None


def shrink(seed, without, options):
    """The fewest steps found that still break a promise: leave out halves, quarters... then single steps."""
    steps, size = list(range(STEPS)), STEPS // 2
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size:]
            if run_history(seed, without, options, fewer)[1]:
                steps = fewer
            else:
                at += size
        size //= 2
    return steps


def replay(seed, without, options):
    """Print the shrunk history; whether it holds."""
    if not run_history(seed, without, options)[1]:
        print(f"history {seed} breaks nothing")
        return True
    trace = []
    _, why = run_history(seed, without, options, shrink(seed, without, options), trace)
    print("\n".join(trace))
    print(f"history {seed} breaks: {why}")
    return False


class Campaign:
    """Many histories with the same rules."""

    def __init__(self, first, histories, without=(), options=(), stop=False):
        self.first_broken, self.why, self.broken, self.run = None, None, 0, 0
        self.kinds, self.count = collections.Counter(), collections.Counter()
        self.conflicts = self.needless = 0
        for seed in range(first, first + histories):
            world, why = run_history(seed, without, options)
            self.run += 1
            self.conflicts += world.conflicts
            self.needless += world.needless
            self.count.update(world.count)
            if why:
                self.broken += 1
                self.kinds[why.split(":")[0]] += 1
                if not stop:
                    print(f"broken: {seed}: {why}", flush=True)
                if self.why is None:
                    self.first_broken, self.why = seed, why
                    if stop:
                        break

    def summary(self):
        count = self.count
        return (f"{self.run} histories, {count['operations']} operations, {count['faults']} faults, "
                f"{self.broken} broken {dict(self.kinds) if self.broken else ''}; "
                f"{self.conflicts} conflict files, {self.needless} needless; {count['refused']} refused flushes, "
                f"{count['twice']} requests executed twice, {count['ring']} reads over the ring")


def table(first, histories):
    print("| rule left out | histories until one breaks | what breaks |\n|---|---|---|")
    for rule in RULES:
        c = Campaign(first, histories, {rule}, stop=True)
        print(f"| {rule}: {RULES[rule]} | {c.run if c.broken else 'none in %d' % c.run} | "
              f"{c.why.split(':')[0] if c.why else ''} |", flush=True)


def main():
    p = argparse.ArgumentParser(description="Random model of commit on share.")
    p.add_argument("--seed", type=int, default=None, help="first history (default: from the clock)")
    p.add_argument("--histories", type=int, default=1000)
    p.add_argument("--without", default="", help="rules to leave out: " + " ".join(RULES))
    p.add_argument("--with", dest="options", default="", help="optional rules: " + " ".join(OPTIONS))
    p.add_argument("--replay", type=int, default=None, help="shrink and print this history")
    p.add_argument("--table", action="store_true", help="leave out each rule in turn")
    p.add_argument("--expect", choices=("holds", "breaks"), default="holds", help="what counts as success")
    a = p.parse_args()
    without, options = set(filter(None, a.without.split(","))), set(filter(None, a.options.split(",")))
    for unknown in (without - set(RULES)) | (options - set(OPTIONS)):
        sys.exit(f"no such rule: {unknown}; there are {' '.join(RULES)}; options: {' '.join(OPTIONS)}")
    if a.replay is not None:
        sys.exit(0 if replay(a.replay, without, options) else 1)
    first = a.seed if a.seed is not None else int(time.time()) % 10**8
    print(f"seed {first}", flush=True)
    if a.table:
        return table(first, a.histories)
    campaign = Campaign(first, a.histories, without, options, stop=a.expect == "breaks")
    print(campaign.summary())
    if campaign.why:
        extra = " --without " + ",".join(sorted(without)) if without else ""
        extra += " --with " + ",".join(sorted(options)) if options else ""
        if a.expect == "holds":
            replay(campaign.first_broken, without, options)
        print(f"again: {sys.argv[0]}{extra} --replay {campaign.first_broken}")
    sys.exit(0 if bool(campaign.why) == (a.expect == "breaks") else 1)


if __name__ == "__main__":
    main()

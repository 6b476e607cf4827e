#!/usr/bin/env python3
"""The driver of a load test, inside the cluster that test/load/run made: see there.

It starts the daemons and one process of programs per node, carries the schedule of faults out, watches, lets everything
drain, and judges.  Threads: one for each fault that is going on; the main one watches.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time

import place
import schedule
import watch
from beats import Beats
from cluster import Cluster
from judge import Judge, Notes

now = time.monotonic
# Of the server and of a mount: MiB, descriptors, threads, MiB of journal and of cache.  A mount may have 16 threads for each of 3
# kinds of invalidations (fuse/base/notify.c), 15 others, and one that resolves the server's name.
LIMITS = ((400, 1500, 40, 0, 0), (200, 400, 64, 100, 80))
SANITIZED = ((1500, 1500, 40, 0, 0), (900, 400, 64, 100, 80))
ERRORS = re.compile(r"error|assert", re.IGNORECASE)
EXPECTED = re.compile(r"answers a recall with an error")


class Log:
    """Reads what is added to a daemon's log."""

    def __init__(self, path):
        self.path, self.at = path, 0

    def lines(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(self.at)
                data = file.read()
        except OSError:
            return []
        end = data.rfind(b"\n") + 1
        self.at += end
        return data[:end].decode(errors="replace").splitlines()


class Load:
    def __init__(self, arguments):
        self.arguments = arguments
        self.nodes, self.work = arguments.nodes, arguments.work
        self.sizes = place.Sizes(self.nodes)
        self.cluster = Cluster(arguments.build, self.work, json.loads(arguments.keepers), arguments.lease,
            {node for node in range(self.nodes) if node % 2})
        self.export = os.path.join(self.work, "export")
        self.notes, self.problems, self.lock = Notes(), [], threading.Lock()
        self.awaited, self.stopped, self.lost = set(), {}, 0
        self.server_log = Log(os.path.join(self.work, "kairand.log"))
        self.logs = [Log(os.path.join(self.work, "node%d" % (node + 1), "log")) for node in range(self.nodes)]
        self.workers, self.down, self.faults = {}, set(), []
        self.slots = arguments.threads + 1
        self.beats = Beats(os.path.join(self.work, "beats"), self.slots * self.nodes)
        self.patience = (6 * arguments.lease + 60) * self.cluster.slow

    def problem(self, text):
        with self.lock:
            self.problems.append(text)
        print("PROBLEM: " + text, flush=True)

    # --- daemons and programs ----------------------------------------------------------------------------------------------

    def each(self, function, count=8):
        """function(node) for every node, several at once."""
        todo, lock = list(range(self.nodes))[::-1], threading.Lock()

        def work():
            while True:
                with lock:
                    if not todo:
                        return
                    node = todo.pop()
                try:
                    function(node)
                except Exception as error:
                    self.problem("%s: %s" % (Cluster.name(node), error))

        threads = [threading.Thread(target=work) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def worker_start(self, node, mapper, life=0):
        config = {
            "node": node, "nodes": self.nodes, "seed": self.arguments.seed, "mount": self.cluster.seen_from_here(node),
            "log": os.path.join(self.work, "history", "history-%d-%d" % (node, mapper)),
            "beats": os.path.join(self.work, "beats"), "async": node in self.cluster.async_nodes, "mapper": mapper, "life": life,
            "open": max(4, self.arguments.open // (self.nodes * self.arguments.threads)),
            "pace": self.nodes * self.arguments.threads / self.arguments.rate,
            "slots": [node * self.slots + i for i in ([self.arguments.threads] if mapper else range(self.arguments.threads))],
        }
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(self.work, "programs.log"), "a") as log:
            self.workers[node, mapper] = (subprocess.Popen([sys.executable, os.path.join(here, "worker.py"), json.dumps(config)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log), life)

    def start(self):
        os.makedirs(os.path.join(self.work, "history"))
        place.populate(self.export, self.sizes)
        self.cluster.server_start()
        self.each(self.cluster.mount)
        for node in range(self.nodes):
            self.worker_start(node, False)
            if node % 4 == 0:
                self.worker_start(node, True)

    # --- faults ------------------------------------------------------------------------------------------------------------

    def carry_out(self, fault):
        _, kind, node, length = fault
        try:
            self.begin(kind, node)
            time.sleep(length)
            if kind == "kill":
                time.sleep(0.01)
            self.cluster.end(kind, node)
            if kind == "stop" and node is not None:
                self.stopped[node] = (self.stopped[node][0], now())
        except Exception as error:
            self.problem("fault %s: %s" % (schedule.describe(fault), error))
        if kind == "kill":
            self.down.discard(node)

    def begin(self, kind, node):
        if kind == "kill":
            self.down.add(node)
            if node is not None:
                self.notes.kills.append((node, now()))
            else:
                self.awaited = set(range(self.nodes))
        if kind == "stop" and node is not None:
            self.stopped[node] = (now(), float("inf"))
        self.cluster.begin(kind, node)

    # --- watching ----------------------------------------------------------------------------------------------------------

    def read_logs(self):
        for line in self.server_log.lines():
            back = re.search(r"node node(\d+) \(.*\) (goes on|has a session)", line)
            lost = re.search(r"node node(\d+) is lost", line)
            if back:
                self.is_back(int(back[1]) - 1)
            elif lost:
                self.is_lost(int(lost[1]) - 1)
            elif "nodes have not come back" in line:
                for node in list(self.awaited):
                    self.is_lost(node)
            self.judge_line("kairand", line)
        for node, log in enumerate(self.logs):
            for line in log.lines():
                self.judge_line(Cluster.name(node), line)

    def judge_line(self, who, line):
        if ERRORS.search(line) and not EXPECTED.search(line) and not re.search(self.arguments.expect, line):
            self.problem("log of %s: %s" % (who, line))

    def is_lost(self, node):
        stop = self.stopped.get(node, (0, 0))
        self.lost += 1
        since = now() - 1.5 * self.arguments.lease - 2
        self.notes.late.append([node, since, float("inf"), stop[1] >= since])

    def is_back(self, node):
        self.awaited.discard(node)
        for late in self.notes.late:
            if late[0] == node and late[2] == float("inf"):
                late[2] = now() + 2

    def look_after(self):
        """Once a moment: daemons that ended, programs that ended, operations that do not end."""
        self.read_logs()
        for node, daemon in list(self.cluster.daemons.items()):
            if node not in self.down and daemon.poll() is not None and node not in self.down:
                self.problem("the daemon on %s ended by itself: %d" % (Cluster.name(node), daemon.returncode))
                self.down.add(node)
        for (node, mapper), (worker, life) in list(self.workers.items()):
            if worker.poll() is None:
                continue
            if mapper and not self.beats.stopping() and self.notes.killed_within(node, now() - 30, now()):
                self.worker_start(node, True, life + 1)
            elif worker.returncode and worker.returncode != -7 or not self.beats.stopping():
                self.problem("the programs on node%d ended: status %d (see programs.log)" % (node + 1, worker.returncode))
                del self.workers[node, mapper]
        oldest = self.beats.oldest()
        if oldest and oldest[0] > self.patience:
            self.problem("node%d: operation '%s' has not ended for %.0f s" % (oldest[1] // self.slots + 1, oldest[2], oldest[0]))
            self.gather()
            return False
        return True

    def gather(self):
        where = os.path.join(self.work, "hang")
        if not os.path.exists(where):
            self.problem("something hangs: see " + where)
            watch.gather(self.cluster, where)

    def watch(self, until, condition):
        """Until that time, or the condition; False when an operation hangs."""
        sampled = 0
        while now() < until and condition():
            if not self.look_after():
                return False
            if now() > sampled + self.arguments.sample:
                self.watcher.sample()
                sampled = now()
            time.sleep(0.2)
        return True

    # --- the test ----------------------------------------------------------------------------------------------------------

    def disturb(self, faults):
        threads = []
        begun = now()
        for fault in faults:
            if not self.watch(begun + fault[0], lambda: True) or len(self.problems) > 20:
                break
            self.faults.append(fault)
            with open(os.path.join(self.work, "faults"), "a") as file:
                file.write("%.4f %s\n" % (now(), schedule.describe(fault)))
            threads.append(threading.Thread(target=self.carry_out, args=(fault,)))
            threads[-1].start()
        good = self.watch(begun + self.seconds(), lambda: len(self.problems) <= 20)
        for thread in threads:
            thread.join()
        return good

    def seconds(self):
        return self.arguments.minutes * 60

    def end(self):
        """Everything heals, the programs end, the mounts drain, the server stops."""
        good = self.watch(now() + 3, lambda: True)
        self.beats.stop()
        running = lambda: any(worker.poll() is None for worker, _ in self.workers.values())  # noqa: E731
        good = good and self.watch(now() + 2 * self.patience, running)
        if not good or running():
            self.gather()
            return False
        self.down = set(self.cluster.daemons)

        def unmount(node):
            status = self.cluster.unmount(node)
            if status:
                self.problem("kairanfs on %s: exit status %d" % (Cluster.name(node), status))

        self.each(unmount)
        self.cluster.daemons[None].terminate()
        status = self.cluster.daemons[None].wait(60 * self.cluster.slow)
        if status:
            self.problem("kairand: exit status %d" % status)
        self.read_logs()
        return True

    def run(self):
        faults = schedule.make(self.arguments.seed, self.nodes, self.seconds() - 2, self.arguments.lease, self.arguments.every,
            self.arguments.server_every, self.arguments.long)
        self.watcher = watch.Watch(self.cluster)
        began = now()
        self.start()
        print("seed %d: %d nodes are up after %.0f s; %d faults in %.0f s" % (
            self.arguments.seed, self.nodes, now() - began, len(faults), self.seconds()), flush=True)
        drained = self.disturb(faults) and self.end()
        self.report(drained)
        return not self.problems

    def report(self, drained):
        sanitized = self.cluster.slow > 1
        for text in self.watcher.problems(SANITIZED if sanitized else LIMITS)[:5]:
            self.problem(text)
        if drained:
            judge = Judge(self.sizes, self.notes, now())
            judge.load(os.path.join(self.work, "history"))
            found = judge.judge(self.export)
            for text in found[:20]:
                self.problem(text)
            print("done: " + ", ".join("%d %s" % (count, what) for what, count in sorted(judge.counts.items())))
        kinds = {}
        for _, kind, node, _ in self.faults:
            what = ("server " if node is None else "") + kind
            kinds[what] = kinds.get(what, 0) + 1
        print("faults: " + ", ".join("%d %s" % (count, what) for what, count in sorted(kinds.items())) +
            "; sessions lost: %d" % self.lost)
        print("\n".join(self.watcher.table()))
        print("seed %d: %d problems" % (self.arguments.seed, len(self.problems)), flush=True)


parser = argparse.ArgumentParser()
for name, kind, default in (("nodes", int, 8), ("minutes", float, 1), ("seed", int, 1), ("lease", int, 8), ("threads", int, 2),
        ("open", int, 2000), ("rate", float, 400), ("every", float, 2), ("server-every", float, 20), ("long", float, 0.0), ("sample", float, 5)):
    parser.add_argument("--" + name, type=kind, default=default)
for name in ("build", "work", "keepers"):
    parser.add_argument("--" + name, required=True)
parser.add_argument("--expect", default="$^")
load = Load(parser.parse_args())
good = load.run()
sys.stdout.flush()
os._exit(0 if good else 1)  # a program that hangs in the kernel must not keep us

#!/usr/bin/env python3
"""The driver of test/power/run, inside its namespaces: boots and kills the machine, keeps the nodes' programs going, judges.

What it notes beside the programs (see worker.py): what the disk held after each cut, and which nodes went with the machine.
"""
import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../load"))
from cluster import Cluster  # noqa: E402
from disk import Disk  # noqa: E402
from judge import Judge  # noqa: E402
from layout import FILES, look_at  # noqa: E402

NODES, LEASE = 3, 8
# In every second boot bytes are soon in the disk's cache, in the others they stay in the kernel's.
WRITES_SOON = ["sysctl.vm.dirty_expire_centisecs=20", "sysctl.vm.dirty_writeback_centisecs=10"]
now = time.monotonic


class Machine(Cluster):
    """A cluster whose server is a virtual machine."""

    def __init__(self, arguments):
        super().__init__(arguments.build, arguments.work, json.loads(arguments.keepers), LEASE, set())
        self.writes, self.options, self.boots = arguments.writes, arguments.options, 0
        self.socket = os.path.join(self.work, "disk.socket")
        self.disk, self.image = Disk(os.path.join(self.work, "disk"), self.socket), os.path.join(self.work, "disk.cut")

    def server_start(self):
        self.boots += 1
        console, guest = os.path.join(self.work, "console.%d" % self.boots), os.path.join(self.work, "guest")
        began = now()
        self.daemons[None] = subprocess.Popen(["qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1", "-m", "256",
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-kernel", guest + "/kernel", "-initrd", guest + "/initramfs",
            "-append", "console=ttyS0 quiet loglevel=3 panic=-1 random.trust_cpu=on mitigations=off tsc=reliable no_timer_check " +
                " ".join(["kairand." + option for option in ["lease=%ds" % LEASE, *self.options]] + (WRITES_SOON if self.boots % 2 else [])),
            "-serial", "file:" + console,
            "-drive", "driver=nbd,server.type=unix,server.path=%s,if=virtio,cache=writeback,throttling.iops-write=%d" % (self.socket, self.writes),
            "-netdev", "tap,id=n,ifname=v-guest,script=no,downscript=no", "-device", "virtio-net-pci,netdev=n,mac=52:54:00:00:77:01,romfile="],
            stdin=subprocess.DEVNULL)

        def ready():
            if self.daemons[None].poll() is not None:
                raise RuntimeError("the machine has ended: see " + console)
            try:
                with open(console, "rb") as file:
                    said = file.read()
            except FileNotFoundError:
                return False
            if b"error" in said:
                raise RuntimeError("the machine does not serve: see " + console)
            return b"ready" in said

        self.wait("the machine serves", ready, 120)
        return now() - began

    def cut(self, dice):
        """Returns when nothing of it runs any more; when it still did, and what became of the disk's cache."""
        start = now()
        self.kill_process(None)
        cached, lost = self.disk.cut(dice)
        self.disk.save(self.image)
        return start, "%d of %d cached blocks lost" % (lost, cached)

    def kill_process(self, node):
        self.daemons[node].kill()
        self.daemons[node].wait()

    def look(self):
        """What is on the disk, without the nodes: a copy of it, mounted as the next boot will mount it."""
        point = os.path.join(self.work, "cut")
        os.makedirs(point, exist_ok=True)
        subprocess.run(["mount", "-o", "loop", self.image, point], check=True)
        try:
            return look_at(os.path.join(point, "export"))
        finally:
            subprocess.run(["umount", point], check=True)


class Programs:
    """The process of one node's programs, in its present life."""

    def __init__(self, machine, node, life, seed):
        self.notes = os.path.join(machine.work, "notes-%d-%d" % (node, life))
        config = {"node": node, "life": life, "seed": seed, "mount": machine.seen_from_here(node), "notes": self.notes,
            "beat": os.path.join(machine.work, "beat-%d" % node), "stop": os.path.join(machine.work, "stop")}
        with open(os.path.join(machine.work, "programs.log"), "a") as log:
            self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "worker.py"), json.dumps(config)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.config = config

    def done(self):
        """How many operations have ended."""
        try:
            return os.stat(self.config["beat"]).st_size
        except FileNotFoundError:
            return 0


class Power:
    def __init__(self, arguments):
        self.arguments, self.random = arguments, random.Random(arguments.seed)
        self.machine = Machine(arguments)
        self.judge = Judge(arguments.excused.split(","))
        self.programs, self.lives = {}, [0] * NODES
        self.stop = os.path.join(arguments.work, "stop")

    def start_node(self, node):
        self.machine.mount(node)
        self.programs[node] = Programs(self.machine, node, self.lives[node], self.arguments.seed)

    def populate(self):
        """On stable storage before anything else."""
        top = self.machine.seen_from_here(0)
        for directory in {os.path.dirname(name) for name in FILES} | {"new"}:
            os.makedirs(os.path.join(top, directory), exist_ok=True)
        for name in FILES:
            fd = os.open(os.path.join(top, name), os.O_WRONLY | os.O_CREAT, 0o644)
            os.write(fd, FILES[name])
            os.fsync(fd)
            os.close(fd)
        for directory in {os.path.dirname(name) for name in FILES} | {"new", ""}:
            fd = os.open(os.path.join(top, directory), os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)

    def lose_node(self, node):
        """Its machine and disk are gone: its programs, its daemon, its journal."""
        programs = self.programs[node]
        programs.process.kill()
        self.machine.kill_process(node)
        programs.process.wait()
        self.machine.run(node, "umount", "-l", self.machine.mountpoint(node))
        local = os.path.join(self.machine.work, self.machine.name(node), "local")
        shutil.rmtree(local)
        os.mkdir(local)
        self.lives[node] += 1

    def progress(self):
        """Every node's programs have done something since now."""
        before = {node: programs.done() for node, programs in self.programs.items()}

        def moved():
            for node, programs in self.programs.items():
                if programs.process.poll() is not None:
                    raise RuntimeError("the programs of node %d have ended: see programs.log" % (node + 1))
            return all(programs.done() > before[node] + 3 for node, programs in self.programs.items())

        self.machine.wait("operations on every node go on", moved, 120)

    def one_cut(self, number):
        early = self.random.random() < 0.2
        if not early:
            self.progress()
        time.sleep(self.random.uniform(0.05, 1 if early else 2.5))
        lost = self.random.randrange(NODES) if self.random.random() < self.arguments.lose / 1000 else None
        start, cache = self.machine.cut(self.random)
        if lost is not None:
            self.lose_node(lost)
            self.judge.node_lost(lost, self.lives[lost] - 1, start)
        self.judge.cut(start, self.machine.look())
        boot = self.machine.server_start()
        if lost is not None:
            self.start_node(lost)
        print("cut %d%s: %s; the machine is back after %.1f s, the nodes have done %d operations" % (number, " with node %d" % (lost + 1) if lost is not None else "",
            cache, boot, sum(programs.done() for programs in self.programs.values())), flush=True)

    def judge_console(self, name):
        with open(os.path.join(self.arguments.work, name), errors="replace") as file:
            for line in file:
                if re.search(r"Assertion|Sanitizer|error|exit status", line):
                    self.judge.problem("errors", "%s: %s" % (name, line.strip()))
                if "is lost: silent" in line:
                    self.judge.counts["lost"] += 1

    def end(self):
        """The programs stop, a last look by a node, everything drains, and a last cut."""
        self.progress()
        open(self.stop, "w").close()
        for node, programs in self.programs.items():
            if programs.process.wait(120):
                raise RuntimeError("the programs of node %d: see programs.log" % (node + 1))
        self.judge.final(now(), look_at(self.machine.seen_from_here(0)))
        for node in range(NODES):
            if self.machine.unmount(node):
                self.judge.problem("errors", "node %d was not unmounted in peace" % (node + 1))
        start, _ = self.machine.cut(self.random)
        self.judge.cut(start, self.machine.look())
        if subprocess.run(["e2fsck", "-fy", self.machine.image], capture_output=True).returncode > 1:
            self.judge.problem("errors", "the disk's filesystem is damaged")

    def run(self):
        print("seed %d" % self.arguments.seed, flush=True)
        print("the machine serves after %.1f s" % self.machine.server_start(), flush=True)
        for node in range(NODES):
            self.machine.mount(node)
        self.populate()
        for node in range(NODES):
            self.programs[node] = Programs(self.machine, node, 0, self.arguments.seed)
        try:
            for number in range(1, self.arguments.cuts + 1):
                self.one_cut(number)
            self.end()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            self.judge.problem("stuck", str(error))
        for name in sorted(os.listdir(self.arguments.work)):
            if name.startswith("notes-"):
                self.judge.load(os.path.join(self.arguments.work, name))
            elif name.startswith("console."):
                self.judge_console(name)
        return self.judge.verdict()


parser = argparse.ArgumentParser()
for name in ("build", "work", "keepers"):
    parser.add_argument("--" + name)
for name in ("cuts", "seed", "lose", "writes"):
    parser.add_argument("--" + name, type=int)
parser.add_argument("--excused", default="renames")
parser.add_argument("--options", nargs="*", default=[])
status = Power(parser.parse_args()).run()
sys.stdout.flush()
os._exit(status)  # whatever does not end: the namespaces end it

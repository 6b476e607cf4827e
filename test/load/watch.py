"""What is watched while a load test runs: what the daemons use, and that no operation takes for ever."""
import os
import subprocess
import time

MIB = 1 << 20
# The bounds of one daemon, whatever it is asked to do in these tests: resident MiB, descriptors, threads, MiB of journal, of cache.
FIELDS = ("MiB", "descriptors", "threads", "journal MiB", "cache MiB")


def disk(path):
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                pass
    return total


class Watch:
    def __init__(self, cluster):
        self.cluster, self.samples, self.started = cluster, [], time.monotonic()

    def sample(self):
        """One row per daemon that runs: (seconds, host, what it uses)."""
        at = time.monotonic() - self.started
        for node, daemon in list(self.cluster.daemons.items()):
            pid = self.daemon_pid(daemon.pid)
            try:
                with open("/proc/%d/status" % pid) as file:
                    status = dict(line.split(":", 1) for line in file)
                used = [int(status["VmRSS"].split()[0]) / 1024, len(os.listdir("/proc/%d/fd" % pid)), int(status["Threads"])]
            except (OSError, KeyError):
                continue
            top = os.path.join(self.cluster.work, self.cluster.name(node), "local")
            used += [disk(os.path.join(top, part)) / MIB if node is not None else 0 for part in ("journal", "cache")]
            self.samples.append((at, node, used))

    @staticmethod
    def daemon_pid(pid):
        """nsenter executes the daemon in its own place, unless it had to fork."""
        try:
            with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
                children = file.read().split()
            with open("/proc/%d/comm" % pid) as file:
                return int(children[0]) if file.read().strip() == "nsenter" and children else pid
        except OSError:
            return pid

    def table(self):
        """Quarters of the run: the greatest of the server, median and greatest of the mounts."""
        lines = ["%-28s" % "" + "".join("%14s" % field for field in FIELDS)]
        length = max((at for at, _, _ in self.samples), default=0) / 4 or 1
        for who, wanted in (("server", lambda node: node is None), ("mounts", lambda node: node is not None)):
            for quarter in range(4):
                rows = [used for at, node, used in self.samples if wanted(node) and min(3, int(at / length)) == quarter]
                if rows:
                    columns = [sorted(column) for column in zip(*rows)]
                    cells = ["%.0f/%.0f" % (c[len(c) // 2], c[-1]) for c in columns]
                    lines.append("%-28s" % ("%s, quarter %d, mid/max" % (who, quarter + 1)) + "".join("%14s" % c for c in cells))
        return lines

    def problems(self, limits):
        """limits: of the server, of a mount; in the order of FIELDS."""
        found = []
        for at, node, used in self.samples:
            for value, limit, field in zip(used, limits[node is not None], FIELDS):
                if value > limit:
                    found.append("%s used %.0f %s after %.0f s; the bound is %d" % (self.cluster.name(node), value, field, at, limit))
        return found


def gather(cluster, directory):
    """After a hang: every daemon's stacks, the kernel's view of all its and the programs' threads, and what status tells."""
    os.makedirs(directory, exist_ok=True)

    def keep(name, command):
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
            output = done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            output = (late.stdout or b"") + b"\n(no end)\n"
        with open(os.path.join(directory, name), "wb") as file:
            file.write(output)

    keep("ps", ["ps", "-eLo", "pid,tid,stat,wchan:32,comm,args"])
    keep("kernel-stacks", ["sh", "-c", "for t in /proc/[0-9]*/task/[0-9]*; do echo \"$t $(cat $t/comm)\"; cat $t/stack; done"])
    keep("status-server", cluster.on(None, os.path.join(cluster.build, "tools/kairan"), "status", "--json", "127.0.0.1")[0])
    for node, daemon in list(cluster.daemons.items()):
        pid = Watch.daemon_pid(daemon.pid)
        keep("stacks-" + cluster.name(node), ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt"])
        if node is not None:
            keep("status-" + cluster.name(node), cluster.on(node, os.path.join(cluster.build, "tools/kairan"), "status", "--json",
                cluster.mountpoint(node))[0])

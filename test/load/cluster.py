"""The daemons and links of a load test's cluster: started, killed, stopped, cut.  The hosts are those that test/lib.sh made.

Any thread; one at a time for one host.
"""
import os
import signal
import subprocess
import time

SERVER = "10.77.0.1"
LOSS = "table inet load { chain in { type filter hook input priority 0; numgen random mod 100 < %d drop; }; }"
RESET = ("table inet load { chain out { type filter hook output priority 0; "
    "meta l4proto tcp numgen random mod 1000 < %d reject with tcp reset; }; }")
PEERS = "table inet load { chain in { type filter hook input priority 0; ip saddr 10.77.1.0/24 drop; }; }"


class Cluster:
    def __init__(self, build, work, keepers, lease, async_nodes):
        self.build, self.work, self.keepers, self.lease, self.async_nodes = build, work, keepers, lease, async_nodes
        self.daemons = {}  # host -> Popen
        self.slow = 4 if "san" in os.path.basename(build) else 1

    @staticmethod
    def name(node):
        return "server" if node is None else "node%d" % (node + 1)

    def on(self, node, *command, **options):
        prefix = ["nsenter", "-t", str(self.keepers[self.name(node)]), "-n", "-u", "-m", "--"]
        return prefix + list(command), options

    def run(self, node, *command, **options):
        command, options = self.on(node, *command, **options)
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, **options)

    def start(self, node, log, *command):
        command, _ = self.on(node, *command)
        with open(log, "a") as file:
            self.daemons[node] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def wait(self, what, check, seconds=60):
        deadline = time.monotonic() + seconds * self.slow
        while not check():
            if time.monotonic() > deadline:
                raise RuntimeError("not within %d s: %s" % (seconds * self.slow, what))
            time.sleep(0.05)

    # --- daemons -----------------------------------------------------------------------------------------------------------

    def server_start(self):
        log = os.path.join(self.work, "kairand.log")
        before = os.path.getsize(log) if os.path.exists(log) else 0
        self.start(None, log, os.path.join(self.build, "server/kairand"), "--listen", "0.0.0.0:7440", "--insecure", "--state",
            os.path.join(self.work, "state"), "--lease", "%ds" % self.lease, os.path.join(self.work, "export"))

        def ready():
            with open(log, "rb") as file:
                file.seek(before)
                return b"ready" in file.read() or self.daemons[None].poll() is not None

        self.wait("kairand is ready", ready)
        if self.daemons[None].poll() is not None:
            raise RuntimeError("kairand did not start")

    def mountpoint(self, node):
        return os.path.join(self.work, self.name(node), "mnt")

    def seen_from_here(self, node):
        return "/proc/%d/root%s" % (self.keepers[self.name(node)], self.mountpoint(node))

    def mount(self, node):
        """Again while there is no server: it may be down just now."""
        deadline = time.monotonic() + 60 * self.slow
        while not self.mount_once(node):
            if time.monotonic() > deadline:
                raise RuntimeError("kairanfs on %s did not start" % self.name(node))
            time.sleep(0.1)

    def mount_once(self, node):
        top = os.path.join(self.work, self.name(node))
        options = "local=%s/local,journal_max=64M,cache_max=48M,close=%s" % (top, "async" if node in self.async_nodes else "sync")
        self.start(node, os.path.join(top, "log"), os.path.join(self.build, "fuse/kairanfs"), SERVER + ":/",
            self.mountpoint(node), "-f", "-o", options + ",connect_timeout=%d" % (60 * self.slow))
        self.wait("the mount of " + self.name(node), lambda: self.mounted(node) or self.daemons[node].poll() is not None)
        return self.daemons[node].poll() is None

    def mounted(self, node):
        with open("/proc/%d/mounts" % self.keepers[self.name(node)]) as file:
            return " %s fuse.kairanfs" % self.mountpoint(node) in file.read()

    def unmount(self, node):
        """Lets it drain and end; its exit status."""
        self.wait("unmounting " + self.name(node), lambda: self.run(node, "fusermount3", "-u", self.mountpoint(node)).returncode == 0)
        return self.daemons[node].wait(120 * self.slow)

    def kill(self, node):
        self.daemons[node].kill()
        self.daemons[node].wait()
        if node is not None:
            self.run(node, "umount", "-l", self.mountpoint(node))

    def restart(self, node):
        if node is None:
            self.server_start()
        else:
            self.mount(node)

    # --- faults ------------------------------------------------------------------------------------------------------------

    def nft(self, node, rules):
        done = self.run(node, "nft", rules)
        if done.returncode:
            raise RuntimeError("nft: " + done.stderr.decode())

    def link(self, node, state):
        subprocess.run(["ip", "link", "set", "v-" + self.name(node), state], check=True, timeout=60)

    def limit(self, node, rate):
        tbf = ["root", "tbf", "rate", rate, "burst", "128kb", "limit", "16mb"]
        subprocess.run(["tc", "qdisc", "replace", "dev", "v-" + self.name(node)] + tbf, check=True, timeout=60)
        self.run(node, "tc", "qdisc", "replace", "dev", "eth0", *tbf)

    def unlimit(self, node):
        subprocess.run(["tc", "qdisc", "del", "dev", "v-" + self.name(node), "root"], check=True, timeout=60)
        self.run(node, "tc", "qdisc", "del", "dev", "eth0", "root")

    def begin(self, kind, node):
        if kind == "kill":
            self.kill(node)
        elif kind == "stop":
            self.daemons[node].send_signal(signal.SIGSTOP)
        elif kind == "cut":
            self.link(node, "down")
        elif kind == "loss":
            self.nft(node, LOSS % (10 if node is not None else 3))
        elif kind == "reset":
            self.nft(node, RESET % (30 if node is not None else 5))
        elif kind == "peers":
            self.nft(node, PEERS)
        elif kind == "slow":
            self.limit(node, "2mbit")

    def end(self, kind, node):
        if kind == "kill":
            self.restart(node)
        elif kind == "stop":
            self.daemons[node].send_signal(signal.SIGCONT)
        elif kind == "cut":
            self.link(node, "up")
        elif kind == "slow":
            self.unlimit(node)
        else:
            self.run(node, "nft", "delete table inet load")

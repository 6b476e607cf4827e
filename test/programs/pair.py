"""Programs on several nodes at once, for scripts that see the nodes' mounts as /proc/PID/root/PATH (seen_from_here of test/lib.sh)."""
import ctypes
import json
import os
import sys


def enter(mount):
    """Goes to the mount namespace of /proc/PID/root/PATH, and says PATH: SQLite resolves links, and that PID's root is one."""
    _, _, pid, _, path = mount.split("/", 4)
    with open("/proc/%s/ns/mnt" % pid) as namespace:
        assert ctypes.CDLL(None).setns(namespace.fileno(), 0) == 0
    return "/" + path


def at_once(function, mounts):
    """Runs FUNCTION(node, mount) for each of MOUNTS (node -> mount), each in a process of its own; returns what they returned (JSON), by node."""
    children = []
    for node, mount in mounts.items():
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.write(writer, json.dumps(function(node, mount)).encode())
                code = 0
            except Exception as error:
                print("node %d: %r" % (node + 1, error), file=sys.stderr)
            finally:
                os._exit(code)
        os.close(writer)
        children.append((node, pid, reader))
    said = {}
    for node, _, reader in children:
        with open(reader) as file:
            said[node] = file.read()
    assert [os.waitpid(pid, 0)[1] for _, pid, _ in children] == [0] * len(children), "a program on a node failed"
    return {node: json.loads(text) for node, text in said.items()}

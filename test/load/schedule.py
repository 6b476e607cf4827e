"""The faults of a load test: which, whom, when, for how long.  The same seed gives the same list.

A fault is a tuple (begin, kind, node or None for the server, seconds).  `short` ones end well within the lease time, `long`
ones outlast it.  No host has two at a time, and the server rests between two of its own, so that operations get anywhere.
"""
import random

# kind: (weight, shortest, longest), in parts of the lease time for the long ones
NODE_SHORT = {"kill": (6, 0.1, 2.0), "stop": (4, 0.3, 3.0), "cut": (4, 0.3, 3.0), "loss": (3, 2.0, 5.0), "reset": (3, 1.0, 3.0),
    "slow": (2, 2.0, 6.0), "peers": (2, 2.0, 6.0)}
NODE_LONG = {"kill": (1, 1.1, 1.5), "stop": (1, 1.1, 1.6), "cut": (1, 1.1, 1.6)}
SERVER = {"kill": (4, 0.1, 2.0), "stop": (2, 0.3, 2.5), "cut": (2, 0.3, 2.5), "loss": (1, 2.0, 4.0), "reset": (2, 1.0, 2.0),
    "slow": (1, 1.0, 2.5)}


def choose(rng, kinds):
    kind = rng.choices(list(kinds), [weight for weight, _, _ in kinds.values()])[0]
    _, shortest, longest = kinds[kind]
    return kind, rng.uniform(shortest, longest)


def make(seed, nodes, seconds, lease, every, server_every, long_share):
    """Faults of nodes every so many seconds, that share of them long ones; of the server every so many."""
    rng = random.Random("faults %d" % seed)
    faults, free = [], [0.0] * nodes
    at = rng.expovariate(1 / every)
    while at < seconds:
        idle = [node for node in range(nodes) if free[node] <= at]
        if idle:
            node = rng.choice(idle)
            if rng.random() < long_share and at + 2 * lease < seconds:
                kind, parts = choose(rng, NODE_LONG)
                length = parts * lease + 1
            else:
                kind, length = choose(rng, NODE_SHORT)
                length = min(length, lease * 0.4)
            faults.append((at, kind, node, length))
            free[node] = at + length + 1.5 * lease
        at += rng.expovariate(1 / every)
    at = server_every * rng.uniform(0.3, 1)
    while at < seconds:
        kind, length = choose(rng, SERVER)
        length = min(length, lease * 0.3)
        faults.append((at, kind, None, length))
        at += length + server_every * rng.uniform(0.6, 1.4)
    return sorted(faults, key=lambda fault: fault[0])


def describe(fault):
    at, kind, node, length = fault
    return "%8.2f s  %-6s %-8s for %.2f s" % (at, kind, "server" if node is None else "node%d" % (node + 1), length)

#!/usr/bin/env python3
"""The judge of load tests must find what is wrong, and nothing where all is right: made-up notes, and what it has to say of them.

judge_selftest.py DIRECTORY      (scratch)
"""
import json
import os
import sys

import place
from judge import Judge, Notes

LOST_ONE, TWO = place.record(0, 0, 1, 20), place.record(1, 0, 1, 20)
# name: what is expected in the complaint ("" none), notes of the nodes, the append file, kills, late nodes
CASES = {
    "all is right": ("", {0: [["w", "cells/0:1", 1, 2, 7], ["r", "cells/0:1", 3, 4, [7]]], 1: [["r", "cells/0:1", 5, 6, [7]]]}),
    "stale": ("stale read", {0: [["w", "cells/0:1", 1, 2, 7]], 1: [["r", "cells/0:1", 3, 4, [0]]], 2: []}),
    "stale, of the same node": ("stale read", {0: [["w", "cells/0:1", 1, 2, 5], ["w", "cells/0:1", 3, 4, 7], ["r", "cells/0:1", 5, 6, [5]]]}),
    "unordered writers": ("", {0: [["w", "cells/0:1", 1, 2, 5]], 1: [["w", "cells/0:1", 3, 4, 7]], 2: [["r", "cells/0:1", 5, 6, [5]]]}),
    "ordered by a sync": ("stale read", {0: [["w", "cells/0:1", 1, 2, 5], ["s", "cells/0", 2.1, 2.2]], 1: [["w", "cells/0:1", 3, 4, 7]],
        2: [["r", "cells/0:1", 5, 6, [5]]]}),
    "comes back": ("between two reads", {0: [["w", "cells/0:1", 1, 9, 5]], 1: [["w", "cells/0:1", 1, 9, 7], ["r", "cells/0:1", 2, 3, [5]],
        ["r", "cells/0:1", 4, 5, [7]], ["r", "cells/0:1", 6, 7, [5]]]}),
    "two see a part of a write": ("", {0: [["w", "cells/0:1", 1, 2, 5], ["w", "cells/0:1", 3, 9, 7]],
        1: [["r", "cells/0:1", 4, 5, [5, 7]], ["r", "cells/0:1", 6, 7, [5, 7]]]}),
    "the part is gone": ("back in time", {0: [["w", "cells/0:1", 1, 2, 5], ["w", "cells/0:1", 3, 9, 7]],
        1: [["r", "cells/0:1", 4, 5, [5, 7]], ["r", "cells/0:1", 6, 7, [5]]]}),
    "all of it, then a part": ("back in time", {0: [["w", "cells/0:1", 1, 2, 5], ["w", "cells/0:1", 3, 9, 7]],
        1: [["r", "cells/0:1", 4, 5, [7]], ["r", "cells/0:1", 6, 7, [5, 7]]]}),
    "nobody's": ("which nobody wrote", {0: [["r", "cells/0:1", 1, 2, [99]]]}),
    "from the future": ("before its write began", {0: [["r", "cells/0:1", 1, 2, [5]], ["w", "cells/0:1", 3, 4, 5]]}),
    "a write of a killed node may be there": ("", {0: [["w", "cells/0:1", 1, None, 5]], 1: [["r", "cells/0:1", 8, 9, [5]]]}),
    "or not": ("", {0: [["w", "cells/0:1", 1, None, 5]], 1: [["r", "cells/0:1", 8, 9, [0]]]}),
    "one that returned must": ("stale read", {0: [["w", "cells/0:1", 1, 2, 5]], 1: [["r", "cells/0:1", 8, 9, [0]]]}, b"", [(0, 3)]),
    "unless its node was lost": ("", {0: [["w", "cells/0:1", 1, 2, 5]], 1: [["r", "cells/0:1", 8, 9, [0]]]}, b"", [], [[0, 2.5, 7, False]]),
    "before it had synced": ("stale read", {0: [["w", "cells/0:1", 1, 2, 5], ["s", "cells/0", 2.1, 2.2]], 1: [["r", "cells/0:1", 8, 9, [0]]]},
        b"", [], [[0, 2.5, 7, False]]),
    "a name is missed": ("stale read", {0: [["w", "name:0", 1, 2, 5]], 1: [["r", "name:0", 3, 4, [0]]]}),
    "a name is removed": ("", {0: [["w", "name:0", 1, 2, 5], ["w", "name:0", 3, 4, -6]], 1: [["r", "name:0", 5, 6, [0]]]}),
    "a name is not listed": ("stale read", {0: [["w", "name:0", 1, 2, 5]], 1: [["l", 3, 4, []]]}),
    "a removed name is listed": ("stale read", {0: [["w", "name:0", 1, 2, 5], ["w", "name:0", 3, 4, -6]], 1: [["l", 5, 6, [0]]]}),
    "a name's file is empty": ("nobody wrote", {0: [["w", "name:0", 1, 2, 5]], 1: [["r", "name:0", 3, 4, [-1]]]}),
    "but its node was lost": ("", {0: [["w", "name:0", 1, 2, 5]], 1: [["r", "name:0", 3, 4, [-1]]]}, b"", [], [[0, 2.5, 7, False]]),
    "a size is old": ("stale read", {0: [["w", "size:0", 1, 2, 5]], 1: [["r", "size:0", 3, 4, [0]]]}),
    "two hold a lock": ("lock 3", {0: [["k", 3, 1, 5]], 1: [["k", 3, 4, 6]]}),
    "one after the other": ("", {0: [["k", 3, 1, 5]], 1: [["k", 3, 5.1, 6]]}),
    "a killed node holds none": ("", {0: [["k", 3, 1, 5]], 1: [["k", 3, 4, 6]]}, b"", [(0, 3)]),
    "an append is lost": ("is lost", {0: [["a", 0, 1, 2, 0, 1, 20]], 1: [["a", 0, 1, 2, 0, 1, 20]]}, TWO),
    "an append is torn": ("damaged record", {0: [["a", 0, 1, 2, 0, 1, 20]]}, LOST_ONE[:-1] + b"!"),
    "an append is there twice": ("is there twice", {0: [["a", 0, 1, 2, 0, 1, 20]]}, LOST_ONE * 2),
    "appends change places": ("comes after", {0: [["a", 0, 1, 2, 0, 1, 20], ["a", 0, 3, 4, 0, 2, 20]]}, place.record(0, 0, 2, 20) + LOST_ONE),
    "appends are there": ("", {0: [["a", 0, 1, 2, 0, 1, 20]], 1: [["a", 0, 1, 2, 0, 1, 20]]}, TWO + LOST_ONE),
    "an operation fails": ("Input/output error", {0: [["e", "stat", 1, 2, "[Errno 5] Input/output error"]]}),
    "a late node has lost its lock": ("", {0: [["e", "lock", 1, 2, "[Errno 5] Input/output error"]]}, b"", [], [[0, 1, 3, False]]),
    "a late node loses nothing else": ("Input/output error", {0: [["e", "stat", 1, 2, "[Errno 5] Input/output error"]]}, b"", [],
        [[0, 1, 3, False]]),
    "of a killed mount": ("", {0: [["e", "stat", 1, 2, "[Errno 5] Input/output error"]]}, b"", [(0, 1.5)]),
}


def settle(export, notes):
    """The export as an obedient server would leave it: what was read last, or written last."""
    last = {}
    for node in notes.values():
        for what in node:
            if what[0] == "w":
                last.setdefault(what[1], []).append((what[3] or 0, what[4]))
    reads = {what[1]: what[4][-1] for node in sorted(notes) for what in notes[node] if what[0] == "r"}
    for name, writes in last.items():
        value = reads.get(name, max(writes)[1] if max(writes)[0] else 0)
        path, cell = name.rsplit(":", 1)
        if path == "name" and value in (-1, abs(value)) and value:
            with open(os.path.join(export, "names", cell), "w") as file:
                file.write(str(value) if value > 0 else "")
        elif path == "size":
            os.truncate(os.path.join(export, "sizes", cell), value)
        elif path.startswith("cells"):
            with open(os.path.join(export, path), "r+b") as file:
                file.seek(place.CELLS[int(cell)][0])
                file.write(place.fill(value, place.CELLS[int(cell)][1]))


bad = 0
for number, (name, case) in enumerate(CASES.items()):
    expected, nodes, appended, kills, late = case + (b"", [], [])[len(case) - 2 :]
    top = os.path.join(sys.argv[1], str(number))
    sizes = place.Sizes(4)
    place.populate_changing(os.path.join(top, "export"), sizes)
    os.makedirs(os.path.join(top, "history"))
    for node, lines in nodes.items():
        with open(os.path.join(top, "history", "history-%d-0" % node), "w") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
    settle(os.path.join(top, "export"), nodes)
    with open(os.path.join(top, "export/appends/0"), "wb") as file:
        file.write(appended)
    notes = Notes()
    notes.kills, notes.late = kills, late
    judge = Judge(sizes, notes, 100)
    judge.load(os.path.join(top, "history"))
    found = judge.judge(os.path.join(top, "export"))
    if bool(found) != bool(expected) or not all(expected in problem for problem in found[:1]):
        print("%s: expected %r, found %r" % (name, expected, found))
        bad += 1
print("%d cases, %d judged wrongly" % (len(CASES), bad))
sys.exit(bool(bad))

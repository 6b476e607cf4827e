"""What lies where in the export of a load test, shared by its programs.

Cells and names are registers (test/programs/registers.py); pool and big are files that never change, with bytes that their
number gives; what is below own belongs to one node.
"""
import os
import struct

CELLS = [(0, 37), (37, 4059), (4096, 4096), (8192, 5000), (13192, 118000), (131192, 70000)]
WIDE_CELL = 30011
PAGE = 4096
MAPPED_CELL, MAPPED_CELLS = 4096, 8
BIG_BYTES = 4 << 20
RECORD = struct.Struct(">4sIIQI")  # of an append: magic, node, thread, number, bytes that follow
MAGIC = b"kair"


class Sizes:
    """How many of each for so many nodes."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.cells = max(6, nodes)
        self.names = max(12, 2 * nodes)
        self.sizes = max(2, nodes // 4)
        self.appends = max(3, nodes // 8)
        self.locks = max(3, nodes // 8)
        self.pool = 400
        self.big = 6


def fill(value, length):
    return (struct.pack("<Q", value) * (length // 8 + 1))[:length]


def values_in(data, offset):
    """The numbers that a cell's bytes from OFFSET on consist of.  A read beside a write may bring old and new pages: a number
    that lies in two of them does not count."""
    places = (at for at in range(0, len(data) - 7, 8) if (offset + at) % PAGE <= PAGE - 8)
    return {int.from_bytes(data[at : at + 8], "little") for at in places}


def pool_path(number):
    return "pool/%02d/%04d" % (number % 20, number)


def pool_bytes(number):
    return (b"pool %06d\n" % number) * (20 + number * 37 % 700)


def big_bytes(number, offset, length):
    first = offset // 16
    data = b"".join(b"%04d%011x\n" % (number, at) for at in range(first, (offset + length) // 16 + 1))
    return data[offset - first * 16 :][:length]


def record(node, thread, number, length):
    return RECORD.pack(MAGIC, node, thread, number, length) + fill(number * 1000003 + node, length)


def populate(top, sizes):
    populate_changing(top, sizes)
    for directory in ["big"] + ["pool/%02d" % i for i in range(20)]:
        os.makedirs(os.path.join(top, directory))
    for number in range(sizes.pool):
        with open(os.path.join(top, pool_path(number)), "wb") as file:
            file.write(pool_bytes(number))
    for number in range(sizes.big):
        with open(os.path.join(top, "big/%d" % number), "wb") as file:
            file.write(big_bytes(number, 0, BIG_BYTES))


def populate_changing(top, sizes):
    for directory in ["cells", "names", "sizes", "appends", "locks", "own", "mapped"]:
        os.makedirs(os.path.join(top, directory))
    empty = ["cells/%d" % i for i in range(sizes.cells)] + ["sizes/%d" % i for i in range(sizes.sizes)]
    empty += ["appends/%d" % i for i in range(sizes.appends)] + ["wide"]
    empty += ["locks/%d" % i for i in range(2 * sizes.locks)]
    for name in empty:
        open(os.path.join(top, name), "wb").close()
    for node in range(sizes.nodes):
        os.makedirs(os.path.join(top, "own/%d" % node))
        with open(os.path.join(top, "mapped/%d" % node), "wb") as file:
            file.truncate(MAPPED_CELL * MAPPED_CELLS)

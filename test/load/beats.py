"""A small shared file in which every thread of a load test shows which operation it is in, and since when.

Byte 0 of the file says that all should stop.  A slot is 64 bytes: since when (0: in none), and the operation's name.
"""
import mmap
import struct
import time

SLOT = struct.Struct("<d40s")


class Beats:
    def __init__(self, path, slots=0):
        if slots:
            with open(path, "wb") as file:
                file.truncate(64 * (slots + 1))
        with open(path, "r+b") as file:
            self.pages = mmap.mmap(file.fileno(), 0)
        self.slots = len(self.pages) // 64 - 1

    def begin(self, slot, operation):
        SLOT.pack_into(self.pages, 64 * (slot + 1), time.monotonic(), operation.encode())

    def end(self, slot):
        SLOT.pack_into(self.pages, 64 * (slot + 1), 0, b"")

    def stop(self):
        self.pages[0] = 1

    def stopping(self):
        return self.pages[0] != 0

    def oldest(self):
        """(seconds, slot, operation) of the operation that has taken longest so far, or None."""
        found = None
        for slot in range(self.slots):
            since, name = SLOT.unpack_from(self.pages, 64 * (slot + 1))
            if since and (found is None or since < found[0]):
                found = (since, slot, name.rstrip(b"\0").decode())
        return found and (time.monotonic() - found[0], found[1], found[2])

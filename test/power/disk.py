"""A disk with a volatile write cache, for the machine of test/power/run: an NBD server on a unix socket.

What was written since the last flush is lost at a cut, or kept, block by block as the dice say; a write with FUA is kept.
One thread serves one connection after the other; `cut` and `save` are called when the machine is dead.
"""
import socket
import struct
import threading

OPTION, REPLY = 0x49484156454F5054, 0x3E889045565A9
ABORT, INFO, GO = 2, 6, 7
ACK, EXPORT, UNSUPPORTED = 1, 3, 0x80000001
HAS_FLAGS, SEND_FLUSH, SEND_FUA = 1, 4, 8
READ, WRITE, DISCONNECT, FLUSH = range(4)
FUA = 1
BLOCK = 4096


class Disk:
    def __init__(self, image, path):
        with open(image, "rb") as file:
            self.stable = bytearray(file.read())
        self.current, self.cached = bytearray(self.stable), []  # (offset, bytes) that no flush has followed
        self.flushes = 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.ended = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            peer, _ = self.listener.accept()
            with peer, peer.makefile("rb") as stream:
                try:
                    if self.shake_hands(peer, stream):
                        while self.request(peer, stream):
                            pass
                except (OSError, EOFError):
                    pass
            self.ended.set()

    @staticmethod
    def take(stream, form):
        size = struct.calcsize(form)
        data = stream.read(size)
        if len(data) < size:
            raise EOFError
        return struct.unpack(form, data)

    def shake_hands(self, peer, stream):
        peer.sendall(b"NBDMAGIC" + struct.pack(">QH", OPTION, 3))
        self.take(stream, ">I")
        while True:
            _, option, length = self.take(stream, ">QII")
            stream.read(length)

            def answer(kind, data=b""):
                peer.sendall(struct.pack(">QIII", REPLY, option, kind, len(data)) + data)

            if option in (INFO, GO):
                answer(EXPORT, struct.pack(">HQH", 0, len(self.current), HAS_FLAGS | SEND_FLUSH | SEND_FUA))
                answer(ACK)
                if option == GO:
                    return True
            elif option == ABORT:
                answer(ACK)
                return False
            else:
                answer(UNSUPPORTED)

    def request(self, peer, stream):
        _, flags, kind, handle, offset, length = self.take(stream, ">IHHQQI")
        data = b""
        if kind == WRITE:
            written = stream.read(length)
            if len(written) < length:
                raise EOFError
            self.current[offset : offset + length] = written
            self.cached.append((offset, written))
            if flags & FUA:
                self.stable[offset : offset + length] = written
        elif kind == READ:
            data = bytes(self.current[offset : offset + length])
        elif kind == FLUSH:
            self.keep(self.cached)
            self.cached = []
            self.flushes += 1
        peer.sendall(struct.pack(">IIQ", 0x67446698, 0, handle) + data)
        return kind != DISCONNECT

    def keep(self, writes):
        for offset, data in writes:
            self.stable[offset : offset + len(data)] = data

    def cut(self, dice):
        """The machine is dead: what of the cache survives is decided. Returns blocks that were in the cache, and those that are lost."""
        self.ended.wait()
        self.ended.clear()
        blocks = [(offset + at, data[at : at + BLOCK]) for offset, data in self.cached for at in range(0, len(data), BLOCK)]
        share = dice.choice((0, 0.5, 0.9))
        kept = [block for block in blocks if dice.random() < share]
        self.keep(kept)
        self.cached, self.current = [], bytearray(self.stable)
        return len(blocks), len(blocks) - len(kept)

    def save(self, path):
        """As a file; what is zeros is a hole."""
        with open(path, "wb") as file:
            for at in range(0, len(self.stable), 1 << 16):
                piece = self.stable[at : at + (1 << 16)]
                if piece.count(0) != len(piece):
                    file.seek(at)
                    file.write(piece)
            file.truncate(len(self.stable))

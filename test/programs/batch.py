#!/usr/bin/env python3
"""Batched writes and reads, and relaxed handles (common/kairan_ioctl.h), on two mounts.    batch.py MOUNT1 MOUNT2"""
import ctypes
import errno
import fcntl
import mmap
import os
import random
import struct
import sys

one, two = sys.argv[1:3]
path = lambda mount, name: os.path.join(mount, name)
INFO, RELAXED, BATCH = 0x82186B70, 0x40046B71, 0x80106B72
HEAD, EXTENT, MAGIC, READ_MAGIC = struct.Struct("=II16sQ"), struct.Struct("=QQ"), 0x6B726231, 0x6B726232
libc = ctypes.CDLL(None, use_errno=True)
libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
libc.write.restype = ctypes.c_ssize_t


def fails(code, call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        assert error.errno == code, "%s instead of %s" % (error, errno.errorcode[code])
        return
    raise AssertionError("no %s" % errno.errorcode[code])


def info(fd):
    version, block, batch_max, stripe, node, ring = struct.unpack("=IIQQ256s256s", fcntl.ioctl(fd, INFO, bytes(536)))
    return version, block, batch_max, stripe, node.rstrip(b"\0").decode()


def token(fd):
    return fcntl.ioctl(fd, BATCH, bytes(16))


page = mmap.mmap(-1, 2 << 20)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))


def write_raw(door, packet):
    page[:len(packet)] = packet
    written = libc.write(door, address, len(packet))
    if written < 0:
        raise OSError(ctypes.get_errno(), "batch")
    assert written == len(packet), (written, len(packet))


def packet(key, extents, magic=MAGIC, count=None, total=None):
    data = b"".join(bytes for _, bytes in extents)
    head = HEAD.pack(magic, len(extents) if count is None else count, key, len(data) if total is None else total)
    return head + b"".join(EXTENT.pack(offset, len(bytes)) for offset, bytes in extents) + data


fd = os.open(path(one, "file"), os.O_RDWR | os.O_CREAT, 0o640)
version, block, batch_max, stripe, node = info(fd)
assert (version, block, batch_max, stripe, node) == (2, 128 * 1024, 1 << 20, 2 << 20, "node1"), (version, block, batch_max, stripe, node)
fails(errno.ENOTTY, fcntl.ioctl, fd, 0x5401, bytes(64))  # isatty(3)
key = token(fd)
assert token(fd) == key
door = os.open(path(one, ".kairan"), os.O_WRONLY)
assert ".kairan" not in os.listdir(one)

# random batches against a model, overlaps in a batch included: the later extent wins
seed = int(os.environ.get("BATCH_SEED", random.randrange(1 << 30)))
print("BATCH_SEED=%d" % seed)
rng = random.Random(seed)
model = bytearray()
for round in range(40):
    extents = []
    room = batch_max - HEAD.size
    for _ in range(rng.choice((1, 3, 200))):
        length = min(rng.choice((1, 100, 3744, 40000)), room - EXTENT.size)
        if length <= 0:
            break
        offset = rng.randrange(3 << 20)
        extents.append((offset, rng.randbytes(length)))
        room -= EXTENT.size + length
    for offset, data in extents:
        model.extend(bytes(max(0, offset + len(data) - len(model))))
        model[offset:offset + len(data)] = data
    write_raw(door, packet(key, extents))
    if round % 8 == 0:
        assert os.pread(fd, len(model) + 1, 0) == model, "round %d: own bytes" % round
    if round % 10 == 5:
        assert open(path(two, "file"), "rb").read() == model, "round %d: the other node" % round
assert os.fstat(fd).st_size == len(model)
# readers of this node that read through the kernel's pages see a batch at once
reader = os.open(path(one, "file"), os.O_RDONLY)
assert os.pread(reader, len(model), 0) == model
write_raw(door, packet(key, [(10, b"first"), (2 << 20, b"second")]))
model[10:15], model[2 << 20:(2 << 20) + 6] = b"first", b"second"
assert os.pread(reader, len(model), 0) == model, "the kernel's pages are stale"
os.fsync(fd)
assert open(path(two, "file"), "rb").read() == model

# what is not a batch writes nothing
good = [(0, b"x" * 100), (1000, b"y")]
for bad in (b"", b"x", packet(key, good)[:-1], packet(key, good) + b"z", packet(key, good, magic=1), packet(key, good, count=0),
            packet(key, good, count=3), packet(key, good, count=0xFFFFFFFF), packet(key, good, total=5),
            HEAD.pack(MAGIC, 1, key, 0) + EXTENT.pack(0, 0), HEAD.pack(MAGIC, 2, key, 1) + EXTENT.pack(0, (1 << 64) - 1) + EXTENT.pack(0, 2) + b"x"):
    if bad:
        fails(errno.EINVAL, write_raw, door, bad)
fails(errno.EFBIG, write_raw, door, packet(key, [((1 << 63) - 1, b"x")]))
fails(errno.EBADF, write_raw, door, packet(bytes(16), good))
assert os.pread(fd, len(model) + 1, 0) == model
# who may have a token
fails(errno.EINVAL, token, reader)
appender = os.open(path(one, "file"), os.O_WRONLY | os.O_APPEND)
fails(errno.EINVAL, token, appender)
fails(errno.EINVAL, token, door)
os.close(appender)
other = os.open(path(one, "file"), os.O_WRONLY)
key_other = token(other)
assert key_other != key
os.close(other)
for _ in range(100):  # RELEASE follows close(2) by itself
    try:
        write_raw(door, packet(key_other, [(0, bytes(model[:1]))]))
    except OSError as error:
        assert error.errno == errno.EBADF
        break
else:
    raise AssertionError("a closed handle's token lives on")
# a batch is read through a relaxed handle that may read
def ask(key, extents, total=None, more=b""):
    length = sum(length for _, length in extents)
    write_raw(door, HEAD.pack(READ_MAGIC, len(extents), key, length if total is None else total) + b"".join(EXTENT.pack(*extent) for extent in extents) + more)


os.close(door)
door = os.open(path(one, ".kairan"), os.O_RDWR)
fails(errno.EINVAL, os.pread, door, 10, 0)  # nothing was asked for
fails(errno.EBADF, ask, key, [(0, 1)])  # strict
relaxed = os.open(path(one, "file"), os.O_RDWR | os.O_DIRECT)  # else old kernels have pages of it
blind = os.open(path(one, "file"), os.O_WRONLY)
for handle in (relaxed, blind):
    fcntl.ioctl(handle, RELAXED, struct.pack("=I", 1))
fails(errno.EBADF, ask, token(blind), [(0, 1)])
own = token(relaxed)
fails(errno.EINVAL, ask, own, [(0, 1)], 2)
fails(errno.EINVAL, ask, own, [(0, 1)], 1, b"x")
fails(errno.EINVAL, ask, own, [(0, 1 << 20), (1 << 21, 1)])
fails(errno.EINVAL, ask, own, [(0, 0)])
for round in range(20):
    places = sorted(rng.sample(range(0, 3 << 20, 4096), rng.choice((1, 17, 250))))
    wanted = [(offset, rng.randrange(1, 4097)) for offset in places]
    bytes_of = [rng.randbytes(length) for _, length in wanted]
    row = b"".join(bytes_of)
    for _ in range(1000):  # they may have been flushed meanwhile
        write_raw(door, packet(key, [(offset, data) for (offset, _), data in zip(wanted, bytes_of)]))
        ask(own, wanted)
        try:
            got = os.pread(door, len(row) + 1000, 0)
            parts = [(at, length, os.pread(door, length, at)) for at, length in ((rng.randrange(len(row)), rng.randrange(1, len(row) + 1)) for _ in range(5))]
        except OSError as error:
            assert error.errno == errno.ENODATA, error
            continue
        break
    else:
        raise AssertionError("own bytes can never be read")
    assert got == row, "round %d" % round
    assert all(part == row[at:at + length] for at, length, part in parts), "round %d: parts" % round
    for offset, data in zip(places, bytes_of):
        model.extend(bytes(max(0, offset + len(data) - len(model))))
        model[offset:offset + len(data)] = data
os.fsync(fd)
fails(errno.ENODATA, os.pread, door, 1, 0)  # on the server by now
ask(own, [(0, 1)])
fails(errno.ENODATA, os.pread, door, 1, 0)
assert os.pread(fd, len(model), 0) == model
os.close(relaxed)
os.close(blind)
# the door is no file
fails(errno.EACCES, os.open, path(one, ".kairan"), os.O_RDONLY)
assert os.listxattr(path(one, ".kairan")) == []
for call in (lambda: os.chmod(path(one, ".kairan"), 0o777), lambda: os.unlink(path(one, ".kairan")), lambda: os.fsync(door),
             lambda: os.ftruncate(door, 5), lambda: os.link(path(one, ".kairan"), path(one, "linked")),
             lambda: os.rename(path(one, ".kairan"), path(one, "renamed")), lambda: os.setxattr(path(one, ".kairan"), "user.a", b""),
             lambda: fcntl.flock(door, fcntl.LOCK_EX | fcntl.LOCK_NB), lambda: os.mkdir(path(one, ".kairan"))):
    try:
        call()
    except OSError:
        continue
    raise AssertionError("the door behaves as a file")
os.close(door)
os.close(reader)

# relaxed: own unflushed bytes are read although another node has written since; strict handles and others see the truth
remote = os.open(path(two, "file"), os.O_RDWR)
strict, fd = fd, os.open(path(one, "file"), os.O_RDWR | os.O_DIRECT)
fails(errno.EINVAL, fcntl.ioctl, os.open(path(one, "file"), os.O_RDONLY), RELAXED, struct.pack("=I", 1))
fcntl.ioctl(fd, RELAXED, struct.pack("=I", 1))
os.pwrite(remote, b"r", 0)  # takes back a READ that is still on its way home
os.fsync(remote)  # so what comes after wins (P3); between A and B nothing lies
os.pwrite(fd, b"A" * 5000, 0)
os.pwrite(remote, b"B" * 1000, 2000)
assert os.pread(fd, 5000, 0) == b"A" * 5000, "a relaxed handle asks others"
assert os.pread(fd, 20, 4990) == b"A" * 10 + model[5000:5010], "a range that is not all own bytes"
seen = os.pread(remote, 5000, 0)
assert seen in (b"A" * 2000 + b"B" * 1000 + b"A" * 2000, b"A" * 5000), "the strict reader"
os.pwrite(fd, b"C" * 5000, 0)
fcntl.ioctl(fd, RELAXED, struct.pack("=I", 0))
os.pwrite(remote, b"D" * 1000, 2000)
seen = os.pread(remote, 5000, 0)
assert os.pread(fd, 5000, 0) == seen, "a strict handle again"
os.close(fd)
os.close(remote)
os.close(strict)
print("batch: right")

#!/usr/bin/env python3
"""Mapped files, direct I/O, unlinked files and several handles of one file, on two mounts.    mappings.py MOUNT1 MOUNT2"""
import ctypes
import mmap
import os
import sys

one, two = sys.argv[1:3]
path = lambda mount, name: os.path.join(mount, name)

# shared mapping for writing: visible on the other node after msync
data = os.urandom(300001)
with open(path(one, "mapped"), "wb") as file:
    file.write(data)
fd = os.open(path(one, "mapped"), os.O_RDWR)
view = mmap.mmap(fd, len(data))
assert view[:] == data
view[5:10] = b"HELLO"
view[200000:200005] = b"WORLD"
view.flush()
expected = data[:5] + b"HELLO" + data[10:200000] + b"WORLD" + data[200005:]
assert open(path(two, "mapped"), "rb").read() == expected, "the other node does not see what msync returned for"
# a write on the other node reaches the mapping
other = os.open(path(two, "mapped"), os.O_WRONLY)
os.pwrite(other, b"other", 100)
assert view[100:105] == b"other", "the mapping is stale"
os.pwrite(fd, b"local", 150000)
assert view[150000:150005] == b"local", "the mapping does not see a write of the same node"
view[7:9] = b"__"
view.close()  # munmap
os.close(fd)
os.close(other)
assert open(path(two, "mapped"), "rb").read(12)[5:10] == b"HE__O", "munmap and close"
# private mapping
with open(path(two, "mapped"), "r+b") as file:
    private = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    private[0:3] = b"mine"[:3]
    assert os.pread(file.fileno(), 3, 0) == expected[:3]
    private.close()

# a cached reader sees writes through another handle of the same node, and of the other node, at once
with open(path(one, "cached"), "wb") as file:
    file.write(b"a" * 200000)
reader = os.open(path(one, "cached"), os.O_RDONLY)
assert os.pread(reader, 200000, 0) == b"a" * 200000
writer = os.open(path(one, "cached"), os.O_WRONLY)
remote = os.open(path(two, "cached"), os.O_WRONLY)
for step in range(20):
    os.pwrite(writer, b"b%03d" % step, 5000 * step)
    assert os.pread(reader, 4, 5000 * step) == b"b%03d" % step, "step %d: own write not seen" % step
    os.pwrite(remote, b"c%03d" % step, 5000 * step + 100)
    assert os.pread(reader, 4, 5000 * step + 100) == b"c%03d" % step, "step %d: the other node's write not seen" % step
os.ftruncate(remote, 50)
assert os.fstat(reader).st_size == 50 and os.pread(reader, 100, 0)[50:] == b"", "truncated elsewhere"
os.pwrite(remote, b"z", 99)
assert os.pread(reader, 200, 0)[50:] == bytes(49) + b"z", "the hole after a truncate is not zero"
for fd in (reader, writer, remote):
    os.close(fd)

# O_DIRECT, aligned and not
fd = os.open(path(one, "direct"), os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
block = mmap.mmap(-1, 65536)
block[:] = os.urandom(65536)
assert os.pwrite(fd, block, 4096) == 65536
libc = ctypes.CDLL(None, use_errno=True)
odd = ctypes.create_string_buffer(b"x" + bytes(block[:1000]))
done = libc.pwrite(fd, ctypes.byref(odd, 1), ctypes.c_size_t(999), ctypes.c_long(77))
assert done == 999, "unaligned direct write: %d" % done
os.close(fd)
assert open(path(two, "direct"), "rb").read()[77:1076] == block[:999]

# unlinked and renamed-over files live on for those who have them open, on both nodes
for name in ("gone", "over"):
    with open(path(one, name), "wb") as file:
        file.write(name.encode() * 1000)
fds = [os.open(path(mount, name), os.O_RDWR) for mount in (one, two) for name in ("gone", "over")]
os.unlink(path(two, "gone"))
with open(path(one, "new"), "wb") as file:
    file.write(b"new")
os.rename(path(one, "new"), path(one, "over"))
assert not os.path.exists(path(one, "gone")) and open(path(two, "over"), "rb").read() == b"new"
for fd, content in zip(fds, (b"gone", b"over") * 2):
    assert os.pread(fd, 5000, 0) == content * 1000, "an unlinked file lost its bytes"
os.pwrite(fds[0], b"more", 4000)
assert os.pread(fds[2], 4, 4000) == b"more", "a write to an unlinked file is not seen by the other node"
assert os.fstat(fds[0]).st_nlink == 0
for fd in fds:
    os.close(fd)

# appends of several processes on one node, and of both nodes
log = path(one, "log")
children = []
for child in range(4):
    pid = os.fork()
    if pid == 0:
        fd = os.open(path(one if child % 2 else two, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for number in range(100):
            os.write(fd, b"%d:%04d\n" % (child, number))
        os.close(fd)
        os._exit(0)
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
lines = open(log, "rb").read().split(b"\n")[:-1]
assert len(lines) == 400, "%d of 400 appended records" % len(lines)
for child in range(4):
    mine = [line for line in lines if line.startswith(b"%d:" % child)]
    assert mine == [b"%d:%04d" % (child, number) for number in range(100)], "records of %d lost or out of order" % child
print("ok")

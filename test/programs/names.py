#!/usr/bin/env python3
"""Names, paths, directories and file sizes at their limits.    names.py DIRECTORY ENTRIES EXPORT

EXPORT is DIRECTORY at the server: what only has to be there is made and removed there.
"""
import ctypes
import errno
import os
import stat
import sys

root, entries, export = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.chdir(root)


def expect(code, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except OSError as error:
        assert error.errno == code, "%s%r: %s instead of %s" % (function, arguments, error, errno.errorcode[code])
        return
    assert False, "%s%r: no error instead of %s" % (function, arguments, errno.errorcode[code])


# names
for name in (b"n" * 255, bytes(b for b in range(1, 256) if b != 47)[:254], b"\xff\xfe", b"-", b"...", b" "):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644))
    assert name in os.listdir(b"."), name
    os.unlink(name)
expect(errno.ENAMETOOLONG, os.open, b"n" * 256, os.O_CREAT | os.O_WRONLY)
expect(errno.ENAMETOOLONG, os.mkdir, b"n" * 256)
expect(errno.ENOENT, os.stat, "missing/x")

# a path deeper than PATH_MAX, one directory at a time
fd = os.open(".", os.O_RDONLY)
depth = 25
for level in range(depth):
    os.mkdir("d" * 200, dir_fd=fd)
    deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
    os.close(fd)
    fd = deeper
with os.fdopen(os.open("bottom", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd), "w") as file:
    file.write("deep")
assert os.stat("bottom", dir_fd=fd).st_size == 4
os.unlink("bottom", dir_fd=fd)
for level in range(depth):
    parent = os.open("..", os.O_RDONLY, dir_fd=fd)
    os.rmdir("d" * 200, dir_fd=parent)
    os.close(fd)
    fd = parent
os.close(fd)

# a large directory: complete, without doubles, and seekdir finds its place again while entries go
os.mkdir("many")
for number in range(entries):
    where = "" if number % 20 == 0 else export + "/"
    os.close(os.open("%smany/entry-%06d" % (where, number), os.O_CREAT | os.O_WRONLY, 0o644))
names = os.listdir("many")
assert len(names) == entries and len(set(names)) == entries, "%d of %d entries" % (len(set(names)), entries)
libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
libc.opendir.argtypes = [ctypes.c_char_p]
libc.readdir.argtypes = libc.telldir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
libc.telldir.restype = ctypes.c_long
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]


def entry(handle):
    pointer = libc.readdir(handle)
    return ctypes.string_at(pointer + 19) if pointer else None


handle = libc.opendir(b"many")
for _ in range(entries // 3):
    entry(handle)
place = libc.telldir(handle)
after = [entry(handle) for _ in range(50)]
for name in after[25:30]:
    os.unlink(b"many/" + name)
while entry(handle):
    pass
libc.seekdir(handle, place)
again = [entry(handle) for _ in range(45)]
assert [n for n in after if n not in after[25:30]] == again[:45], "seekdir does not find its place"
libc.closedir(handle)
for number, name in enumerate(os.listdir("many")):
    os.unlink(("" if number % 20 == 0 else export + "/") + "many/" + name)
os.rmdir("many")

# beyond 2 TiB, sparse
fd = os.open("sparse", os.O_CREAT | os.O_RDWR, 0o644)
far = 3 << 40
os.pwrite(fd, b"far away", far)
os.pwrite(fd, b"near", 10)
os.fsync(fd)
assert os.fstat(fd).st_size == far + 8 and os.fstat(fd).st_blocks < 1000
assert os.pread(fd, 20, far - 5) == b"\0" * 5 + b"far away" and os.pread(fd, 6, 9) == b"\0near\0"
assert os.lseek(fd, 1 << 20, os.SEEK_DATA) > 1 << 40
os.close(fd)
os.unlink("sparse")

# special files
os.mkfifo("fifo", 0o600)
os.mknod("device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
os.mknod("socket", stat.S_IFSOCK | 0o600)
assert stat.S_ISFIFO(os.stat("fifo").st_mode) and stat.S_ISSOCK(os.stat("socket").st_mode)
assert os.stat("device").st_rdev == os.makedev(1, 3)
for name in ("fifo", "device", "socket"):
    os.unlink(name)

# extended attributes at their limits
open("attributes", "w").close()
expect(errno.E2BIG, os.setxattr, "attributes", "user.big", bytes(1 << 17))
for number in range(1000):
    try:
        os.setxattr("attributes", "user.%d" % number, bytes(4000))
    except OSError as error:
        assert error.errno in (errno.ENOSPC, errno.E2BIG, errno.EDQUOT), error
        break
expect(errno.ENODATA, os.getxattr, "attributes", "user.none")
expect(errno.EOPNOTSUPP, os.setxattr, "attributes", "nonsense.x", b"1")
os.unlink("attributes")
assert os.listdir(".") == [], os.listdir(".")
print("ok")

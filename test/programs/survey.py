#!/usr/bin/env python3
"""What a filesystem answers to the rarer calls, one line each, to be compared with what a local disk answers.    survey.py DIR [OTHER SECTION...]

OTHER is the same directory as seen from another node: what was done in DIR is looked at there.
"""
import ctypes
import errno
import mmap
import os
import re
import resource
import signal
import socket
import stat
import struct
import sys

DIR = sys.argv[1]
OTHER = sys.argv[2] if len(sys.argv) > 2 else DIR
LIBC = ctypes.CDLL(None, use_errno=True)
ALICE, BOB, GROUP = 12345, 12346, 12400
MAPS_WRITTEN = [int(n) for n in re.findall("[0-9]+", os.uname().release)[:2]] >= [6, 6]  # docs/limits.md


def here(name):
    return os.path.join(DIR, name)


def there(name):
    return os.path.join(OTHER, name)


def check(code):
    if code < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return code


def ask(what, call, *arguments, **options):
    """Prints what CALL gives, or the error."""
    try:
        got = call(*arguments, **options)
    except OSError as error:
        got = errno.errorcode[error.errno]
    print("%s: %s" % (what, got), flush=True)
    return got


def make(name, data=b"", mode=0o644):
    with os.fdopen(os.open(here(name), os.O_CREAT | os.O_TRUNC | os.O_RDWR, mode), "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def kind(path):
    st = os.stat(path, follow_symlinks=False)
    return "%o %d %d %d %d" % (st.st_mode, st.st_nlink, st.st_uid, st.st_gid, 0 if stat.S_ISDIR(st.st_mode) else st.st_size)


def as_user(uid, groups, call):
    """CALL in a process of that user; what it prints counts."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.setgroups(groups)
        os.setresgid(groups[0], groups[0], groups[0])
        os.setresuid(uid, uid, uid)
        try:
            call()
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.waitpid(pid, 0)


def fallocate(fd, mode, offset, length):
    return check(LIBC.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)))


def rename(old, new, flags):
    return check(LIBC.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags))


def tmpfile():
    fd = os.open(DIR, os.O_TMPFILE | os.O_RDWR, 0o640)
    os.write(fd, b"temporary")
    print("O_TMPFILE:", os.fstat(fd).st_nlink, os.pread(fd, 20, 0))
    ask("linked by /proc", check, LIBC.linkat(-100, b"/proc/self/fd/%d" % fd, -100, os.fsencode(here("tmp")), 0x400))
    ask("linked", kind, there("tmp"))
    os.close(fd)
    ask("read", read, there("tmp"))
    fd = os.open(DIR, os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o640)
    ask("O_EXCL cannot be linked", lambda: check(LIBC.linkat(-100, b"/proc/self/fd/%d" % fd, -100, os.fsencode(here("tmp2")), 0x400)))
    os.close(fd)


def holes():
    make("f", b"x" * 100000)
    fd = os.open(here("f"), os.O_RDWR)
    for name, mode, offset, length in (("allocate", 0, 90000, 30000), ("keep", 1, 200000, 50000), ("punch", 3, 8192, 16384), ("zero", 16, 40000, 5000),
            ("zero keep", 17, 119000, 9000), ("punch without keep", 2, 0, 4096), ("no length", 0, 0, 0), ("negative", 0, -1, 10),
            ("too large", 0, 1 << 62, 1 << 62), ("unknown", 1 << 20, 0, 4096)):
        ask("fallocate " + name, fallocate, fd, mode, offset, length)
        ask("size", lambda: os.stat(there("f")).st_size)
    ask("bytes", lambda: (lambda d: (len(d), d.count(b"x"), d.count(b"\0")))(read(there("f"))))
    os.close(fd)
    fd = os.open(here("sparse"), os.O_CREAT | os.O_RDWR)
    os.pwrite(fd, b"d" * 4096, 1 << 20)
    os.pwrite(fd, b"d" * 4096, 3 << 20)
    os.ftruncate(fd, 4 << 20)
    os.fsync(fd)
    other = os.open(there("sparse"), os.O_RDONLY)
    for name, whence in (("SEEK_DATA", os.SEEK_DATA), ("SEEK_HOLE", os.SEEK_HOLE)):
        for offset in (0, 1 << 20, (1 << 20) + 4096, 2 << 20, (3 << 20) + 100, (4 << 20) - 1, 4 << 20, 5 << 20):
            ask("%s %d" % (name, offset), os.lseek, other, offset, whence)
    os.close(other)
    ask("beyond 4 TiB", os.pwrite, fd, b"far", (5 << 40) + 3)
    os.fsync(fd)
    ask("size", lambda: os.stat(there("sparse")).st_size)
    ask("read there", lambda: os.pread(os.open(there("sparse"), os.O_RDONLY), 10, (5 << 40) + 1))
    ask("truncate to 8 TiB", os.ftruncate, fd, 8 << 40)
    ask("size", lambda: os.stat(there("sparse")).st_size)
    os.close(fd)


def copies():
    make("from", bytes(range(256)) * 1000)
    make("to")
    source, target = os.open(here("from"), os.O_RDONLY), os.open(here("to"), os.O_RDWR)
    ask("copy_file_range", os.copy_file_range, source, target, 100000, 5000, 70000)
    ask("past the end", os.copy_file_range, source, target, 1000, 255990, 0)
    ask("behind the end", os.copy_file_range, source, target, 1000, 300000, 0)
    ask("onto itself", os.copy_file_range, target, target, 1000, 0, 500)
    ask("into one that is read only", os.copy_file_range, source, source, 1000, 0, 300000)
    os.fsync(target)
    ask("there", lambda: (lambda d: (len(d), sum(d)))(read(there("to"))))
    ask("sendfile", os.sendfile, target, source, 0, 5000)
    os.close(source)
    os.close(target)


def renames():
    for name in "ab":
        make(name, name.encode())
    os.mkdir(here("dir"))
    os.mkdir(here("full"))
    make("full/x")
    for what, old, new, flags in (("NOREPLACE", "a", "b", 1), ("EXCHANGE", "a", "b", 2), ("EXCHANGE with a directory", "a", "dir", 2),
            ("EXCHANGE with nothing", "b", "none", 2), ("both", "a", "b", 3), ("WHITEOUT", "a", "w", 4), ("unknown", "a", "b", 64),
            ("file over directory", "b", "full", 0), ("directory over file", "full", "b", 0), ("directory into itself", "full", "full/y", 0),
            ("over a full one", "dir", "full", 0), ("NOREPLACE to nothing", "b", "c", 1), ("itself", "c", "c", 0)):
        if what == "WHITEOUT":
            continue  # local disks make a device of overlayfs
        ask("rename " + what, rename, here(old), there(new) if OTHER == DIR else here(new), flags)
        print(sorted(os.listdir(OTHER)))
    ask("content", lambda: [read(there(n)) for n in sorted(os.listdir(OTHER)) if os.path.isfile(there(n))])


def attributes():
    make("x")
    ask("empty value", os.setxattr, here("x"), "user.empty", b"")
    ask("get", os.getxattr, there("x"), "user.empty")
    ask("name of 255", os.setxattr, here("x"), "user." + "n" * 250, b"1")
    ask("name of 256", os.setxattr, here("x"), "user." + "n" * 251, b"1")
    ask("only create", os.setxattr, here("x"), "user.empty", b"1", os.XATTR_CREATE)
    ask("only replace", os.setxattr, here("x"), "user.other", b"1", os.XATTR_REPLACE)
    ask("list", lambda: sorted(os.listxattr(there("x"))))
    ask("remove", os.removexattr, here("x"), "user.empty")
    ask("remove again", os.removexattr, here("x"), "user.empty")
    os.symlink("x", here("link"))
    ask("user on a symlink", os.setxattr, here("link"), "user.a", b"1", follow_symlinks=False)
    ask("trusted", os.setxattr, here("x"), "trusted.a", b"1")
    ask("trusted seen by root", lambda: sorted(os.listxattr(there("x"))))
    os.chmod(here("x"), 0o644)
    as_user(ALICE, [ALICE], lambda: (ask("trusted seen by a user", lambda: sorted(os.listxattr(there("x")))),
        ask("set by who cannot write", os.setxattr, here("x"), "user.b", b"1"), ask("get by a reader", os.getxattr, there("x"), "user." + "n" * 250)))


def special():
    ask("fifo", os.mkfifo, here("fifo"), 0o640)
    ask("socket", lambda: socket.socket(socket.AF_UNIX).bind(here("s")) if len(here("s")) < 100 else None)
    ask("device", os.mknod, here("null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
    for name in ("fifo", "null"):
        ask(name, kind, there(name))
    ask("open a fifo for writing at once", os.open, here("fifo"), os.O_WRONLY | os.O_NONBLOCK)
    reader = os.open(here("fifo"), os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(here("fifo"), os.O_WRONLY)
    ask("through it", lambda: (os.write(writer, b"pipe"), os.read(reader, 10)))
    os.close(reader)
    os.close(writer)
    as_user(ALICE, [ALICE], lambda: ask("device by a user", os.mknod, here("null2"), stat.S_IFCHR | 0o666, os.makedev(1, 3)))
    ask("open a directory for writing", os.open, DIR, os.O_WRONLY)
    ask("O_DIRECTORY of a file", os.open, here("fifo"), os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK)
    os.symlink("fifo", here("l"))
    ask("O_NOFOLLOW", os.open, here("l"), os.O_RDONLY | os.O_NOFOLLOW)
    os.symlink("loop", here("loop"))
    ask("a loop", os.open, here("loop"), os.O_RDONLY)
    ask("a symlink of 4095", os.symlink, "t" * 4095, here("long"))
    ask("read", lambda: len(os.readlink(there("long"))))
    ask("a symlink of 4096", os.symlink, "t" * 4096, here("longer"))
    ask("an empty one", os.symlink, "", here("empty"))


def directories():
    os.chmod(DIR, 0o777)
    os.mkdir(here("sticky"))
    os.chmod(here("sticky"), 0o1777)
    as_user(ALICE, [ALICE], lambda: make("sticky/hers", b"hers", 0o666))
    as_user(BOB, [BOB], lambda: (ask("remove another's", os.unlink, there("sticky/hers")), ask("rename another's", os.rename, there("sticky/hers"), there("sticky/his")),
        ask("write it", lambda: os.pwrite(os.open(there("sticky/hers"), os.O_WRONLY), b"H", 0))))
    os.mkdir(here("setgid"))
    os.chown(here("setgid"), 0, GROUP)
    os.chmod(here("setgid"), 0o2777)
    as_user(ALICE, [ALICE], lambda: (make("setgid/file"), os.mkdir(here("setgid/dir")), os.mknod(here("setgid/node"), 0o2755 | stat.S_IFREG)))
    for name in ("file", "dir", "node"):
        ask("in setgid: " + name, kind, there("setgid/" + name))
    make("suid")
    os.chmod(here("suid"), 0o6777)
    as_user(ALICE, [ALICE], lambda: os.write(os.open(here("suid"), os.O_WRONLY), b"x"))
    ask("suid after a write", kind, there("suid"))
    os.chmod(here("suid"), 0o6777)
    as_user(ALICE, [ALICE], lambda: os.truncate(here("suid"), 0))
    ask("suid after a truncate", kind, there("suid"))
    os.chown(here("suid"), ALICE, ALICE)
    ask("suid after a chown", kind, there("suid"))
    as_user(ALICE, [ALICE], lambda: ask("setgid of a group that is not hers", lambda: (os.chmod(here("suid"), 0o2755), kind(there("suid")))[1]))
    old = os.umask(0o027)
    ask("umask", lambda: (os.mkdir(here("masked"), 0o777), kind(there("masked")))[1])
    os.umask(old)


def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, perm, who & 0xffffffff) for tag, perm, who in entries)


def acls():
    os.mkdir(here("d"))
    default = acl((1, 7, -1), (2, 5, ALICE), (4, 5, -1), (16, 7, -1), (32, 0, -1))
    ask("default ACL", os.setxattr, here("d"), "system.posix_acl_default", default)
    old = os.umask(0o077)
    make("d/file", b"", 0o666)
    os.mkdir(here("d/sub"), 0o777)
    os.umask(old)
    for name in ("d/file", "d/sub"):
        ask(name, kind, there(name))
        ask("inherited", lambda: os.getxattr(there(name), "system.posix_acl_access").hex())
    ask("and default", lambda: os.getxattr(there("d/sub"), "system.posix_acl_default").hex())
    ask("default of a file", os.setxattr, here("d/file"), "system.posix_acl_default", default)
    ask("broken ACL", os.setxattr, here("d/file"), "system.posix_acl_access", b"\2\0\0\0xx")
    os.chmod(here("d/file"), 0o640)
    ask("after chmod", lambda: os.getxattr(there("d/file"), "system.posix_acl_access").hex())
    os.chmod(DIR, 0o755)
    os.chmod(here("d"), 0o755)
    as_user(ALICE, [ALICE], lambda: (ask("read by the ACL", os.open, there("d/file"), os.O_RDONLY), ask("write", os.open, there("d/file"), os.O_WRONLY)))
    as_user(BOB, [BOB], lambda: ask("another", os.open, there("d/file"), os.O_RDONLY))


def links():
    make("one", b"1")
    os.link(here("one"), here("two"))
    ask("counts", lambda: (kind(there("one")), kind(there("two")), os.path.samefile(there("one"), there("two"))))
    os.mkdir(here("d"))
    os.mkdir(here("d/e"))
    ask("of directories", lambda: (kind(DIR), kind(there("d"))))
    ask("link of a directory", os.link, here("d"), here("d2"))
    os.symlink("one", here("s"))
    ask("link of a symlink", lambda: (os.link(here("s"), here("s2"), follow_symlinks=False), kind(there("s2")))[1])
    ask("link over one that is", os.link, here("one"), here("two"))
    fd = os.open(there("two"), os.O_RDWR)
    os.unlink(here("one"))
    os.unlink(here("two"))
    ask("open and removed", lambda: (os.fstat(fd).st_nlink, os.pread(fd, 10, 0), os.pwrite(fd, b"on", 1), os.pread(fd, 10, 0)))
    ask("fsync of it", os.fsync, fd)
    ask("ftruncate of it", os.ftruncate, fd, 1)
    ask("fchmod of it", lambda: (os.fchmod(fd, 0o600), os.fstat(fd).st_mode)[1])
    os.close(fd)
    held = os.open(here("d"), os.O_RDONLY)
    os.rmdir(there("d/e"))
    os.rmdir(there("d"))
    ask("links of a directory that was removed", lambda: os.fstat(held).st_nlink)
    ask("list of a directory that was removed", os.listdir, held)
    ask("create in it", os.open, "x", os.O_CREAT | os.O_WRONLY, dir_fd=held)
    os.close(held)


def times():
    late = 0
    for k in range(50):
        make("late", b"x" * k)
        for directory in here, there:
            was = os.stat(directory("late"))
            late += was.st_ctime_ns < was.st_mtime_ns
        os.unlink(here("late"))
    ask("written after their last change", lambda: late)


def limits():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    was = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10000, was[1]))
    fd = os.open(here("limited"), os.O_CREAT | os.O_RDWR)
    ask("write over RLIMIT_FSIZE", os.pwrite, fd, b"l" * 8000, 4000)
    ask("write beyond it", os.pwrite, fd, b"l", 10000)
    ask("truncate beyond it", os.ftruncate, fd, 10001)
    ask("fallocate beyond it", fallocate, fd, 0, 9000, 5000)
    ask("size", lambda: os.stat(there("limited")).st_size)
    resource.setrlimit(resource.RLIMIT_FSIZE, was)
    os.close(fd)
    fd = os.open(here("end"), os.O_CREAT | os.O_RDWR)
    ask("write at the end of the numbers", os.pwrite, fd, b"xx", (1 << 63) - 1)
    os.close(fd)
    statfs = os.statvfs(OTHER)
    print("statfs:", statfs.f_namemax, statfs.f_bsize > 0, statfs.f_blocks >= statfs.f_bfree >= statfs.f_bavail > 0, statfs.f_files >= statfs.f_ffree)


def opens():
    make("f", b"0123456789" * 1000)
    fd = os.open(here("f"), os.O_WRONLY | os.O_APPEND | os.O_DIRECT)
    page = mmap.mmap(-1, 4096)
    page.write(b"D" * 4096)
    ask("size before", os.ftruncate, fd, 8192)
    ask("O_APPEND and O_DIRECT", os.write, fd, page)
    os.close(fd)
    ask("there", lambda: (lambda d: (len(d), d[:3], d[-3:]))(read(there("f"))))
    fd = os.open(here("f"), os.O_RDWR | os.O_APPEND)
    ask("pwrite with O_APPEND goes to the end", lambda: (os.pwrite(fd, b"end", 0), read(there("f"))[-3:]))
    os.close(fd)
    fd = os.open(here("f"), os.O_RDONLY)
    ask("write to one that is read only", os.write, fd, b"x")
    ask("ftruncate of it", os.ftruncate, fd, 0)
    ask("fsync of it", os.fsync, fd)
    os.close(fd)
    ask("O_TRUNC", lambda: (os.close(os.open(here("f"), os.O_WRONLY | os.O_TRUNC)), os.stat(there("f")).st_size)[1])
    ask("O_CREAT and O_EXCL of what is", os.open, here("f"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    ask("O_PATH", lambda: os.fstat(os.open(there("f"), os.O_PATH)).st_size)
    ask("no read on O_PATH", lambda: os.read(os.open(there("f"), os.O_PATH), 1))
    fd = os.open(here("map"), os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 10000)
    try:
        with mmap.mmap(fd, 10000) as view:
            view[5000:5004] = b"mmap"
            view.flush()
    except OSError as error:
        if error.errno != errno.ENODEV or MAPS_WRITTEN:
            raise
        os.pwrite(fd, b"mmap", 5000)
    ask("a mapping after msync", lambda: read(there("map"))[4999:5005])
    os.close(fd)
    os.utime(here("map"), ns=(1, 1000000002))
    ask("times", lambda: (os.stat(there("map")).st_atime_ns, os.stat(there("map")).st_mtime_ns))
    os.utime(here("map"), (-5, -7))
    ask("times before 1970", lambda: os.stat(there("map")).st_mtime)


for test in (tmpfile, holes, copies, renames, attributes, special, directories, acls, links, times, limits, opens):
    if sys.argv[3:] and test.__name__ not in sys.argv[3:]:
        continue
    print("=== " + test.__name__)
    base, other = DIR, OTHER
    DIR, OTHER = os.path.join(base, test.__name__), os.path.join(other, test.__name__)
    os.mkdir(DIR)
    try:
        test()
    except OSError as error:
        print("ended by", error.strerror)
    DIR, OTHER = base, other

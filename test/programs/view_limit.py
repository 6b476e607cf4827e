#!/usr/bin/env python3
"""The limit of a mount with view=node,size=32M: what fails, with ENOSPC, and what goes on.    view_limit.py MOUNT PASSTHROUGH

PASSTHROUGH: reads, or nothing, as `kairan status` tells.
"""
import errno
import mmap
import os
import sys
import time

MOUNT, PASSTHROUGH, LIMIT, BLOCK, PIECE = sys.argv[1], sys.argv[2], 32 << 20, 4096, 128 << 10
MAP = 4 * BLOCK  # where the disk is in pieces a file's map takes blocks, too, and the disk may give them back


def path(name):
    return os.path.join(MOUNT, name)


def fails(call, *arguments, why=errno.ENOSPC):
    """Whether CALL fails, for want of room or WHY; another error is one of the test."""
    try:
        call(*arguments)
    except OSError as error:
        assert error.errno == why, error
        return True
    return False


def used():
    facts = os.statvfs(MOUNT)
    assert facts.f_blocks * facts.f_frsize == LIMIT, facts
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize


def files():
    facts = os.statvfs(MOUNT)
    return facts.f_files - facts.f_ffree


def wait_until(condition):
    """The kernel forgets a removed file a moment later."""
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, (used(), os.listdir(MOUNT))
        time.sleep(0.01)


def fill(fd, offset=0):
    """Writes until nothing more fits; the end of what did."""
    while True:
        try:
            offset += os.pwrite(fd, b"f" * PIECE, offset)
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            return offset


def create(name):
    return os.open(path(name), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)


def to_the_last_block():
    fd = create("all")
    end = fill(fd)
    held = os.fstat(fd).st_blocks * 512
    assert LIMIT - BLOCK < held <= LIMIT and end % BLOCK == 0 and 0 <= held - end <= MAP, (end, held)
    assert used() == LIMIT, used()
    assert os.fstat(fd).st_size == end
    # What it has goes on: bytes that are written over, and what shrinks.
    assert os.pwrite(fd, b"o" * PIECE, 5000) == PIECE
    assert fails(os.pwrite, fd, b"x", end)
    assert fails(os.open, path("another"), os.O_CREAT | os.O_WRONLY), "an inode needs a block"
    assert fails(os.mkdir, path("another"))
    part = 16 * MAP
    os.ftruncate(fd, end - 2 * part)
    other = create("other")
    assert abs(fill(other) - 2 * part) <= MAP, "what was cut off is free at once"
    assert used() == LIMIT, used()
    os.close(other)
    os.unlink(path("other"))
    # A file that is removed while it is open holds its room until it is closed.
    other = create("other")
    assert os.pwrite(other, b"x" * part, 0) == part
    os.unlink(path("other"))
    wait_until(lambda: abs(used() - (LIMIT - part)) <= MAP)
    assert abs(fill(fd, end - 2 * part) - (end - part)) <= MAP
    assert used() == LIMIT, used()
    os.close(other)
    wait_until(lambda: used() == LIMIT - part)
    assert abs(fill(fd, os.fstat(fd).st_size) - end) <= MAP
    assert used() == LIMIT, used()
    os.close(fd)
    os.unlink(path("all"))


def holes():
    fd = create("sparse")
    os.ftruncate(fd, 1 << 40)
    assert used() < 1 << 20, "a hole takes no room"
    os.pwrite(fd, b"d" * BLOCK, 1 << 39)
    before = used()
    filler = create("filler")
    fill(filler)
    assert os.pwrite(fd, b"e" * BLOCK, 1 << 39) == BLOCK, "the block is there"
    # The disk may have given blocks of a file's map back meanwhile: a few fit then.
    assert any(fails(os.pwrite, fd, b"e" * BLOCK, (1 << 38) + 2 * BLOCK * i) for i in range(16)), "here are holes"
    assert used() == LIMIT, used()
    os.close(filler)
    os.unlink(path("filler"))
    os.close(fd)
    wait_until(lambda: used() <= before)
    os.unlink(path("sparse"))


def allocation():
    fd = create("allocated")
    os.posix_fallocate(fd, 0, LIMIT // 2)
    assert used() >= LIMIT // 2
    assert fails(os.posix_fallocate, fd, 0, LIMIT * 2)
    filler = create("filler")
    assert fill(filler) <= LIMIT // 2
    for offset in range(0, LIMIT // 2, PIECE):  # was promised
        assert os.pwrite(fd, b"a" * PIECE, offset) == PIECE
    os.ftruncate(filler, 0)
    copied = 0
    while copied < LIMIT // 4:
        copied += os.copy_file_range(fd, filler, LIMIT // 4 - copied, copied, copied)
    done = copied
    try:
        while done < LIMIT * 2:
            done += os.copy_file_range(fd, filler, LIMIT // 4, 0, done)
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
    assert LIMIT // 2 - MAP <= done <= LIMIT // 2, done
    for name, handle in (("allocated", fd), ("filler", filler)):
        os.close(handle)
        os.unlink(path(name))


def mapping(reader_first):
    """Stores through a mapping fill no more than the limit, whoever has the file open."""
    fd = create("mapped")
    os.close(fd)
    reader = os.open(path("mapped"), os.O_RDONLY) if reader_first else -1
    fd = os.open(path("mapped"), os.O_RDWR)
    if reader_first and PASSTHROUGH == "reads":  # the kernel stores past the daemon: so the size counts
        assert fails(os.ftruncate, fd, LIMIT * 2), "a mapping could fill all of it"
    os.ftruncate(fd, LIMIT // 2)
    with mmap.mmap(fd, LIMIT // 2) as view:
        for offset in range(0, LIMIT // 2, BLOCK):
            view[offset] = 77
        view.flush()
    assert used() >= LIMIT // 2, used()
    if not reader_first:
        filler = create("filler")
        end = fill(filler)
        assert end <= LIMIT // 2, end
        os.ftruncate(fd, LIMIT)
        with mmap.mmap(fd, LIMIT) as view:
            for i in range(16):  # a few may fit, as in holes()
                view[LIMIT // 2 + BLOCK * (2 * i + 1)] = 78
            assert fails(view.flush), "there is no room for these pages"
        assert used() <= LIMIT, used()
        os.close(filler)
        os.unlink(path("filler"))
    try:
        os.close(fd)
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
    assert os.stat(path("mapped")).st_blocks * 512 >= LIMIT // 2
    with open(path("mapped"), "rb") as file:
        assert file.read(1) == b"M"
    if reader_first:
        os.close(reader)
    os.unlink(path("mapped"))


def inodes():
    most = os.statvfs(MOUNT).f_files
    assert most == LIMIT // 16384, most
    made = 0
    os.mkdir(path("many"))  # the root would keep its size
    while not fails(os.mknod, path("many/n%d" % made)):
        made += 1
    assert most - 3 <= made <= most, (made, most)
    assert fails(os.symlink, "a", path("symlink"))
    os.link(path("many/n0"), path("link"))  # no inode
    os.unlink(path("many/n0"))
    assert fails(os.mknod, path("many/n0")), "its other name is there"
    os.unlink(path("link"))
    os.mknod(path("many/n0"))
    for number in range(made):
        os.unlink(path("many/n%d" % number))
    os.rmdir(path("many"))


def names():
    """Names of one file, which need no inode: the directories that hold them count, also when they have gone."""
    os.mkdir(path("links"))
    os.mkdir(path("moved"))
    os.mknod(path("file"))
    for number in range(4000):
        os.link(path("file"), path("links/%0250d" % number))
    assert used() >= 1 << 20, used()
    for number in range(4000):
        os.rename(path("links/%0250d" % number), path("moved/%0250d" % number))
    assert used() >= sum(os.stat(path(name)).st_blocks * 512 for name in ("links", "moved")), used()
    filler = create("filler")
    fill(filler)
    assert fails(os.link, path("file"), path("links/a"))
    assert fails(os.rename, path("moved/%0250d" % 0), path("links/a"))
    os.rename(path("moved/%0250d" % 1), path("filler"))  # in place of another
    os.close(filler)
    os.unlink(path("filler"))
    for name in os.listdir(path("moved")):
        os.unlink(path("moved/" + name))
    os.unlink(path("file"))
    os.rmdir(path("links"))
    os.rmdir(path("moved"))


def attributes():
    """An inode has a block for them, which counts where the disk says so."""
    fd = create("attributes")
    try:
        os.setxattr(fd, "user.a", b"a" * 3000)
    except OSError as error:
        assert error.errno == errno.EOPNOTSUPP, error
    else:
        assert used() == os.fstat(fd).st_blocks * 512, used()
        assert fails(os.setxattr, fd, "user.b", b"b" * 2000)
        assert fails(os.setxattr, fd, "user.b", b"b" * 2000, os.XATTR_REPLACE, why=errno.ENODATA)
        assert fails(os.setxattr, fd, "user.a", b"a" * 8000, os.XATTR_CREATE, why=errno.EEXIST)
        os.setxattr(fd, "user.a", b"c" * 3000)
        filler = create("filler")
        fill(filler)
        assert fails(os.setxattr, path("filler"), "user.a", b"a" * 3000)
        os.close(filler)
        os.unlink(path("filler"))
        os.removexattr(fd, "user.a")
        wait_until(lambda: used() == os.fstat(fd).st_blocks * 512)
    os.close(fd)
    os.unlink(path("attributes"))


wait_until(lambda: used() == 0)
for test in (to_the_last_block, holes, allocation, lambda: mapping(False), lambda: mapping(True), inodes, names, attributes):
    test()
    wait_until(lambda: used() == 0)
    assert os.listdir(MOUNT) == [], os.listdir(MOUNT)
    wait_until(lambda: files() == 1) # the kernel releases a closed file by and by
print("ok")

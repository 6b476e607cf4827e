"""What two nodes must agree on: check.py MOUNT_A MOUNT_B EXPORT. One process uses both mounts, so it knows what came first."""
import fcntl
import os
import random
import sys
import threading

A, B, EXPORT = sys.argv[1:]
RANDOM = random.Random(5)
STRIPE, STRIPES = 65536 - 37, 300
RECORD = 53


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data, mode="wb"):
    with open(path, mode) as file:
        file.write(data)


def absent(path):
    try:
        os.stat(path)
    except FileNotFoundError:
        return True
    return False


def both(first, second):
    """Runs both at a time, and fails if one fails."""
    failed = []

    def run(what):
        try:
            what()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(what,)) for what in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def contents(here, there, name):
    for size in (0, 11, 70000, 3 << 20):
        data = RANDOM.randbytes(size)
        write(f"{here}/{name}", data)
        assert read(f"{there}/{name}") == data, (name, size)
    write(f"{there}/{name}", b"more", "ab")
    assert read(f"{here}/{name}") == data + b"more", name
    os.truncate(f"{here}/{name}", 100)
    assert os.stat(f"{there}/{name}").st_size == 100 and read(f"{there}/{name}") == data[:100], name
    os.chmod(f"{there}/{name}", 0o640)
    assert os.stat(f"{here}/{name}").st_mode & 0o777 == 0o640, name


def names(here, there, name):
    os.mkdir(f"{here}/{name}")
    write(f"{here}/{name}/a", b"first")
    write(f"{there}/{name}/b", b"second")
    assert sorted(os.listdir(f"{here}/{name}")) == sorted(os.listdir(f"{there}/{name}")) == ["a", "b"]
    os.rename(f"{here}/{name}/a", f"{here}/{name}/c")
    assert absent(f"{there}/{name}/a") and read(f"{there}/{name}/c") == b"first"
    with open(f"{here}/{name}/c", "rb") as opened:
        os.rename(f"{there}/{name}/b", f"{there}/{name}/c")
        assert read(f"{here}/{name}/c") == b"second" and absent(f"{here}/{name}/b")
        assert opened.read() == b"first", "a file that was replaced while it was open"
    os.link(f"{there}/{name}/c", f"{there}/{name}/d")
    assert os.stat(f"{here}/{name}/c").st_nlink == 2
    os.symlink("d", f"{here}/{name}/e")
    assert read(f"{there}/{name}/e") == b"second"
    os.setxattr(f"{there}/{name}/d", "user.kept", b"value")
    assert os.getxattr(f"{here}/{name}/e", "user.kept") == b"value"
    for left in os.listdir(f"{there}/{name}"):
        os.unlink(f"{there}/{name}/{left}")
    os.rmdir(f"{here}/{name}")
    assert absent(f"{there}/{name}")


def locks(here, there, name):
    write(f"{here}/{name}", b"")
    with open(f"{here}/{name}", "r+b") as mine, open(f"{there}/{name}", "r+b") as other:
        for lock, unlock, take in (
            (fcntl.lockf, fcntl.LOCK_UN, fcntl.LOCK_EX),
            (fcntl.flock, fcntl.LOCK_UN, fcntl.LOCK_EX),
        ):
            lock(mine, take)
            try:
                lock(other, take | fcntl.LOCK_NB)
                raise AssertionError("both nodes have the lock")
            except BlockingIOError:
                pass
            waiting = threading.Thread(target=lock, args=(other, take))
            waiting.start()
            os.pwrite(mine.fileno(), b"under the lock", 0)
            lock(mine, unlock)
            waiting.join()
            assert os.pread(other.fileno(), 100, 0) == b"under the lock"
            lock(other, unlock)


def appends():
    def run(mount, letter):
        with open(f"{mount}/appends", "ab", buffering=0) as file:
            for number in range(200):
                file.write(b"%c%0*d\n" % (letter, RECORD - 2, number))

    both(lambda: run(A, b"a"), lambda: run(B, b"b"))
    wanted = sorted(b"%c%0*d" % (letter, RECORD - 2, number) for letter in (b"a", b"b") for number in range(200))
    for mount in (A, B):
        assert sorted(read(f"{mount}/appends").splitlines()) == wanted, mount


def strided():
    """Each writes every second stripe; blocks of the transfers belong to both."""
    stripes = [RANDOM.randbytes(STRIPE) for _ in range(STRIPES)]
    whole = b"".join(stripes)

    def run(mount, first):
        fd = os.open(f"{mount}/strided", os.O_RDWR | os.O_CREAT, 0o644)
        for number in range(first, STRIPES, 2):
            assert os.pwrite(fd, stripes[number], number * STRIPE) == STRIPE
        os.fsync(fd)
        os.close(fd)

    both(lambda: run(A, 0), lambda: run(B, 1))
    for place in (A, B, EXPORT):
        assert read(f"{place}/strided") == whole, place


for here, there, which in ((A, B, "there"), (B, A, "back")):
    contents(here, there, f"contents-{which}")
    names(here, there, f"names-{which}")
    locks(here, there, f"locks-{which}")
appends()
strided()

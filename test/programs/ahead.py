#!/usr/bin/env python3
"""Programs that go through a directory on one node while another node changes it: ahead.py [--seed N] [--seconds S] MOUNT OTHER

Each file has a number that only grows, and says it by its size, its time, its length by appending, or by whether it is there (even) or
not (odd).  Threads list the directory through MOUNT, or know its names, and look at all of them in the orders that programs have; a look must not find less than
what had been written through OTHER when it began, nor more than what was being written when it ended."""
import argparse
import os
import random
import sys
import threading
import time

ROUNDS = 3  # of each thread at least, however slow the machine
KINDS = {"size": 60, "time": 60, "bytes": 60, "here": 4}


def say(path, kind, number):
    if kind == "size":
        os.truncate(path, number)
    elif kind == "time":
        os.utime(path, (number, number))
    elif kind == "bytes":
        with open(path, "ab") as f:
            f.write(b"x")
    elif number % 2:
        os.unlink(path)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o644))


def hear(path, kind):
    """The number, or whether it is even."""
    try:
        seen = os.lstat(path)
    except FileNotFoundError:
        return None if kind != "here" else False
    return True if kind == "here" else int(seen.st_mtime) if kind == "time" else seen.st_size


class File:
    def __init__(self, kind, number):
        self.kind, self.name = kind, f"{kind}{number:03}"
        self.begun = self.done = 0


class Test:
    def __init__(self, args):
        self.args = args
        self.end = None  # of the time, which begins when all is there
        self.walkers = []
        self.wrong = []
        self.looks = 0
        self.files = [File(kind, i) for kind, count in KINDS.items() for i in range(count)]
        self.by_name = {f.name: f for f in self.files}
        self.directory = f"ahead{args.seed}"

    def path(self, mount, file):
        return os.path.join(mount, self.directory, file.name)

    def goes_on(self, rounds):
        """For who has gone through the directory so often."""
        return (time.monotonic() < self.end or rounds < ROUNDS) and not self.wrong

    def change(self):
        rng = random.Random(self.args.seed)
        names_at = 0
        while any(walker.is_alive() for walker in self.walkers):
            file = rng.choice(self.files)
            if file.kind == "here":
                if time.monotonic() < names_at:
                    continue
                names_at = time.monotonic() + 0.8  # a directory whose names change has no notes for a while
            file.begun += 1
            say(self.path(self.args.other, file), file.kind, file.begun)
            file.done = file.begun
            time.sleep(rng.random() * 0.01)

    def check(self, file, before, seen, after):
        if file.kind == "here":
            good = before != after or seen == (before % 2 == 0)
        else:
            good = seen is not None and before <= seen <= after
        if not good:
            self.wrong.append(f"{file.name}: {seen}, when {before} had been written and {after} at most was")

    def names(self, order):
        if order == "known":
            return sorted(self.by_name)
        with os.scandir(os.path.join(self.args.mount, self.directory)) as entries:
            listed = [(e.inode(), e.name) for e in entries]
        if order == "inode":
            listed.sort()
        elif order == "name":
            listed.sort(key=lambda e: e[1])
        return [name for _, name in listed]

    def go_through(self, order):
        rounds = 0
        while self.goes_on(rounds):
            rounds += 1
            for name in self.names(order):
                file = self.by_name[name]
                before = file.done
                self.check(file, before, hear(self.path(self.args.mount, file), file.kind), file.begun)
                self.looks += 1

    def guard(self, function, *arguments):
        try:
            function(*arguments)
        except Exception as error:  # its thread's end is the test's
            self.wrong.append(f"{type(error).__name__}: {error}")

    def run(self):
        os.mkdir(os.path.join(self.args.other, self.directory))
        for file in self.files:
            path = self.path(self.args.other, file)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o644))
            if file.kind == "time":
                os.utime(path, (0, 0))
        self.end = time.monotonic() + self.args.seconds
        self.walkers = [threading.Thread(target=self.guard, args=(self.go_through, order)) for order in ("known", "listed", "inode", "name")]
        threads = self.walkers + [threading.Thread(target=self.guard, args=(self.change,))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("mount")
    parser.add_argument("other")
    test = Test(parser.parse_args())
    test.run()
    print(f"{test.looks} looks, {sum(f.done for f in test.files)} changes")
    for line in test.wrong[:10]:
        print(line)
    return 1 if test.wrong else 0


sys.exit(main())

#!/usr/bin/env python3
"""Where a file ends, for a program that has it open for reading while another node changes its size and others overwrite its beginning.

ends.py ROUNDS READER_FILE WRITER_FILE OTHER_FILE...

The writer appends, or cuts the file and writes another length, and says so when its call has returned; what the reader reads, maps (what
the kernel does not know of ends this program by SIGBUS), or asks for by lseek(SEEK_END), from then on must be all of it.
"""
import mmap
import multiprocessing
import os
import sys
import time

HEAD = 100  # bytes that the others overwrite


def tail(number, length):
    return bytes([97 + number % 26]) * length


def write(path, rounds, said, done):
    fd, end = os.open(path, os.O_WRONLY), HEAD
    for number in range(rounds):
        length = 300 + number * 37 % 1900
        if number % 7 == 6:
            os.ftruncate(fd, HEAD)
            end = HEAD
        os.pwrite(fd, tail(number, length), end)
        end += length
        said.put((number, end, length))
        done.get()
    said.put(None)


def overwrite(path):
    fd = os.open(path, os.O_WRONLY)
    while True:
        os.pwrite(fd, b"#" * HEAD, 0)
        time.sleep(0.0001)


def main():
    rounds, reader, writer, *others = int(sys.argv[1]), *sys.argv[2:]
    with open(writer, "wb") as file:
        file.write(b"#" * HEAD)
    said, done = multiprocessing.SimpleQueue(), multiprocessing.SimpleQueue()
    processes = [multiprocessing.Process(target=overwrite, args=(path,), daemon=True) for path in others]
    processes.append(multiprocessing.Process(target=write, args=(writer, rounds, said, done), daemon=True))
    fd = os.open(reader, os.O_RDONLY)
    for process in processes:
        process.start()
    while (what := said.get()) is not None:
        number, end, length = what
        if number % 4 < 3:
            os.pread(fd, 10, 0)  # now the node has the pages, and somebody wants them back at once
        if number % 4 > 1:
            assert os.lseek(fd, 0, os.SEEK_END) == end, "round %d: SEEK_END is not %d" % (number, end)
        if number % 5 == 0:
            with mmap.mmap(fd, end, prot=mmap.PROT_READ) as mapped:
                got = mapped[end - length :]
        else:
            got = os.pread(fd, length + 4096, end - length)
        assert got == tail(number, length), "round %d: %d of %d bytes before the end at %d, %d of them right" % (
            number, len(got), length, end, got.count(tail(number, 1)))
        done.put(None)


main()

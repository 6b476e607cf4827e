#!/usr/bin/env python3
"""Reads pages of a mapped file, and drops them, for ever.    pages.py FILE"""
import mmap
import sys
import threading

with open(sys.argv[1], "rb") as file:
    view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)


def read(first):
    while True:
        for page in range(first, len(view) // mmap.PAGESIZE, 4):
            view[page * mmap.PAGESIZE]
        view.madvise(mmap.MADV_DONTNEED)


for number in range(4):
    threading.Thread(target=read, args=(number,)).start()

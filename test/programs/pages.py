#!/usr/bin/env python3
"""Reads pages of a mapped file, and has the kernel forget them, for ever.    pages.py FILE"""
import mmap
import os
import sys
import threading

fd = os.open(sys.argv[1], os.O_RDONLY)
view = mmap.mmap(fd, 0, prot=mmap.PROT_READ)


def read(first):
    while True:
        for page in range(first, len(view) // mmap.PAGESIZE, 4):
            view[page * mmap.PAGESIZE]
        view.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


for number in range(4):
    threading.Thread(target=read, args=(number,)).start()

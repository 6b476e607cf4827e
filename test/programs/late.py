#!/usr/bin/env python3
"""Writes without flushing, keeps the file open, and tells what fsync says when it is asked to.

late.py FILE GO OFFSET TEXT|@FILE [OFFSET TEXT|@FILE]...    says "written", waits for GO to be there, says "fsync ERRNO"
"""
import os
import sys
import time

path, go, *writes = sys.argv[1:]
fd = os.open(path, os.O_WRONLY)
for offset, text in zip(writes[::2], writes[1::2]):
    os.pwrite(fd, open(text[1:], "rb").read() if text[0] == "@" else text.encode(), int(offset))
print("written", flush=True)
while not os.path.exists(go):
    time.sleep(0.05)
try:
    os.fsync(fd)
    print("fsync 0", flush=True)
except OSError as error:
    print("fsync", error.errno, flush=True)
os._exit(0)

#!/usr/bin/python3
"""Reads files that somebody else plays with, each to its end (or 256 MiB), again and again: starved.py END_FILE SECONDS FILE...

Until END_FILE exists.  No single call may take longer than SECONDS; one that has not come back then ends the program with status 1, and the
name of the file.  Errors are answers, too."""
import os
import sys
import threading
import time

end_file, limit, files = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
began, doing, longest, calls = time.monotonic(), "", 0.0, 0


def watch():
    while True:
        time.sleep(0.5)
        if time.monotonic() - began > limit:
            print("%s takes more than %g s (before: %d calls, %.1f s at most)" % (doing, limit, calls, longest), flush=True)
            os._exit(1)


def timed(what, call, *args):
    global began, doing, longest, calls
    began, doing = time.monotonic(), what
    try:
        return call(*args)
    except OSError:
        return None
    finally:
        calls += 1
        longest = max(longest, time.monotonic() - began)


def read_all(name):
    fd = timed("opening " + name, os.open, name, os.O_RDONLY | os.O_NONBLOCK)
    if fd is None:
        return
    for _ in range(1 << 11): # the others want their turn
        if os.path.exists(end_file) or not timed("reading " + name, os.read, fd, 1 << 17):
            break
    timed("closing " + name, os.close, fd)


threading.Thread(target=watch, daemon=True).start()
while not os.path.exists(end_file):
    for each in files:
        read_all(each)
print("%d calls of an honest reader, %.1f s at most" % (calls, longest))

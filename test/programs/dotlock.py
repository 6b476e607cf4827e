#!/usr/bin/env python3
"""Delivers mail as of old, with a dot-lock: dotlock.py MAILBOX WHO COUNT. Each line says how many there are."""
import os
import sys
import time

box, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for n in range(count):
    mine = f"{box}.{who}"
    os.close(os.open(mine, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    while True:
        try:
            os.link(mine, box + ".lock")
            break
        except FileExistsError:
            time.sleep(0.002)
    assert os.stat(mine).st_nlink == 2
    os.unlink(mine)
    with open(box, "r+") as f:
        lines = f.read().splitlines()
        assert not lines or int(lines[-1].split()[1]) == len(lines), lines[-3:]
        f.write(f"{who} {len(lines) + 1}\n")
    os.unlink(box + ".lock")

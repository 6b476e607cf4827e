#!/usr/bin/env python3
"""Looks for secrets in files, as bytes and as hexadecimal text: secret_in_files.py HEX FILE...; prints where, and fails, if one is there.

Each half is looked for by itself: packets may cut a secret in two."""
import sys

secret, found = bytes.fromhex(sys.argv[1]), False
middle = len(secret) // 2
for name in sys.argv[2:]:
    with open(name, "rb") as file:
        data = file.read()
    lower = data.lower()
    for half in secret[:middle], secret[middle:]:
        for form, where in (half, data), (half.hex().encode(), lower):
            if form in where:
                found = True
                print("%s: at %d" % (name, where.index(form)))
sys.exit(found)

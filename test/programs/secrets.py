#!/usr/bin/python3
"""Whether a process would leave a secret in a core dump: secrets.py KEY_FILE PID

Looks for the key's secret, as bytes and as text, in all of the process's memory.  Each place must be in a mapping that core dumps
leave out (dd among its VmFlags) and that is locked (lo: never on a swap device).  Exit status 1, with the places, if one is not, or if
the process does not have the secret at all."""
import re
import sys

text = max(re.findall(r"[0-9a-fA-F]{64}", open(sys.argv[1]).read()), key=len)
process = "/proc/%d" % int(sys.argv[2])
wanted = [bytes.fromhex(text), text.encode(), text.lower().encode(), text.upper().encode()]


def mappings():
    found = None
    for line in open(process + "/smaps"):
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)", line)
        if head:
            found = [int(head[1], 16), int(head[2], 16), head[3], head[4]]
        elif line.startswith("VmFlags:"):
            yield found + [line.split()[1:]]


hidden, bare = 0, []
with open(process + "/mem", "rb", 0) as memory:
    for start, end, rights, name, flags in list(mappings()):
        if "r" not in rights or name in ("[vvar]", "[vsyscall]") or "io" in flags:
            continue
        try:
            memory.seek(start)
            content = memory.read(end - start)
        except (OSError, ValueError, OverflowError):
            continue
        if any(one in content for one in wanted):
            if "dd" in flags and "lo" in flags:
                hidden += 1
            else:
                bare.append("%x-%x %s %s" % (start, end, name or "anonymous", " ".join(flags)))
if bare or not hidden:
    print("\n".join(bare) or "the secret is not in this process at all")
    sys.exit(1)

#!/usr/bin/env python3
"""shutdown.py DIRECTORY: breaks the ext4 filesystem of DIRECTORY as a disk that dies does: from now on nothing can be written."""
import fcntl
import os
import struct
import sys

EXT4_IOC_SHUTDOWN = 0x8004587D  # _IOR('X', 125, __u32)
NOLOGFLUSH = 2
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", NOLOGFLUSH))

#!/usr/bin/env python3
"""Runs a service as its unit says: service.py UNIT MOUNTPOINT ENVIRONMENT_FILE BIN_DIRECTORY...

Of systemd.service(5) what kairanfs@.service uses: ExecStart with variables, Type=notify, Restart=on-failure, ExecStop at SIGTERM.
Prints "service PID" for itself, "ready PID" for each start that has told it is ready, and "ended STATUS" for each end.
"""
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

unit, mount_point, environment_file, *programs = sys.argv[1:]
lines = [line.strip().split("=", 1) for line in open(unit) if "=" in line and not line.startswith("#")]
said = dict(lines)
assert said["Type"] == "notify" and said["Restart"] == "on-failure", said
variables = dict(line.strip().split("=", 1) for line in open(environment_file))
stopping = False


def command(text):
    """Words; $NAME as a word of its own is several, as in systemd."""
    words = []
    for word in shlex.split(text.replace("%f", mount_point)):
        words += variables.get(word[1:], "").split() if word.startswith("$") else [word]
    words[0] = shutil.which(os.path.basename(words[0]), path=":".join(programs))
    return words


def on_term(*_):
    global stopping
    stopping = True
    subprocess.run(command(said["ExecStop"]), check=True)


signal.signal(signal.SIGTERM, on_term)
print("service", os.getpid(), flush=True)
with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
    notify.bind(directory + "/notify")
    notify.settimeout(60)
    while True:
        process = subprocess.Popen(command(said["ExecStart"]), env=dict(os.environ, NOTIFY_SOCKET=directory + "/notify"))
        assert notify.recv(100) == b"READY=1"
        print("ready", process.pid, flush=True)
        status = process.wait()
        print("ended", status, flush=True)
        if stopping or status == 0:
            break
        time.sleep(float(said["RestartSec"]))

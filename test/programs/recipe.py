#!/usr/bin/env python3
"""Reads a recipe for an image as podman and docker do, and makes the image's root directory.

recipe.py FILE                              prints what is checked and run, see read()
recipe.py FILE CONTEXT BASE_ROOT DIRECTORY  runs the steps, each stage in a copy of BASE_ROOT; prints the last stage's root directory

Of their format it knows what conf/Containerfile uses. Another instruction is an error.
"""
import json
import os
import re
import shutil
import subprocess
import sys


def instructions(path):
    """(name, text) of each, without comments, lines joined, build arguments replaced by their defaults."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", open(path).read(), flags=re.M))
    arguments = {}
    for line in filter(None, map(str.strip, text.split("\n"))):
        name, rest = line.split(None, 1)
        rest = re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], rest)
        if name == "ARG":
            arguments.update([rest.split("=", 1)])
        yield name, rest


def stages(path):
    """Each a list of steps, as run() takes them, and the image's configuration as the last stage has it."""
    result, names = [], {}
    for name, rest in instructions(path):
        words = rest.split()
        if name == "FROM":
            assert len(words) == 1 or words[1] == "AS", rest
            if len(words) > 1:
                names[words[2]] = len(result)
            steps, config = [], {"base": words[0]}
            result.append(steps)
        elif name == "RUN":
            steps.append(("run", rest))
        elif name == "COPY":
            stage = None
            if words[0].startswith("--from="):
                stage = names[words.pop(0)[len("--from="):]]
            assert not any(word.startswith("--") for word in words), rest
            steps.append(("copy", stage, words[:-1], words[-1]))
        elif name in ("ENTRYPOINT", "CMD"):
            config[name] = json.loads(rest)
        elif name in ("EXPOSE", "STOPSIGNAL", "USER"):
            config[name] = rest
        elif name != "ARG":
            sys.exit(f"{path}: this reader does not know {name}")
    return result, config


def read(path):
    """Prints what a test looks up: "package STAGE NAME", "context PATH", "option NAME=VALUE" of meson, "KEY VALUE" of the image."""
    every, config = stages(path)
    for number, steps in enumerate(every):
        for step in steps:
            if step[0] == "copy" and step[1] is None:
                print(*("context " + source for source in step[2]), sep="\n")
            elif step[0] == "run":
                for command in re.split(r"&&|;", step[1]):
                    words = command.split()
                    if "apt-get" in words and "install" in words:
                        packages = words[words.index("install") + 1:]
                        print(*(f"package {number} {word}" for word in packages if word[0] != "-"), sep="\n")
                    for option in re.findall(r"\s-D(\S+)", command):
                        print("option", option)
    for key, value in config.items():
        print(key, *(value if isinstance(value, list) else [value]))


def copy(source, target):
    if os.path.isdir(source):
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)


def run(path, context, base, directory):
    every, _ = stages(path)
    roots = [os.path.join(directory, str(number)) for number in range(len(every))]
    for root, steps in zip(roots, every):
        subprocess.run(["cp", "-a", base, root], check=True)
        for step in steps:
            if step[0] == "run":
                print("RUN", step[1], file=sys.stderr, flush=True)
                subprocess.run(["chroot", root, "sh", "-c", step[1]], check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
                continue
            _, stage, sources, target = step
            for source in sources:
                # A directory's target is the copy's name, and that of several files ends with '/'.
                inside = root + target + (os.path.basename(source) if target.endswith("/") else "")
                os.makedirs(os.path.dirname(inside), exist_ok=True)
                copy(os.path.join(context, source) if stage is None else roots[stage] + source, inside)
    print(roots[-1])


if len(sys.argv) == 2:
    read(sys.argv[1])
else:
    run(*sys.argv[1:])

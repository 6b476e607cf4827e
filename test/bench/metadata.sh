# The measurements of test/bench/metadata, inside a cluster of test/cluster.
TREE=$WORK/tree.tar
SSH_MOUNT=$WORK/node1/sshfs
SFTP_SERVER=/usr/lib/openssh/sftp-server
now() { date +%s.%N; }
calc() { python3 -c "print($1)"; }

# What all of them find: a flat directory, a repository of the sources of this tree, a deep file, a package, a C project.
prepare() {
	local i
	mkdir -p "$EXPORT/flat" "$EXPORT/acls" "$EXPORT/a/b/c" "$EXPORT/package/many" "$EXPORT/project"
	for i in $(seq "$FILES"); do echo "$i" >"$EXPORT/flat/file$i"; done
	for i in $(seq $((FILES / 10))); do echo "$i" >"$EXPORT/acls/file$i"; setfacl -m u:1000:r "$EXPORT/acls/file$i"; done
	echo deep >"$EXPORT/a/b/c/file"
	for i in $(seq 50); do echo "value = $i" >"$EXPORT/package/many/m$i.py"; done
	for i in $(seq 50); do echo "from . import m$i"; done >"$EXPORT/package/many/__init__.py"
	for i in $(seq 20); do
		echo "int f$i(void);" >"$EXPORT/project/f$i.h"
		printf '#include <stdio.h>\n#include "f%s.h"\nint f%s(void) { return printf("%s"); }\n' "$i" "$i" "$i" >"$EXPORT/project/f$i.c"
	done
	printf 'OBJECTS = $(patsubst %%.c,%%.o,$(wildcard *.c))\nall: $(OBJECTS)\n' >"$EXPORT/project/Makefile"
	tar -C "$TOP" --exclude='build*' --exclude=.git -cf "$TREE" .
	mkdir "$EXPORT/repository"
	tar -C "$EXPORT/repository" -xf "$TREE"
	git -C "$EXPORT/repository" -c init.defaultBranch=main init -q
	git -C "$EXPORT/repository" add -A
	git -C "$EXPORT/repository" -c user.name=n -c user.email=e@e commit -qm tree
	chmod -R go+rX "$EXPORT"
}

# Requests that the server has had so far, without those of time alone, and by type.
requests() {
	kairan 1 status --json $SERVER_ADDRESS:$PORT | python3 -c '
import json, sys
types = json.load(sys.stdin)["requests"]
print(*("%s=%d" % item for item in types.items() if item[0] not in ("PING", "STATUS")))'
}
# grown BEFORE AFTER: the number that came between, and of what.
grown() {
	python3 -c '
import sys
before, after = ({k: int(v) for k, v in (pair.split("=") for pair in text.split())} for text in sys.argv[1:])
grown = {k: v - before.get(k, 0) for k, v in after.items() if v > before.get(k, 0)}
print("%6d" % sum(grown.values()), ", ".join("%s %d" % item for item in sorted(grown.items(), key=lambda i: -i[1])[:5]))' "$1" "$2"
}

# took DIRECTORY COMMAND: seconds.
took() {
	local start
	start=$(now)
	on node1 bash -c "cd $1 && $2" >/dev/null 2>"$WORK/errors" || { cat "$WORK/errors" >&2; fail "$2 in $1"; }
	calc "$(now) - $start"
}

# measure WHAT COMMAND [BEFORE]: in the export, twice on the mount, and on sshfs, each time after BEFORE, which does not count.
measure() {
	local bare before i seconds=() sent=() ssh=""
	took "$EXPORT" "${3:-true}" >/dev/null
	bare=$(took "$EXPORT" "$2")
	for i in 0 1; do
		took "$(mnt 1)" "${3:-true}" >/dev/null
		before=$(requests)
		seconds[i]=$(took "$(mnt 1)" "$2")
		sent[i]=$(grown "$before" "$(requests)")
	done
	if [ "$SSHFS" = 1 ]; then
		for i in 0 1; do
			took "$SSH_MOUNT" "${3:-true}" >/dev/null
			ssh=$(took "$SSH_MOUNT" "$2")
		done
		ssh=$(calc "'  (sshfs, again: %.1f x)' % ($ssh / $bare)")
	fi
	printf '%-24s bare %7.1f ms\n' "$1" "$(calc "$bare * 1e3")"
	printf '    first %7.1f x, requests: %s\n' "$(calc "${seconds[0]} / $bare")" "${sent[0]}"
	printf '    again %7.1f x, requests: %s%s\n' "$(calc "${seconds[1]} / $bare")" "${sent[1]}" "$ssh"
}

start_sshfs() {
	mkdir -p "$SSH_MOUNT"
	on server socat TCP-LISTEN:7022,fork,reuseaddr,nodelay "EXEC:$SFTP_SERVER" >"$WORK/socat" 2>&1 &
	until_ok 10 "sshfs" on node1 sshfs -o directport=7022,cache=yes "$SERVER_ADDRESS:$EXPORT" "$SSH_MOUNT"
}

prepare
[ "$SSHFS" = 0 ] || start_sshfs || exit 1
sleep 1
measure "cat a/b/c/file" "cat a/b/c/file"
measure "stat a/b/c/file" "stat a/b/c/file"
measure "ls of $FILES files" "ls flat"
measure "ls -l of $FILES files" "ls -l flat"
measure "ls -l of $((FILES / 10)) with ACLs" "ls -l acls"
measure "find of a tree" "find repository -type f"
measure "du of a tree" "du -s repository"
measure "git status" "git -C repository status --short"
measure "python import of 50" "PYTHONPATH=package python3 -B -c 'import many'"
measure "make of 20 C files" "make -s -C project" "rm -f project/*.o"
measure "tar x of a tree" "tar -C out -xf $TREE" "rm -rf out; mkdir out"
measure "cp -r of a tree" "cp -r out copy" "rm -rf copy"
measure "rm -r of a tree" "rm -r copy" "[ -e copy ] || cp -r out copy"

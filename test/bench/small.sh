# The measurements of test/bench/small, inside a cluster of test/cluster.
SSH_MOUNT=$WORK/node1/sshfs
SOURCE=$WORK/source           # outside of both
RESULTS=$WORK/results
PROGRAM=$TOP/test/bench/small.py

prepare() {
	local system i round
	mkdir "$SOURCE"
	git -C "$TOP" archive HEAD | tar -C "$SOURCE" -x || fail "needs the repository"
	tar -C "$SOURCE" -cf "$WORK/source.tar" .
	git -c init.defaultBranch=main init -q "$WORK/repository"
	cp -a "$SOURCE/." "$WORK/repository"
	git -C "$WORK/repository" add -A
	git -C "$WORK/repository" -c user.name=n -c user.email=e@e commit -qm tree
	for system in kairan sshfs; do
		mkdir -p "$EXPORT/$system/flat"
		for i in $(seq "$FILES"); do echo "$i" >"$EXPORT/$system/flat/file$i"; done
		for round in $(seq "$ROUNDS"); do
			mkdir "$EXPORT/$system/unread.$round"
			for i in $(seq "$FILES"); do head -c 6000 /dev/urandom >"$EXPORT/$system/unread.$round/$i"; done
		done
		cp -a "$SOURCE" "$EXPORT/$system/same"
		cp -a "$WORK/repository" "$EXPORT/$system/repository"
	done
}

start_sshfs() {
	mkdir -p "$SSH_MOUNT"
	on server socat TCP-LISTEN:7022,fork,reuseaddr,nodelay EXEC:/usr/lib/openssh/sftp-server >"$WORK/socat" 2>&1 &
	until_ok 20 "sftp" on server sh -c 'ss -Hltn | grep -q :7022' || return 1
	nsenter -t "${KEEPER[node1]}" -n -u -m -- sshfs -f -o directport=7022,cache=yes "$SERVER_ADDRESS:$EXPORT" "$SSH_MOUNT" &
	DAEMON[sshfs]=$!
	until_ok 20 "sshfs" on node1 test -d "$SSH_MOUNT/sshfs"
}

daemons() { # SYSTEM
	if [ "$1" = kairan ]; then
		echo "${DAEMON[node1]} ${DAEMON[server]}"
	else
		echo "${DAEMON[sshfs]} $(pgrep -x sftp-server | tr '\n' ' ')"
	fi
}
requests() { kairan 1 status --json $SERVER_ADDRESS:$PORT | python3 "$PROGRAM" requests; }

# run SYSTEM ROUND WHAT COMMAND: one line of results.
run() {
	local system=$1 round=$2 what=$3 directory cpu sent began ended
	[ "$system" = kairan ] && directory=$(mnt 1)/kairan || directory=$SSH_MOUNT/sshfs
	# shellcheck disable=SC2046
	cpu=$(python3 "$PROGRAM" cpu $(daemons "$system"))
	sent=$(requests)
	began=$(date +%s%N)
	on node1 bash -c "cd $directory && $4" >/dev/null 2>"$WORK/errors" || { cat "$WORK/errors" >&2; fail "$what on $system"; }
	ended=$(date +%s%N)
	# shellcheck disable=SC2046
	echo "$system $round $what $((ended - began)) $(($(python3 "$PROGRAM" cpu $(daemons "$system")) - cpu)) $(($(requests) - sent))" >>"$RESULTS"
}
measure() {
	local system round
	for round in $(seq "$ROUNDS"); do
		for system in kairan sshfs; do run "$system" "$round" "$1" "${2//ROUND/$round}"; done
	done
}

prepare
start_sshfs || exit 1
measure create "python3 $PROGRAM create new.ROUND $FILES"
measure untar "mkdir out.ROUND && tar -C out.ROUND -xf $WORK/source.tar"
measure ls-l "ls -l flat"
measure stat-known "seq -f flat/file%.0f $FILES | LC_ALL=C sort | xargs stat"
measure read-new "cat unread.ROUND/* | wc -c"
measure find "find same -type f -newer flat"
measure rsync-nothing "rsync -a $SOURCE/ same/"
measure rsync-nothing-aHAX "rsync -aHAX $SOURCE/ same/"
measure git-status "git -c safe.directory='*' -C repository status --short"
measure git-clone "git clone -q --no-local file://$WORK/repository clone.ROUND"
measure random-4k-fsync "python3 $PROGRAM random random.ROUND 500"
measure rm-r "rm -r out.ROUND"
python3 "$PROGRAM" table "$RESULTS"

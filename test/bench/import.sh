# The measurements of test/bench/import, inside a cluster of test/cluster.
RESULTS=$WORK/results
PROGRAM=$TOP/test/bench/small.py

# A package for each system and round, compiled, as pip leaves it.
prepare() {
	local system round
	for system in kairan sshfs; do
		for round in $(seq "$ROUNDS"); do
			python3 - "$EXPORT/$system/$round/package" "$MODULES" <<'P'
import os, sys
package, modules = sys.argv[1], range(int(sys.argv[2]))
os.makedirs(package)
for i in modules:
    with open("%s/m%d.py" % (package, i), "w") as f:
        f.write("values = [%s]\n" % ", ".join(str(i * k) for k in range(1000)))
with open(package + "/__init__.py", "w") as f:
    f.writelines("from . import m%d\n" % i for i in modules)
P
			python3 -m compileall -q "$EXPORT/$system/$round" || fail "no package"
		done
	done
}

start_sshfs() {
	local i
	on server socat TCP-LISTEN:7022,fork,reuseaddr,nodelay EXEC:/usr/lib/openssh/sftp-server >"$WORK/socat" 2>&1 &
	until_ok 20 "sftp" on server sh -c 'ss -Hltn | grep -q :7022' || return 1
	for i in $(seq "$NODES"); do
		mkdir "$WORK/node$i/sshfs"
		nsenter -t "${KEEPER[node$i]}" -n -u -m -- sshfs -f -o directport=7022,cache=yes "$SERVER_ADDRESS:$EXPORT" "$WORK/node$i/sshfs" &
		SSHFS[i]=$!
	done
	for i in $(seq "$NODES"); do until_ok 20 "sshfs" on "node$i" test -d "$WORK/node$i/sshfs/sshfs" || return 1; done
}

daemons() { # SYSTEM
	local i
	if [ "$1" = sshfs ]; then
		echo "${SSHFS[*]} $(pgrep -x sftp-server | tr '\n' ' ')"
	else
		echo "${DAEMON[server]}"
		for i in $(seq "$NODES"); do echo "${DAEMON[node$i]}"; done
	fi
}
requests() { kairan 1 status --json $SERVER_ADDRESS:$PORT | python3 "$PROGRAM" requests; }

# import_everywhere SYSTEM ROUND WHAT: one line of results.
import_everywhere() {
	local system=$1 round=$2 what=$3 i place cpu sent began ended programs=()
	# shellcheck disable=SC2046
	cpu=$(python3 "$PROGRAM" cpu $(daemons "$system"))
	sent=$(requests)
	began=$(date +%s%N)
	for i in $(seq "$NODES"); do
		[ "$system" = kairan ] && place=$(mnt "$i")/kairan || place=$WORK/node$i/sshfs/sshfs
		on "node$i" env PYTHONPATH="$place/$round" python3 -B -c "import package" &
		programs+=($!)
	done
	for i in "${programs[@]}"; do wait "$i" || fail "$what on $system"; done
	ended=$(date +%s%N)
	# shellcheck disable=SC2046
	echo "$system $round $what $((ended - began)) $(($(python3 "$PROGRAM" cpu $(daemons "$system")) - cpu)) $(($(requests) - sent))" >>"$RESULTS"
}
both() { import_everywhere kairan "$1" "$2"; import_everywhere sshfs "$1" "$2"; }

SSHFS=()
prepare
start_sshfs || exit 1
for round in $(seq "$ROUNDS"); do
	both "$round" first
	both "$round" at-once-again
	sleep "$PAUSE"
	both "$round" later-again
done
python3 "$PROGRAM" table "$RESULTS"

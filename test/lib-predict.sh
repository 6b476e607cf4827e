# Shell functions for what compares predictions of kairan predict with what happens; sourced after test/lib.sh.
K=$B/tools/kairan

# measure_envelope FILE PROCESSES: of all nodes, which have the mount at one place meanwhile.
measure_envelope() {
	local all=$WORK/all i
	mkdir -p "$all"
	{ echo '#!/bin/bash'; declare -p KEEPER; echo "exec nsenter -t \"\${KEEPER[\$1]}\" -n -u -m -- \"$K\" \"\${@:3}\""; } >"$WORK/rsh"
	chmod +x "$WORK/rsh"
	for i in $(seq "$NODES"); do on "node$i" mount --bind "$(mnt "$i")" "$all" || fail "bind"; done
	kairan 1 envelope --nodes "$(seq -s, -f 'node%.0f' "$NODES")" --rsh "$WORK/rsh" --processes "$2" --max-size "${ENVELOPE_MIB:-1}" --json "$1" "$all" || fail "envelope"
	for i in $(seq "$NODES"); do on "node$i" umount "$all"; done
}
# narrow NAME RATE: as limit, with so small a burst that a link does not make up for the time that it was idle.
narrow() {
	tc qdisc replace dev "v-$1" root tbf rate "$2" burst 16kb limit 16mb
	on "$1" tc qdisc replace dev eth0 root tbf rate "$2" burst 16kb limit 16mb
}
traces_start() { local i; for i in $(seq "$1"); do kairan "$i" trace start "$(mnt "$i")" || fail "trace"; done; }
# traces_stop NODES NAME: the traces of these nodes are NAME.1, NAME.2...
traces_stop() {
	local i
	for i in $(seq "$1"); do kairan "$i" trace stop "$(mnt "$i")" >/dev/null && cp "$WORK/node$i/local/trace" "$2.$i" || fail "trace"; done
}
# cold: nothing is on a node, also not on one that takes no part, which might serve others. warm NODE DIRECTORY: all files in it are on all nodes.
cold() {
	local i
	for i in $(seq "$NODES"); do
		mount_stop "$i" || fail "unmounting node$i"
		rm -rf "$WORK/node$i/local"
		mkdir "$WORK/node$i/local"
		mount_start "$i"
	done
}

warm() { on "node$1" "$K" stage --wait -- "$2" >"$WORK/said" 2>&1 || fail "stage: $(cat "$WORK/said")"; }

row_head() { printf '%-10s %5s %5s %-5s %10s %10s %8s %8s %6s\n' program nodes procs "" predicted measured error spread load; }
# row ENVELOPE PROGRAM NODES PROCESSES STATE FACTOR BASE NAME: what is predicted from the trace BASE, FACTOR times of its work; and what the traces
# NAME.K.NODE of some runs K say; or the programs themselves, in NAME.K.seconds.
row() {
	python3 - "$K" "$@" <<-'P'
	import glob, json, os, statistics, subprocess, sys
	kairan, envelope, program, nodes, processes, state, factor, base, name = sys.argv[1:]
	def predict(field, *arguments):
	    said = json.loads(subprocess.run([kairan, "predict", "--envelope", envelope, "--json", *arguments], check=True, stdout=subprocess.PIPE).stdout)
	    return sum(one[field] for one in said if one["program"] == program)
	predicted = float(factor) * predict("predicted_s", "--nodes", nodes, "--processes", processes, "--" + state, base)
	said = [float(open(path).read()) for path in glob.glob(name + ".*.seconds")]
	runs = sorted({path.rsplit(".", 1)[0] for path in glob.glob(name + ".*.*")})
	measured = sorted(said or [predict("traced_s", *glob.glob(run + ".*")) for run in runs])
	median = statistics.median(measured)
	print("%-10s %5s %5s %-5s %8.2f s %8.2f s %+6.0f %% %6.0f %% %6.1f" % (program, nodes, processes, state, predicted, median, 100 * (predicted / median - 1),
	    100 * (measured[-1] - measured[0]) / median, os.getloadavg()[0]), flush=True)
	P
}

# The measurements of test/bench/noise, inside a cluster of test/cluster.
RESULTS=$WORK/results
COMPUTING=$(($(nproc) - 1))
OTHERS=0$([ $COMPUTING = 1 ] || echo "-$((COMPUTING - 1))")
taskset -acp "$OTHERS" "${DAEMON[server]}" >/dev/null || exit 1

# What works the mount: on the other processors, 64 MiB written, synced and read, again and again.
work() {
	exec nsenter -t "${KEEPER[node1]}" -n -u -m -- taskset -c "$OTHERS" sh -c '
		trap exit TERM # when the dd that runs has ended
		while dd if=/dev/zero of="$1" bs=1M count=64 conv=fsync status=none && dd if="$1" of=/dev/null bs=1M status=none; do :; done' sh "$(mnt 1)/load"
}
measure() { echo "$1 $("$B/test/quanta" $COMPUTING "$SECONDS_EACH")" >>"$RESULTS"; }
under_load() { # NAME OPTION...
	mount_start 1 "${@:2}"
	work &
	local worker=$!
	until_ok 20 "load" test -s "$(seen_from_here 1)/load" || exit 1
	measure "$1"
	kill $worker
	wait $worker 2>/dev/null
	mount_stop 1
}

mount_stop 1
for _ in $(seq "$ROUNDS"); do
	measure alone
	mount_start 1 "cpus=$OTHERS"
	measure mounted
	mount_stop 1
	under_load load,kept-off "cpus=$OTHERS"
	under_load load,anywhere
done
python3 - "$RESULTS" <<'P'
import statistics, sys

found = {}
for line in open(sys.argv[1]):
    what, *values = line.split()
    found.setdefault(what, []).append({name: float(value) for name, value in (pair.split("=") for pair in values)})
columns = ("rate", "longest_us", "every_ms", "ranks_1000", "ranks_100000", "switches", "wait_us", "interrupts")
print(f"{'':14}" + "".join(f"{name:>13}" for name in columns))
for what, rounds in found.items():
    medians = [statistics.median(one[name] for one in rounds) for name in columns]
    print(f"{what:14}" + "".join(f"{value:>13.{digits}f}" for value, digits in zip(medians, (6, 1, 1, 3, 3, 0, 0, 0))))
P

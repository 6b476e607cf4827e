# The measurements of test/bench/transport, inside a cluster of test/cluster.
mount_stop 1 && server_stop || fail "the daemons do not end"
head -c $((MIB << 20)) /dev/urandom >"$EXPORT/file"
# loop NAME: the first thread of this name, or of the program; what the pool's threads inherit comes later.
loop() {
	local threads=/proc/${DAEMON[$1]}/task
	case $1 in server) echo "$threads/${DAEMON[$1]}" ;; *) dirname "$(grep -lx kr-loop "$threads"/*/comm | sort -V | head -1)" ;; esac
}
ns() { cut -d' ' -f1 "$1/schedstat"; }
all_ns() { local sum=0 task; for task in /proc/"${DAEMON[$1]}"/task/*; do sum=$((sum + $(ns "$task"))); done; echo $sum; }
figures() { echo "$(all_ns server) $(all_ns node1) $(ns "$(loop server)") $(ns "$(loop node1)") $(date +%s%N)"; }
for round in $(seq "$ROUNDS"); do
	for transport in tcp verbs; do
		preload=
		[ $transport = tcp ] || preload=$B/test/fake/libfakeverbs.so
		LD_PRELOAD=$preload server_start --transport $transport
		LD_PRELOAD=$preload mount_start 1 transport=$transport
		before=$(figures)
		on node1 cat "$(mnt 1)/file" >/dev/null || fail "no reading"
		python3 - $transport "$MIB" $before $(figures) <<-'P'
			import sys
			gb = int(sys.argv[2]) * 1048576 / 1e9
			before, after = [[int(word) / 1e9 for word in words] for words in (sys.argv[3:8], sys.argv[8:])]
			used = [(b - a) for a, b in zip(before, after)]
			print("%-5s %.2f GB/s; s/GB: server %.2f, node %.2f; loops: server %.2f, node %.2f"
			      % (sys.argv[1], gb / used[4], *[each / gb for each in used[:4]]))
		P
		mount_stop 1 && server_stop || fail "the daemons do not end"
		rm -rf --one-file-system "$WORK/node1/local"
		mkdir "$WORK/node1/local"
	done
done

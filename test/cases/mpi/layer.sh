# libkairan-mpiio in force mode on a local directory, against a model of every byte: Open MPI and MPICH, with and without threads; and what it
# says when arguments are wrong, one aggregator fails, the disk is full. Views, handles, requests and rounds beside the usual.
# timeout: 600
. "$TOP/test/lib.sh"
. "$TOP/test/lib-mpi.sh"
ip link set lo up
# Open MPI names its shared memory by host and job, and jobs of other cases, in other process namespaces, have the same numbers.
mount -t tmpfs tmpfs /dev/shm || fail "/dev/shm"

# run MPI VARIABLE=VALUE... -- PROGRAM ARG...
run() {
	local mpi=$1 settings=(KAIRAN_MPIIO=force LAYER_REQUIRED=1) words
	shift
	while [ "$1" != -- ]; do settings+=("$1"); shift; done
	[ -x "$B/test/mpi/$2.$mpi" ] || { note "no $mpi in this build"; return; }
	ran=yes
	note "$mpi $*"
	case $mpi in
	openmpi) words=(mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1
		--mca btl_vader_single_copy_mechanism none --mca orte_tmpdir_base "$WORK" -n 4) ;;
	mpich) words=(mpiexec.mpich -n 3) ;; # its ranks spin
	esac
	timeout -k 2 $((150 * SLOW)) env HOME="$WORK" "${words[@]}" env "${settings[@]}" LD_PRELOAD="$(mpi_preload "${PRELOAD-$MPI_LAYER}")" "$B/test/mpi/$2.$mpi" "${@:3}" >"$WORK/said" 2>&1
	status=$?
	cat "$WORK/said"
	case $* in *" fatal") [ $status != 0 ] && ! grep FAILED "$WORK/said" ;; *) [ $status = 0 ] ;; esac || {
		for core in "$WORK"/core*; do [ -f "$core" ] && gdb -batch -ex 'thread apply all bt' "$B/test/mpi/$2.$mpi" "$core" 2>&1; done
		fail "$mpi $*: exit status $status"
	}
}

cd "$WORK" || fail "$WORK"
ulimit -c unlimited # a rank that crashes tells where, if there is gdb
ran=no
seed=${LAYER_SEED:-$RANDOM}
run openmpi -- layer "$WORK/file" "$seed" 16
run openmpi LAYER_THREADS=1 -- layer "$WORK/file" "$((seed + 1))" 8
run mpich -- layer "$WORK/file" "$((seed + 2))" 4
mkdir "$WORK/dir"
for mpi in openmpi mpich; do
	run $mpi -- views "$WORK/dir"
	# Neither level has more threads than the other: one each.
	for level in threads $([ $mpi = openmpi ] && echo funneled || echo single); do run $mpi -- requests "$WORK/dir" $level; done
	run $mpi -- rounds "$WORK/dir"
	run $mpi -- handles "$WORK/dir"
	for scenario in fatal abandoned; do run $mpi -- handles "$WORK/dir" $scenario; done
	[ ! -x "$B/test/mpi/handles.$mpi" ] || [ "$(stat -c %s "$WORK/dir/abandoned")" -ge 3000 ] || fail "what an open file held at the end of $mpi's program"
	rm -f "$WORK/dir"/*
	[ ! -x "$B/test/mpi/handles_linked.$mpi" ] || PRELOAD='' run $mpi -- handles_linked "$WORK/dir" bottom
done
run openmpi -- handles "$WORK/dir" disagree
run openmpi KAIRAN_MPIIO=auto -- handles "$WORK/dir" elsewhere
[ $ran = no ] || ! grep -q 'is left to' "$WORK/said" || fail "a word on a file that is the MPI library's by right"
run openmpi KAIRAN_MPIIO=off -- handles "$WORK/dir" elsewhere
run openmpi KAIRAN_MPIIO=on -- handles "$WORK/dir" elsewhere
[ $ran = no ] || grep -q 'KAIRAN_MPIIO=on: must be off, auto or force' "$WORK/said" || fail "no word on a setting that is none"
for mpi in openmpi mpich; do
	# OMPIO hangs by itself when it has no descriptor.
	run $mpi OMPI_MCA_io=^ompio -- handles "$WORK/dir" passed_over
	[ ! -x "$B/test/mpi/handles.$mpi" ] || [ "$(grep -c 'Too many open files: the file is left to the MPI library' "$WORK/said")" = 1 ] || fail "no word on a file that is left to the MPI library"
done
for mpi in openmpi mpich; do
	run $mpi -- handles "$WORK/dir" ways
	[ ! -x "$B/test/mpi/handles.$mpi" ] || [ "$(grep -cE '/direct-[a-z-]+: 1 collective writes, 1 reads \(2 direct\)|/exchanged-(meeting|short|one-short|always|always-one-node): 1 collective writes, 1 reads \(0 direct\)|/exchanged-write: 1 collective writes, 1 reads \(1 direct\)' "$WORK/said")" = 11 ] ||
		fail "not each call went the way that it should, with $mpi"
done

note "a phase trace and its drawing"
if [ $ran = yes ]; then
	run openmpi KAIRAN_MPIIO_HINTS="kairan_trace=$WORK/trace;kairan_summary=1" -- handles "$WORK/dir" hints
	grep -q 'kairan-mpiio: .*2 collective writes' "$WORK/said" || fail "no line at the close"
	"$B/tools/kairan" gantt -o "$WORK/trace.svg" "$WORK"/trace.*.jsonl && grep -q '<svg' "$WORK/trace.svg" || fail "no drawing"
	[ "$("$B/tools/kairan" gantt --summary "$WORK"/trace.*.jsonl | tee "$WORK/summary" | grep -c ': write by')" = 2 ] || { cat "$WORK/summary"; fail "not the two writes"; }
fi
mkdir "$WORK/small" && mount -t tmpfs -o size=4m tmpfs "$WORK/small" || fail "a small filesystem"
rm -f "$WORK/file"
run openmpi -- layer_errors "$WORK/file" "$WORK/small/file"
rm -f "$WORK/file" "$WORK/small"/*
run mpich -- layer_errors "$WORK/file" "$WORK/small/file"
run mpich -- promises all "$WORK/dir"
[ $ran = yes ] || skip "the build has no MPI"
finish

# libkairan-mpiio in force mode on a local directory, against a model of every byte: Open MPI and MPICH, with and without threads; and what it
# says when arguments are wrong, one aggregator fails, the disk is full. Views, handles and requests beside the usual.
# timeout: 400
. "$TOP/test/lib.sh"
ip link set lo up

# run MPI LIBRARY VARIABLE=VALUE... -- PROGRAM ARG...
run() {
	local mpi=$1 library=$B/mpiio/$2 settings=(KAIRAN_MPIIO=force LAYER_REQUIRED=1) words
	shift 2
	while [ "$1" != -- ]; do settings+=("$1"); shift; done
	[ -x "$B/test/mpi/$2.$mpi" ] && [ -e "$library" ] || { note "no $mpi in this build"; return; }
	ran=yes
	note "$mpi $*"
	case $mpi in
	openmpi) words=(mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1
		--mca btl_vader_single_copy_mechanism none --mca orte_tmpdir_base "$WORK" -n 4) ;;
	mpich) words=(mpiexec.mpich -n 3) ;; # its ranks spin
	esac
	timeout -k 2 150 env HOME="$WORK" "${words[@]}" env "${settings[@]}" LD_PRELOAD="$library" "$B/test/mpi/$2.$mpi" "${@:3}" >"$WORK/said" 2>&1
	status=$?
	cat "$WORK/said"
	case $* in *" fatal") [ $status != 0 ] && ! grep FAILED "$WORK/said" ;; *) [ $status = 0 ] ;; esac || fail "$mpi $*: exit status $status"
}

ran=no
seed=${LAYER_SEED:-$RANDOM}
run openmpi libkairan-mpiio.so -- layer "$WORK/file" "$seed" 30
run openmpi libkairan-mpiio.so LAYER_THREADS=1 -- layer "$WORK/file" "$((seed + 1))" 18
run mpich mpich/libkairan-mpiio.so -- layer "$WORK/file" "$((seed + 2))" 6
mkdir "$WORK/dir"
for mpi in openmpi mpich; do
	library=libkairan-mpiio.so; [ $mpi = openmpi ] || library=mpich/$library
	run $mpi $library -- views "$WORK/dir"
	for level in threads funneled single; do run $mpi $library -- requests "$WORK/dir" $level; done
	run $mpi $library -- handles "$WORK/dir"
	for scenario in disagree fatal abandoned; do run $mpi $library -- handles "$WORK/dir" $scenario; done
	[ ! -x "$B/test/mpi/handles.$mpi" ] || [ "$(stat -c %s "$WORK/dir/abandoned")" -ge 3000 ] || fail "what an open file held at the end of $mpi's program"
	rm -f "$WORK/dir"/*
done
mkdir "$WORK/small" && mount -t tmpfs -o size=4m tmpfs "$WORK/small" || fail "a small filesystem"
rm "$WORK/file"
run openmpi libkairan-mpiio.so -- layer_errors "$WORK/file" "$WORK/small/file"
[ $ran = yes ] || skip "the build has no MPI"
finish

# libkairan-mpiio in force mode on a local directory, against a model of every byte: Open MPI and MPICH, with and without threads.
. "$TOP/test/lib.sh"
ip link set lo up

# layer MPI LIBRARY SEED STEPS [VARIABLE=VALUE...]
layer() {
	local mpi=$1 library=$B/mpiio/$2 program=$B/test/mpi/layer.$1 seed=$3 steps=$4
	shift 4
	[ -x "$program" ] && [ -e "$library" ] || { note "no $mpi in this build"; return; }
	ran=yes
	note "$mpi $* seed $seed"
	set -- KAIRAN_MPIIO=force LAYER_REQUIRED=1 "$@" LD_PRELOAD="$library"
	case $mpi in
	openmpi) set -- mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 \
		--mca btl_vader_single_copy_mechanism none --mca orte_tmpdir_base "$WORK" -n 4 env "$@" ;;
	mpich) set -- mpiexec.mpich -n 3 env "$@" ;; # its ranks spin
	esac
	timeout -k 2 100 env HOME="$WORK" "$@" "$program" "$WORK/file" "$seed" "$steps" || fail "$mpi, LAYER_SEED=$seed"
}

ran=no
seed=${LAYER_SEED:-$RANDOM}
layer openmpi libkairan-mpiio.so "$seed" 36
layer openmpi libkairan-mpiio.so "$((seed + 1))" 24 LAYER_THREADS=1
layer mpich mpich/libkairan-mpiio.so "$((seed + 2))" 12
[ $ran = yes ] || skip "the build has no MPI"
finish

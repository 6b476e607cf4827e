# libkairan-mpiio by itself on mounts of four nodes: a model of every byte, views, handles, requests, rounds, HDF5 and PnetCDF; Open MPI and MPICH.
# timeout: 600
. "$TOP/test/lib.sh"
. "$TOP/test/lib-mpi.sh"
mpi_need openmpi
mpi_up 4
server_start
mounts_start
seed=${LAYER_SEED:-$RANDOM}
MPI_ENV=("LD_PRELOAD=$MPI_LAYER" LAYER_REQUIRED=1 LAYER_NODES=real)
note "Open MPI, seed $seed"
mpi_run openmpi 1 block layer "$MPI_MNT/file" "$seed" 10 || fail "LAYER_SEED=$seed"
note "Open MPI, two ranks per node, seed $((seed + 1))"
mpi_run openmpi 2 robin layer "$MPI_MNT/file" "$((seed + 1))" 6 || fail "LAYER_SEED=$seed"
for program in views "requests MNT threads" "rounds MNT mount" handles; do
	# shellcheck disable=SC2086
	case $program in *MNT*) set -- ${program/MNT/$MPI_MNT} ;; *) set -- $program "$MPI_MNT" ;; esac
	note "$*"
	mpi_run openmpi 1 block "$@" || fail "$*"
done
note "nodes in ring order, whatever the order of ranks"
MPI_ENV[3]="KAIRAN_MPIIO_HINTS=kairan_trace=$WORK/ring"
mpi_run openmpi 1 backwards handles "$MPI_MNT" hints || fail "backwards"
for i in 0 1 2 3; do
	[ "$(sed -n 's/.*"node":\([0-9]*\).*/\1/p' "$WORK/ring.$i.jsonl" | sort -u)" = $((3 - i)) ] || { head -3 "$WORK/ring.$i.jsonl"; fail "rank $i's node is not that of the ring"; }
done
MPI_ENV[3]="KAIRAN_MPIIO_HINTS=romio_cb_write=enable;romio_cb_read=enable;striping_unit=4096"
for program in hdf5_io pnetcdf_io; do
	[ -x "$B/test/mpi/$program.openmpi" ] || continue
	note "$program"
	mpi_run openmpi 1 block $program write "$MPI_MNT" || fail "$program"
	on node3 "$B/test/mpi/$program.openmpi" read "$MPI_MNT" || fail "$program reads something else on node3"
done
if [ -x "$B/test/mpi/layer.mpich" ]; then
	MPI_ENV=("LD_PRELOAD=$MPI_LAYER" LAYER_REQUIRED=1 LAYER_NODES=real)
	# Its ranks spin: not more than needed.
	note "MPICH, seed $((seed + 2))"
	mpi_run mpich 1 block layer "$MPI_MNT/file" "$((seed + 2))" 3 || fail "MPICH, LAYER_SEED=$seed"
	mpi_run mpich 1 block requests "$MPI_MNT" threads || fail "requests of MPICH"
	if [ -x "$B/test/mpi/hdf5_io.mpich" ]; then
		MPI_ENV+=("KAIRAN_MPIIO_HINTS=romio_cb_write=enable;romio_cb_read=enable;striping_unit=4096")
		mpi_run mpich 1 block hdf5_io write "$MPI_MNT" || fail "hdf5_io of MPICH"
		on node3 "$B/test/mpi/hdf5_io.mpich" read "$MPI_MNT" || fail "hdf5_io of MPICH reads something else on node3"
	fi
	for program in fortran_mpif fortran_f08; do
		[ ! -x "$B/test/mpi/$program.mpich" ] || mpi_run mpich 1 block $program "$MPI_MNT/$program" || fail "$program of MPICH"
	done
fi
finish

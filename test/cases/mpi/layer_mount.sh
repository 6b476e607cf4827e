# libkairan-mpiio by itself on mounts of four nodes: a model of every byte, HDF5 and PnetCDF.
# timeout: 400
. "$TOP/test/lib.sh"
. "$TOP/test/lib-mpi.sh"
mpi_need openmpi
mpi_up 4
server_start
mounts_start
seed=${LAYER_SEED:-$RANDOM}
MPI_ENV=("LD_PRELOAD=$B/mpiio/libkairan-mpiio.so" LAYER_REQUIRED=1 LAYER_NODES=real)
note "Open MPI, seed $seed"
mpi_run openmpi 1 block layer "$MPI_MNT/file" "$seed" 18 || fail "LAYER_SEED=$seed"
note "Open MPI, two ranks per node, seed $((seed + 1))"
mpi_run openmpi 2 robin layer "$MPI_MNT/file" "$((seed + 1))" 12 || fail "LAYER_SEED=$seed"
MPI_ENV+=("KAIRAN_MPIIO_HINTS=romio_cb_write=enable;romio_cb_read=enable;striping_unit=4096")
for program in hdf5_io pnetcdf_io; do
	[ -x "$B/test/mpi/$program.openmpi" ] || continue
	note "$program"
	mpi_run openmpi 1 block $program write "$MPI_MNT" || fail "$program"
	on node3 "$B/test/mpi/$program.openmpi" read "$MPI_MNT" || fail "$program reads something else on node3"
done
finish

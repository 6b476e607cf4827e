# Parallel HDF5 and PnetCDF write from four nodes; what they wrote is right for the writers, for serial readers on other nodes,
# and on the server.
# tags: long
# timeout: 400
. "$TOP/test/lib.sh"
. "$TOP/test/lib-mpi.sh"
[ -x "$B/test/mpi/hdf5_io.openmpi" ] && [ -x "$B/test/mpi/pnetcdf_io.openmpi" ] || skip "the build has no HDF5 or no PnetCDF"
mpi_up 4
server_start
mounts_start
# formats MPI PROGRAM...: each writes; nodes 2 and 4 read, and the server does.
formats() {
	local mpi=$1 program i
	shift
	for program in "$@"; do
		mpi_run "$mpi" 1 block "$program" write "$MPI_MNT" || fail "$program of $mpi"
		for i in 2 4; do on "node$i" "$B/test/mpi/$program.$mpi" read "$MPI_MNT" || fail "$program of $mpi reads something else on node$i"; done
		"$B/test/mpi/$program.$mpi" read "$EXPORT" || fail "$program of $mpi reads something else on the export"
	done
	# HDF5's by a program that knows nothing of kairan.
	h5dump -d numbers -s 0,0 -c 1,3 "$EXPORT/hdf5-3.h5" | grep -q '3000010, 3000017, 3000024' || fail "h5dump of the export"
	for i in "$EXPORT"/*; do same "$(seen_from_here 3)/${i##*/}" "$i"; done
}
for MPI_IO in romio ompio; do
	note "$MPI_IO"
	# By itself OMPIO reads, modifies and writes without locks, on any file system; HDF5's fill values, written by one process and
	# overwritten by the others after a barrier, are then lost updates waiting to happen.
	[ $MPI_IO = romio ] || MPI_OPTIONS=(--mca fs_ufs_lock_algorithm 3)
	formats openmpi hdf5_io pnetcdf_io
done
if [ -x "$B/test/mpi/hdf5_io.mpich" ]; then
	note "MPICH"
	on node1 sh -c "rm -f '$MPI_MNT'/*"
	formats mpich hdf5_io
fi

# On mounts where writes of different nodes take turns OMPIO needs no locks for HDF5's fill values.
note "OMPIO without locks, coherence=ordered"
for i in 1 2 3 4; do mount_stop "$i" || fail "node$i did not unmount"; done
mounts_start coherence=ordered
MPI_OPTIONS=()
for i in 1 2 3; do
	mpi_run openmpi 1 block hdf5_io write "$MPI_MNT" || fail "hdf5_io, coherence=ordered"
	"$B/test/mpi/hdf5_io.openmpi" read "$EXPORT" || fail "HDF5 on the export"
done
finish

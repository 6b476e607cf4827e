# Parallel HDF5 and PnetCDF write from four nodes; what they wrote is right for the writers, for serial readers on other nodes,
# and on the server.
# timeout: 400
. "$TOP/test/lib.sh"
. "$TOP/test/lib-mpi.sh"
[ -x "$B/test/mpi/hdf5_io.openmpi" ] && [ -x "$B/test/mpi/pnetcdf_io.openmpi" ] || skip "the build has no HDF5 or no PnetCDF"
mpi_up 4
server_start
mounts_start
for MPI_IO in romio321 ompio; do
	note "$MPI_IO"
	# By itself OMPIO reads, modifies and writes without locks, on any file system; HDF5's fill values, written by one process and
	# overwritten by the others after a barrier, are then lost updates waiting to happen.
	[ $MPI_IO = romio321 ] || MPI_OPTIONS=(--mca fs_ufs_lock_algorithm 3)
	for program in hdf5_io pnetcdf_io; do
		mpi_run openmpi 1 block $program write "$MPI_MNT" || fail "$program"
		for i in 2 4; do on "node$i" "$B/test/mpi/$program.openmpi" read "$MPI_MNT" || fail "$program reads something else on node$i"; done
	done
	# The same on the server, by programs that know nothing of kairan.
	h5dump -d numbers -s 0,0 -c 1,3 "$EXPORT/hdf5-3.h5" | grep -q '3000010, 3000017, 3000024' || fail "h5dump of the export"
	"$B/test/mpi/pnetcdf_io.openmpi" read "$EXPORT" || fail "PnetCDF on the export"
	for file in hdf5-{0,1,2,3}.h5 pnetcdf.nc; do same "$(seen_from_here 3)/$file" "$EXPORT/$file"; done
done

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

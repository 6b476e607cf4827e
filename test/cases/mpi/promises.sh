# What kairan's MPI-IO layer promises on mounts of four nodes: programs in C and Fortran, HDF5 and PnetCDF, not rebuilt, are caught and
# right; a node whose disk is full or broken is the same error for all ranks, and others go on.
# tags: long
# timeout: 400
. "$TOP/test/lib.sh"
. "$TOP/test/lib-mpi.sh"
mpi_need openmpi
mpi_up 4
# Node 3's journal lies on a disk of its own, too small for the last test.
on node3 mount -t tmpfs -o size=24m,mode=700 none "$WORK/node3/local" || skip "no tmpfs"
# Node 2's is to break.
truncate -s 256M "$WORK/local.img"
mkfs.ext4 -q -m0 "$WORK/local.img" 2>/dev/null && on node2 mount -o loop "$WORK/local.img" "$WORK/node2/local" ||
	{ note "no loop device: no disk breaks"; rm "$WORK/local.img"; }
server_start
mounts_start journal_max=1G,stripe_size=1M,flush_age=600

note "promises"
MPI_ENV=(LD_PRELOAD="$MPI_LAYER" PROMISES_STRIPE=1048576)
for MPI_IO in romio ompio; do
	mpi_run openmpi 2 robin promises all "$MPI_MNT" || fail "promises with $MPI_IO"
	on node1 sh -c "rm -f '$MPI_MNT'/*"
done

note "read back where it was written"
mpi_run openmpi 2 robin promises nearby "$MPI_MNT" "${DAEMON[server]}" || fail "a read straight after a write"

# caught PROGRAM FILE [COMMAND...]: it runs rightly, and the layer says that it did the collective calls.
caught() {
	MPI_ENV=(LD_PRELOAD="$MPI_LAYER" KAIRAN_MPIIO_HINTS="kairan_summary=1")
	mpi_run openmpi 1 block "$@" >"$WORK/caught" 2>&1 || { cat "$WORK/caught"; fail "$* with the layer"; }
	cat "$WORK/caught"
	grep -q "kairan-mpiio: .* collective writes" "$WORK/caught" || fail "$*: the layer did not see it"
	! grep -q " 0 collective writes" "$WORK/caught" || grep -q " [1-9][0-9]* collective writes" "$WORK/caught" || fail "$*: not one collective write was seen"
}
note "Fortran"
MPI_IO=romio
for program in fortran_mpif fortran_f08; do
	if [ -x "$B/test/mpi/$program.openmpi" ]; then caught $program "$MPI_MNT/$program"; fi
done
note "HDF5 and PnetCDF"
for program in hdf5_io pnetcdf_io; do
	[ -x "$B/test/mpi/$program.openmpi" ] || continue
	caught $program write "$MPI_MNT"
	for i in 2 4; do on "node$i" "$B/test/mpi/$program.openmpi" read "$MPI_MNT" || fail "$program reads something else on node$i"; done
	"$B/test/mpi/$program.openmpi" read "$EXPORT" || fail "$program reads something else on the server"
done

note "one node's disk is full"
EXPECTED_ERRORS='the journal cannot be written: (No space left on device|Input/output error)'
# full MPI RANKS_PER_NODE: node 3's journal is empty, so that there is nothing to wait for.
full() {
	MPI_ENV=(LD_PRELOAD="$MPI_LAYER")
	mount_stop 3 || fail "unmount"
	on node3 rm -r "$WORK/node3/local/cache"
	mount_start 3 journal_max=1G,stripe_size=1M,flush_age=600
	on node3 sh -c "cat /dev/zero >'$WORK/node3/local/others'" 2>/dev/null
	mpi_run "$1" "$2" robin disks "$MPI_MNT" node3 full $((32 / $2)) "nsenter -t ${KEEPER[node3]} -m rm $WORK/node3/local/others" || fail "a full disk, $1"
}
full openmpi 2
if [ -x "$B/test/mpi/disks.mpich" ]; then full mpich 1; fi

note "one node's disk breaks"
if [ -e "$WORK/local.img" ]; then
	until_ok 90 "room on node 3" on node3 sh -c "[ \$(df --output=avail -k '$WORK/node3/local' | tail -1) -gt 16000 ]" || fail "node 3 keeps what was flushed"
	mpi_run openmpi 2 robin disks "$MPI_MNT" node2 broken \
		"nsenter -t ${KEEPER[node2]} -m python3 $TOP/test/programs/shutdown.py $WORK/node2/local" || fail "a broken disk"
	# With another disk the node takes part again.
	mount_kill 2
	on node2 umount -l "$WORK/node2/local"
	mount_start 2
	mpi_run openmpi 1 block promises handover "$MPI_MNT" || fail "after the disk was replaced"
fi
finish

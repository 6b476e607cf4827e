# kairan's MPI-IO layer against a model of every byte: random nested types as views and in memory, counts, calls; on mounts of four nodes,
# with many small stripes, overlapping writes and non-blocking collectives too. Rerun one: RANDOM_SEED=7 test/run mpi/random
# tags: sanitizer
# timeout: 400
. "$TOP/test/lib.sh"
. "$TOP/test/lib-mpi.sh"
mpi_need openmpi
seed=${RANDOM_SEED:-$RANDOM}
mpi_up 4
server_start
mounts_start
# random MPI RANKS_PER_NODE PLACEMENT DIR OPTION...
random() {
	local models=$WORK/models seen file
	rm -rf "$models" && mkdir "$models"
	case $4 in "$MPI_MNT") seen=$EXPORT ;; *) seen=$4 ;; esac
	note "$1, seed $seed, $* ${MPI_ENV[*]:1}"
	mpi_run "$1" "$2" "$3" random_io -s "$seed" "${@:5}" "$4" "$models" || fail "RANDOM_SEED=$seed"
	for file in "$models"/*; do same "$file" "$seen/${file##*/}"; done
	seed=$((seed + 1))
}
# Under ASan, where it is the layer itself that is looked at, with half the ranks and without what only another MPI-IO component adds.
full=yes ranks=2
[ "$SLOW" = 1 ] || full='' ranks=1
MPI_ENV=(LD_PRELOAD="$MPI_LAYER" KAIRAN_MPIIO=auto LAYER_REQUIRED=1)
MPI_IO=ompio
[ -z "$full" ] || random openmpi 1 block "$MPI_MNT" -e 2
# By itself Open MPI's ROMIO corrupts its memory over some of these views; it is told of plainer ones.
MPI_IO=romio
MPI_ENV+=("KAIRAN_MPIIO_HINTS=romio_cb_write=enable;romio_cb_read=enable;striping_unit=4096;cb_config_list=*:2;kairan_slots=2")
random openmpi $ranks robin "$MPI_MNT" -e 1 -n
random openmpi $ranks block "$MPI_MNT" -e 1 -w
MPI_ENV[1]=KAIRAN_MPIIO=force
[ -z "$full" ] || random openmpi 1 robin "$MPI_PLAIN" -e 2
if [ -x "$B/test/mpi/random_io.mpich" ]; then
	random mpich 1 block "$MPI_PLAIN" -e 1
	MPI_ENV[1]=KAIRAN_MPIIO=auto
	random mpich 1 block "$MPI_MNT" -e 1
	random mpich 1 robin "$MPI_MNT" -n
fi
finish

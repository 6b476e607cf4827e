# One libkairan-mpiio.so to preload: it works with Open MPI and MPICH, also where a program loads its MPI late; says once
# per node why it does nothing with another MPI, or without its build for this one; and leaves programs without MPI alone.
# timeout: 300
. "$TOP/test/lib.sh"
MPI_IDLE=spin # what lets ranks sleep must find UCX among the libraries that all see
. "$TOP/test/lib-mpi.sh"
[ -e "$MPI_LAYER" ] || skip "the build has no MPI"
ip link set lo up
mount -t tmpfs tmpfs /dev/shm || fail "/dev/shm"
mkdir "$WORK/dir" "$WORK/alone"
cd "$WORK" || exit

# run MPI LIBRARY COMMAND...: on three ranks; the launcher and its helpers have the library too.
run() {
	local mpi=$1 library=$2 words
	shift 2
	case $mpi in
	openmpi) words=(mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1
		--mca btl_vader_single_copy_mechanism none --mca orte_tmpdir_base "$WORK") ;;
	mpich) words=(mpirun.mpich) ;;
	esac
	words+=(-n 3 env LD_PRELOAD="$(mpi_preload "$library")" "$@")
	env HOME="$WORK" KAIRAN_MPIIO=force LD_PRELOAD="$(mpi_preload "$library")" timeout -k 2 $((60 * SLOW)) "${words[@]}" \
		>"$WORK/out" 2>"$WORK/said" && grep -q '^ok' "$WORK/out" || { cat "$WORK/out" "$WORK/said"; fail "$mpi: $*"; }
}
# told N [TEXT]: there are N lines of the library, and they say TEXT.
told() {
	local text=${2:-}
	[ "$(grep -c libkairan-mpiio "$WORK/said")" = "$1" ] &&
		[ "$(grep -c "^libkairan-mpiio: MPI-IO on $(uname -n) is left to the MPI library: $text" "$WORK/said")" = "$1" ] ||
		{ cat "$WORK/said"; fail "not $1 times: $text"; }
}

for mpi in openmpi mpich; do
	[ -x "$B/test/mpi/small_io.$mpi" ] || { note "no $mpi in this build"; continue; }
	for program in "$B/test/mpi/small_io.$mpi" "$B/test/mpi/late $B/test/mpi/small_io.$mpi.so"; do
		note "$mpi: ${program//$B\/test\/mpi\/}"
		# shellcheck disable=SC2086
		run $mpi "$MPI_LAYER" $program "$WORK/dir" layer
		told 0
		# shellcheck disable=SC2086
		run $mpi '' $program "$WORK/dir" own
	done
	note "$mpi, without the build for it"
	cp "$MPI_LAYER" "$WORK/alone/"
	run $mpi "$WORK/alone/libkairan-mpiio.so" "$B/test/mpi/small_io.$mpi" "$WORK/dir" own
	told 1 "$WORK/alone/libkairan-mpiio-$mpi.so: cannot open shared object file"
	note "$mpi, with a build for something else"
	cp "$B/test/mpi/libother_mpi.so" "$WORK/alone/libkairan-mpiio-$mpi.so"
	run $mpi "$WORK/alone/libkairan-mpiio.so" "$B/test/mpi/small_io.$mpi" "$WORK/dir" own
	told 1 ".*undefined symbol: kr_mpi_library_start"
done

note "another MPI"
# other VARIABLE=VALUE...
other() {
	local program
	for program in "$B/test/mpi/other_io" "$B/test/mpi/late $B/test/mpi/other_io.so"; do
		# shellcheck disable=SC2086
		env "$@" LD_PRELOAD="$(mpi_preload "$MPI_LAYER")" $program >"$WORK/out" 2>"$WORK/said" &&
			grep -q '^ok' "$WORK/out" || { cat "$WORK/said"; fail "$program"; }
		told "$expected" ".*/libother_mpi.so is neither libmpi.so.40 (Open MPI) nor libmpi.so.12"
	done
}
expected=1
other A=1
for variable in OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID SLURM_LOCALID; do
	expected=1 other $variable=0
	expected=0 other $variable=1
done
expected=0 other KAIRAN_MPIIO=off

note "no MPI"
export LD_PRELOAD
LD_PRELOAD=$(mpi_preload "$MPI_LAYER")
/bin/true 2>"$WORK/said" || fail "/bin/true"
[ "$(sh -c 'echo a b | tr " " "\n" | wc -l' 2>>"$WORK/said")" = 2 ] || fail "a pipeline"
loaded=$(cat /proc/self/maps)
unset LD_PRELOAD
[ ! -s "$WORK/said" ] || { cat "$WORK/said"; fail "words of programs without MPI"; }
grep -q 'libkairan-mpiio.so' <<<"$loaded" || fail "the library was not preloaded"
! grep -E 'libmpi|libkairan-mpiio-' <<<"$loaded" || fail "a program without MPI gets an MPI library"
finish

# The measurements of test/bench/mpi/hpio, in namespaces of their own.
. "$TOP/test/lib.sh"
MPI_IDLE=spin
. "$TOP/test/lib-mpi.sh"
RANKS=3
MPI_LIMIT=120
mpi_up 4 "$RATE_OF_LINKS"
on server python3 "$TOP/test/programs/stream.py" serve 9000 $((32 << 20)) >"$WORK/stream" 2>&1 &
until_ok 10 "stream" grep -q listening "$WORK/stream"
set -- $(on node1 python3 "$TOP/test/programs/stream.py" fetch $SERVER_ADDRESS 9000 120) "$@"
LINK=$(python3 -c "print($1 / $2)")
shift 2
case $WHERE in
mount) server_start; mounts_start; DIR=$MPI_MNT SEEN=$EXPORT ;;
plain) DIR=$MPI_PLAIN SEEN=$MPI_PLAIN ;;
*) fail "-d $WHERE" ;;
esac
CSV=${CSV:-$WORK/results.csv}
echo "placement,variant,repeat,write,sync,close,read,bytes,data,gaps,server_bytes,load" >"$CSV"

# NAME COMPONENT LAYER_HINTS HINT...: what is compared; LAYER_HINTS "-" means without the layer.
variants() {
	echo "romio romio -"
	echo "romio-packed romio - cb_config_list=*:3 cb_nodes=4"
	echo "romio-spread romio - cb_config_list=*:1 cb_nodes=4"
	echo "ompio ompio -"
	[ -e "$MPI_LAYER" ] || return 0
	echo "layer-default romio ."
	# The layer's aggregators without order and pipelining: whole stripes are rounds. (In small pieces rounds overlap by
	# themselves, as MPI sends short messages ahead of their receives.)
	echo "layer-stripes romio kairan_order=rank;kairan_window=0;kairan_slots=1;cb_buffer_size=4194304"
	local order window slots
	for order in rank pairwise nd_shift nd_rank_shift; do
		for window in 0 8; do
			for slots in 1 8; do
				echo "layer-$order-w$window-s$slots romio kairan_order=$order;kairan_window=$window;kairan_slots=$slots"
			done
		done
	done
}
wanted() {
	local word
	[ -n "$VARIANTS" ] || return 0
	for word in $VARIANTS; do case $1 in *"$word"*) return 0 ;; esac; done
	return 1
}
# What the server has been made to write so far.
server_bytes() {
	[ "$WHERE" = mount ] || { echo 0; return; }
	kairan 1 status --json $SERVER_ADDRESS:$PORT | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"]["writes"]["bytes"])'
}
measure() {
	local placement=$1 repeat=$2 name=$3 component=$4 layer=$5 seed file before line hints=() hint
	shift 5
	while [ $# -gt 0 ] && [ "$1" != -- ]; do hints+=(-i "$1"); shift; done
	shift
	seed=$((repeat * 1000 + SERIAL)) SERIAL=$((SERIAL + 1))
	MPI_ENV=()
	if [ "$layer" != - ]; then
		MPI_ENV=(LD_PRELOAD="$MPI_LAYER" KAIRAN_MPIIO="$([ "$WHERE" = mount ] && echo auto || echo force)")
		[ "$layer" = . ] || MPI_ENV+=(KAIRAN_MPIIO_HINTS="$layer")
	fi
	before=$(server_bytes)
	set -- -n "$REGIONS" "$@"
	line=$(MPI_IO=$component mpi_run openmpi $RANKS "$placement" hpio -x $seed "$@" "${hints[@]}" "$DIR/hpio" 2>"$WORK/errors") ||
		{ cat "$WORK/errors" >&2; fail "$name, $placement"; }
	line="$line $("$B/test/mpi/hpio.openmpi" -v $((4 * RANKS)) -x $seed "$@" "$SEEN/hpio")"
	echo "$placement,$name,$repeat,$(tr ' ' '\n' <<<"$line" | sed 's/.*=//' | paste -sd,),$(($(server_bytes) - before)),$(cut -d' ' -f1 /proc/loadavg)" >>"$CSV"
}
SERIAL=0
for repeat in $(seq "$REPEATS"); do
	for placement in $PLACEMENTS; do
		while read -r -a words; do
			wanted "${words[0]}" || continue
			measure "$placement" "$repeat" "${words[@]}" -- "$@" </dev/null
		done < <(variants)
	done
	echo "repetition $repeat of $REPEATS done after $SECONDS s" >&2
done
python3 "$TOP/test/bench/mpi/table.py" "$CSV" 4 "$LINK" "$RATE_OF_LINKS" "$WHERE"

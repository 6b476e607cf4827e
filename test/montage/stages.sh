# Sourced by test/montage/run inside its cluster.
. "$TOP/test/lib-predict.sh"
MONTAGE=$TOP/test/montage
STAGES="mProjectPP mDiff mFitplane mBackground mAdd mShrink"
narrow server "$LINK"

# Commands of tasks, from the directory of the run, one a line.
tasks() {
	case $1 in
	mProjectPP) for f in raw/*.fits; do echo "mProjectPP $f proj/${f#raw/} mosaic.hdr"; done ;;
	mDiff) tail -n +3 diffs.tbl | while read -r _ _ plus minus diff; do echo "mDiff proj/$plus proj/$minus diff/$diff mosaic.hdr"; done ;;
	mFitplane) tail -n +3 diffs.tbl | while read -r _ _ _ _ diff; do echo "mFitplane diff/$diff >said/$diff"; done ;;
	mBackground) for f in proj/*[0-9].fits; do f=${f#proj/}; echo "cd proj && exec mBackground -t $f ../corr/$f ../proj.tbl ../corrections.tbl"; done ;;
	mAdd) for i in 0 1 2 3; do echo "mAdd -p corr corr.tbl tile$i.hdr tiles/$i.fits"; done ;;
	mShrink) for i in 0 1 2 3; do echo "mShrink tiles/$i.fits small/$i.fits 2"; done ;;
	esac
}
# What one process does before a stage, on node 1.
before() {
	case $1 in
	mDiff) table proj proj.tbl && mOverlaps proj.tbl diffs.tbl ;;
	mBackground) python3 "$MONTAGE/tables.py" fits diffs.tbl said >fits.tbl && mBgModel proj.tbl fits.tbl corrections.tbl ;;
	mAdd) table corr corr.tbl ;;
	esac
}
table() { mImgtbl "$1" "$2" && python3 "$MONTAGE/tables.py" sort "$2"; }

# in_run NODE COMMAND...: in the directory of the run on this node's mount.
in_run() { local node=$1; shift; on "node$node" bash -c 'cd "$1/$2" && shift 2 && "$@"' run "$(mnt "$node")" "$RUN" "$@"; }
export -f tasks before table
export MONTAGE

# stage STAGE NODES PROCESSES STATE TRACE: its tasks, which the nodes take in turns.
stage() {
	local stage=$1 nodes=$2 processes=$3 state=$4 trace=$5 i job jobs=()
	in_run 1 bash -c 'before "$1"' run "$stage" >"$WORK/said" 2>&1 && ! grep -q ERROR "$WORK/said" || fail "before $stage: $(tail -3 "$WORK/said")"
	in_run 1 bash -c 'tasks "$1"' run "$stage" >"$WORK/tasks"
	cold
	[ "$state" = cold ] || warm 1 "$(mnt 1)/$RUN"
	traces_start "$nodes"
	for i in $(seq "$nodes"); do
		awk -v n="$nodes" -v i="$i" 'NR % n == i - 1' "$WORK/tasks" | sed '/^cd /!s/^/exec /' |
			in_run "$i" xargs -d '\n' -P "$processes" -I@ "$B/test/waited" "$trace.waited" sh -c @ >"$WORK/said.$i" 2>&1 &
		jobs+=($!)
	done
	for job in "${jobs[@]}"; do wait "$job" || fail "$stage: $(cat "$WORK"/said.*)"; done
	! grep -h ERROR "$WORK"/said.* || fail "$stage"
	traces_stop "$nodes" "$trace"
	awk '{ sum += $1 } END { print sum }' "$trace.waited" >"$trace.seconds" && rm "$trace.waited"
}
# montage NODES PROCESSES STATE NAME: all stages; their traces are $WORK/traces/STAGE.NAME.NODE.
montage() {
	local stage sum
	RUN=run$((++RUNS))
	mkdir "$EXPORT/$RUN" && (cd "$EXPORT/$RUN" && mkdir proj diff said corr tiles small && cp -r "$EXPORT"/raw/. .) || fail "raw images"
	sleep 2.5 # a file that has just been made has no version by which a cache knows it
	for stage in $STAGES; do stage "$stage" "$1" "$2" "$3" "$WORK/traces/$stage.$4"; done
	sum=$(in_run 1 sh -c 'cat tiles/?.fits small/?.fits | sha256sum') || fail "no mosaic"
	[ "${SUM:=$sum}" = "$sum" ] || fail "with $1 nodes, $2 processes, $3, the mosaic is $sum, not $SUM"
	rm -rf "${EXPORT:?}/$RUN"
}

RUNS=0
mkdir "$WORK/traces" "$EXPORT/raw" "$EXPORT/raw/raw" && python3 "$MONTAGE/images.py" "$EXPORT/raw" "$SIDE" "$PIXELS" || fail "images"
most=1
for p in $PROCESS_COUNTS; do [ "$p" -le $most ] || most=$p; done
measure_envelope "$WORK/envelope" $most
montage 1 1 cold base
echo "a mosaic of $((SIDE * SIDE)) images"
row_head
for n in $NODE_COUNTS; do
	for p in $PROCESS_COUNTS; do
		for state in cold warm; do
			for k in $(seq "$REPETITIONS"); do montage "$n" "$p" $state "$state.$k"; done
			for stage in $STAGES; do row "$WORK/envelope" "$stage" "$n" "$p" $state 1 "$WORK/traces/$stage.base.1" "$WORK/traces/$stage.$state"; done
			[ -z "$OUT" ] || "$K" trace show --html "$OUT/traces.html" "$WORK"/traces/*."$state".1.[0-9]*
			rm -f "$WORK"/traces/*."$state".*
		done
	done
done
echo "each mosaic has the checksum $SUM"
[ -z "$OUT" ] || { cp "$WORK/envelope" "$OUT"; "$K" envelope --html "$OUT/envelope.html" "$WORK/envelope" >/dev/null; }

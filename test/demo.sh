# The demonstration of ./demo, inside a cluster of test/cluster: four nodes, links of 200 Mbit/s.
P=$TOP/test/programs
calc() { python3 -c "print($1)"; }
now() { date +%s.%N; }
everywhere() {
	local i pids=()
	for i in $(seq "$NODES"); do on "node$i" bash -c "${1//%i/$i}" >"$WORK/out$i" 2>&1 & pids+=($!); done
	for i in "${pids[@]}"; do wait "$i" || fail "$1: $(cat "$WORK"/out*)"; done
}
echo
echo "== the cluster"
kairan 1 status $SERVER_ADDRESS:$PORT

on server python3 "$P/stream.py" serve 9000 $((32 << 20)) >"$WORK/stream" 2>&1 &
until_ok 10 "stream" grep -q listening "$WORK/stream"
set -- $(on node1 python3 "$P/stream.py" fetch $SERVER_ADDRESS 9000 120)
LINK=$(calc "$1 / $2")
printf '\n== a link carries %.1f MB/s (one plain TCP stream)\n' "$(calc "$LINK / 1e6")"

echo
echo "== four nodes read one big file at the same time"
size=$((64 << 20))
tar cf - /usr/bin /usr/lib/x86_64-linux-gnu 2>/dev/null | head -c $size >"$EXPORT/big"
[ "$(stat -c %s "$EXPORT/big")" = $size ] || head -c $size /dev/urandom >"$EXPORT/big"
sleep 0.3
start=$(now) before=$(sent_by server)
everywhere "cmp $WORK/node%i/mnt/big $EXPORT/big"
seconds=$(calc "$(now) - $start")
printf '   kairan: %.1f s, %.1f MB/s in all = %.2f of 4 links; the server sent %.2f x the file\n' "$seconds" \
	"$(calc "4 * $size / $seconds / 1e6")" "$(calc "$size / $seconds / $LINK")" "$(calc "($(sent_by server) - $before) / $size")"
start=$(now)
everywhere "python3 $P/stream.py fetch $SERVER_ADDRESS 9000 120"
seconds=$(calc "($(now) - $start) * $size / (32 << 20)")
printf '   every node fetching by itself: %.1f s, %.1f MB/s in all (measured with half the bytes); the server sends 4 x the file\n' "$seconds" "$(calc "4 * $size / $seconds / 1e6")"

echo
echo "== four nodes read a directory tree"
tar cf - -C /usr/include . 2>/dev/null | { mkdir "$EXPORT/tree"; tar xf - -C "$EXPORT/tree" --no-same-owner; }
files=$(find "$EXPORT/tree" -type f | wc -l)
start=$(now)
everywhere "diff -r --no-dereference $WORK/node%i/mnt/tree $EXPORT/tree"
printf '   %d files on each node, all equal, %.1f s\n' "$files" "$(calc "$(now) - $start")"

echo
echo "== four nodes write interleaved, unaligned records of one file"
count=$((size / 4 / 47001)) total=$((size / 4 / 47001 * 4 * 47001))
start=$(now)
everywhere "python3 $P/strided.py write $WORK/node%i/mnt/strided \$((%i - 1)) 4 47001 $count"
seconds=$(calc "$(now) - $start")
python3 "$P/strided.py" check "$EXPORT/strided" 0 4 47001 $count || fail "bytes on the server"
printf '   every byte right on the server; write+close %.1f MB/s = %.2f of the server'\''s link\n' "$(calc "$total / $seconds / 1e6")" "$(calc "$total / $seconds / $LINK")"

echo
echo "== ordinary tools on a mount, each verified on the server's plain files"
cd /
M=$(mnt 1)
mkdir "$WORK/source" && cp -r "$TOP/common" "$TOP/ring" "$WORK/source"
tool() { local what=$1 start; shift; start=$(now); "$@" >"$WORK/tool" 2>&1 || fail "$what: $(tail -3 "$WORK/tool")"; printf '   %-10s %.2f s\n' "$what" "$(calc "$(now) - $start")"; }
tool "cp -a" on node1 cp -a "$WORK/source" "$M/cp" && same_tree "$WORK/source" "$EXPORT/cp"
tool "tar" on node2 bash -c "tar cf - -C $WORK source | tar xpf - -C $(mnt 2)" && same_tree "$WORK/source" "$EXPORT/source"
tool "rsync" on node3 rsync -a "$WORK/source/" "$(mnt 3)/rsync/" && same_tree "$WORK/source" "$EXPORT/rsync"
git init -q "$WORK/repository" && cp -r "$WORK/source/." "$WORK/repository" && git -C "$WORK/repository" add . && git -C "$WORK/repository" -c user.name=demo -c user.email=demo@localhost commit -qm demo
tool "git clone" on node4 git clone -q "$WORK/repository" "$(mnt 4)/clone" && same_tree "$WORK/source/common" "$EXPORT/clone/common"
mkdir "$EXPORT/make" && printf '#include <stdio.h>\nint main(void) { puts("built on node 1"); return 0; }\n' >"$EXPORT/make/hello.c"
tool "make" on node1 make -C "$M/make" hello
[ "$(on node2 "$(mnt 2)/make/hello")" = "built on node 1" ] || fail "the program does not run on node 2"
finish
echo
echo "All verified. Next: README.md, section \"Set it up in a cluster\"."

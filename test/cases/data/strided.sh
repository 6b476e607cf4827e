# N-to-1: four nodes write interleaved, unaligned records of one file at the same time; every byte is on the server.
# tags: sanitizer
. "$TOP/test/lib.sh"
up 4
for i in 1 2 3 4; do
	on "node$i" python3 "$TOP/test/programs/strided.py" write "$(mnt "$i")/strided" $((i - 1)) 4 47001 150 >"$WORK/write$i" 2>&1 &
	writers[i]=$!
done
for i in 1 2 3 4; do wait "${writers[i]}" || fail "writer $i: $(cat "$WORK/write$i")"; done
python3 "$TOP/test/programs/strided.py" check "$EXPORT/strided" 0 4 47001 150 || fail "bytes on the server"
for i in 1 3; do python3 "$TOP/test/programs/strided.py" check "$(seen_from_here $i)/strided" 0 4 47001 150 || fail "bytes on node $i"; done
finish

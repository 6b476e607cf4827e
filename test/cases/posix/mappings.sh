# mmap, O_DIRECT at any alignment, unlinked open files, descriptors passed on, appends, cached readers on the same node.
# tags: sanitizer
. "$TOP/test/lib.sh"
cluster 2
server_start
if maps_written; then mounts_start; else mounts_start shared_mmap; fi
python3 "$TOP/test/programs/mappings.py" "$(seen_from_here 1)" "$(seen_from_here 2)" || fail "mappings"
for elsewhere in "" "$(seen_from_here 2)/written"; do
	[ -z "$elsewhere" ] || maps_written || continue # whole pages arrive: two nodes must not store into one
	timeout -s KILL $((60 * SLOW)) python3 "$TOP/test/programs/mapped_written.py" "$(seen_from_here 1)/written" $elsewhere || fail "stores and writes into one page"
done
finish

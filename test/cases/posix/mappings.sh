# mmap, O_DIRECT at any alignment, unlinked open files, descriptors passed on, appends, cached readers on the same node.
# tags: sanitizer
. "$TOP/test/lib.sh"
up 2
python3 "$TOP/test/programs/mappings.py" "$(seen_from_here 1)" "$(seen_from_here 2)" || fail "mappings"
for elsewhere in "" "$(seen_from_here 2)/written"; do
	timeout -s KILL $((60 * SLOW)) python3 "$TOP/test/programs/mapped_written.py" "$(seen_from_here 1)/written" $elsewhere || fail "stores and writes into one page"
done
finish

# mmap, O_DIRECT at any alignment, unlinked open files, descriptors passed on, appends, cached readers on the same node.
# tags: sanitizer
. "$TOP/test/lib.sh"
up 2
python3 "$TOP/test/programs/mappings.py" "$(seen_from_here 1)" "$(seen_from_here 2)" || fail "mappings"
finish

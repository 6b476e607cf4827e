# The end of a file that one node changes and others write to is where it is, for one who reads it on a fourth: also for the kernel there.
# timeout: 300
. "$TOP/test/lib.sh"
up 4
timeout -s KILL $((250 * SLOW)) python3 "$TOP/test/programs/ends.py" 300 "$(seen_from_here 1)"/file "$(seen_from_here 2)"/file "$(seen_from_here 3)"/file \
	"$(seen_from_here 4)"/file || fail "an end"
finish

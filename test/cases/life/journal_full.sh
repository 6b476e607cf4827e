# A journal at its limit: writers wait for the flush, nothing fails, the journal stays within its limit.
. "$TOP/test/lib.sh"
cluster 1 80mbit
server_start
mount_start 1 journal_max=8M
on node1 python3 "$TOP/test/programs/strided.py" write "$(mnt 1)/file" 0 1 100003 400 >"$WORK/times" || fail "writing 40 MB through a journal of 8: $(cat "$WORK/times")"
python3 "$TOP/test/programs/strided.py" check "$EXPORT/file" 0 1 100003 400 || fail "bytes"
used=$(du -sm "$WORK/node1/local" | cut -f1)
[ "$used" -lt 80 ] || fail "$used MB of local disk"
finish

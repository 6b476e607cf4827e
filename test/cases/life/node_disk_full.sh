# The node's disk is full: the error comes out of write, what was written before is kept, and the mount stays usable.
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='No space|space left'
cluster 1
on node1 mount -t tmpfs -o size=12m none "$WORK/node1/local" || skip "no tmpfs"
server_start
mount_start 1 journal_max=1G
# A file that others cannot drain: the writes are faster than any flush of a stopped server.
on node1 sh -c "echo x >$(mnt 1)/open" || fail "first write"
count=$(fill_journal 1 "$(mnt 1)/big" ENOSPC) || fail "the full disk"
[ "$count" -gt 50 ] || fail "only $count writes fitted"
[ "$(stat -c %s "$EXPORT/big")" = $((count * 65536)) ] || fail "size $(stat -c %s "$EXPORT/big") instead of $((count * 65536))"
# The space is there once the server has said that all is stable, which may be a moment after fsync.
until_ok 10 "space in the journal" on node1 sh -c "head -c 3000000 /dev/zero >$(mnt 1)/after && sync $(mnt 1)/after" || fail "not usable after the disk was full"
[ "$(stat -c %s "$EXPORT/after")" = 3000000 ] || fail "the write after"
note "what is only cached goes before a write fails"
mount_stop 1 || fail "unmount"
mount_start 1 flush_age=600,flush_backlog=1G
head -c 3000000 /dev/urandom >"$EXPORT/cached"
same "$(seen_from_here 1)/cached" "$EXPORT/cached"
cached() { kairan 1 status --json "$(mnt 1)" | python3 -c 'import json, sys; print(json.load(sys.stdin)["cache"]["bytes"])'; }
# Blocks are kept behind the reads' backs, and what was read before the server heard that who wrote the file has closed it goes again.
all_cached() { on node1 dd if="$(mnt 1)/cached" of=/dev/null bs=128k iflag=direct && [ "$(cached)" -gt 2900000 ]; }
until_ok 60 "the file in the cache" all_cached || fail "not cached: $(cached)"
on node1 sh -c "cat /dev/zero >'$WORK/node1/local/others'" 2>/dev/null
on node1 sh -c "head -c 2000000 /dev/urandom >'$(mnt 1)/more'" || fail "a write fails although the cache could go: $(kairan 1 status "$(mnt 1)")"
same "$(seen_from_here 1)/more" "$EXPORT/more"
same "$(seen_from_here 1)/cached" "$EXPORT/cached"
finish

# The node's disk is full: writes wait for the flush; without one to wait for the error comes out of write, and the mount stays usable.
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='the journal cannot be written: No space left on device'
cluster 1
on node1 mount -t tmpfs -o size=12m,mode=700 none "$WORK/node1/local" || skip "no tmpfs"
server_start
mount_start 1 journal_max=1G
note "nothing is in the journal"
on node1 sh -c "cat /dev/zero >'$WORK/node1/local/others'" 2>/dev/null
on node1 dd if=/dev/zero of="$(mnt 1)/refused" bs=1 count=1 2>"$WORK/said" && fail "where was that written?"
grep -q "No space left" "$WORK/said" || fail "$(cat "$WORK/said")"
on node1 rm "$WORK/node1/local/others"
note "more is written than the disk can hold, to a server that stands still"
fill_journal 1 "$(mnt 1)/big" 600 || fail "the full disk: $(kairan 1 status "$(mnt 1)")"
[ "$(stat -c %s "$EXPORT/big")" = 39321600 ] && [ "$(tr -d k <"$EXPORT/big" | wc -c)" = 0 ] || fail "other bytes: $(stat -c %s "$EXPORT/big")"
note "what is only cached goes before a write fails"
mount_stop 1 || fail "unmount"
on node1 rm -r "$WORK/node1/local/cache" # which is full
mount_start 1 flush_age=600,flush_backlog=1G,cache_max=1G
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
note "what a full disk cannot keep is not staged, and not pulled again and again"
head -c 24000000 /dev/urandom >"$EXPORT/staged"
before=$(sent_by server)
kairan 1 stage --wait "$(mnt 1)/staged" >"$WORK/said" 2>&1
[ $? = 2 ] && grep -q "staged: not on 1 of 1 nodes; node1: No space left on device" "$WORK/said" || fail "stage: $(cat "$WORK/said")"
sent=$(($(sent_by server) - before))
[ $sent -lt 40000000 ] || fail "the server sent $sent bytes of 24000000"
same "$(seen_from_here 1)/staged" "$EXPORT/staged"
on node1 rm "$WORK/node1/local/others"
on node1 mount -o remount,size=64m "$WORK/node1/local" || fail "no larger tmpfs"
kairan 1 stage --wait "$(mnt 1)/staged" >"$WORK/said" 2>&1 || fail "stage after room was made: $(cat "$WORK/said")"
[ "$(cached)" -ge 24000000 ] || fail "the cache has $(cached) bytes"
note "killed with a full disk: the next mount finds room for itself, and brings what is left"
mount_kill_with 1 "$(mnt 1)/left" bytes
on node1 sh -c "cat /dev/zero >>'$WORK/node1/local/others'" 2>/dev/null
mount_start 1
kairan 1 flush --timeout 60 "$(mnt 1)" >"$WORK/said" || fail "it keeps something: $(cat "$WORK/said")"
[ "$(cat "$EXPORT/left")" = bytes ] || fail "lost: $(cat "$EXPORT/left")"
finish

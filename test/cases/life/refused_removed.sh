# The export is full, and the server has refused what a program wrote.  When the file is removed, or another is renamed
# over it, while its node has a session, these bytes go with it: the space is free, nothing comes back, and everything
# drains.  What a node brings that was away comes back as a conflict file.
# timeout: 200
LEASE=4
. "$TOP/test/lib.sh"
. "$TOP/test/lib-late.sh"
EXPECTED_ERRORS='No space left on device; its unflushed bytes wait in the journal until'
truncate -s 24M "$WORK/export.img"
mkfs.ext4 -q -m0 "$WORK/export.img" 2>/dev/null || skip "no mkfs.ext4"
mkdir -p "$EXPORT"
mount -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device"
up 2
room() { stat -f -c %a "$EXPORT"; }
before=$(room)
# refuse NAME: node 1 has bytes of it that the server has no room for.
refuse() {
	! on node1 dd if=/dev/zero of="$(mnt 1)/$1" bs=1M count=40 conv=fsync 2>"$WORK/said" || fail "$1: the server had room"
	grep -q "No space left" "$WORK/said" || fail "$1: $(cat "$WORK/said")"
}
drained() { kairan 1 flush --timeout 5 "$(mnt 1)" >"$WORK/said" 2>&1; }
is_free() { sync "$EXPORT" && [ "$(room)" -ge $((before - 16)) ]; }
# gone_for_good WHAT: nothing is left of it.
gone_for_good() {
	until_ok 10 "$1: node 1 drains" drained || fail "$1: node 1 keeps something: $(cat "$WORK/said"); $(ls -l "$EXPORT")"
	until_ok 10 "$1: the space is free" is_free || fail "$1: $(room) of $before blocks are free: $(ls -l "$EXPORT")"
	kairan 1 status --json "$(mnt 1)" |
		python3 -c 'import json, sys; assert json.load(sys.stdin)["backlog"]["bytes"] == 0' ||
		fail "$1: $(kairan 1 status "$(mnt 1)")"
	[ "$(ls "$EXPORT")" = "lost+found${2:+$'\n'$2}" ] || fail "$1: there is $(ls -l "$EXPORT")"
}
note "its own node removes it"
refuse file
on node1 rm "$(mnt 1)/file" || fail "rm"
gone_for_good own
note "another node removes it"
refuse file
on node2 rm "$(mnt 2)/file" || fail "rm on node 2"
gone_for_good other
note "another file is renamed over it"
refuse over
on node2 sh -c 'printf new >"$1/new" 2>/dev/null; mv "$1/new" "$1/over"' sh "$(mnt 2)" || fail "mv"
gone_for_good renamed over
on node2 rm "$(mnt 2)/over" || fail "rm over"
note "another node has looked into it, so that the first one has no lease of it any more"
refuse file
on node2 head -c 1 "$(mnt 2)/file" >/dev/null || fail "node 2 cannot read"
on node2 rm "$(mnt 2)/file" || fail "rm of what was read"
gone_for_good uncovered
note "another node has it open, and closes it"
refuse file
on node2 sh -c 'exec 3<"$1/file" && rm "$1/file" && head -c 1 <&3 >/dev/null && sleep 4' sh "$(mnt 2)" ||
	fail "rm of what is open"
gone_for_good open
note "its node's daemon has been killed"
refuse file
mount_kill 1
mount_start 1
on node2 rm "$(mnt 2)/file" || fail "rm after a start"
gone_for_good started
note "its node was away"
refuse file
away cut_link node1
on node2 rm "$(mnt 2)/file" || fail "rm while node 1 is away"
back
until_ok 60 "what is late comes back" conflict_of file >/dev/null || fail "no conflict file: $(ls -l "$EXPORT")"
note "and has no room, either, until it is removed"
kairan 1 flush --timeout 60 "$(mnt 1)" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "file.conflict-node1.*No space left" "$WORK/said" || fail "flush: $(cat "$WORK/said")"
kairan 1 flush --timeout 60 --refused-ok "$(mnt 1)" >"$WORK/said" 2>&1 || fail "flush --refused-ok: $(cat "$WORK/said")"
on node2 sh -c 'rm "$1"/file.conflict*' sh "$(mnt 2)" || fail "rm of the conflict file"
gone_for_good conflict
finish

# The server's disk has an error, or no room, while it makes the file for a late node's bytes: the program that wrote them hears that they are
# late, everything else goes on, nothing of them is lost, and when the disk is well again they go into one conflict file by themselves.
# So does what a failed sync has lost while the node was away.
# tags: faults long
# timeout: 300
LEASE=3
. "$TOP/test/lib.sh"
. "$TOP/test/lib-late.sh"
EXPECTED_ERRORS='fault point conflict\.[a-z]*: |syncing a file failed: Input/output error|failed to write what it had taken to its disk: Input/output error|no conflict file for [^ ]* can be had: |Input/output error; its unflushed bytes wait in the journal until'
cluster 2
grep -q KR_FAULT "$B/server/kairand" || skip "built without fault points (meson -Dfaults=true)"
KR_FAULT="@$WORK/fault" server_start
chmod 777 "$EXPORT"
mounts_start flush_age=600
order() { echo "$1" >"$WORK/order" && mv "$WORK/order" "$WORK/fault"; }
tried() { grep "no conflict file for $1 can be had: $2" "$WORK/node1/log"; }

for what in conflict.make:enospc:"No space" conflict.make:edquot:"Disk quota" conflict.record:enospc:"No space" conflict.name:eio:"Input/output"; do
	IFS=: read -r point error text <<<"$what"
	name=$point-$error
	note "$name"
	make "$name"
	hold "$name" 2 EARLIER- 4 LATE
	away cut_link node1
	node2 "printf NEW | dd of=$name bs=1 seek=7 conv=notrunc,fsync status=none"
	order "$point:$error"
	heal_link node1
	until_ok 60 "$name is met" tried "$name" "$text" || fail "$name: $(tail -5 "$WORK/node1/log")"
	told "$name" 116
	is "$EXPORT/$name" originaNEW
	[ -z "$(conflict_of "$name")" ] || fail "$name: there is $(ls "$EXPORT")"
	on node1 sh -c "echo fine >'$D/other' && [ \"\$(cat '$D/other')\" = fine ]" || fail "$name: the mount is not usable"
	kairan 1 status "$D" | grep -q "$text" || fail "$name: status says nothing: $(kairan 1 status "$D")"
	rm "$WORK/fault"
	conflict "$name" ..EALATER- || fail "$name"
	[ "$(compgen -G "$EXPORT/$name.conflict*" | wc -l)" = 1 ] || fail "$name: $(ls "$EXPORT")"
	is "$EXPORT/$name" originaNEW
	clean
done

note "it cannot even be written down that they are late: they are kept, and go nowhere until it can, whatever is killed"
make declared
hold declared 2 EARLIER- 4 LATE
away cut_link node1
node2 "printf NEW | dd of=declared bs=1 seek=7 conv=notrunc,fsync status=none"
order conflict.declare:edquot
heal_link node1
told declared 5
on node1 sh -c "echo fine >'$D/other' && [ \"\$(cat '$D/other')\" = fine ]" || fail "the mount is not usable"
kairan 1 status "$D" | grep -qi refused || fail "status says nothing: $(kairan 1 status "$D")"
is "$EXPORT/declared" originaNEW
mount_kill 1
mount_start 1 flush_age=600
until_ok 60 "declared is asked for" grep "can take them" "$WORK/node1/log" || fail "declared: $(tail -5 "$WORK/node1/log")"
rm "$WORK/fault"
conflict declared ..EALATER- || fail declared
is "$EXPORT/declared" originaNEW
clean

note "a sync fails after it has gone, of what was taken from it before: that is late as well"
: >"$EXPORT/unsynced" && chmod 666 "$EXPORT/unsynced"
failed_syncs() { grep -c "syncing a file failed" "$WORK/kairand.log"; }
node2 "sync declared* other" # no other file's sync is due
before=$(failed_syncs) LOST=$(lost)
order stable.before:hold
on node1 sh -c "printf EARLIER- | dd of='$D/unsynced' conv=notrunc status=none" || fail "node 1 cannot write"
kill -STOP "${DAEMON[node1]}"
order stable.before:eio:1
until_ok 60 "node 1 is lost" is_lost || fail "not lost"
[ "$(failed_syncs)" != "$before" ] || fail "no sync has failed"
node2 "printf LATER | dd of=unsynced seek=2 bs=1 conv=notrunc,fsync status=none"
kill -CONT "${DAEMON[node1]}"
conflict unsynced EARLIER-
is "$EXPORT/unsynced" EALATER-
clean
finish

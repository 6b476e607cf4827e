# A daemon ends at once after the unmount, also when the kernel held attributes until then.
. "$TOP/test/lib.sh"
cluster 1
server_start
M=$(mnt 1)
for round in 1 2 3 4 5; do
	mount_start 1
	on node1 sh -c "echo $round >'$M/file' && stat '$M/file' '$M' && ls -l '$M'" >/dev/null || fail "round $round"
	on node1 umount "$M" || fail "umount"
	until_ok 5 "the end of the daemon" gone "${DAEMON[node1]}" || fail "round $round: the daemon stays"
done
finish

# What the daemons have given up: capabilities, new privileges, system calls; and what they do without them still works. What they keep
# on disks is nobody else's.
# tags: sanitizer
# timeout: 120
. "$TOP/test/lib.sh"
up 1
# of DAEMON FIELD: from the status of each of its threads, once if all agree.
of() { cat "/proc/${DAEMON[$1]}"/task/*/status | sed -n "s/^$2:\t//p" | sort -u | paste -sd' '; }
mask() { local n m=0; for n in "$@"; do m=$((m | 1 << n)); done; printf '%016x' $m; }
touch "$(seen_from_here 1)/file" || fail "no file"     # by now the pools have threads
chown 1:2 "$(seen_from_here 1)/file" && [ "$(stat -c %u:%g "$EXPORT/file")" = 1:2 ] || fail "no chown"
on node1 setpriv --reuid 5 --regid 6 --groups 7 sh -c "! echo x >'$(mnt 1)/file'" 2>/dev/null || fail "permissions are gone"
mknod "$(seen_from_here 1)/null" c 1 3 && [ -c "$EXPORT/null" ] || fail "no device node"

# chown 0, dac_override 1, dac_read_search 2, fowner 3, fsetid 4, setgid 6, setuid 7, net_bind_service 10, ipc_lock 14, sys_ptrace 19,
# sys_admin 21, mknod 27, setfcap 31
server_keeps=$(mask 0 1 2 3 4 6 7 10 14 27 31)
node_keeps=$(mask 2 14 19 21)
[ "$(of server CapPrm)" = "$server_keeps" ] || fail "kairand's capabilities: $(of server CapPrm), not $server_keeps"
[ "$(of node1 CapPrm)" = "$node_keeps" ] || fail "kairanfs's capabilities: $(of node1 CapPrm), not $node_keeps"
for daemon in server node1; do
	for field in CapEff CapBnd; do
		extra=$((0x$(of $daemon $field | tr ' ' '\n' | sort | tail -1) & ~0x$(of $daemon CapPrm)))
		[ $extra = 0 ] || fail "$daemon: $field has more: $(of $daemon $field)"
	done
	[ "$(of $daemon CapInh)" = 0000000000000000 ] || fail "$daemon: inheritable capabilities"
	[ "$(of $daemon NoNewPrivs)" = 1 ] || fail "$daemon may get new privileges"
	case $B in *asan* | *tsan*) ;; *) [ "$(of $daemon Seccomp)" = 2 ] || fail "$daemon: no filter of system calls" ;; esac
done

note "journals, caches and the server's own are closed to others, also in a directory that is not"
for place in "$WORK/node1/local/journal" "$WORK/node1/local/cache" "$WORK/state" "$EXPORT/.kairan"; do
	[ "$(stat -c %a:%u "$place")" = 700:0 ] || fail "$place is $(stat -c %a:%u "$place")"
done
mount_stop 1 || fail "unmount"
rm -r "$WORK/node1/local"
mkdir -m 755 "$WORK/node1/local"
umask 0
mount_start 1
seq 1000 >"$(seen_from_here 1)/file" && cat "$(seen_from_here 1)/file" >/dev/null
for place in "$WORK/node1/local/journal" "$WORK/node1/local/cache"; do
	[ "$(stat -c %a:%u "$place")" = 700:0 ] || fail "$place is $(stat -c %a:%u "$place")"
done
open=$(find "$WORK/node1/local" -mindepth 1 -maxdepth 1 -perm /077)
[ -z "$open" ] || fail "others have rights to $open"
finish

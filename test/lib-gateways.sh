# shellcheck shell=bash disable=SC2034
# Gateways: nodes 1 and 2 have a network filesystem mounted, and each exports it to others: node 1 to node 3, node 2 to node 4.
# The case provides: network_fs_lost I and network_fs_back I: the client on node I is killed, and mounts anew.  use_up_inodes and
# give_back_inodes: in between a new file has the inode number of one that was removed; is_used_again OLD NEW: whether it has.  is_open_still: a
# client may still have a file open that was removed while its gateway was down.

gateway_log() { echo "$WORK/gateway$1.log"; }
# gateway_start I [OPTION...]
gateway_start() {
	local i=$1 before
	shift
	before=$(grep -sc ': ready' "$(gateway_log "$i")")
	nsenter -t "${KEEPER[node$i]}" -n -u -m -- "$B/server/kairand" --listen 0.0.0.0:$PORT --insecure --gateway --lease 5s \
		--state "$WORK/gateway$i" "$@" "$(mnt "$i")" </dev/null >>"$(gateway_log "$i")" 2>&1 &
	DAEMON[gateway$i]=$!
	until_ok 30 "the gateway on node$i" ready_again "$(gateway_log "$i")" "${before:-0}" || fail "$(tail -5 "$(gateway_log "$i")")"
}
gateway_stop() { kill -TERM "${DAEMON[gateway$1]}" && wait "${DAEMON[gateway$1]}"; }
behind() { echo "10.77.1.$(($1 - 2))"; }

# Bytes that are in the journal only: written, not closed, not synced unless that is said.  The program goes on when $WORK/go-NAME appears:
# it writes a "!" after TEXT, makes $WORK/wrote-NAME-more if that write succeeded, and syncs.
writer() { # NODE FILE NAME TEXT [synced]
	nsenter -t "${KEEPER[node$1]}" -n -u -m -- python3 - "$2" "$WORK/go-$3" "$WORK/wrote-$3" "$4" "${@:5}" <<'P' &
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
os.write(fd, sys.argv[4].encode())
if sys.argv[5:]:
    os.fsync(fd)
open(sys.argv[3], "w").close()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
os.pwrite(fd, b"!", len(sys.argv[4]))
open(sys.argv[3] + "-more", "w").close()
os.fsync(fd)
os.close(fd)
P
	WRITER=$!
	until_ok 30 "a program that writes $2" test -e "$WORK/wrote-$3" || fail "nothing is written to $2"
}

gateways_hold() {
	local a b i inode lost turns=${TURNS:-100}
	a=$(mnt 3) b=$(mnt 4)
	gateway_start 1
	gateway_start 2
	for i in 3 4; do SERVER_ADDRESS=$(behind $i) mount_start $i; done

	note "what is closed, made, moved or removed behind one gateway is seen behind the other"
	on node3 sh -c "cp -a /usr/include/linux '$a/linux' && mkdir -m 711 '$a/d' && ln -s linux '$a/link' && chown 12:34 '$a/d'" || fail "writing"
	until_ok 5 "the tree behind the other" diff -r /usr/include/linux "$(seen_from_here 4)/linux" || fail "another tree"
	[ "$(on node4 stat -c '%a %u %g %F' "$b/d")" = "711 12 34 directory" ] && [ "$(on node4 readlink "$b/link")" = linux ] || fail "attributes: $(on node4 ls -la "$b")"
	on node4 mv "$b/linux" "$b/d/moved" || fail "mv"
	until_ok 5 "a rename" on node3 test ! -e "$a/linux" -a -d "$a/d/moved" || fail "the rename is not seen"
	for i in $(seq $turns); do
		on node3 sh -c "echo $i >'$a/turns'"
		until_ok 5 "turn $i" sh -c "[ \"\$(cat '$(seen_from_here 4)/turns')\" = $i ]" || fail "turn $i: $(on node4 cat "$b/turns")"
	done
	as_user() { local node=$1; shift; on "node$node" setpriv --reuid=1000 --regid=1000 --clear-groups "$@"; }
	on node3 sh -c "mkdir '$a/user' && chown 1000:1000 '$a/user' && echo secret >'$a/secret' && chmod 600 '$a/secret'" || fail "chown"
	as_user 3 sh -c "umask 027 && echo mine >'$a/user/file'" || fail "a user cannot write"
	until_ok 5 "a user's file" sh -c "[ \"\$(stat -c '%a %u %g' '$(seen_from_here 4)/user/file')\" = '640 1000 1000' ]" || fail "$(on node4 ls -ln "$b/user")"
	as_user 4 cat "$b/secret" 2>/dev/null && fail "a user reads root's file"
	! on node3 ls -a "$a" | grep -q kairan-gateway || fail "the gateways' own directories are listed"
	on node3 mkdir "$a/.kairan-gateway-x" 2>/dev/null && fail "a name of the gateways'"

	note "a program that has a file open sees another ring's change"
	on node3 sh -c "printf before >'$a/open'"
	on node4 sh -c "exec 3<'$b/open'; cat <&3 >'$WORK/first'; touch '$WORK/opened'
		for i in \$(seq 100); do cat '/proc/self/fd/3' >'$WORK/later'; grep -q after '$WORK/later' && exit; sleep 0.1; done; exit 1" &
	i=$!
	until_ok 10 "open" test -e "$WORK/opened"
	on node3 sh -c "printf after. >'$a/open'"
	wait $i || fail "still $(cat "$WORK/later") after 10 s"
	[ "$(cat "$WORK/first")" = before ] || fail "$(cat "$WORK/first")"

	note "locks"
	on node3 flock -n "$a/open" true 2>"$WORK/said" && fail "a lock that the other gateway does not know of"
	grep -qi "no locks available" "$WORK/said" || fail "a refused lock: $(cat "$WORK/said")"

	note "moved behind the other gateway, or one of two names removed, while a program has it open: its bytes come there"
	for i in 1 2 3 4; do
		writer 4 "$b/moving$i" "moving$i" "first" synced
		until_ok 10 "the new file" on node3 test -e "$a/moving$i" || fail "moving$i is not seen"
		on node3 sh -c "[ $i -gt 2 ] || exec mv '$a/moving$i' '$a/d/came$i'; ln '$a/moving$i' '$a/d/came$i' && rm '$a/moving$i'" || fail "moving$i"
		sleep 2.$i # the gateway's network filesystem forgets where it was
		touch "$WORK/go-moving$i"
		wait $WRITER || fail "a program that has a file open gets an error, because another moves it"
		until_ok 10 "its bytes" sh -c "[ \"\$(cat '$(seen_from_here 3)/d/came$i')\" = 'first!' ]" || fail "behind the other: $(on node3 cat "$a/d/came$i")"
	done

	note "kill -9 of a gateway's kairand"
	writer 3 "$a/kept" gateway "written before"
	killed gateway1
	gateway_start 1 --localflock
	touch "$WORK/go-gateway"
	wait $WRITER || fail "a program does not go on after the gateway's restart"
	until_ok 5 "its bytes" sh -c "[ \"\$(cat '$(seen_from_here 4)/kept')\" = 'written before!' ]" || fail "behind the other: $(on node4 cat "$b/kept")"
	on node3 flock -n "$a/open" true || fail "no lock with --localflock"

	note "kill -9 of the network filesystem's client on a gateway"
	writer 3 "$a/kept2" client "written before"
	on node3 sh -c "dd if=/dev/urandom of='$WORK/random' bs=1M count=8 2>/dev/null; dd if='$WORK/random' of='$a/random' bs=1M 2>/dev/null"
	network_fs_lost 1
	until_ok 30 "the end of its kairand" gone "${DAEMON[gateway1]}" || fail "kairand serves without its filesystem"
	grep -q "has ended, so kairand ends" "$(gateway_log 1)" || fail "$(tail -3 "$(gateway_log 1)")"
	network_fs_back 1
	gateway_start 1
	touch "$WORK/go-client"
	wait $WRITER || fail "a program does not go on after the client's restart"
	until_ok 5 "its bytes" sh -c "[ \"\$(cat '$(seen_from_here 4)/kept2')\" = 'written before!' ]" || fail "behind the other: $(on node4 cat "$b/kept2")"
	cmp "$WORK/random" "$(seen_from_here 4)/random" || fail "8 MiB"

	note "removed behind the other gateway while its own one is down, and a new file with the former inode number: late bytes of the old one"
	for i in 1 2 3; do
		on node3 sh -c "echo old >'$a/gone$i'"
		inode=$(on node4 stat -c %i "$b/gone$i")
		use_up_inodes
		writer 3 "$a/gone$i" "gone$i" "late bytes" # which the gateway asks for within 2 s
		killed gateway1
		on node4 rm "$b/gone$i" || fail "rm"
		until_ok 30 "a new file" on node4 sh -c "echo new >'$b/other$i'" || fail "no new file"
		is_used_again "$inode" "$(on node4 stat -c %i "$b/other$i")" || fail "another inode number"
		gateway_start 1
		touch "$WORK/go-gone$i"
		wait $WRITER && lost=no || lost=yes
		[ "$(on node4 cat "$b/other$i")" = new ] || fail "late bytes in another file: $(on node4 cat "$b/other$i")"
		give_back_inodes
		[ $lost = yes ] || is_open_still || fail "no error of a file that is gone"
		[ $lost = yes ] || continue
		until_ok 60 "a conflict file" kairan 3 flush -q "$a" || fail "late bytes stay in the journal"
		on node4 sh -c "cat '$b/gone$i'.*conflict*" >"$WORK/said" || fail "no conflict file: $(on node4 ls -a "$b")"
		grep -q "late bytes$([ ! -e "$WORK/wrote-gone$i-more" ] || echo '!')" "$WORK/said" || fail "the conflict file: $(cat "$WORK/said")"
	done

	note "a server that is no gateway"
	mkdir -p "$WORK/alone"
	on node1 timeout 20 "$B/server/kairand" --listen "127.0.0.1:$((PORT + 1))" --state "$WORK/alone" "$(mnt 1)" >"$WORK/said" 2>&1 && fail "two servers, and one does not know"
	grep -q "exported by another kairand already" "$WORK/said" || fail "$(cat "$WORK/said")"

	for i in 3 4; do mount_stop $i || fail "node$i: $?"; done
	for i in 1 2; do gateway_stop $i || fail "gateway $i: exit status $?"; done
}

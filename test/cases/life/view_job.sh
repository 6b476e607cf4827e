# The nodes of a job share files on the disk of the node that came first (-o view=job): who gets in, what the members see and the file server does
# not, what a kill of each process does, and what is left.
# tags: sanitizer long
# timeout: 240
. "$TOP/test/lib.sh"
LEASE=$((3 * SLOW))
PATH=$PATH:$B/server
cluster 3
"$B/tools/kairan" key "$WORK/key" >/dev/null || fail "kairan key"
server() { # of a site with a key
	local lines=0
	[ ! -f "$WORK/kairand.log" ] || lines=$(wc -l <"$WORK/kairand.log")
	nsenter -t "${KEEPER[server]}" -n -u -m -- "$B/server/kairand" --listen 0.0.0.0:$PORT --key "$WORK/key" \
		--state "$WORK/state" --lease ${LEASE}s "$EXPORT" </dev/null >>"$WORK/kairand.log" 2>&1 &
	DAEMON[server]=$!
	until_ok 30 "kairand" sh -c "tail -n +$((lines + 1)) '$WORK/kairand.log' | grep -q ready" || fail "kairand did not start"
}
at() { echo "$WORK/node$1/$2"; } # NODE JOB
seen() { echo "/proc/${KEEPER[node$1]}/root$WORK/node$1/$2"; }
# job NODE JOB [OPTION,...]: in the background, so that its pid is known.
job() {
	mkdir -p "$(at "$1" "$2")"
	nsenter -t "${KEEPER[node$1]}" -n -u -m -- "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(at "$1" "$2")" -f \
		-o "view=job,job=$2,key=$WORK/key,local=$WORK/node$1/local/$2${3:+,$3}" </dev/null >>"$WORK/node$1/log" 2>&1 &
	DAEMON[$1.$2]=$!
}
mounted() { on "node$1" grep -q " $(at "$1" "$2") fuse.kairanfs" /proc/mounts && on "node$1" timeout -s KILL 5 stat "$(at "$1" "$2")/."; }
joined() { until_ok 15 "node$1 in job $2" mounted "$1" "$2" || { tail -5 "$WORK/node$1/log" >&2; fail "node$1 is not in job $2"; }; }
enter() { job "$@"; joined "$1" "$2"; }
# A head's processes: its mount's child, and that one's.
keeper() { pgrep -P "${DAEMON[$1.$2]}"; }
kairand_of() { pgrep -P "$(keeper "$1" "$2")"; }
nothing_left() { until_ok 10 "the end of job $2 on node$1" test ! -e "$WORK/node$1/local/$2" || fail "left on node$1: $(find "$WORK/node$1/local/$2" | head -5)"; }
# leave NODE JOB: by umount.
leave() {
	kairan "$1" umount "$(at "$1" "$2")" >"$WORK/said" 2>&1 || fail "umount of job $2 on node$1: $(cat "$WORK/said")"
	wait "${DAEMON[$1.$2]}" || fail "the daemon of job $2 on node$1: exit status $?"
	nothing_left "$1" "$2"
}
# lost NODE JOB HEAD: the head is gone.  Nothing hangs, the log tells which node that was, the unmount is at once.
lost() {
	until_ok 10 "the daemon's end on node$1" gone "${DAEMON[$1.$2]}" || fail "node$1 goes on without a head"
	on "node$1" timeout -s KILL 5 ls "$(at "$1" "$2")" >"$WORK/said" 2>&1 && fail "node$1 goes on without a head"
	grep -qE "not connected|connection abort" "$WORK/said" || fail "node$1: $(cat "$WORK/said")"
	grep -q "the head of job $2, node node$3 .*, is gone" "$WORK/node$1/log" || fail "the log of node$1: $(tail -3 "$WORK/node$1/log")"
	kairan "$1" umount "$(at "$1" "$2")" >/dev/null 2>&1
	[ $? = 1 ] && ! on "node$1" grep -q " $(at "$1" "$2") " /proc/mounts || fail "the unmount on node$1"
}
refused() { # NODE EXPRESSION COMMAND...
	local node=$1 expected=$2
	shift 2
	on "node$node" "$@" >"$WORK/said" 2>&1 && fail "accepted: $*"
	grep -qE "$expected" "$WORK/said" || fail "$*: $(cat "$WORK/said")"
}
unflushed() { python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], "user.kairan.unflushed").decode())' "$1"; }
bytes_of_server() { ip -j -s link show dev v-server | python3 -c 'import json, sys; s = json.load(sys.stdin)[0]["stats64"]; print(s["rx"]["bytes"] + s["tx"]["bytes"])'; }
EXPECTED_ERRORS='the kairand of job . has ended'

note "three come at once, one is head"
server
for node in 1 2 3; do job $node a; done
for node in 1 2 3; do joined $node a; done
heads=
for node in 1 2 3; do [ -z "$(keeper $node a)" ] || heads="$heads$node"; done
case $heads in 1 | 2 | 3) head=$heads member=$((heads % 3 + 1)) other=$(((heads + 1) % 3 + 1)) ;; *) fail "heads: $heads" ;; esac
[ "$(stat -c %a "$WORK/node$head/local/a/kairan-job/key" "$WORK/node$head/local/a" | tr '\n' ' ')" = "600 700 " ] || fail "others can read the key"

note "what one writes stays on its disk until others ask for it; they see it, and the file server gets none of it"
before=$(bytes_of_server)
dd if=/dev/urandom of="$(seen $member a)/big" bs=1M count=16 2>/dev/null || fail "writing"
[ "$(unflushed "$(seen $member a)/big")" = $((16 << 20)) ] || fail "$(unflushed "$(seen $member a)/big") bytes are not flushed"
sum=$(md5sum <"$(seen $member a)/big")
[ "$(stat -c %s "$(seen $head a)/big")" = $((16 << 20)) ] && [ "$(unflushed "$(seen $member a)/big")" = $((16 << 20)) ] || fail "a look makes it travel"
for node in $head $other; do [ "$(md5sum <"$(seen $node a)/big")" = "$sum" ] || fail "node$node reads other bytes"; done
[ "$(unflushed "$(seen $member a)/big")" = 0 ] || fail "others have read what is not flushed"
on node$head sh -c "mkdir $(at $head a)/d && echo of the head >$(at $head a)/d/f"
[ "$(on node$other cat "$(at $other a)/d/f")" = "of the head" ] || fail "a member does not see what the head wrote"
python3 "$TOP/test/programs/history.py" --seed "${HISTORY_SEED:-1}" --seconds 2 "$(seen 1 a)" "$(seen 2 a)" "$(seen 3 a)" >"$WORK/history" || fail "history: $(tail -3 "$WORK/history")"
mkdir "$WORK/random" "$(seen $member a)/random"
on node$member python3 "$TOP/test/programs/differential.py" --seed "${DIFFERENTIAL_SEED:-$RANDOM}" --ops 500 "$WORK/random" "$(at $member a)/random" >"$WORK/differential" ||
	fail "differential: $(tail -3 "$WORK/differential")"
kairan $member status --check "$(at $member a)" >"$WORK/said" || fail "status: $(cat "$WORK/said")"
[ -z "$(ls -A "$EXPORT" | grep -v '^\.kairan$')" ] || fail "in the export: $(ls -A "$EXPORT")"
sent=$(($(bytes_of_server) - before))
[ $sent -lt 300000 ] || fail "$sent bytes passed the file server's link"

note "what nodes have cached of a new file stays, and they know its attributes without asking"
on node$member cp "$(at $member a)/big" "$(at $member a)/fresh" && kairan $member stage --wait "$(at $member a)/fresh" >/dev/null || fail "kairan stage"
sleep 3 # a kairand that looked at files for changes by others would have taken the flush for one
for node in $head $member $other; do
	kairan $member where "$(at $member a)/fresh" | grep -q "node$node  *16.0 MiB cached" || fail "node$node has lost it: $(kairan $member where "$(at $member a)/fresh")"
done
[ "$(kairan $member status --json "$(at $member a)" | python3 -c 'import json, sys; print(json.load(sys.stdin)["notes"]["known"] > 0)')" = True ] ||
	fail "node$member asks for each name"

note "who reads its part of a file that others write, too, sends its bytes in the same round as they do"
python3 - "$(seen 1 a)/parts" "$(seen 2 a)/parts" "$(seen 3 a)/parts" <<'P' || fail "writing"
import os, sys
files = [os.open(path, os.O_WRONLY | os.O_CREAT) for path in sys.argv[1:]]
for place, fd in enumerate(files, 1):
    os.pwrite(fd, os.urandom(1 << 20), place << 20)
P
for node in 1 2 3; do [ "$(unflushed "$(seen $node a)/parts")" = $((1 << 20)) ] || fail "node$node has $(unflushed "$(seen $node a)/parts") unflushed bytes"; done
dd if="$(seen $member a)/parts" of=/dev/null bs=1M skip=$member count=1 2>/dev/null || fail "reading"
sent_too() { [ "$(unflushed "$(seen $member a)/parts")" = 0 ]; }
until_ok 5 "the reader's own bytes at the head" sent_too || fail "it keeps $(unflushed "$(seen $member a)/parts") bytes, until others ask"
parts=$(md5sum <"$(seen $head a)/parts")
for node in $member $other; do [ "$(md5sum <"$(seen $node a)/parts")" = "$parts" ] || fail "node$node reads other bytes"; done

note "too much of it travels: many files, many pieces, a journal that is nearly full"
python3 - "$(seen $member a)" <<'P' || fail "writing"
import os, sys
os.mkdir(sys.argv[1] + "/many")
for i in range(2100):
    with open("%s/many/%d" % (sys.argv[1], i), "w") as file:
        file.write("small")
pieces = os.open(sys.argv[1] + "/pieces", os.O_CREAT | os.O_WRONLY)
for i in range(17000):
    os.pwrite(pieces, b"x", 2 * i)
P
few_wait() { kairan $member status --json "$(at $member a)" | python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)["backlog"]["files"] > 100)'; }
until_ok 20 "the flush of many files" few_wait || fail "2100 files wait"
few_pieces() { [ "$(unflushed "$(seen $member a)/pieces")" -lt 16384 ]; }
until_ok 20 "the flush of many pieces" few_pieces || fail "$(unflushed "$(seen $member a)/pieces") pieces wait"
enter $other full journal_max=16M
dd if=/dev/urandom of="$(seen $other full)/file" bs=1M count=14 2>/dev/null || fail "writing"
# The round may begin before all is written; then the rest, which is less than three quarters of the journal, stays.
travelled() { [ "$(unflushed "$(seen $other full)/file")" -le $((2 << 20)) ]; }
until_ok 20 "a flush" travelled || fail "a journal that is nearly full waits"
leave $other full

note "its key has no age, and bench measures no link that it does not know"
kairan $member doctor "$(at $member a)" >"$WORK/said"
grep -q "^  ok  *key: node key .*/kairan-job/key, of this job alone$" "$WORK/said" || fail "doctor: $(cat "$WORK/said")"
kairan $member bench "$(at $member a)" >"$WORK/said" 2>&1 &&
	! grep -q "^link" "$WORK/said" && grep -q "^  create  *[0-9]" "$WORK/said" ||
	fail "bench: $(cat "$WORK/said")"

note "who gets in"
refused $other "there is no key|wants a key" "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt $other)" -o "view=job,job=a,local=$WORK/node$other/local/x"
mkdir "$WORK/user" "$WORK/user/mnt" && cp "$WORK/key" "$WORK/user/key" && chown -R daemon: "$WORK/user" && chmod a+x "$WORK" "$WORK/.."
refused $head "only root and who has mounted it may" setpriv --reuid 1 --clear-groups "$B/tools/kairan" umount "$(at $head a)"
port=$(grep -o "serves it at [^ ]*" "$WORK/node$head/log" | tail -1 | cut -d' ' -f4)
refused $other "does not accept|wants a key|its key|has no such key" "$B/fuse/kairanfs" "$port:/" "$(mnt $other)" -o "key=$WORK/key,local=$WORK/node$other/local/x,connect_timeout=1"

note "the server's status tells which node has the job's files"
kairan $other status --key "$WORK/key" $SERVER_ADDRESS >"$WORK/said" || fail "status of the server: $(cat "$WORK/said")"
grep -qE "^  job  *a of user 0: its files are on node node$head, ${port%:*} port ${port##*:}, heard of .* ago$" "$WORK/said" ||
	fail "the server does not tell of job a at $port: $(cat "$WORK/said")"
[ "$(grep -c "^  job " "$WORK/said")" = 1 ] || fail "more jobs than one: $(cat "$WORK/said")"

note "another job on the same nodes"
enter $member b && enter $head b && enter $other b
[ -n "$(keeper $member b)" ] && [ -z "$(keeper $head b)" ] || fail "the head of job b"
[ -z "$(on node$head ls -A "$(at $head b)")" ] || fail "one job sees the other's files"
on node$head sh -c "echo b >$(at $head b)/log"
[ "$(on node$other cat "$(at $other b)/log")" = b ] && [ ! -e "$(seen $other a)/log" ] || fail "one job's file is in the other"

note "kill -9 of a member"
on node$other sh -c "echo kept >$(at $other a)/kept; sync $(at $other a)/kept"
dd if="$(seen $other a)/big" of="$(seen $other a)/copy" bs=1M 2>/dev/null && [ "$(unflushed "$(seen $other a)/copy")" -gt 0 ] || fail "copying"
kill -KILL "${DAEMON[$other.a]}"
wait "${DAEMON[$other.a]}" 2>/dev/null
"$B/tools/kairan" journal "$WORK/node$other/local/a" >"$WORK/said" 2>&1 && fail "kairan journal finds one there"
grep -q "whose journal is in .*/kairan-job/mount" "$WORK/said" || fail "kairan journal: $(cat "$WORK/said")"
on node$head sh -c "echo on >$(at $head a)/on" || fail "a member's death disturbs the head"
enter $other a
[ "$(on node$other cat "$(at $other a)/kept" "$(at $other a)/on" | tr '\n' ' ')" = "kept on " ] || fail "a member that came back sees something else"
[ "$(md5sum <"$(seen $head a)/copy")" = "$sum" ] || fail "bytes of a killed member are lost"

note "a member that is unmounted by force while the head does not answer, and comes back"
on node$other sh -c "echo forced >$(at $other a)/forced"
kill -STOP "$(kairand_of $head a)"
kairan $other umount --force "$(at $other a)" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "the next mount with the same local directory sends it" "$WORK/said" || fail "umount --force: $(cat "$WORK/said")"
wait "${DAEMON[$other.a]}"
kill -CONT "$(kairand_of $head a)"
grep -q "kairan-job keeps what the head has not got, for this node's next mount of job a" "$WORK/node$other/log" || fail "the log: $(tail -3 "$WORK/node$other/log")"
enter $other a
[ "$(cat "$(seen $head a)/forced")" = forced ] || fail "bytes of before a forced unmount are lost"

note "the site's kairand is killed and comes back: the job goes on, and has the same head"
server_kill
on node$member sh -c "echo without >$(at $member a)/without" && [ "$(cat "$(seen $other a)/without")" = without ] || fail "the job needs the site's kairand"
job $other h connect_timeout=3
wait "${DAEMON[$other.h]}" && fail "a job begins without the site's kairand"
tail -2 "$WORK/node$other/log" | grep -q "trying again for [0-9.]* s (connect_timeout)" || fail "the log: $(tail -2 "$WORK/node$other/log")"
leave $other a
job $other a
server
joined $other a
[ -z "$(keeper $other a)" ] && [ "$(cat "$(seen $other a)/without")" = without ] || fail "a second head"

note "a member unmounts, the head ends the job, without a flush of what it has"
dd if="$(seen $head a)/big" of="$(seen $head a)/unflushed" bs=1M 2>/dev/null && [ "$(unflushed "$(seen $head a)/unflushed")" -gt 0 ] || fail "the head flushes"
on node$other sh -c "echo last >$(at $other a)/last"
leave $other a
[ "$(cat "$(seen $head a)/last")" = last ] || fail "a member's last bytes are lost"
leave $head a
lost $member a $head
nothing_left $member a

note "the head goes while a member flushes, and unmounts"
enter $head g && enter $member g
echo x >"$(seen $member g)/x"
kairand=$(kairand_of $head g)
kill -STOP "$kairand"
kairan $member umount "$(at $member g)" >"$WORK/said" 2>&1 &
umount=$!
until_ok 20 "a flush that waits" grep -q "of 2 bytes sent" "$WORK/said" || fail "kairan umount: $(cat "$WORK/said")"
kill -KILL "$kairand"
wait $umount
[ $? = 1 ] && ! mounted $member g || fail "the unmount of a member whose head goes: $(cat "$WORK/said")"
lost $head g $head
nothing_left $member g
nothing_left $head g

note "kill -9 of a head's kairand: all find it gone"
kill -KILL "$(kairand_of $member b)"
for node in 1 2 3; do lost $node b $member; done
for node in 1 2 3; do nothing_left $node b; done

note "kill -9 of a head, and of the process that keeps its files"
enter $head c && enter $member c && enter $other d && enter $member d
kairand=$(kairand_of $head c)
echo x >"$(seen $head c)/x"
kill -KILL "${DAEMON[$head.c]}"
wait "${DAEMON[$head.c]}" 2>/dev/null
lost $member c $head
nothing_left $member c
until_ok 10 "the end of its kairand" gone "$kairand" || fail "kairand outlives the head"
until_ok 5 "the files' removal" test ! -e "$WORK/node$head/local/c/kairan-job" || fail "left by a killed head: $(find "$WORK/node$head/local/c" | head -5)"
kairan $head umount "$(at $head c)" >/dev/null 2>&1
enter $head c
[ -z "$(ls -A "$(seen $head c)")" ] || fail "files of a job before"
leave $head c
kairand=$(kairand_of $other d)
kill -KILL "$(keeper $other d)"
until_ok 10 "the end of its kairand" gone "$kairand" || fail "kairand outlives its keeper"
lost $member d $other
lost $other d $other
nothing_left $member d
nothing_left $other d

if grep -q KR_FAULT "$B/fuse/kairanfs"; then
	note "a head that ends while a node joins: the mount fails at once, and a second try begins the job anew"
	enter $head h
	echo job.joined:stop:1 >"$WORK/fault"
	KR_FAULT="@$WORK/fault" job $member h connect_timeout=60
	until_ok 15 "a node that has been told the head" grep -q "State:.T" "/proc/${DAEMON[$member.h]}/status"
	leave $head h
	kill -CONT "${DAEMON[$member.h]}"
	until_ok 5 "the end of a mount without a head" gone "${DAEMON[$member.h]}" || fail "node$member waits for a head that has ended"
	grep -q "the head of job h, node node$head .*, has just ended; mount again" "$WORK/node$member/log" || fail "the log: $(tail -3 "$WORK/node$member/log")"
	nothing_left $member h
	enter $member h
	leave $member h
fi

note "a head that cannot be reached"
enter $head f && enter $member f timeo=1
on node$member ip route add unreachable 10.77.1.$head || fail "no route"
lost $member f $head
on node$member ip route del unreachable 10.77.1.$head
nothing_left $member f
enter $member f timeo=1
on node$member sh -c "echo late >$(at $member f)/late"
[ "$(unflushed "$(seen $member f)/late")" = 5 ] || fail "flushed already"
on node$member ip route add unreachable 10.77.1.$head || fail "no route"
lost $member f $head
on node$member ip route del unreachable 10.77.1.$head
enter $member f
[ "$(cat "$(seen $head f)/late")" = late ] || fail "what a member had not sent when it did not reach the head is lost"
leave $member f
leave $head f

note "an ordinary user, in the background: nothing keeps the caller's terminal busy"
mknod -m 666 "$WORK/fuse" c 10 229 && on node1 mount --bind "$WORK/fuse" /dev/fuse && on node2 mount --bind "$WORK/fuse" /dev/fuse || fail "no /dev/fuse for all"
as() { on "node$1" setpriv --reuid daemon --regid daemon --clear-groups env XDG_RUNTIME_DIR="$WORK/user/run" "${@:2}"; }
enter 3 u && on node3 sh -c "echo theirs >$(at 3 u)/file" # root's job of this name is another
as 1 mkdir "$WORK/user/run" "$WORK/user/mnt1" "$WORK/user/mnt2"
for node in 1 2; do
	said=$(as $node timeout -s KILL 30 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$WORK/user/mnt$node" -o "view=job,job=u,key=$WORK/user/key,local=$WORK/user/local$node" 2>&1) ||
		fail "a user's view=job: $said"
	[ -z "$said" ] || fail "said to the caller: $said"
done
as 1 sh -c "mkdir $WORK/user/mnt1/d && chmod 0 $WORK/user/mnt1/d && echo mine >$WORK/user/mnt1/file"
[ "$(as 2 cat "$WORK/user/mnt2/file")" = mine ] && [ "$(cat "$(seen 3 u)/file")" = theirs ] || fail "a user's members"
leave 3 u
on node2 umount "$WORK/user/mnt2" && on node1 umount "$WORK/user/mnt1" || fail "umount of a user's" # fusermount3 wants /etc/mtab
for node in 1 2; do until_ok 10 "the end of a user's" test ! -e "$WORK/user/local$node" || fail "left of a user's: $(find "$WORK/user/local$node" | head -5)"; done

note "its defaults are printed"
"$B/fuse/kairanfs" fs1:/ "$(mnt 1)" -o view=job,job=a,flush_age=7 --print-config >"$WORK/said" || fail "--print-config"
[ "$(grep -cE '"(close": "async|flush_age": "7s|flush_backlog": "18446744073709551615)",' "$WORK/said")" = 3 ] ||
	fail "$(cat "$WORK/said")"

note "what makes no sense"
refused 1 'job: only with view=job' "$B/fuse/kairanfs" fs1:/ "$(mnt 1)" -o job=a
refused 1 'job=NAME names the job' "$B/fuse/kairanfs" fs1:/ "$(mnt 1)" -o view=job
refused 1 'job=NAME names the job' "$B/fuse/kairanfs" fs1:/ "$(mnt 1)" -o "view=job,job=a/b"
refused 1 'nothing is below' "$B/fuse/kairanfs" fs1:/sub "$(mnt 1)" -o view=job,job=a
refused 1 'write none|what to mount' "$B/fuse/kairanfs" none "$(mnt 1)" -o view=job,job=a
mkdir "$WORK/node1/local/used" && echo mine >"$WORK/node1/local/used/identity" && chmod 700 "$WORK/node1/local/used"
refused 1 'holds identity' "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt 1)" -o "view=job,job=e,key=$WORK/key,local=$WORK/node1/local/used"
refused 1 'cannot keep a limit' "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt 1)" -o "view=job,job=e,key=$WORK/key,size=1G,local=$WORK/node1/local/e"
PATH=/usr/bin:/bin:/usr/sbin:/sbin refused 1 'kairand has ended at its start' "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt 1)" -o "view=job,job=e,key=$WORK/key,local=$WORK/node1/local/e"
[ ! -e "$WORK/node1/local/e" ] || fail "left of what failed: $(find "$WORK/node1/local/e")"
enter 2 e && leave 2 e # the name is free
server_stop
check_logs || fail "the logs"

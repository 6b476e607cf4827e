# Where the machine has an /etc/kairan/kairan.json: tests and demo run beside it, and lists on the command line replace
# those of the file.
mkdir -p "$WORK/etc" && cp -a /etc/. "$WORK/etc" && mkdir -p "$WORK/etc/kairan" && mount --bind "$WORK/etc" /etc || exit 1
cat >/etc/kairan/kairan.json <<-FILE
	{
	  "server": {"listen": ["10.77.9.9:7440"], "allow": ["10.1.0.0/16"], "key": ["$WORK/key-file"]},
	  "mount": {"key": "$WORK/key-file", "flush_age": "7s"}
	}
FILE
cp /etc/kairan/kairan.json "$WORK/file.json"
"$B/test/unit/test_mount_options" >"$WORK/said" 2>&1 || { cat "$WORK/said"; exit 1; }
ip link set lo up
B=$B "$TOP/test/demo-one-machine" >"$WORK/said" 2>&1 && grep -q 'unmounted, all on the server' "$WORK/said" || { cat "$WORK/said"; exit 1; }

. "$TOP/test/lib.sh"
up 2
on node1 sh -c "echo beside >'$(mnt 1)/file'" && [ "$(on node2 cat "$(mnt 2)/file")" = beside ] || fail "a cluster beside the file"
mount_stop 1 && mount_stop 2 && server_stop || fail "no clean end"

for key in file line; do "$B/tools/kairan" key "$WORK/key-$key" >/dev/null || fail "no key"; done
cp "$WORK/file.json" /etc/kairan/kairan.json # one for all hosts
nsenter -t "${KEEPER[server]}" -n -u -m -- "$B/server/kairand" --listen 0.0.0.0:$PORT --allow 10.77.0.0/16 --key "$WORK/key-line" \
	--state "$WORK/state" "$EXPORT" </dev/null >>"$WORK/keys.log" 2>&1 &
DAEMON[server]=$!
until_ok 30 "kairand ready, on the command line's address only" grep -q ready "$WORK/keys.log" || fail "$(cat "$WORK/keys.log")"
try() { on node1 timeout 60 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt 1)" \
	-o "local=$WORK/node1/local,connect_timeout=2$1" >"$WORK/said" 2>&1; }
! try "" || fail "the key that only the file names is let in"
grep -q 'key' "$WORK/said" || fail "refused for another reason: $(cat "$WORK/said")"
try ",key=$WORK/key-line" || fail "with the command line's key: $(cat "$WORK/said")"
[ "$(on node1 cat "$(mnt 1)/file")" = beside ] || fail "the mount"
kairan 1 umount "$(mnt 1)" || fail "umount"
finish

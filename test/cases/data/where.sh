# kairan where and user.kairan.nodes: which nodes hold how much of files and trees, also after a new mount; a dispatcher that places tasks by it
# (docs/examples/near) takes almost nothing from the server.
# tags: sanitizer
. "$TOP/test/lib.sh"
cluster 3
server_start
mount_start 1
mount_start 2
mount_start 3 flush_age=600
SIZE=1000000
mkdir "$EXPORT/in" && for i in $(seq 12); do head -c $SIZE /dev/urandom >"$EXPORT/in/$i"; done
(umask 077; echo secret >"$EXPORT/closed")
counted() { local before; before=$(sent_by server); "$@"; local result=$?; sent=$(($(sent_by server) - before)); return $result; }
where() { kairan "$1" where "${@:2}" >"$WORK/said" 2>&1; }
attribute() { on "node$1" python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], "user.kairan.nodes").decode())' "$(mnt "$1")/$2"; }

note "nobody, a reader, part of a file"
[ "$(attribute 1 in/1)" = "" ] || fail "unread: $(attribute 1 in/1)"
on node2 sh -c "cat $(mnt 2)/in/1" >/dev/null
[ "$(attribute 1 in/1)" = "node2=$SIZE" ] || fail "read: $(attribute 1 in/1)"
on node3 dd if="$(mnt 3)/in/1" of=/dev/null bs=4096 count=1 skip=200 status=none
read -r first second rest <<<"$(attribute 1 in/1)"
[ "$first" = "node2=$SIZE" ] && [[ $second = node3=131072 || $second = node3=180800 ]] && [ -z "$rest" ] || fail "part: $(attribute 1 in/1)"
[ "$(on node1 python3 -c 'import os, sys; print(os.listxattr(sys.argv[1]))' "$(mnt 1)/in/1")" = "[]" ] || fail "it is listed"

note "unflushed bytes, of a file that stays open"
on node3 python3 - "$(mnt 3)/written" "$B/tools/kairan" <<'P' || fail "unflushed bytes"
import json, os, subprocess, sys
# One that is begun later closes its copy of the descriptor, which flushes.
kairan = subprocess.Popen(["sh", "-c", 'read -r go; exec "$0" where "$1"', sys.argv[2], sys.argv[1]],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, bytes(300000))
where = json.loads(os.getxattr(sys.argv[1], "user.kairan.nodes.json"))
node, = where["nodes"]
assert node["node"] == "node3" and node["unflushed"] == 300000 and node["bytes"] == 300000, where
assert os.getxattr(sys.argv[1], "user.kairan.nodes") == b"node3=300000"
said = kairan.communicate("go\n")[0]
assert "/written: 293.0 KiB\n" in said and " 0 bytes cached, 293.0 KiB unflushed\n" in said, said
P

note "trees, and files that may not be read"
counted where 1 "$(mnt 1)/in" || fail "where: $(cat "$WORK/said")"
[ "$sent" -lt 100000 ] || fail "asking moved $sent bytes"
grep -q "/in: 11.4 MiB in 12 files$" "$WORK/said" && grep -q "^  node2 .* 976.6 KiB cached$" "$WORK/said" || fail "where: $(cat "$WORK/said")"
where 1 --files "$(mnt 1)/in" && [ "$(grep -c ', on no node$' "$WORK/said")" = 11 ] || fail "where --files: $(cat "$WORK/said")"
chmod 755 "$WORK" "$WORK/node1" "$(seen_from_here 1)"
on node1 setpriv --reuid 1001 --regid 1001 --clear-groups "$B/tools/kairan" where --nodes "$(mnt 1)/in" "$(mnt 1)/closed" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "/closed: Permission denied$" "$WORK/said" && grep -q "^node2=$SIZE node3=" "$WORK/said" || fail "another user: $(cat "$WORK/said")"
ln -s in/1 "$EXPORT/named"
where 1 "$(mnt 1)/named" && grep -q "/named: 976.6 KiB" "$WORK/said" || fail "a symbolic link: $(cat "$WORK/said")"
where 1 /etc
[ $? = 2 ] && grep -q "does not lie on a mount" "$WORK/said" || fail "/etc: $(cat "$WORK/said")"

note "tasks near data: a first job has spread the inputs, a later one reads them again"
for i in $(seq 12); do n=$((i * 7 / 4 % 3 + 1)); on node$n sh -c "cat $(mnt $n)/in/$i" >/dev/null; done
for i in 1 2 3; do kairan $i umount "$(mnt $i)" || fail "umount"; done
mounts_start
cat >"$WORK/run" <<R
#!/bin/bash
node=\$1
shift
echo "\$node" >>$WORK/places
case \$node in
$(for i in 1 2 3; do echo "node$i) MNT=$(mnt $i) nsenter -t ${KEEPER[node$i]} -n -u -m -- \"\$@\" ;;"; done)
esac
R
chmod +x "$WORK/run"
mkdir "$WORK/bin" && ln -s "$B/tools/kairan" "$WORK/bin/kairan"
export PATH="$WORK/bin:$PATH" NEAR_NODES="node1 node2 node3" NEAR_SLOTS=2 NEAR_RUN="$WORK/run" NEAR_DIR="$WORK/slots"
# shellcheck disable=SC2016
near() {
	seq 12 | on node1 xargs -P 4 -I NAME "$TOP/docs/examples/near" "$(mnt 1)/in/NAME" -- sh -c 'sha256sum <"$MNT/in/$1" >>"$0/sums"' "$WORK" NAME
}
# shellcheck disable=SC2016
in_turn() {
	for i in $(seq 12); do "$WORK/run" "node$((i % 3 + 1))" sh -c 'sha256sum <"$MNT/in/$1"' "$WORK" "$i" >>"$WORK/sums2"; done
}
counted near || fail "near: $?"
near=$sent
[ "$(sort "$WORK/places" | uniq -c | wc -l)" = 3 ] && [ "$(wc -l <"$WORK/places")" = 12 ] || fail "places: $(sort "$WORK/places" | uniq -c)"
counted in_turn
note "the server sent $near bytes to tasks near their data, $sent to tasks in turn"
for i in $(seq 12); do sha256sum <"$EXPORT/in/$i"; done | sort >"$WORK/right"
sort "$WORK/sums" | cmp - "$WORK/right" && sort "$WORK/sums2" | cmp - "$WORK/right" || fail "other bytes"
[ "$near" -lt $((SIZE / 4)) ] && [ "$sent" -gt $((5 * SIZE)) ] || fail "the server sent $near and $sent bytes"

note "a mount whose daemon is gone"
killed node3
for command in where stage; do
	kairan 3 $command "$(mnt 3)/in" >"$WORK/said" 2>&1
	[ $? = 2 ] && grep -q "daemon is gone; mount again" "$WORK/said" || fail "$command: $(cat "$WORK/said")"
done
on node3 umount -l "$(mnt 3)"
finish

# kill -9 of the server in the instant of a change of names, before and after it is made: it is made once, and who was first is told so.
# tags: faults
. "$TOP/test/lib.sh"
LEASE=3
cluster 2
grep -q KR_FAULT "$B/server/kairand" || skip "built without fault points (meson -Dfaults=true)"
export KR_FAULT=@$WORK/fault
server_start
mounts_start
cat >"$WORK/change.py" <<'P'
import ctypes, os, sys
os.chdir(sys.argv[1])
def exchange(a, b):
    if ctypes.CDLL(None, use_errno=True).renameat2(-100, a.encode(), -100, b.encode(), 2):
        raise OSError(ctypes.get_errno(), "exchange")
def create(name):
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
try:
    {"mkdir": os.mkdir, "rmdir": os.rmdir, "unlink": os.unlink, "symlink": os.symlink, "link": os.link, "rename": os.rename,
        "exchange": exchange, "create": create}[sys.argv[2]](*sys.argv[3:])
    print("done")
except OSError as e:
    print(e.strerror)
P
# starts CHANGE...: by node 1, in whose instant the server dies, at $point.
starts() {
	echo "$point:kill:1" >"$WORK/fault"
	on node1 timeout -s KILL $((60 * SLOW)) python3 "$WORK/change.py" "$(mnt 1)" "$@" >"$WORK/told" &
	change=$!
	until_ok 20 "the server dies at $point" gone "${DAEMON[server]}" || fail "$*: $point is not reached"
	wait "${DAEMON[server]}" 2>/dev/null
	rm -f "$WORK/fault"
}
# ends WHAT: so the program on node 1 is told.
ends() { wait $change; [ "$(cat "$WORK/told")" = "$1" ] || fail "$point: told '$(cat "$WORK/told")', not '$1'"; }
once() {
	note "$point: $*"
	starts "$@"
	server_start
	ends "done"
}
for point in turn.begun turn.made; do
	rm -rf "${EXPORT:?}"/*
	once mkdir d
	once rmdir d
	once symlink nowhere s
	once create a
	once link a b
	once rename b c
	mkdir "$EXPORT/d"
	once exchange c d
	once unlink d
	once rename a s
	[ "$(ls "$EXPORT")" = "c
s" ] && [ -d "$EXPORT/c" ] && [ -f "$EXPORT/s" ] || fail "$point: $(ls -l "$EXPORT")"
done
said() { grep -c "names were being changed when kairand ended: $1" "$WORK/kairand.log"; }
[ "$(said "0 changes have been made, 1 have not")" = 9 ] && [ "$(said "1 changes have been made, 0 have not")" = 9 ] || fail "$(grep changed "$WORK/kairand.log")"

note "node 1 asks again only when node 2 has changed the same name"
touch "$EXPORT/token"
point=turn.begun
starts unlink token
cut_link node1
server_start
on node2 timeout -s KILL $((30 * SLOW)) python3 "$WORK/change.py" "$(mnt 2)" unlink token >"$WORK/told2"
[ "$(cat "$WORK/told2")" = "done" ] || fail "node 2 is told $(cat "$WORK/told2")"
heal_link node1
ends "No such file or directory"
finish

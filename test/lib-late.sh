# Shell functions for a node that comes back late: source it after lib.sh.  Node 1 is the one, mounted with flush_age=600;
# node 2 goes on without it.

D=$(mnt 1)

# make NAME: a file of somebody's in the export.
make() { mkdir -p "$EXPORT/$(dirname "$1")"; printf 'original--' >"$EXPORT/$1"; chown 1234:2345 "$EXPORT/$1"; chmod 640 "$EXPORT/$1"; }
# hold NAME OFFSET TEXT|@FILE [...]: node 1 has NAME open and has written there, unflushed; it waits for "go", then tells of fsync.
hold() {
	local name=$1
	shift
	mkdir -p "$WORK/held/$(dirname "$name")"
	rm -f "$WORK/held/$name" "$WORK/held/$name.go"
	on node1 python3 "$TOP/test/programs/late.py" "$D/$name" "$WORK/held/$name.go" "$@" >"$WORK/held/$name" 2>&1 &
	HOLDER=$!
	until_ok 60 "bytes of $name" grep -q written "$WORK/held/$name" || fail "node 1 did not write: $(cat "$WORK/held/$name")"
}
# told NAME EXPECTED: what fsync says in the end.
told() {
	touch "$WORK/held/$1.go"
	until_ok 60 "end of fsync" grep fsync "$WORK/held/$1"
	grep -qx "fsync $2" "$WORK/held/$1" || fail "$1: expected fsync $2: $(cat "$WORK/held/$1")"
}
lost() { grep -c "node1 is lost" "$WORK/kairand.log"; }
is_lost() { [ "$(lost)" -gt "$LOST" ]; }
# away COMMAND...: COMMAND takes node 1 away; returns when the server has given it up.
away() {
	LOST=$(lost)
	"$@"
	until_ok 60 "node 1 is lost" is_lost || fail "not lost"
}
is_back() { on node1 timeout -s KILL 5 stat "$D/."; }
# back: node 1 reaches the server again, and serves.
back() {
	heal_link node1
	until_ok 60 "node 1 is back" is_back || fail "node 1 does not come back"
}
# healed: its link is up, and packets pass.
healed() {
	heal_link node1
	until_ok 60 "the way to the server" on node1 bash -c ": </dev/tcp/$SERVER_ADDRESS/$PORT" || fail "no way to the server"
}
conflict_of() { compgen -G "$EXPORT/$1.conflict-node1-????????T??????Z"; }
has_conflict() { [ "$(conflict_of "$1" | wc -l)" = 1 ] && [ "$(tr '\0' '.' <"$(conflict_of "$1")")" = "$2" ]; }
# conflict NAME BYTES: there is one such file beside it, with these (holes are dots), or will be.
conflict() { until_ok 60 "conflict file of $1" has_conflict "$1" "$2" || fail "$1: $(ls -l "$EXPORT"; tail -5 "$WORK/node1/log")"; }
is() { [ "$(cat "$1")" = "$2" ] || fail "$1 is $(head -c 99 "$1"), not $2"; }
# clean: node 1 has nothing left.
clean() { kairan 1 flush --timeout 60 "$D" >"$WORK/said" || fail "node 1 keeps something: $(cat "$WORK/said")"; }
node2() { on node2 sh -c "cd '$(mnt 2)' && $1" || fail "node 2 cannot: $1"; }

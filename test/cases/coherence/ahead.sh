# Names looked up ahead of the programs that go through a directory: few requests, what other nodes change in the midst of it
# is seen at once, and each user of a mount sees what is his.
# timeout: 200
. "$TOP/test/lib.sh"
up 2

# sent TYPE...: requests of these types that the server has had.
sent() { kairan 2 status --json $SERVER_ADDRESS | python3 -c 'import json, sys; r = json.load(sys.stdin)["requests"]; print(sum(r.get(k, 0) for k in sys.argv[1:]))' "$@"; }
# A new directory of 400 files (made through node 2, so that no event of the export is on its way).
directory() { on node2 sh -c "mkdir $(mnt 2)/$1 && cd $(mnt 2)/$1 && seq 400 | xargs touch" || fail "cannot make $1"; }

note "a new directory of 400 files costs few requests, in whatever order"
# A slow machine may let notes grow too old in the midst, so that a directory is listed and looked up in part once more: then
# another one is tried.
number=0
few() {
	number=$((number + 1))
	directory "many$number"
	local before
	before=$(sent LOOKUP LOOKUPS GETATTR READDIR GETXATTR)
	on node1 sh -c "cd $(mnt 1)/many$number && $1" >/dev/null || fail "$1"
	local cost=$(($(sent LOOKUP LOOKUPS GETATTR READDIR GETXATTR) - before))
	echo "$1: $cost"
	[ $cost -le 30 ]
}
until_ok 60 "ls -l with few requests" few "ls -l" || fail "ls -l asks for each file"
until_ok 60 "stat * with few requests" few "stat *" || fail "stat * asks for each file"
until_ok 60 "stat by inode numbers with few requests" few 'ls -Ui | sort -n | while read -r i n; do echo $n; done | xargs stat' ||
	fail "in the order of inodes each file is asked for"
until_ok 60 "names known from elsewhere with few requests" few 'seq 400 | LC_ALL=C sort | xargs stat' ||
	fail "of names that are known from elsewhere each is asked for"

until_ok 60 "names that are not there with few requests" few 'for i in $(seq 400); do [ ! -e none$i ] || exit 1; done' ||
	fail "of names that are not there each is asked for"

note "a name that was known to be absent is there as soon as another node has made it"
python3 - "$(seen_from_here 1)/many$number" "$(seen_from_here 2)/many$number" <<'P' || fail "a new name is not seen"
import os, sys
here, there = sys.argv[1:]
ways = [lambda to: open(to, "w").close(), os.mkdir, lambda to: os.symlink("x", to), lambda to: os.link(there + "/1", to),
        lambda to: os.rename(there + "/2", to) or os.link(to, there + "/2")]
for i in range(60):
    name = "/new%d" % i
    if i % 3 == 0:
        os.listdir(here)
    assert not os.path.lexists(here + name), name
    ways[i % len(ways)](there + name)
    assert os.path.lexists(here + name), name
    os.mknod(here + name + "own")
    assert os.path.lexists(here + name + "own") and not os.path.lexists(here + name + "other"), name
P

note "what another node changes amid the listing is seen at once"
before=$(sent LOOKUPS)
python3 "$TOP/test/programs/ahead.py" --seed "${AHEAD_SEED:-1}" --seconds "${AHEAD_SECONDS:-4}" "$(seen_from_here 1)" "$(seen_from_here 2)" ||
	fail "names looked up ahead"
[ $(($(sent LOOKUPS) - before)) -ge 5 ] || fail "nothing was looked up ahead"

note "two users of one mount"
mkdir -m 755 "$EXPORT/shared" && (cd "$EXPORT/shared" && seq 200 | xargs touch)
mkdir -m 700 "$EXPORT/shared/mine" "$EXPORT/shared/mine/deep" && (cd "$EXPORT/shared/mine" && seq 200 | xargs touch)
chown -R 1000:1000 "$EXPORT/shared/mine"
as() { local uid=$1; shift; on node1 setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"; }
as 1000 ls -l "$(mnt 1)/shared/mine" >/dev/null || fail "the owner cannot list"
as 1001 ls "$(mnt 1)/shared/mine" >/dev/null 2>&1 && fail "another user lists a directory that is not his"
for i in $(seq 1 20); do
	as 1001 stat "$(mnt 1)/shared/mine/$i" >/dev/null 2>&1 && fail "another user sees $i, looked up for the owner"
done
as 1001 ls -l "$(mnt 1)/shared" >/dev/null || fail "another user cannot list what all may"
chmod 711 "$EXPORT/shared/mine"
until_ok 10 "search by all" as 1001 stat "$(mnt 1)/shared/mine/7" || fail "another user cannot search"
for i in $(seq 1 20); do # who may not list
	as 1001 stat "$(mnt 1)/shared/mine/$i" >/dev/null || fail "another user does not find $i, for which he may search"
done
on node2 chmod 700 "$(mnt 2)/shared/mine"
as 1001 stat "$(mnt 1)/shared/mine/7" >/dev/null 2>&1 && fail "another user sees a name after he may not any more"
as 1000 stat "$(mnt 1)/shared/mine/7" >/dev/null || fail "the owner does not see his"
finish

# Renames of every kind, made on two nodes while both list and look: each node knows at once what stands for which name.
# tags: faults
# timeout: 200
. "$TOP/test/lib.sh"
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
cluster 2
server_start
run() {
	timeout -s KILL $((60 * SLOW)) python3 "$TOP/test/programs/renames.py" --seed "${RENAMES_SEED:-1}" --seconds "${RENAMES_SECONDS:-4}" \
		"$@" "$(seen_from_here 1)" "$(seen_from_here 2)" || fail "renames"
}
mounts_start
note "one node renames, so that it keeps what its replies say, and its kernel has names on loan"
run --alone one
note "both rename"
run both
note "a program on the server replaces a file just before a node renames it"
timeout -s KILL $((100 * SLOW)) python3 - "$EXPORT" "$(seen_from_here 1)" $((3 * SLOW)) <<'P' || fail "a rename of a file that a program on the server has just replaced"
import os, sys, time
export, mount, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
for name in ("from", "to", "keep"):
    os.mkdir(f"{export}/{name}")
for i in range(60):
    old, new = f"from/{i}", f"from/new{i}" if i % 3 == 0 else f"to/{i}"
    for made in (old, f"keep/new{i}"):
        open(f"{export}/{made}", "w").close()
    os.link(f"{export}/{old}", f"{export}/keep/{i}")
    time.sleep(0.03) # or the node knows nothing: the event has just come
    os.lstat(f"{mount}/{old}")
    os.rename(f"{export}/keep/new{i}", f"{export}/{old}")
    os.rename(f"{mount}/{old}", f"{mount}/{new}")
    real, ends = os.lstat(f"{export}/{new}").st_ino, time.monotonic() + limit
    while os.lstat(f"{mount}/{new}").st_ino != real:
        assert time.monotonic() < ends, f"{new} is not the file that was moved"
        time.sleep(0.01)
P
mount_stop 1 && mount_stop 2 || fail "the mounts do not end"
note "both rename, and the kernels get names on loan also where they change"
KR_FAULT=names.eager:eio mounts_start
run eager
note "a name that the kernel has on loan moves to another directory, and from there another node takes it"
timeout -s KILL $((100 * SLOW)) python3 - "$(seen_from_here 1)" "$(seen_from_here 2)" <<'P' || fail "a name moved with its loan"
import os, sys
here, there = sys.argv[1:]
for i in range(30):
    for name in (f"old{i}", f"new{i}"):
        os.mkdir(f"{here}/{name}")
    open(f"{here}/old{i}/x", "w").close()
    os.listdir(f"{there}/new{i}") # or the rename there takes longer than the loan
    for _ in range(3):
        os.listdir(f"{here}/old{i}")
        os.lstat(f"{here}/old{i}/x")
    os.rename(f"{here}/old{i}/x", f"{here}/new{i}/x")
    os.rename(f"{there}/new{i}/x", f"{there}/new{i}/y")
    assert not os.path.lexists(f"{here}/new{i}/x"), i
P
finish

# A file that is opened in the moment in which its last handle's WRITE lease is returned: what is written then is flushed as ever.
# tags: faults
. "$TOP/test/lib.sh"
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
cluster 2
server_start
# The node is slow just before it decides to return the lease, so that the OPEN finds it decided, and before it does, so that the
# server answers the OPEN first.
KR_FAULT=file.settle:delay-30,lease.return:delay-30 mount_start 1
mount_start 2
timeout -s KILL $((60 * SLOW)) nsenter -t "${KEEPER[node1]}" -n -u -m -- python3 - "$(mnt 1)" <<'P' || fail "written and not flushed: $(kairan 1 status)"
import os, sys
for i in range(12):
    path = f"{sys.argv[1]}/file{i}"
    created = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    name = os.open(path, os.O_PATH) # opened again without a look-up
    os.close(created)
    again = os.open(f"/proc/self/fd/{name}", os.O_RDWR)
    os.close(name)
    os.pwrite(again, b"x" * 50001, 0)
    os.fsync(again)
    os.close(again)
P
for i in $(seq 0 11); do
	[ "$(stat -c %s "$(seen_from_here 2)/file$i")" = 50001 ] || fail "file$i"
done
grep -h "does not take its bytes" "$WORK"/node*/log && fail "a lease was lost on the way"
finish

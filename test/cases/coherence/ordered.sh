# coherence=ordered: writes of different nodes keep their order without anything between them. (Strict mounts fail this.)
. "$TOP/test/lib.sh"
cluster 3
server_start
mounts_start coherence=ordered
python3 "$TOP/test/programs/history.py" --ordered --seed "${HISTORY_SEED:-1}" --seconds "${HISTORY_SECONDS:-6}" \
	"$(seen_from_here 1)" "$(seen_from_here 2)" "$(seen_from_here 3)" || fail "history"
python3 - "$(seen_from_here 1)/file" "$(seen_from_here 2)/file" "$(seen_from_here 3)/file" <<'EOF' || fail "the earlier write won"
import os, sys
fds = [os.open(path, os.O_RDWR | os.O_CREAT) for path in sys.argv[1:]]
for round in range(200):
    for index, fd in enumerate(fds):  # each covers what the former node wrote just before
        os.pwrite(fd, bytes([round, index]) * 500, 700 * round)
    assert open(sys.argv[1 + round % 3], "rb").read()[700 * round:] == bytes([round, len(fds) - 1]) * 500, round
for fd in fds:
    os.pwrite(fd, b"x" * 5000, 0)
os.pwrite(fds[0], b"last", 100)
for fd in fds:
    os.close(fd)
with open(sys.argv[2], "rb") as file:
    assert file.read(104)[100:] == b"last"
EOF
finish

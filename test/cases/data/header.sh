# Of a file whose beginning a program reads no more than a block or two comes; who goes on reading gets all of it ahead.
. "$TOP/test/lib.sh"
up 1
head -c 8000000 /dev/urandom >"$EXPORT/large"
head -c 200000 /dev/urandom >"$EXPORT/small"
sleep 0.2
before=$(sent_by server)
on node1 head -c 1024 "$(mnt 1)/large" >"$WORK/beginning"
sleep 1
came=$(($(sent_by server) - before))
[ $came -le 262144 ] || fail "the first KiB of a large file brought $came bytes"
head -c 1024 "$EXPORT/large" | cmp - "$WORK/beginning" || fail "the beginning"
on node1 cmp "$(mnt 1)/large" "$EXPORT/large" || fail "the whole"
before=$(sent_by server)
on node1 head -c 1024 "$(mnt 1)/small" >/dev/null
sleep 1
[ $(($(sent_by server) - before)) -ge 200000 ] || fail "a small file does not come whole"
finish

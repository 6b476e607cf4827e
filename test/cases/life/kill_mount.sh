# kill -9 of kairanfs loses no write that returned: the next mount replays its journal before it serves the file.
# tags: sanitizer
. "$TOP/test/lib.sh"
up 2
on node1 python3 "$TOP/test/programs/hold.py" "$(mnt 1)/kept" 3000017 "$WORK/written" &
until_ok 20 "the writer" test -s "$WORK/written"
mount_kill 1
mount_start 1
until_ok 60 "the bytes on node 2" python3 "$TOP/test/programs/hold.py" --check "$(seen_from_here 2)/kept" 3000017 || fail "written bytes are lost"
python3 "$TOP/test/programs/hold.py" --check "$(seen_from_here 1)/kept" 3000017 || fail "node 1 reads other bytes"
finish
python3 "$TOP/test/programs/hold.py" --check "$EXPORT/kept" 3000017 || fail "the server's file differs"

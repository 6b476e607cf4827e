# Names of 255 bytes and any bytes, deep paths, a directory of many entries with stable positions, big sparse files, special files.
# timeout: 240
. "$TOP/test/lib.sh"
up 1
python3 "$TOP/test/programs/names.py" "$(seen_from_here 1)" "${NAMES_ENTRIES:-20000}" "$EXPORT" || fail "names"
finish

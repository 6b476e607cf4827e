# Concurrent readers and writers on three nodes; the history is checked against P1 to P3.
# tags: sanitizer
# timeout: 200
. "$TOP/test/lib.sh"
up 3
python3 "$TOP/test/programs/history.py" --seed "${HISTORY_SEED:-1}" --seconds "${HISTORY_SECONDS:-15}" \
	"$(seen_from_here 1)" "$(seen_from_here 2)" "$(seen_from_here 3)" || fail "history"
finish

# Random operations on mounts of nodes without a disk, compared with a local directory.
# timeout: 240
DISKLESS=1
. "$TOP/test/lib.sh"
up 2
mkdir "$WORK/reference" "$WORK/reference2" "$EXPORT/one" "$EXPORT/two"
run() { python3 "$TOP/test/programs/differential.py" "$@" || fail "differential ${DIFFERENTIAL_SEED:-}"; }
run --seed "${DIFFERENTIAL_SEED:-21}" --ops "${DIFFERENTIAL_OPS:-800}" "$WORK/reference" "$(seen_from_here 1)/one"
run --seed "${DIFFERENTIAL_SEED:-22}" --ops "${DIFFERENTIAL_OPS:-800}" "$WORK/reference2" "$(seen_from_here 1)/two" "$(seen_from_here 2)/two"
finish

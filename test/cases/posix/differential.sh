# Random operations on one mount, then on three mounts of one export, compared with a local directory.
# tags: sanitizer
# timeout: 300
. "$TOP/test/lib.sh"
up 3
mkdir "$WORK/reference" "$WORK/reference3" "$EXPORT/one" "$EXPORT/three"
run() { python3 "$TOP/test/programs/differential.py" "$@" || fail "differential ${DIFFERENTIAL_SEED:-}"; }
run --seed "${DIFFERENTIAL_SEED:-11}" --ops "${DIFFERENTIAL_OPS:-2500}" "$WORK/reference" "$(seen_from_here 1)/one"
run --seed "${DIFFERENTIAL_SEED:-12}" --ops "${DIFFERENTIAL_OPS:-2500}" "$WORK/reference3" "$(seen_from_here 1)/three" "$(seen_from_here 2)/three" "$(seen_from_here 3)/three"
finish

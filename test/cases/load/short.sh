# A cluster under load and faults for a short time; the long version is test/load/run.
# timeout: 400
. "$TOP/test/lib.sh"
command -v nft >/dev/null || skip "no nft"
set -- --nodes 6 --minutes "${LOAD_MINUTES:-0.3}" --seed "${LOAD_SEED:-1}" --lease "${LOAD_LEASE:-10}" --every 1.5 --server-every 8 \
	--threads 2 --open 600 --rate 300
. "$TOP/test/load/inside"

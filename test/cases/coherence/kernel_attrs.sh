# The kernel keeps attributes for as long as they are true, and asks for them no more.
# timeout: 300
. "$TOP/test/lib.sh"
up 2
python3 "$TOP/test/programs/kernel_attrs.py" --seed "${KERNEL_ATTRS_SEED:-1}" --seconds "${KERNEL_ATTRS_SECONDS:-15}" things \
	"$(seen_from_here 1)" "$(seen_from_here 2)" || fail "attributes of before"

# What the daemon of node 1 says of attributes in the kernel.
says() { kairan 1 status --json "$(mnt 1)" | python3 -c 'import json, sys; print(int(json.load(sys.stdin)["kernel_attributes"][sys.argv[1]]))' "$1"; }
[ "$(says allowed)" = 1 ] || { finish; exit; } # an old kernel
[ "$(says given)" -gt 100 ] && [ "$(says taken_back)" -gt 100 ] || fail "the kernel was not given attributes"

note "what this node changes itself"
on node1 sh -c "cd $(mnt 1) && echo 1234 >own && stat own" >/dev/null
for i in $(seq 50); do
	[ "$(on node1 sh -c "cd $(mnt 1) && stat own >own.stat && chmod $((400 + i % 8)) own && stat -c %a own")" = $((400 + i % 8)) ] ||
		fail "an own chmod is not seen"
	[ "$(on node1 sh -c "cd $(mnt 1) && printf $i >>own && stat -c %s own")" = "$(stat -c %s "$EXPORT/own")" ] || fail "an own write is not seen"
done

note "no fstat of a file asks the daemon, until another node changes it"
on node1 python3 - "$(mnt 1)/own" <<'END' || fail "fstat"
import os, sys, time
descriptor = os.open(sys.argv[1], os.O_RDONLY)
for attempt in range(20):  # the machine may be busy
    began = time.perf_counter()
    for _ in range(2000):
        os.fstat(descriptor)
    each = (time.perf_counter() - began) / 2000
    if each < 15e-6:
        sys.exit(0)
    time.sleep(0.2)
sys.exit(f"fstat takes {each * 1e6:.1f} us")
END

note "a node that is stopped shows nothing old for longer than its lease"
on node1 stat "$(mnt 1)/own" >/dev/null
kill -STOP "${DAEMON[node1]}"
on node2 timeout 60 chmod 640 "$(mnt 2)/own" || fail "a stopped node holds up a chmod"
kill -CONT "${DAEMON[node1]}"
[ "$(on node1 stat -c %a "$(mnt 1)/own")" = 640 ] || fail "a node that was stopped says what was"
finish

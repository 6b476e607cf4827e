# Sourced by test/bench/predict inside its cluster.
. "$TOP/test/lib-predict.sh"
FILES=8 # that a process uses
narrow server "$LINK"
mkdir "$WORK/bin" "$WORK/traces" "$EXPORT/in" "$EXPORT/out"

cat >"$WORK/task.py" <<'P'
"""Prints how many seconds it has waited for files."""
import os, sys, time
what, mount, first, count, computes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
waited, data = 0, os.urandom(250000)
print("ready", flush=True)
sys.stdin.readline()
def read(name):
    with open(name, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
def write(name):
    with open(name, "wb", buffering=0) as file:
        file.write(data)
def timed(use, *name):
    global waited
    began = time.monotonic()
    use(os.path.join(mount, *name))
    waited += time.monotonic() - began
for i in range(first, first + count):
    if what in ("large", "small", "mixed"):
        timed(read, "in", "%s%d" % ("small" if what == "small" else "large", i))
    if what == "mixed":
        time.sleep(computes)
    if what in ("write", "mixed"):
        timed(write, "out", "%s%d" % (what, i))
print(waited)
P
cat >"$WORK/start.py" <<'P'
"""Starts commands, one a line, has them begin at the same time, and prints the sum of what they print."""
import subprocess, sys
tasks = [subprocess.Popen(line.split(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for line in sys.stdin]
for task in tasks:
    assert task.stdout.readline() == "ready\n"
for task in tasks:
    task.stdin.write("\n")
    task.stdin.flush()
print(sum(float(task.communicate()[0]) for task in tasks))
assert all(task.returncode == 0 for task in tasks)
P
python=$(python3 -c 'import sys; print(sys.executable)')
PROGRAMS="large small write mixed"
for program in $PROGRAMS; do ln -s "$python" "$WORK/bin/$program"; done

# run PROGRAM NODES PROCESSES STATE TRACE
run() {
	local program=$1 nodes=$2 processes=$3 state=$4 i p
	rm -f "$EXPORT"/out/*
	cold
	[ "$state" = cold ] || warm 1 "$(mnt 1)/in"
	traces_start "$nodes"
	for i in $(seq "$nodes"); do
		for p in $(seq "$processes"); do
			echo nsenter -t "${KEEPER[node$i]}" -n -u -m -- "$WORK/bin/$program" "$WORK/task.py" "$program" "$(mnt "$i")" \
				$((((i - 1) * processes + p - 1) * FILES)) $FILES "$COMPUTES"
		done
	done | python3 "$WORK/start.py" >"$5.seconds" || fail "$program"
	traces_stop "$nodes" "$5"
}

most=1
for p in $PROCESS_COUNTS; do [ "$p" -le $most ] || most=$p; done
python3 - "$EXPORT/in" $((NODES * most * FILES)) <<'P' || fail "inputs"
import os, sys
for i in range(int(sys.argv[2])):
    for name, size in ("large", 250000), ("small", 20000):
        with open("%s/%s%d" % (sys.argv[1], name, i), "wb") as file:
            file.write(os.urandom(size))
P
measure_envelope "$WORK/envelope" $most
for program in $PROGRAMS; do run "$program" 1 1 cold "$WORK/traces/$program.base"; done
row_head
for n in $NODE_COUNTS; do
	for p in $PROCESS_COUNTS; do
		for program in $PROGRAMS; do
			for state in cold warm; do
				[ $state.$program != warm.write ] || continue
				for k in $(seq "$REPETITIONS"); do run "$program" "$n" "$p" $state "$WORK/traces/$program.$state.$k"; done
				row "$WORK/envelope" "$program" "$n" "$p" $state $((n * p)) "$WORK/traces/$program.base.1" "$WORK/traces/$program.$state"
				rm -f "$WORK"/traces/*."$state".*
			done
		done
	done
done
[ -z "${KEEP:-}" ] || cp -r "$WORK"/traces/*.base.* "$WORK"/envelope "$KEEP"

# The measurement of test/bench/trace, inside a cluster of test/cluster.
on node1 python3 - "$B/tools/kairan" "$(mnt 1)" "$PAIRS" "$FILES" <<'P'
import json, os, statistics, subprocess, sys, time
kairan, mount, pairs, files = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
top = mount + "/bench"


pid = json.loads(subprocess.check_output([kairan, "status", "--json", mount]))["pid"]


def processor():
    "Seconds of the daemon."
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as stat:
            total += int(stat.read().split()[0])
    return total / 1e9


def work():
    os.mkdir(top)
    begin, before = time.perf_counter(), processor()
    for i in range(files):
        with open(f"{top}/{i}", "wb", buffering=0) as file:
            file.write(b"x" * 1000)
    for i in range(files):
        os.stat(f"{top}/{i}")
    for i in range(files):
        with open(f"{top}/{i}", "rb", buffering=0) as file:
            file.read()
    for i in range(files):
        os.unlink(f"{top}/{i}")
    taken = time.perf_counter() - begin, processor() - before
    os.rmdir(top)
    return taken


def switch(what):
    subprocess.run([kairan, "trace", what, mount], check=True, stdout=subprocess.DEVNULL)


def traced():
    switch("start")
    taken = work()
    switch("stop")
    return taken


work()
quotients, times = ([], []), []
for pair in range(pairs):
    if pair % 2:
        on, off = traced(), work()
    else:
        off, on = work(), traced()
    for i in range(2):
        quotients[i].append(on[i] / off[i])
    times.append(off[0])
for what, some in zip(("of the time", "of the daemon's processor time"), quotients):
    low, median, high = statistics.quantiles(some, n=4)
    print(f"a trace costs {100 * (median - 1):+.1f} % {what} (quartiles {100 * (low - 1):+.1f} % to {100 * (high - 1):+.1f} %, {pairs} pairs)")
print(f"{4 * files} steps take {statistics.median(times):.2f} s; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
P

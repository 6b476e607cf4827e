# Run by test/slurm/run in namespaces of its own: Slurm on the hosts of a test cluster, and jobs. Arguments: cases, else all.
# $WORK/unpacked has Slurm and kairan as they are installed.
. "$TOP/test/lib.sh"
unset TMPDIR # jobs of another user get it
# Paths are the same on all hosts, as on a real cluster: /usr and /etc have more here, and /mnt and /run are each host's own.
mkdir -p "$WORK"/etc/{slurm,kairan} "$WORK"/slurmctld
cat >"$WORK/etc/slurm/slurm.conf" <<C
ClusterName=kairan
SlurmctldHost=server($SERVER_ADDRESS)
SlurmUser=root
AuthInfo=socket=$WORK/munge/socket,cred_expire=30
StateSaveLocation=$WORK/slurmctld
SlurmctldPidFile=$WORK/slurmctld/pid
SlurmctldLogFile=$WORK/slurmctld.log
SlurmdSpoolDir=$WORK/%n/spool
SlurmdPidFile=$WORK/%n/slurmd.pid
SlurmdLogFile=$WORK/%n/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
ReturnToService=2
KillWait=5
Prolog=/usr/local/share/kairan/job-prologue
Epilog=/usr/local/share/kairan/job-epilogue
TaskProlog=/usr/local/share/kairan/job-task-prologue
PrologFlags=Alloc
NodeName=node[1-3] NodeAddr=10.77.1.[1-3] CPUs=2
PartitionName=all Nodes=ALL Default=YES
C
cat >"$WORK/etc/kairan/job.conf" <<C
SOURCE=$SERVER_ADDRESS:/
MOUNTPOINT=/mnt/data
OPTIONS=local=/mnt/local/data
TIMEOUT=60
NODE_MOUNTPOINT=/mnt/node
NODE_LOCAL=/mnt/local/node
JOB_MOUNTPOINT=/mnt/job
JOB_LOCAL=/mnt/local/job
C
{ cat /etc/hosts; echo "$SERVER_ADDRESS server"; for i in 1 2 3; do echo "10.77.1.$i node$i"; done; } >"$WORK/etc/hosts"
mount -t overlay -o "lowerdir=$WORK/unpacked/usr:/usr" kairan /usr && mount -t overlay -o "lowerdir=$WORK/etc:/etc" kairan /etc &&
	mount --bind "$WORK/etc/kairan" /etc/kairan || fail "mounts"
cluster 3
server_start
echo "${DAEMON[server]}" >"$WORK/server.pid"
USER_NAME=daemon
mkdir -p "$EXPORT/work" "$WORK/out" "$WORK/munge"
chown $USER_NAME: "$EXPORT/work" "$WORK/out"
head -c 1024 /dev/urandom >"$WORK/munge/key"
chmod 600 "$WORK/munge/key"
munged --force --key-file "$WORK/munge/key" --socket "$WORK/munge/socket" --pid-file "$WORK/munge/pid" --log-file "$WORK/munge/log" \
	--seed-file "$WORK/munge/seed" || fail "munged: $(cat "$WORK/munge/log")"
slurmd_start() { on "node$1" slurmd || fail "no slurmd on node$1: $(tail -3 "$WORK/node$1/slurmd.log")"; }
on server slurmctld || fail "no slurmctld: $(tail -3 "$WORK/slurmctld.log")"
for i in 1 2 3; do
	mkdir -p "$WORK/node$i/"{mnt/local,spool}
	on "node$i" sh -c "mount --bind '$WORK/node$i/mnt' /mnt && mount -t tmpfs -o mode=755 run /run" || fail "mounts of node$i"
	slurmd_start $i
done
slurm() { on server "$@"; }
# expect SECONDS WHAT COMMAND...: as until_ok, and tells what Slurm has.
expect() { until_ok "$@" || fail "not so: $2; $(slurm squeue -h -t all -o 'job %A %T;' | tail -2) $(slurm sinfo -h -N -o '%N %T %E;')"; }
states() { slurm sinfo -h -N -o %T | sort -u; }
is_idle() { [ "$(slurm sinfo -h -n "$1" -o %T)" = idle ]; }
all_idle() { [ "$(states)" = idle ]; }
# idle: no job has had a node drained.
idle() { expect 60 "nodes that are idle" all_idle; }
idle

# A task writes records to JOB.HOST of the export, and how many are acknowledged to a file that is no part of kairan.
cat >"$WORK/writer" <<'P'
#!/usr/bin/env python3
import os, socket, sys, time
name = os.environ["SLURM_JOB_ID"] + "." + socket.gethostname()
count = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 30
out = os.open("/mnt/data/work/" + name, os.O_WRONLY | os.O_CREAT, 0o644)
log = os.open(os.environ["WORK"] + "/out/" + name + ".acknowledged", os.O_WRONLY | os.O_CREAT, 0o644)
for n in range(count):
    assert os.write(out, b"%08d" % n * 512) == 4096
    os.pwrite(log, b"%d" % (n + 1), 0)
    time.sleep(0.005)
os.close(out)
P
chmod 755 "$WORK/writer"

# submit OPTION... <SCRIPT: a job of three nodes, unless the options say another number; prints its number.
submit() {
	on server setpriv --reuid $USER_NAME --regid $USER_NAME --clear-groups env -C / WORK="$WORK" \
		sbatch --parsable -N3 --ntasks-per-node=1 -o "$WORK/out/%j" --open-mode=append "$@"
}
state() { slurm squeue -h -t all -j "$1" -o %T; }
is_state() { [ "$(state "$1")" = "$2" ]; }
# ends JOB STATE [SECONDS]: its epilogues have run, too: it was COMPLETING before.
ends() { expect "${3:-60}" "job $1 as $2" is_state "$1" "$2"; }
# acknowledged FILE: number of records.
acknowledged() { cat "$WORK/out/$1.acknowledged"; }
all_acknowledged() { [ "$(acknowledged "$1")" = "$2" ]; }
is_writing() { [ "$(acknowledged "$1")" -gt 20 ]; }
writes() { local name; for name in "$@"; do expect 60 "records of $name" is_writing "$name"; done; }
# at_server FILE...: the server has all records that were acknowledged, and they are right. One more may have been on the way.
at_server() {
	local name
	for name in "$@"; do
		python3 - "$EXPORT/work/$name" "$(acknowledged "$name")" <<-'P' || fail "$name at the server"
			import sys
			data, count = open(sys.argv[1], "rb").read(), int(sys.argv[2])
			found = len(data) // 4096
			assert found in (count, count + 1), "%d records acknowledged, %d bytes at the server" % (count, len(data))
			assert data == b"".join(b"%08d" % n * 512 for n in range(found)), "wrong bytes"
		P
		acknowledged "$name" >>"$WORK/records" && echo >>"$WORK/records"
	done
}
drained() { slurm sinfo -h -n "$1" -o "%T %E" | grep -q "^drain.* $2"; }
resume() { slurm scontrol update "nodename=$1" state=resume || fail "no resume"; }
# daemons: processes of mounts and of jobs' kairand.
daemons() { pgrep -a kairan | grep -v "^$(cat "$WORK/server.pid") "; }
no_daemons() { [ -z "$(daemons)" ]; }
mounts_of() { on "$1" sed -n 's/^[^ ]* \([^ ]*\) fuse.kairanfs .*/\1/p' /proc/mounts; }
# nothing_left: no mount, file, daemon or mark of any job on any node.
nothing_left() {
	local name left
	for name in node1 node2 node3; do
		left="$(mounts_of $name; on $name sh -c 'find /mnt/node /mnt/job /mnt/local/node /mnt/local/job /run/kairan/jobs -mindepth 1' 2>/dev/null)"
		[ -z "$left" ] || fail "left on $name: $left"
	done
	until_ok 20 "no daemons" no_daemons || fail "daemons are left: $(daemons)"
}

three_nodes() {
	local job i
	job=$(submit --comment="a test,kairan-node=64M,kairan-job" <<-'J'
		#!/bin/bash
		echo "batch $KAIRAN_NODE $KAIRAN_JOB"
		srun bash -c 'stat -c "$(hostname) %n %U %a" "$KAIRAN_NODE" "$KAIRAN_JOB" && df --output=size -BM "$KAIRAN_NODE" | tail -1
			"$WORK/writer" 500
			cp "/mnt/data/work/$SLURM_JOB_ID.$(hostname)" "$KAIRAN_JOB/" && cp "$KAIRAN_JOB/$SLURM_JOB_ID.$(hostname)" "$KAIRAN_NODE/"'
		srun bash -c 'for name in $SLURM_JOB_ID.node{1,2,3}; do cmp "/mnt/data/work/$name" "$KAIRAN_JOB/$name" && echo same; done
			ls "$KAIRAN_NODE"'
	J
	)
	ends "$job" COMPLETED
	for i in 1 2 3; do
		grep -qx "node$i /mnt/node/$job $USER_NAME 700" "$WORK/out/$job" && grep -qx "node$i /mnt/job/$job $USER_NAME 700" "$WORK/out/$job" &&
			grep -qx "$job.node$i" "$WORK/out/$job" || fail "node$i: $(cat "$WORK/out/$job")"
	done
	grep -qx "batch /mnt/node/$job /mnt/job/$job" "$WORK/out/$job" && [ "$(grep -cx same "$WORK/out/$job")" = 9 ] &&
		[ "$(grep -cx ' *64M' "$WORK/out/$job")" = 3 ] ||
		fail "$(cat "$WORK/out/$job")"
	at_server "$job".node{1,2,3}
	nothing_left
}
# No batch script.
interactive() {
	local job
	on server setpriv --reuid $USER_NAME --regid $USER_NAME --clear-groups env -C / WORK="$WORK" \
		srun -N3 --ntasks-per-node=1 --comment=kairan-node=64M,kairan-job bash -c '"$WORK/writer" 100
			echo "$SLURM_JOB_ID $(hostname)" | tee "$KAIRAN_NODE/file" "$KAIRAN_JOB/$(hostname)"' >"$WORK/out/interactive" || fail "srun"
	[ "$(wc -l <"$WORK/out/interactive")" = 3 ] || fail "$(cat "$WORK/out/interactive")"
	job=$(sed -n '1s/ .*//p' "$WORK/out/interactive")
	ends "$job" COMPLETED
	at_server "$job".node{1,2,3}
	nothing_left
}
# WRITES: a job that writes on all its nodes until it is ended.
WRITES='#!/bin/bash
srun -K1 "$WORK/writer"'
cancelled() {
	local job
	job=$(submit --comment=kairan-node=64M,kairan-job <<<"$WRITES")
	writes "$job".node{1,2,3}
	slurm scancel "$job"
	ends "$job" CANCELLED
	at_server "$job".node{1,2,3}
	nothing_left
}
out_of_time() {
	local job
	job=$(submit --time=1 --comment=kairan-node=64M,kairan-job <<<"$WRITES")
	writes "$job".node{1,2,3}
	ends "$job" TIMEOUT 180
	at_server "$job".node{1,2,3}
	nothing_left
}
requeued() {
	local job
	job=$(submit --requeue --comment=kairan-node=64M,kairan-job <<-'J'
		#!/bin/bash
		[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || { echo "again: $(ls -A "$KAIRAN_NODE" "$KAIRAN_JOB" | grep -v :)"; exit 0; }
		echo left >"$KAIRAN_NODE/file"; echo left >"$KAIRAN_JOB/file"
		srun "$WORK/writer"
	J
	)
	writes "$job".node{1,2,3}
	slurm scontrol requeue "$job" || fail "no requeue"
	ends "$job" COMPLETED 180
	grep -qx "again: *" "$WORK/out/$job" || fail "not again, or it finds files of its former run: $(cat "$WORK/out/$job")"
	at_server "$job".node{1,2,3}
	nothing_left
}
# Two jobs on the same nodes.
side_by_side() {
	local job first second
	for job in first second; do
		declare $job="$(submit --comment=kairan-node=64M,kairan-job <<-'J'
			#!/bin/bash
			srun bash -c 'echo "$SLURM_JOB_ID" >"$KAIRAN_NODE/whose"; echo "$SLURM_JOB_ID" >"$KAIRAN_JOB/whose.$(hostname)"'
			srun --overlap "$WORK/writer" &
			until [ -e "$WORK/out/end.$SLURM_JOB_ID" ]; do sleep 0.2; done
			srun --overlap bash -c 'sort -u "$KAIRAN_NODE/whose" "$KAIRAN_JOB"/whose.*' | sort | uniq -c
			kill $! && wait
			exit 0
		J
		)"
	done
	writes "$first".node{1,2,3} "$second".node{1,2,3}
	touch "$WORK/out/end.$first"
	ends "$first" COMPLETED
	at_server "$first".node{1,2,3}
	for i in 1 2 3; do
		[ "$(mounts_of node$i | sort | xargs)" = "/mnt/data /mnt/job/$second /mnt/node/$second" ] || fail "mounts of node$i: $(mounts_of node$i)"
	done
	touch "$WORK/out/end.$second"
	ends "$second" COMPLETED
	at_server "$second".node{1,2,3}
	for job in $first $second; do
		grep -qx " *3 $job" "$WORK/out/$job" || fail "scratch of $job: $(cat "$WORK/out/$job")"
	done
	nothing_left
}
# mount_killed NODE MOUNTPOINT: kill -9 of its daemon.
mount_killed() {
	local pid
	pid=$(for pid in $(pgrep -x kairanfs); do
		# The job's keeper, on its head, is the daemon's child.
		[ "$(ps -o ppid= -p "$pid" | xargs)" = 1 ] && [ "$(nsenter -t "$pid" -u hostname)" = "$1" ] &&
			tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q " $2 " && echo "$pid"
	done)
	[ "$(wc -w <<<"$pid")" = 1 ] && kill -KILL "$pid" || fail "daemons of $2 on $1: $pid"
}
# over JOB: it has ended, however.
over() { case $(state "$1") in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL) ;; *) return 1 ;; esac; }
# next_job: what the nodes still have goes to the server with it.
next_job() {
	local job
	job=$(submit <<<$'#!/bin/bash\nsrun true')
	ends "$job" COMPLETED 120
}
# The job's programs get errors; the epilogue mounts again and sends what the journal has.
export_killed() {
	local job
	job=$(submit --comment=kairan-node=64M,kairan-job <<<"$WRITES")
	writes "$job".node{1,2,3}
	mount_killed node2 /mnt/data
	expect 90 "the end of job $job" over "$job"
	at_server "$job".node{1,2,3}
	nothing_left
}
# scratch_killed: that of view=job of the job's head, or of another node.
scratch_killed() { # head | member
	local job head pid
	job=$(submit --comment=kairan-node=64M,kairan-job <<-'J'
		#!/bin/bash
		srun -K1 bash -c '"$WORK/writer" &
			while echo "$SECONDS" >"$KAIRAN_JOB/$(hostname)" && cat "$KAIRAN_JOB"/* >/dev/null; do :; done 2>&1
			kill $!; exit 1'
	J
	)
	writes "$job".node{1,2,3}
	# The head runs the job's kairand.
	head=$(for pid in $(pgrep -x kairand); do nsenter -t "$pid" -u hostname; done | grep -vx server)
	[ "$(wc -w <<<"$head")" = 1 ] || fail "heads: $head"
	[ "$1" = head ] || head=$([ "$head" = node2 ] && echo node3 || echo node2)
	mount_killed "$head" "/mnt/job/$job"
	expect 90 "the end of job $job" over "$job"
	at_server "$job".node{1,2,3}
	nothing_left
}
member_killed() { scratch_killed member; }
head_killed() { scratch_killed head; }
# A process that the batch system does not know of any more sits in the scratch.
child_left() {
	local job child
	job=$(submit -N1 -w node1 --comment=kairan-node=64M,kairan-job <<-'J'
		#!/bin/bash
		(cd "$KAIRAN_NODE" && exec setsid python3 -c 'import os, time
		open(os.environ["WORK"] + "/out/child", "w").write(str(os.getpid()))
		files = [open(os.environ[name] + "/open", "w") for name in ("KAIRAN_NODE", "KAIRAN_JOB")]
		time.sleep(600)' >/dev/null 2>&1 </dev/null) &
		until [ -e "$KAIRAN_JOB/open" ]; do sleep 0.1; done
		"$WORK/writer" 50
	J
	)
	ends "$job" COMPLETED
	child=$(cat "$WORK/out/child")
	alive "$child" || fail "the child does not outlive the job: this is no test"
	at_server "$job".node1
	nothing_left
	kill "$child"
}
server_down() { kill "$(cat "$WORK/server.pid")" && expect 30 "end of kairand" gone "$(cat "$WORK/server.pid")"; }
server_up() { server_start; echo "${DAEMON[server]}" >"$WORK/server.pid"; }
# configured OPTION TIMEOUT: for the next mounts.
configured() { sed -i "s|^OPTIONS=.*|OPTIONS=local=/mnt/local/data$1|; s|^TIMEOUT=.*|TIMEOUT=$2|" "$WORK/etc/kairan/job.conf"; }
# away JOB: it ends while the server is away: its nodes are drained, and the jobs after that bring everything.
away() {
	local node
	for node in node1 node2 node3; do
		expect 120 "$node is drained" drained $node "Epilog error"
	done
	expect 60 "the end of job $1" over "$1"
	server_up
	for node in node1 node2 node3; do resume $node; done
	next_job
	at_server "$1".node{1,2,3}
	nothing_left
}
# The job ends by itself: close(2) does not wait for the server.
server_away() {
	local job
	configured ,close=async 5
	job=$(submit --comment=kairan-node=64M,kairan-job <<-'J'
		#!/bin/bash
		srun "$WORK/writer" 600
	J
	)
	writes "$job".node{1,2,3}
	server_down
	away "$job"
}
# The job is cancelled while its close(2) waits for the server.
server_away_cancelled() {
	local job
	configured "" 5
	job=$(submit --comment=kairan-node=64M,kairan-job <<-'J'
		#!/bin/bash
		srun "$WORK/writer" 600
	J
	)
	writes "$job".node{1,2,3}
	server_down
	for i in 1 2 3; do
		expect 60 "600 records of node$i" all_acknowledged "$job.node$i" 600
	done
	sleep 3 # and does not end
	is_state "$job" RUNNING || fail "close(2) does not wait: job $job is $(state "$job")"
	slurm scancel "$job"
	away "$job"
}
# The server is back before the epilogue gives up.
server_returns() {
	local job
	configured ,close=async 120
	job=$(submit --comment=kairan-node=64M,kairan-job <<<$'#!/bin/bash\nsrun "$WORK/writer" 600')
	writes "$job".node{1,2,3}
	server_down
	expect 60 "job $job that waits" is_state "$job" COMPLETING
	sleep 15 # the server is away for so long
	is_state "$job" COMPLETING || fail "job $job is $(state "$job")"
	server_up
	ends "$job" COMPLETED
	at_server "$job".node{1,2,3}
	nothing_left
}
# The prologue waits for the server.
server_away_at_start() {
	local job
	configured ,connect_timeout=60 60
	server_down
	job=$(submit --comment=kairan-node=64M,kairan-job <<<$'#!/bin/bash\nsrun "$WORK/writer" 100')
	expect 30 "job $job that waits" is_state "$job" RUNNING
	sleep 25 # the server is away for so long
	[ ! -e "$WORK/out/$job" ] || fail "job $job runs without a server: $(cat "$WORK/out/$job")"
	server_up
	ends "$job" COMPLETED
	at_server "$job".node{1,2,3}
	nothing_left
}
# The prologue gives up: Slurm drains the nodes, and the job waits, held.
no_server_at_start() {
	local job node
	configured ,connect_timeout=2 60
	server_down
	job=$(submit --comment=kairan-node=64M,kairan-job <<<$'#!/bin/bash\nsrun "$WORK/writer" 100')
	for node in node1 node2 node3; do
		expect 60 "$node is drained" drained $node "Prolog error"
	done
	expect 30 "job $job that waits" is_state "$job" PENDING
	server_up
	for node in node1 node2 node3; do resume $node; done
	slurm scontrol release "$job" || fail "no release"
	ends "$job" COMPLETED 120
	at_server "$job".node{1,2,3}
	nothing_left
}
# The prologue fails on one node, because its disk is away. The others' mounts go before the job runs again, with its number.
one_without_disk() {
	local job
	on node2 mv /mnt/local /mnt/away
	job=$(submit --comment=kairan-node=64M,kairan-job <<<$'#!/bin/bash\nsrun "$WORK/writer" 100')
	expect 60 "node2 is drained" drained node2 "Prolog error"
	expect 60 "job $job that waits" is_state "$job" PENDING
	expect 60 "node1 is idle" is_idle node1
	expect 60 "node3 is idle" is_idle node3
	nothing_left
	on node2 mv /mnt/away /mnt/local
	resume node2
	slurm scontrol release "$job" || fail "no release"
	ends "$job" COMPLETED 120
	at_server "$job".node{1,2,3}
	nothing_left
}
# All processes of a node are killed, and its mounts go, as in a crash; its disk stays.
node_crashed() {
	local job pid
	job=$(submit --no-requeue --comment=kairan-node=64M,kairan-job <<<"$WRITES")
	writes "$job".node{1,2,3}
	for pid in $(pgrep -f 'slurm|kairan|writer'); do
		[ "$pid" = "${KEEPER[node3]}" ] || [ "$(nsenter -t "$pid" -u hostname)" != node3 ] || kill -KILL "$pid"
	done
	rm "$WORK/node3/slurmd.pid"
	mounts_of node3 | while read -r mounted; do on node3 umount -l "$mounted"; done
	on node3 rm -r /run/kairan
	slurmd_start 3
	expect 120 "the end of job $job" over "$job"
	idle
	next_job
	at_server "$job".node{1,2,3}
	nothing_left
}
slurmd_killed() {
	local job pid
	job=$(submit --comment=kairan-node=64M,kairan-job <<-'J'
		#!/bin/bash
		srun "$WORK/writer" 1000
		srun bash -c 'echo "$KAIRAN_JOB" >"$KAIRAN_NODE/file" && cat "$KAIRAN_NODE/file" && hostname >"$KAIRAN_JOB/$(hostname)"'
	J
	)
	writes "$job".node{1,2,3}
	for i in 1 2; do # the batch script's, and another
		pid=$(cat "$WORK/node$i/slurmd.pid")
		kill -KILL "$pid" && until_ok 10 "end of slurmd" gone "$pid" || fail "slurmd of node$i"
		rm "$WORK/node$i/slurmd.pid"
		slurmd_start $i
	done
	ends "$job" COMPLETED 90
	[ "$(grep -cx "/mnt/job/$job" "$WORK/out/$job")" = 3 ] || fail "$(cat "$WORK/out/$job")"
	at_server "$job".node{1,2,3}
	nothing_left
}

# row CASE WORDS: as a process of its own, so that it fails alone; in the end no node is drained.
no_jobs() { [ -z "$(slurm squeue -h)" ]; }
failures=0 count=0
row() {
	local start=$SECONDS result=ok name
	[ -z "$ONLY" ] || [[ " $ONLY " == *" $1 "* ]] || return
	configured "" 60
	count=$((count + 1))
	if ! ("$1" && idle) >"$WORK/said" 2>&1; then
		result=$(sed -n '/^FAILED/,$p' "$WORK/said" | tr '\n' ' ')
		failures=$((failures + 1))
	fi
	DAEMON[server]=$(cat "$WORK/server.pid")
	printf '%-72s %4d s  %s\n' "$2" $((SECONDS - start)) "$result"
	[ "$result" != ok ] || return
	cp "$WORK/said" "$WORK/said.$1"
	alive "${DAEMON[server]}" || server_up
	slurm scancel -u $USER_NAME
	until_ok 150 "no jobs" no_jobs
	for name in node1 node2 node3; do
		drained $name . && resume $name
	done
	until_ok 90 "nodes that are idle" all_idle
	for name in node1 node2 node3; do
		mounts_of $name | while read -r mounted; do on $name umount -l "$mounted"; done
		on $name sh -c 'rm -rf /mnt/node/* /mnt/job/* /mnt/local/node /mnt/local/job /run/kairan/jobs*'
	done
}
ONLY=$*
: >"$WORK/records"
row three_nodes "three nodes: results at the server, scratch of both kinds"
row interactive "srun without a batch script"
row cancelled "scancel of a job that writes"
row out_of_time "a job's time limit"
row requeued "scontrol requeue: runs again, with new scratch"
row side_by_side "two jobs on the same nodes"
row export_killed "kairanfs of the export killed"
row member_killed "kairanfs of shared scratch killed, not the head's"
row head_killed "kairanfs of shared scratch killed, the head's"
row child_left "a process is left in the scratch"
row server_away "kairand down at the job's end: drained, the next job sends"
row server_away_cancelled "kairand down, and scancel of a job whose close(2) waits"
row server_returns "kairand down, and back while the epilogue waits"
row server_away_at_start "kairand down, and back while the prologue waits"
row no_server_at_start "kairand down, the prologue gives up: drained, the job waits"
row one_without_disk "the prologue fails on one node: drained, the job waits"
row node_crashed "a node crashes under a job"
row slurmd_killed "slurmd killed and started again during a job"
[ $count -gt 0 ] || fail "no case '$ONLY'"
echo "$count cases, $failures failed; $(awk '{sum += $1} END {print sum + 0}' "$WORK/records") acknowledged records of 4 KiB" \
	"compared at the server"
check_logs "$WORK/kairand.log" && [ $failures = 0 ]

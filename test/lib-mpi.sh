# Shell functions for MPI programs on the test cluster: source it after lib.sh, before the cluster is made.
#
# mpirun starts on node1 and reaches the other nodes through a script in place of rsh that enters their namespaces.  Every
# node mounts at the same path (in its own mount namespace), so that one file name is right for all ranks, and has its own
# /dev/shm; /etc/hosts names the nodes.  The MPI libraries tell nodes by their host names: ranks on different nodes
# talk TCP over the limited links only.
#
# Programs are built as $B/test/mpi/NAME.openmpi and NAME.mpich when the libraries are there.  In a build with ASan they and the
# layer are sanitized; the MPI libraries are not, and they leak.

MPI_MNT=$WORK/mnt         # the mount point, on every node
MPI_PLAIN=$WORK/plain     # a directory of the local disk that all nodes see
MPI_LIMIT=${MPI_LIMIT:-200}   # seconds until a run counts as hung
MPI_LAYER=$B/mpiio/libkairan-mpiio.so   # for LD_PRELOAD, with either MPI
MPI_ENV=()                # NAME=VALUE for every rank
MPI_OPTIONS=()            # options of Open MPI's mpirun
MPI_IDLE=${MPI_IDLE:-sleep}   # what a rank does that waits for another: "spin" for benchmarks, as on a cluster

# The sanitizer's own library must come before a preloaded layer.
MPI_SANITIZER=$(ldd "$MPI_LAYER" 2>/dev/null | awk '$1 ~ /^libasan/ { print $3 ":" }')
export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
# mpi_preload [LIBRARY]: LD_PRELOAD of a rank.
mpi_preload() {
	local idle=$B/test/mpi/libidle_ranks.so
	[ "$MPI_IDLE" = sleep ] || idle=""
	echo "$MPI_SANITIZER${1:+$1:}$idle"
}

mnt() { echo "$MPI_MNT"; }
seen_from_here() { echo "/proc/${KEEPER[node$1]}/root$MPI_MNT"; }

# mpi_need MPI...: skips the case where one is not installed.
mpi_need() {
	local mpi
	for mpi in "$@"; do [ -x "$B/test/mpi/conformance.$mpi" ] || skip "the build has no programs for $mpi"; done
}

# mpi_up N [RATE]: a cluster, not yet mounted, whose nodes mpirun can reach.
mpi_up() {
	local i
	mkdir -p "$MPI_MNT" "$MPI_PLAIN" "$WORK/t"
	cluster "$@"
	{
		echo '#!/bin/sh'
		echo '# enter [OPTION...] HOST COMMAND...: what rsh would do.'
		echo 'while :; do case $1 in -*) shift ;; *) break ;; esac; done'
		echo 'host=$1; shift; case $host in'
		for i in $(seq "$NODES"); do echo "node$i) pid=${KEEPER[node$i]} ;;"; done
		echo '*) echo "no host $host" >&2; exit 1 ;; esac'
		echo 'exec nsenter -t $pid -n -u -m -- sh -c "$*"'
	} >"$WORK/enter"
	chmod +x "$WORK/enter"
	{ echo "127.0.0.1 localhost"; for i in $(seq "$NODES"); do echo "10.77.1.$i node$i"; done; } >"$WORK/hosts"
	[ -e /etc/hosts ] || : >/etc/hosts # to mount on
	for i in $(seq "$NODES"); do
		on "node$i" mount --bind "$WORK/hosts" /etc/hosts || fail "/etc/hosts of node$i"
		on "node$i" mount -t tmpfs tmpfs /dev/shm || fail "/dev/shm of node$i"
	done
}

# mpi_run MPI RANKS_PER_NODE block|robin|backwards PROGRAM [ARG...]: a program of test/mpi (or with a path) on all nodes.
# block: ranks 0..R-1 on node1; robin: rank i on node 1 + i % nodes; backwards: as block, from the last node to node1
# (mpirun starts there, since Open MPI counts its own node first).  Open MPI's component for MPI-IO: MPI_IO=romio|ompio.
mpi_run() {
	local mpi=$1 ranks=$2 placement=$3 program=$4 i hosts="" words env=() layer="" nodes from=node1 io=${MPI_IO:-romio}
	shift 4
	[ "$io" != romio ] || io=^ompio # romio321 is its name in Open MPI 4, romio341 in 5
	nodes=$(seq "$NODES")
	[ "$placement" != backwards ] || { nodes=$(seq "$NODES" -1 1); from=node$NODES; }
	for i in "${MPI_ENV[@]}"; do
		case $i in LD_PRELOAD=*) layer=${i#*=} ;; *) env+=("$i") ;; esac
	done
	env+=("LD_PRELOAD=$(mpi_preload "$layer")")
	[ -z "$MPI_SANITIZER" ] || env+=("ASAN_OPTIONS=$ASAN_OPTIONS" "UBSAN_OPTIONS=$UBSAN_OPTIONS")
	case $program in */*) ;; *) program=$B/test/mpi/$program.$mpi ;; esac
	case $mpi in
	openmpi)
		for i in $nodes; do hosts=$hosts,node$i:$ranks; done
		words=(mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --host "${hosts#,}" -np $((NODES * ranks))
			--mca plm_rsh_agent "$WORK/enter" --mca orte_tmpdir_base "$WORK/t" --mca orte_keep_fqdn_hostnames 0
			--mca pml ob1 --mca btl tcp,vader,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0
			--mca btl_vader_single_copy_mechanism none --mca mpi_yield_when_idle 1 --mca orte_abort_on_non_zero_status 1
			--mca io "$io")
		case $placement in robin) words+=(--map-by node) ;; *) words+=(--map-by slot) ;; esac
		words+=("${MPI_OPTIONS[@]}")
		for i in "${env[@]}"; do words+=(-x "$i"); done
		;;
	mpich)
		for i in $nodes; do hosts=$hosts,node$i; done
		words=(mpiexec.mpich -launcher rsh -launcher-exec "$WORK/enter" -iface eth0 -hosts "${hosts#,}" -n $((NODES * ranks))
			-genv UCX_TLS tcp,self,sysv -genv UCX_NET_DEVICES eth0 -genv UCX_TCP_PUT_ENABLE n) # with put, ranks hang in MPI_Finalize
		case $placement in robin) words+=(-ppn 1) ;; *) words+=(-ppn "$ranks") ;; esac
		for i in "${env[@]}"; do words+=(-genv "${i%%=*}" "${i#*=}"); done
		;;
	*) fail "no MPI $mpi" ;;
	esac
	on "$from" timeout -k 2 $((MPI_LIMIT * SLOW)) env -C "$WORK" HOME="$WORK" "${words[@]}" "$program" "$@" && return
	i=$?
	tail -n 40 "$WORK"/sanitizer.* >&2 2>/dev/null
	return $i
}

# mpi_conformance MPI RANKS_PER_NODE PLACEMENT DIR [OPTION...]: all scenarios of test/mpi/conformance.c over files in DIR.
# The files that they leave on the server are what the models say.
mpi_conformance() {
	local models=$WORK/models file
	rm -rf "$models" && mkdir "$models"
	mpi_run "$1" "$2" "$3" conformance "$4" "$models" "${@:5}" >"$WORK/conformance" 2>&1 || { cat "$WORK/conformance" >&2; return 1; }
	sed -n 's/^ok //p' "$WORK/conformance" | paste -s -d,
	case $4 in
	*"$MPI_MNT")
		for file in "$models"/*; do same "$file" "$EXPORT/${file##*/}"; done
		on node1 sh -c "rm -f '$MPI_MNT'/* '$MPI_MNT'/.[a-z]*"
		;;
	esac
}
# mpi_library_defect MPI SCENARIO: 0 when the library fails it on a local directory too, on one node.
mpi_library_defect() {
	local NODES=1
	rm -rf "$MPI_PLAIN" && mkdir "$MPI_PLAIN"
	! mpi_conformance "$1" 8 block "$MPI_PLAIN" "$2" 2>/dev/null
}

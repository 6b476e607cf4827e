# The same over a volume of GlusterFS with two replicas: two gateways, each with a brick, export their mounts of it.
. "$TOP/test/lib.sh"
. "$TOP/test/lib-gateways.sh"
command -v glusterd >/dev/null && command -v glusterfs >/dev/null || skip "no glusterfs-server"
cluster 4
# Without geo-replication, for which each glusterd would start Python dozens of times.
mkdir "$WORK/without" && mknod "$WORK/without/gsyncd" c 0 0 || skip "no mknod"
for i in 1 2; do
	nsenter -t "${KEEPER[node$i]}" -m -- sh -c "for place in /run /var/lib /var/log; do mount -t tmpfs volume \$place || exit 1; done
		mkdir -p /var/lib/glusterd /var/log/glusterfs /run/gluster '$WORK/node$i/bricks' && mount -t tmpfs brick '$WORK/node$i/bricks' && mkdir '$WORK/node$i/bricks/brick'
		for geo in /usr/lib/*/glusterfs /usr/libexec/glusterfs; do
			[ ! -e \$geo/gsyncd ] || mount -t overlay -o lowerdir='$WORK/without':\$geo without \$geo || exit 1
		done" || fail "places for glusterd"
	on "node$i" glusterd -p /run/glusterd.pid || fail "glusterd on node$i: $(on "node$i" tail -5 /var/log/glusterfs/glusterd.log)"
done
gluster() { on node1 gluster --mode=script "$@" >"$WORK/said" 2>&1 || { cat "$WORK/said" >&2; return 1; }; }
until_ok 30 "peers" gluster peer probe 10.77.1.2 || fail "no peer"
until_ok 30 "both" sh -c "nsenter -t ${KEEPER[node1]} -n -u -m -- gluster peer status | grep -q 'Peer in Cluster (Connected)'" || fail "no peer"
gluster volume create shared replica 2 "10.77.1.1:$WORK/node1/bricks/brick" "10.77.1.2:$WORK/node2/bricks/brick" force || fail "no volume"
gluster volume start shared || fail "the volume does not start"
network_fs_back() {
	nsenter -t "${KEEPER[node$1]}" -n -u -m -- glusterfs --no-daemon --volfile-server="10.77.1.$1" --volfile-id=/shared "$(mnt "$1")" >"$WORK/node$1/glusterfs.log" 2>&1 &
	DAEMON[glusterfs$1]=$!
	until_ok 30 "the volume on node$1" on "node$1" sh -c "grep -q ' $(mnt "$1") fuse.glusterfs' /proc/mounts && stat '$(mnt "$1")/.'" || fail "no mount: $(cat "$WORK/node$1/glusterfs.log")"
}
network_fs_lost() {
	kill -KILL "${DAEMON[glusterfs$1]}"
	wait "${DAEMON[glusterfs$1]}"
	on "node$1" umount -l "$(mnt "$1")"
	true
}
# Inode numbers come from random identifiers: none is used again.  For a second a client believes in a name that is gone.
use_up_inodes() { true; }
give_back_inodes() { true; }
is_open_still() { true; }
is_used_again() { true; }
for i in 1 2; do network_fs_back $i; done
TURNS=10 # each takes a second, for which a client of GlusterFS believes what it knows
gateways_hold
for i in 1 2; do on node$i umount "$(mnt $i)" && wait "${DAEMON[glusterfs$i]}"; done
gluster volume stop shared force || fail "the volume does not stop"
for i in 1 2; do kill "$(on node$i cat /run/glusterd.pid)"; done
finish

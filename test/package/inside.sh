# Run by test/package/run in the Debian in which it has installed the packages: what an administrator does with them, to their end.
# The argument is the time at which the installation began, in nanoseconds.
set -u
start=$1
fail() {
	echo "FAILED: $*" >&2
	tail -5 /tmp/kairand.log /tmp/said 2>/dev/null >&2
	exit 1
}
note() { echo "-- $*"; }
until_ok() {
	local limit=$((SECONDS + 60))
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $limit ] || return 1
		sleep 0.05
	done
}
mounted() { grep -q '^localhost:/ /mnt/data fuse.kairanfs ' /proc/mounts; }
mount_daemon() { grep -lz '^kairanfs' /proc/[0-9]*/comm | sed 's|/proc/\([0-9]*\)/comm|\1|'; }
no_daemon() { [ -z "$(mount_daemon)" ]; }
# The server must not hold descriptor 3 of this shell, which is a file on the mount.
server_start() {
	: >/tmp/kairand.log
	kairand /srv/data 2>/tmp/kairand.log 3>&- &
	server=$!
	until_ok grep -q ready /tmp/kairand.log || fail "kairand does not start"
}
server_stop() { kill -TERM "$server"; wait "$server"; }

mkdir -p /srv/data /mnt/data
server_start
mount -t kairanfs localhost:/ /mnt/data || fail "mount -t kairanfs"
echo hello >/mnt/data/file && [ "$(cat /srv/data/file)" = hello ] || fail "the first file"
note "from packages to the first file on the server: $((($(date +%s%N) - start) / 1000000)) ms"
for program in kairand kairanfs kairan; do
	"$program" --version | grep -q "^$program [0-9]" || fail "$program --version"
done

note "what lies where"
for page in kairan.1 kairan-mpiio.7 kairand.8 kairanfs.8 kairan-setup.8 mount.kairanfs.8; do
	[ -e "/usr/share/man/man${page##*.}/$page.gz" ] || fail "no $page"
done
! zgrep -l /usr/local /usr/share/man/man[178]/kairan* || fail "pages name /usr/local"
! grep -rl /usr/local /lib/systemd/system/kairand@.service /usr/share/kairan || fail "these name /usr/local"
for file in README.md CHANGELOG.md docs/operations.md; do
	[ -s "/usr/share/doc/kairan/$file" ] || fail "no $file"
done
[ "$(find /usr/lib -name 'libkairan-mpiio*.so' | wc -l)" = 3 ] || fail "not a library to preload and one for each MPI"
! dpkg -s libopenmpi3 libmpich12 >/dev/null 2>&1 || fail "the package brings a library for MPI"
[ -z "$(env LD_PRELOAD=libkairan-mpiio.so true 2>&1)" ] || fail "not found by its name, or a word of it"
[ "$(dpkg-query -W -f '${Conffiles}' kairan-server | grep -c ' /etc/default/kairand ')" = 1 ] || fail "no conffile"

note "the service is off until somebody enables an export"
[ "$(find /etc/systemd -name '*kairan*')" = "" ] || fail "something is enabled: $(find /etc/systemd -name '*kairan*')"
systemctl enable kairand@srv-data 2>/tmp/said && [ -L /etc/systemd/system/multi-user.target.wants/kairand@srv-data.service ] || fail "systemctl enable"

note "an upgrade under a mount with an open file"
exec 3>>/mnt/data/open
echo before >&3
daemon=$(mount_daemon)
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /next/*.deb >/tmp/said 2>&1 || fail "the upgrade"
grep -q "next" <(dpkg-query -W -f '${Version}\n' kairan-node) || fail "not upgraded"
[ "$(mount_daemon)" = "$daemon" ] && readlink "/proc/$(tr ' ' '\n' <<<"$daemon" | head -1)/exe" | grep -q deleted || fail "the mount does not go on with its program"
echo between >&3 || fail "a write after the upgrade of the node"
server_stop
server_start
echo after >&3 || fail "a write after the restart of the server"
kairan flush /mnt/data >/tmp/said 2>&1 || fail "flush"
[ "$(cat /srv/data/open)" = "$(printf 'before\nbetween\nafter')" ] || fail "the file: $(cat /srv/data/open)"
! umount /mnt/data 2>/tmp/said && grep -q busy /tmp/said || fail "umount under an open file"
exec 3>&-
umount /mnt/data || fail "umount"
mount -t kairanfs localhost:/ /mnt/data -o close=async,flush_age=1000,drain_timeout=1 || fail "mount again"
! readlink "/proc/$(mount_daemon | head -1)/exe" | grep -q deleted || fail "the new mount runs the old program"

note "removal: bytes in the journal, the export and its state stay"
exec 3>/mnt/data/kept
server_stop
echo kept >&3
exec 3>&-
umount -c /mnt/data >/tmp/said 2>&1
grep -q "kept: 5 bytes" /tmp/said && ! mounted || fail "what is left is not told"
DEBIAN_FRONTEND=noninteractive apt-get purge -y 'kairan-*' >/tmp/said 2>&1 || fail "purge"
! dpkg-query -W -f '${Package} ${db:Status-Status}\n' 'kairan-*' 2>/dev/null | grep -v not-installed || fail "still there"
left=$(find / -xdev \( -path /proc -o -path /packages -o -path /next \) -prune -o -iname '*kairan*' -print | sort)
[ "$left" = "$(printf '%s\n' /srv/data/.kairan /tmp/kairand.log /var/lib/kairan /var/tmp/kairan-0)" ] || fail "purge leaves: $left"
[ "$(cat /srv/data/file)" = hello ] && [ "$(find /var/lib/kairan -type f)" ] && [ "$(find /var/tmp/kairan-0 -type f)" ] || fail "the export, its state or a journal is gone"

note "installed again"
dpkg -i /packages/kairan-server_*.deb /packages/kairan-node_*.deb >/tmp/said 2>&1 || fail "installation"
server_start
mount -t kairanfs localhost:/ /mnt/data || fail "mount"
[ "$(cat /mnt/data/kept)" = kept ] || fail "what was in the journal"
! ls /srv/data/*.conflict-* 2>/dev/null || fail "nobody else has written it"
umount /mnt/data || fail "umount"
[ "$(cat /srv/data/kept)" = kept ] || fail "what was in the journal is not on the server"

note "purge under a mount"
mount -t kairanfs localhost:/ /mnt/data || fail "mount"
DEBIAN_FRONTEND=noninteractive apt-get purge -y kairan-node >/tmp/said 2>&1 || fail "purge"
echo on >/mnt/data/on || fail "the mount does not go on"
umount /mnt/data || fail "umount without its helper"
until_ok no_daemon || fail "the daemon stays"
[ "$(cat /srv/data/on)" = on ] || fail "what was written after that"
server_stop

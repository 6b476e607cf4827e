# Run by test/package/run in namespaces of its own: kairan-setup installs packages by ssh on three copies of a Debian, a server and two
# nodes, sets them up, and installs later packages. Arguments: that Debian's root directory, what its apt has fetched for the packages,
# directories with packages, and with later ones.
. "$TOP/test/lib.sh"
debian=$1 archives=$2 debs=$3 later=$4
cluster 2
host admin 10.77.2.1
ssh-keygen -q -t ed25519 -N '' -f "$WORK/key" || fail "no key for ssh"
printf '%s\n' "IdentityFile $WORK/key" "UserKnownHostsFile $WORK/known" "StrictHostKeyChecking accept-new" "BatchMode yes" \
	"Host fs1" "HostName $SERVER_ADDRESS" "Host node1" "HostName 10.77.1.1" "Host node2" "HostName 10.77.1.2" >"$WORK/ssh_config"
for name in server node1 node2; do
	mkdir -p "$WORK/$name"/{upper,work,root,srv,scratch}
	on "$name" sh -c "cd $WORK/$name && mount -t overlay -o lowerdir=$debian,upperdir=upper,workdir=work debian root && cd root &&
		mount -t proc proc proc && mount -t tmpfs -o mode=755 run run && mkdir -p run/sshd scratch root/.ssh &&
		mount --bind ../srv srv && mount --bind ../scratch scratch && mount --bind $archives var/cache/apt/archives &&
		cp $WORK/key.pub root/.ssh/authorized_keys && chmod 700 root/.ssh && echo '$SERVER_ADDRESS fs1' >>etc/hosts && chroot . /usr/sbin/sshd" ||
		fail "no $name"
done
setup() { on admin "$TOP/conf/kairan-setup" --rsh "ssh -F $WORK/ssh_config" "$@" root@fs1 root@node1 root@node2 >"$WORK/said" 2>&1; }
in_root() { on "$1" chroot "$WORK/$1/root" "${@:2}"; }

setup --packages "$debs" --dry-run && grep -q "node2: would install kairan-node_" "$WORK/said" || fail "a dry run: $(cat "$WORK/said")"
start=$SECONDS
setup --packages "$debs" || fail "$(cat "$WORK/said")"
note "one command: $((SECONDS - start)) s"
in_root node1 sh -c 'echo hello >/mnt/data/file' && [ "$(in_root node2 cat /mnt/data/file)$(cat "$WORK/server/srv/data/file")" = hellohello ] || fail "the nodes do not share the export"
[ ! -e "$WORK/node1/root/var/cache/kairan-setup" ] || fail "packages are left behind"
setup --packages "$debs" && [ "$(grep -c ': nothing to change$' "$WORK/said")" = 3 ] && [ "$(wc -l <"$WORK/said")" = 3 ] || fail "once more: $(cat "$WORK/said")"
in_root node1 sh -c 'exec 3>/mnt/data/open; echo before >&3; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo after >&3' &
writer=$!
setup --packages "$later" && [ "$(grep -c ': done: install kairan' "$WORK/said")" = 3 ] && [ "$(wc -l <"$WORK/said")" = 3 ] || fail "an upgrade: $(cat "$WORK/said")"
in_root node2 dpkg-query -W -f '${Version}' kairan-node | grep -q next || fail "not upgraded"
in_root node1 touch /tmp/go
wait $writer && [ "$(cat "$WORK/server/srv/data/open")" = "$(printf 'before\nafter')" ] || fail "an open file does not outlive the upgrade"
for name in node1 node2; do in_root $name umount /mnt/data || fail "umount on $name"; done

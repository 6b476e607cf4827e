# kairan-setup: by ssh, from a machine beside them, it sets up a server and nodes that have the programs, and says what fails
# on which host. Installing packages is test/package/run's.
# timeout: 300
. "$TOP/test/lib.sh"
BIN=$WORK/bin
mkdir "$BIN" && cp "$B/server/kairand" "$B/fuse/kairanfs" "$B/tools/kairan" "$TOP/conf/kairan-setup" "$BIN/" || fail "no programs"
cluster 3
host admin 10.77.2.1
HOSTS="server node1 node2 node3"
LOCAL=$WORK/local/kairan
mkdir "$WORK/local"
# Each has /etc, /srv, /mnt and the like of its own, and no systemd.
for name in $HOSTS admin; do
	mkdir -p "$WORK/disk/$name" "$WORK/etc/$name"
	on "$name" sh -c "mount -t tmpfs -o mode=755 etc $WORK/etc/$name && cp -a /etc/. $WORK/etc/$name/ && mount --bind $WORK/etc/$name /etc &&
		for place in run srv mnt var/lib var/log; do mount -t tmpfs -o mode=755 own /\$place || exit 1; done
		mkdir -p /run/sshd /run/kairan && mount --bind $WORK/disk/$name $WORK/local && mount --bind $BIN /usr/local/bin &&
		printf '$SERVER_ADDRESS fs1\n' >>/etc/hosts && sed -i '\\| /mnt/data |d' /etc/fstab && rm -rf /etc/kairan*" || fail "directories of $name"
done
tree() { on "$1" find /etc /srv /mnt -xdev -newer "$2" ! -type l -print; }

if [ -x /usr/sbin/sshd ]; then
	ssh-keygen -q -t ed25519 -N '' -f "$WORK/host" && ssh-keygen -q -t ed25519 -N '' -f "$WORK/user" || fail "keys for ssh"
	printf '* %s\n' "$(cut -d' ' -f1,2 "$WORK/host.pub")" >"$WORK/known"
	printf '%s\n' "HostKey $WORK/host" "AuthorizedKeysFile $WORK/user.pub" "StrictModes no" "UsePAM no" "PidFile none" >"$WORK/sshd_config"
	printf '%s\n' "IdentityFile $WORK/user" "UserKnownHostsFile $WORK/known" "BatchMode yes" "ConnectTimeout 3" "User root" "ControlMaster auto" "ControlPath /run/ssh-%h" "ControlPersist 60" >"$WORK/ssh_config"
	for name in $HOSTS; do printf 'Host %s\nHostName %s\n' "$name" "$(on "$name" hostname -I | tr -d ' ')" >>"$WORK/ssh_config"; done
	for name in server node1 node2; do
		on "$name" sed -i 's/^root:[^:]*:/root:*:/' /etc/shadow # an account with a key, and without a user's profile
		on "$name" sed -i 's|^root:.*|root:x:0:0::/:/bin/sh|' /etc/passwd
		on "$name" /usr/sbin/sshd -f "$WORK/sshd_config" || fail "sshd on $name"
	done
	RSH="ssh -F $WORK/ssh_config"
else
	note "without sshd: a script enters the hosts"
	{ echo '#!/bin/bash'; declare -p KEEPER; echo '[ "$1" != node3 ] && PATH=/usr/local/bin:$PATH exec nsenter -t "${KEEPER[$1]}" -n -u -m -- "${@:2}"; echo "no route to host" >&2; exit 255'; } >"$WORK/rsh"
	chmod +x "$WORK/rsh"
	RSH=$WORK/rsh
fi
setup() { on admin kairan-setup --rsh "$RSH" --address fs1 --local "$LOCAL" "$@" >"$WORK/said" 2>&1; }
said() { grep -qF "$1" "$WORK/said" || fail "it does not say \"$1\": $(cat "$WORK/said")"; }

note "a dry run, and the real one with a node that cannot be reached"
touch "$WORK/before"
setup --dry-run server node1 node2 || fail "dry run: $(cat "$WORK/said")"
said "server: would make the key /etc/kairan.key"
said "node2: would mount /mnt/data"
for name in $HOSTS; do [ -z "$(tree $name "$WORK/before")" ] || fail "a dry run changes $(tree $name "$WORK/before")"; done
setup server node1 node3 node2
[ $? = 1 ] || fail "the end: $(cat "$WORK/said")"
said "node3: failed: it cannot be reached: "
said "kairan-setup: failed on node3"
said "server: done: start kairand without systemd"
! grep "to root alone" "$WORK/said" || fail "others could read a key for a moment"
for i in 1 2; do
	said "node$i: done: mount /mnt/data"
	[ "$(on node$i stat -c %a:%u:%g /etc/kairan.key)" = 600:0:0 ] || fail "whose is the key on node$i?"
	on node$i sh -c "echo $i >/mnt/data/file$i"
done
[ "$(on node1 cat /mnt/data/file2)" = 2 ] && [ "$(on server cat /srv/data/file1)" = 1 ] || fail "the nodes do not share the export"
on node1 umount /mnt/data && on node1 mount /mnt/data || fail "mount by fstab alone"

note "once more: nothing"
touch "$WORK/before"
setup server node1 node2 || fail "$(cat "$WORK/said")"
[ "$(grep -c ': nothing to change$' "$WORK/said")" = 3 ] && [ "$(wc -l <"$WORK/said")" = 3 ] || fail "once more: $(cat "$WORK/said")"
for name in $HOSTS; do [ -z "$(tree $name "$WORK/before")" ] || fail "changes $(tree $name "$WORK/before")"; done

# A stand-in for systemd, on the server alone: it starts what the unit says.
mkdir "$WORK/unit"
cat >"$BIN/systemctl" <<S
#!/bin/sh
echo "\$*" >>$WORK/systemctl.said
case \$* in
"-q is-active kairand@srv-data.service") pgrep -x kairand >/dev/null ;;
"-q is-enabled kairand@srv-data.service") [ -e $WORK/unit/enabled ] ;;
"enable --now kairand@srv-data.service")
	touch $WORK/unit/enabled
	! pgrep -x kairand >/dev/null || exit 0
	KAIRAND_OPTIONS= && eval "set -- \$(sed -n 's/^ExecStart=[^ ]*//p' $B/conf/kairand@.service | sed 's|%f|/srv/data|')"
	kairand "\$@" </dev/null >>/var/log/kairand.log 2>&1 &
	;;
*) exit 1 ;;
esac
S
chmod +x "$BIN/systemctl"
on server mkdir -p /run/systemd/system
command -v systemd-escape >/dev/null || { printf '#!/bin/sh\necho srv-data\n' >"$BIN/systemd-escape" && chmod +x "$BIN/systemd-escape"; }

note "what has changed meanwhile is set right, and what is somebody's own is not"
kill -KILL "$(pgrep -x kairand)"
kill -KILL "$(on node1 kairan status --json /mnt/data | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])')"
until_ok 20 "the ends" sh -c "! pgrep -x kairand && ! nsenter -t ${KEEPER[node1]} -m ls /mnt/data" || fail "they live"
on node2 chmod 644 /etc/kairan.key
on node2 sh -c "echo '{}' >/etc/kairan/kairan.json"
setup --options ring_port=7450-7459 server node1 node2 || fail "$(cat "$WORK/said")"
said "server: done: start kairand@srv-data.service, now and at boot"
said "node1: done: mount /mnt/data"
said "node2: done: give /etc/kairan.key to root alone"
said "node2: note: /etc/kairan/kairan.json has another content, and stays as it is"
said "node2: note: the mount stays as it is, until it is unmounted and mounted again"
for i in 1 2; do [ "$(on node$i grep -c " /mnt/data .*,ring_port=7450-7459 " /etc/fstab)" = 1 ] || fail "fstab: $(on node$i cat /etc/fstab)"; done
[ "$(on node1 cat /mnt/data/file2)" = 2 ] || fail "the mount of node1 is not there again"
on node2 umount /mnt/data
on node2 sed -i 's|^fs1.*|disk /mnt/data ext4 defaults 0 0|' /etc/fstab
on node1 sh -c "umount /mnt/data; kairan key /etc/other.key 2>/dev/null; mv /etc/other.key /etc/kairan.key"
setup server node1 node2
[ $? = 1 ] || fail "wrong hosts: $(cat "$WORK/said")"
said "node1: failed: /etc/kairan.key is not the server's key"
said "node2: failed: /etc/fstab has a line for /mnt/data that is not of kairan-setup: disk /mnt/data ext4 defaults 0 0; remove that line"
on node1 rm /etc/kairan.key
mine="fs1:/ /mnt/data fuse.kairanfs close=async,local=/scratch/mine 0 0"
on node2 sed -i "s|^disk.*|$mine|" /etc/fstab
setup server node2
[ $? = 1 ] && said "node2: failed: /etc/fstab has a line for /mnt/data that is not of kairan-setup: $mine; remove" && on node2 grep -qx "$mine" /etc/fstab
on node2 sed -i '\| /mnt/data |d' /etc/fstab
setup --options no_such_option server node1 node2
[ $? = 1 ] && said "node1: failed: cannot mount /mnt/data: kairanfs: " && said no_such_option && said "failed on node1 node2"
on node1 mount -t tmpfs other /mnt/data
setup --local /nowhere/kairan server node1
[ $? = 1 ] && said "node1: failed: there is no directory /nowhere; make it"
setup server node1
[ $? = 1 ] && said "node1: failed: something else is mounted on /mnt/data; unmount it"
on node1 umount /mnt/data
setup --export /srv/data --packages /nowhere server node1
[ $? = 64 ] && said "there is not one package kairan-server in /nowhere" || fail "wrong arguments: $(cat "$WORK/said")"
printf '#!/bin/sh\nshift\nexec setpriv --reuid daemon --regid daemon --clear-groups "$@"\n' >"$WORK/as_daemon" && chmod +x "$WORK/as_daemon"
setup --rsh "$WORK/as_daemon" server node1
[ $? = 1 ] && said "server: failed: the user here is daemon; name root: root@HOST" && said "no node was tried"

rm "$WORK/unit/enabled"
note "the end"
setup server node1 node2 || fail "$(cat "$WORK/said")"
said "server: done: start kairand@srv-data.service" # it was started, and not enabled
for i in 1 2; do on node$i umount /mnt/data || fail "umount on node$i"; done
kill -TERM $(pgrep -x kairand)
until_ok 30 "an end of kairand" sh -c "! pgrep -x kairand" || fail "kairand does not end"
on server cat /var/log/kairand.log >"$WORK/kairand.log"
check_logs || fail "see above"

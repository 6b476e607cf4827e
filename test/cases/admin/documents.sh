# What the documents tell to type works: the blocks of README.md and docs/operations.md that begin with "```sh run HOST".
# HOST is one (a machine by itself), server (10.0.0.1, fs1) or node (10.0.0.11). The blocks of a document run in its order, as root, with the
# programs installed below /usr/local, in a root directory of their own: what they make in /etc, /srv, /mnt... ends with the case.
# timeout: 300
. "$TOP/test/lib.sh"

DESTDIR=$WORK/destination meson install -C "$B" --no-rebuild >"$WORK/install.log" 2>&1 || fail "install: $(tail -3 "$WORK/install.log")"
PREFIX=$WORK/destination$(meson introspect --buildoptions "$B" | python3 -c 'import json, sys; print(*[o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"])')

note "what is installed"
for document in "$TOP"/*.md "$TOP"/docs/*.md; do
	cmp "$document" "$PREFIX/share/doc/kairan/${document#"$TOP"/}" || fail "$document is not installed"
done

# own_root: a root directory whose /usr and the like are the machine's, read-only, and whose other directories are new or copies.
own_root() {
	local new=$WORK/root entry
	mkdir "$new" && mount -t tmpfs -o mode=755 root "$new" || return 1
	for entry in /*; do
		case $entry in
		/srv | /mnt | /scratch) ;;
		/etc) cp -a /etc "$new/" || return 1 ;;
		*)
			if [ -L "$entry" ]; then
				cp -a "$entry" "$new/"
			elif [ -d "$entry" ]; then
				mkdir "$new$entry" && mount --rbind "$entry" "$new$entry" || return 1
			fi
			;;
		esac
	done
	mkdir "$new/srv" "$new/mnt" "$new/scratch" "$new/.former"
	mount --bind "$PREFIX" "$new/usr/local" || return 1
	for entry in usr var home root opt; do
		[ ! -d "$new/$entry" ] || mount -o remount,bind,ro "$new/$entry" || return 1
	done
	mount -t tmpfs state "$new/var/lib" || return 1
	# Local directories of mounts lie on the disk: of memory a mount warns.
	mkdir "$WORK/scratch" && mkdir -m 1777 "$WORK/tmp" || return 1
	mount --bind "$WORK/scratch" "$new/scratch" && mount --bind "$WORK/tmp" "$new/var/tmp" || return 1
	mkdir -p "$new$WORK" && mount --bind "$WORK" "$new$WORK" || return 1 # also where it lies below one of these
	cd "$new" && pivot_root . .former && cd / && umount -l /.former
}
own_root || fail "no root directory of its own"
sed -i '/\bfs1\b/d' /etc/hosts
echo "10.0.0.1 fs1" >>/etc/hosts
cluster 1
host one 10.77.2.1
on server ip addr add 10.0.0.1/8 dev eth0 && on node1 ip addr add 10.0.0.11/8 dev eth0 || fail "addresses"
export PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
hosts() { [ "$1" = node ] && echo node1 || echo "$1"; }

# blocks DOCUMENT: writes each to a file, and names these and their hosts in order.
blocks() {
	awk -v directory="$2" '
		/^```sh run [a-z]+$/ { host = $3; file = sprintf("%s/%02d-%s", directory, ++count, host); print file, host; printf "" >file; next }
		/^```/ { host = ""; next }
		host != "" { print >file }' "$1"
}

for document in README.md docs/operations.md; do
	directory=$WORK/${document##*/}
	mkdir "$directory"
	blocks "$TOP/$document" "$directory" >"$directory/list"
	[ "$(wc -l <"$directory/list")" = "$(grep -c '^```.*\brun\b' "$TOP/$document")" ] && [ -s "$directory/list" ] || fail "examples of $document are not marked as they should be"
	rm -rf /etc/kairan /etc/kairan.key
	while read -r file host <&3; do
		note "$document, on $host: $(head -1 "$file")"
		# Without a terminal and job control, as a script; what it starts in the background goes on.
		(cd "$TOP" && nsenter -t "${KEEPER[$(hosts "$host")]}" -n -u -m --wd="$TOP" -- timeout -k 5 $((60 * SLOW)) bash -euo pipefail "$file") </dev/null >"$file.said" 2>&1 ||
			fail "exit status $?: $(tail -5 "$file.said")"
	done 3<"$directory/list"
	for host in one server node1; do
		! on $host grep " fuse.kairanfs " /proc/mounts || fail "$document leaves a mount"
	done
	# Its servers end as at SIGTERM.
	servers=$(pgrep -x kairand)
	[ -z "$servers" ] || kill $servers
	until_ok 30 "an end of the servers" sh -c '! pgrep -x kairand' || fail "the servers of $document do not end"
	! grep -hE "error|warning" "$directory"/*.said | grep -v "trying again for" || fail "the examples of $document complain"
done
[ "$(cat /srv/data/result)" = result ] || fail "what the job wrote is not in the export"
finish

# The image of conf/Containerfile: what the recipe names exists, and its entry point serves nodes in a root directory like the
# image's, with the capabilities, mounts and limits of the command in docs/operations.md. test/package/run builds the image.
. "$TOP/test/lib.sh"
. /etc/os-release
[ "${VERSION_CODENAME:-}" = bookworm ] || skip "the image is a Debian 12"
cluster 1
M=$(mnt 1)
RECIPE=$TOP/conf/Containerfile
python3 "$TOP/test/programs/recipe.py" "$RECIPE" >"$WORK/recipe" || fail "the recipe cannot be read"
recipe() { sed -n "s/^$1 //p" "$WORK/recipe"; }

note "what the recipe names"
for path in $(recipe context); do
	[ -e "$TOP/$path" ] || fail "no $path to copy"
done
for option in $(recipe option); do
	grep -q "^option('${option%=*}', type: 'feature'" "$TOP/meson_options.txt" && [[ ${option#*=} =~ ^(enabled|disabled)$ ]] || fail "no option $option"
done
for package in $(recipe 'package [01]'); do
	dpkg-query -W "$package" >/dev/null 2>&1 || apt-cache show "$package" >/dev/null 2>&1 || fail "no package $package"
done
[[ $(recipe base) =~ ^[a-z]+:[0-9a-z.-]+$ ]] || fail "the base is $(recipe base)"
# The libraries that the programs are linked with, but for those of what the recipe leaves out, are those that it installs.
readelf -d "$B/server/kairand" "$B/tools/kairan" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
	grep -vE '^(libc|libm|ld-linux.*|libfuse3|libibverbs|librdmacm|lib.*san)\.so' | sort -u >"$WORK/needed"
ldd "$B/server/kairand" "$B/tools/kairan" | awk 'NR == FNR { needed[$1] } NR != FNR && $1 in needed { print $3 }' "$WORK/needed" - | sort -u |
	xargs realpath | xargs dpkg -S | sed 's/:.*//' | sort -u >"$WORK/libraries"
[ "$(wc -l <"$WORK/libraries")" = "$(wc -l <"$WORK/needed")" ] || fail "whose are the libraries? $(cat "$WORK/needed" "$WORK/libraries")"
diff <(recipe 'package 1' | sort) "$WORK/libraries" || fail "the image's libraries (<) are not those of the programs (>)"

note "what the document says"
# documented WORD...: the words of the command that begins with these, in docs/operations.md.
documented() { awk -v begins="podman run $1 " 'index($0, begins) == 1 { more = 1 } more { more = sub(/\\$/, ""); printf "%s", $0 }' "$TOP/docs/operations.md"; }
read -ra run < <(documented -d)
read -ra key < <(documented --rm)
capabilities=() mounts=() arguments=() read_only=rw
for ((i = 2; i < ${#run[@]}; i++)); do
	case ${run[i]} in
	--cap-add) capabilities+=("${run[++i]}") ;;
	-v) mounts+=("${run[++i]}") ;;
	--stop-timeout) limit=${run[++i]} ;;
	--name | --restart | --network | --cap-drop) let ++i ;;
	-d) ;;
	--read-only) read_only=ro ;;
	-*) fail "the document has ${run[i]}" ;;
	*) arguments=("${run[@]:i + 1}") && break ;;
	esac
done
unit=$B/conf/kairand@.service
diff <(printf 'CAP_%s\n' "${capabilities[@]}" | sort) <(sed -n 's/^CapabilityBoundingSet=//p' "$unit" | tr ' ' '\n' | sort) ||
	fail "other capabilities than those of the service"
[ "$limit" = "$(sed -n 's/^TimeoutStopSec=//p' "$unit")" ] || fail "another limit than that of the service"
[ "$(recipe EXPOSE)" = $PORT ] && [ "$(recipe STOPSIGNAL)" = SIGTERM ] && [ "${arguments[-1]}" = "$(recipe CMD)" ] || fail "port, signal or arguments"
[ "${run[-${#arguments[@]} - 1]}" = "${key[7]}" ] && [ "${key[*]:2:5}" = "--rm -v /etc/kairan:/etc/kairan --entrypoint kairan" ] || fail "the key's command: ${key[*]}"

# A container's root: the machine's own libraries, with the programs beside them, and nothing else of the machine.
ROOT=$WORK/root
mkdir -p "$ROOT"/{proc,dev,etc,tmp,usr,former,srv/data,var/lib/kairan,etc/kairan} "$WORK/usr/bin" "$WORK/etc/kairan" "$WORK/var/lib/kairan"
cp "$B/server/kairand" "$B/tools/kairan" "$WORK/usr/bin/"
for entry in /bin /sbin /lib*; do cp -a "$entry" "$ROOT/"; done
grep ^root: /etc/passwd >"$ROOT/etc/passwd" && cp -L /etc/ld.so.cache "$ROOT/etc/"
mkdir -p "$WORK/srv" && ln -s "$EXPORT" "$WORK/srv/data"
# start CAPABILITIES PROGRAM...: as process 1 of a container; its number is in $container.
start() {
	local bounding=${1,,}
	shift
	: >"$WORK/kairand.said"
	nsenter -t "${KEEPER[server]}" -n -u -- unshare --mount --pid --fork --kill-child --propagation private sh -c '
		set -e
		root=$1 work=$2 read_only=$3 mounts=$4
		shift 4
		mount --bind "$root" "$root"
		mount -t overlay -o "ro,lowerdir=$work/usr:/usr" usr "$root/usr"
		mount -t proc proc "$root/proc"
		for mount in $mounts; do
			inside=${mount#*:}
			mount --bind "$work${mount%%:*}" "$root${inside%:ro}"
			[ "$inside" = "${inside%:ro}" ] || mount -o remount,bind,ro "$root${inside%:ro}"
		done
		mount -o "remount,bind,$read_only" "$root"
		cd "$root"
		pivot_root . former
		cd /
		umount -l /former
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' - "$ROOT" "$WORK" "$read_only" "${MOUNTS:-${mounts[*]}}" \
		setpriv --inh-caps=-all --bounding-set="-all${bounding:+,+}${bounding//,/,+}" "$@" </dev/null >>"$WORK/kairand.said" 2>&1 &
	container=$!
}
serve() {
	local all
	printf -v all '%s,' "${capabilities[@]}"
	start "${1:-${all%,}}" "$(recipe ENTRYPOINT)" "${arguments[@]}"
	until_ok 30 "ready" grep -q ready "$WORK/kairand.said" || fail "the server does not start: $(cat "$WORK/kairand.said")"
}
# stop: what podman stop does; the status is that of the program.
stop() { kill -TERM "$(pgrep -P $container)" && wait $container; }

note "a key"
MOUNTS=${key[4]} start chown,dac_override,fowner,ipc_lock "${key[6]}" "${key[@]:8}"
wait $container || fail "no key: $(cat "$WORK/kairand.said")"
[ "$(stat -c %a:%u "$WORK/etc/kairan/kairan.key")" = 600:0 ] || fail "whose is the key?"

note "it serves, stops, and goes on"
serve
! grep -i warn "$WORK/kairand.said" || fail "the server is not content"
! touch "/proc/$(pgrep -P $container)/root/etc/file" 2>/dev/null || fail "its root can be written"
mount_start 1 "key=$WORK/etc/kairan/kairan.key"
on node1 sh -c "echo root >$M/file && mkdir $M/hers && chown daemon: $M/hers && mknod $M/null c 1 3" || fail "root on the node"
on node1 setpriv --reuid daemon --regid daemon --clear-groups sh -c "echo hers >$M/hers/file && ! echo more >>$M/file" 2>/dev/null || fail "a user on the node"
[ "$(stat -c %U "$EXPORT/file" "$EXPORT/hers/file" | tr '\n' ' ')" = "root daemon " ] && [ -c "$EXPORT/null" ] || fail "the export: $(ls -lR "$EXPORT")"
exec 3>"$(seen_from_here 1)/open"
echo before >&3
stop
[ $? = 0 ] && grep -q "stopped" "$WORK/kairand.said" || fail "it does not stop cleanly: $(cat "$WORK/kairand.said")"
serve
! grep -i warn "$WORK/kairand.said" || fail "the server is not content with what it finds again"
echo after >&3 && exec 3>&- || fail "an open file does not go on"
[ "$(cat "$EXPORT/open")" = "$(printf 'before\nafter')" ] || fail "the open file: $(cat "$EXPORT/open")"
on node1 cat "$M/file" >/dev/null && echo changed >"$EXPORT/file"
until_ok 5 "a change of the server" sh -c "[ \"\$(nsenter -t ${KEEPER[node1]} -m cat $M/file)\" = changed ]" || fail "a change in the export"
on server "$B/tools/kairan" status --key "$WORK/etc/kairan/kairan.key" localhost >"$WORK/said" && grep -q "the kernel's word" "$WORK/said" || fail "status: $(cat "$WORK/said")"
stop || fail "it does not stop cleanly: $(cat "$WORK/kairand.said")"

note "what the document says of less"
most=$(printf '%s,' "${capabilities[@]}" | sed 's/SYS_ADMIN,//; s/,$//')
serve "$most"
on server "$B/tools/kairan" status --key "$WORK/etc/kairan/kairan.key" localhost >"$WORK/said" && grep -q "looking once a second" "$WORK/said" || fail "without SYS_ADMIN: $(cat "$WORK/said")"
stop || fail "it does not stop cleanly"
MOUNTS="${mounts[*]/*:\/var\/lib\/kairan/}" start "$most" kairand "${arguments[@]}"
wait $container
[ $? = 1 ] && grep -q "/var/lib/kairan.*Read-only" "$WORK/kairand.said" || fail "without its state: $(cat "$WORK/kairand.said")"
start "$most" kairand --nonsense
wait $container
[ $? = 64 ] || fail "wrong options: $(cat "$WORK/kairand.said")"
serve
mount_stop 1 || fail "unmount"
stop || fail "it does not stop cleanly"
check_logs || fail "see above"

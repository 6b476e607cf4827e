# The measurements of test/bench/view, in a mount namespace of its own.
example=/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c
mkdir -p /run/kairan && mount -t tmpfs kairan /run/kairan || exit 1
if [ -z "$dir" ]; then
	truncate -s 8G "$work/image" && mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 "$work/image" || exit 1
	mkdir "$work/disk" && mount -o loop "$work/image" "$work/disk" || exit 1
	work=$work/disk
fi
cd "$work" && mkdir bare view counted old source example || exit 1
"$build/fuse/kairanfs" none "$work/view" -o "view=node,local=$work/local1" || exit 1
"$build/fuse/kairanfs" none "$work/counted" -o "view=node,size=64G,local=$work/local2" || exit 1
places="bare view counted"
if grep -q KR_FAULT "$build/fuse/kairanfs" && KR_FAULT=shim.old_kernel:eio "$build/fuse/kairanfs" none "$work/old" -o "view=node,size=64G,local=$work/local3"; then
	places="$places old"
fi
# Its best: what it has read stays in the kernel, and names are kept.
# shellcheck disable=SC2046
if [ -f "$example" ] && cc -O2 -o passthrough_ll "$example" $(pkg-config --cflags --libs fuse3) && ./passthrough_ll -o "source=$work/source,cache=always,timeout=86400" example; then
	places="$places example"
fi
# shellcheck disable=SC2086
python3 "$top/test/bench/view.py" "$rounds" $places
status=$?
for mounted in view counted old example; do
	umount "$mounted" 2>/dev/null
done
# The daemons remove what the views held.
for _ in $(seq 100); do
	[ -e local1 ] || [ -e local2 ] || [ -e local3 ] || break
	sleep 0.1
done
cd / && [ -n "$dir" ] || umount "$work"
exit $status

# Makes the guest of test/power/run: guest_make ROOT KAIRAND DIR: a kernel of a Debian package unpacked below ROOT, and an initramfs
# with busybox, the modules for disk and network, and kairand with its libraries, in DIR.

# unpack BZIMAGE ELF: the kernel proper. It boots directly (PVH), and need not be unpacked by the emulated processor at each boot.
unpack() {
	local magic command at
	while IFS=: read -r magic command; do
		for at in $(LC_ALL=C grep -aboP "$magic" "$1" | cut -d: -f1); do
			tail -c +$((at + 1)) "$1" | $command >"$2" 2>/dev/null
			[ "$(head -c 4 "$2" | tail -c 3)" = ELF ] && return
		done
	done <<-'T'
		\xfd7zXZ\x00:xz -dcq --single-stream
		\x02\x21\x4c\x18:lz4 -dcq
		\x28\xb5\x2f\xfd:zstd -dcq
	T
	echo "cannot unpack $1" >&2
	return 1
}

guest_make() {
	local root=$1 kairand=$2 directory=$3 release image tree module file
	image=$(ls "$root"/boot/vmlinuz-* 2>/dev/null | sort -V | tail -1)
	[ -n "$image" ] || { echo "no kernel in $root/boot" >&2; return 1; }
	release=${image##*/vmlinuz-}
	[ -x /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1 || { echo "no static busybox" >&2; return 1; }
	command -v modprobe >/dev/null || { echo "no modprobe (package kmod)" >&2; return 1; }
	[ -e "$root/lib/modules/$release/modules.dep" ] || depmod -b "$root" "$release" || return 1
	tree=$directory/tree
	mkdir -p "$tree"/{bin,modules,proc,sys,dev,data,etc,run,tmp,root,lib64} || return 1
	unpack "$image" "$directory/kernel" || return 1
	cp /bin/busybox "$kairand" "$tree/bin/"
	echo 'root:x:0:0::/root:/bin/sh' >"$tree/etc/passwd"
	echo 'root:x:0:' >"$tree/etc/group"
	for file in $(ldd "$kairand" | grep -oE '/[^ ]+'); do
		mkdir -p "$tree/${file%/*}"
		cp -L "$file" "$tree/$file" || return 1
	done
	for module in virtio_pci virtio_blk virtio_net ext4; do
		modprobe -d "$root" -S "$release" --show-depends $module | awk '$1 == "insmod" {print $2}'
	done | awk '!seen[$0]++' | while read -r file; do
		cp "$file" "$tree/modules/" && echo "${file##*/}"
	done >"$tree/modules/order"
	cp "$(dirname "${BASH_SOURCE[0]}")/init" "$tree/init"
	chmod +x "$tree/init"
	(cd "$tree" && find . | busybox cpio -o -H newc 2>/dev/null) >"$directory/initramfs"
}

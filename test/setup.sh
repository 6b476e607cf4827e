# Sourced by ./check, ./demo, ./package and test/package/run: the Debian packages that they need, installed when missing and possible.

packages_build="gcc meson ninja-build pkg-config libfuse3-dev fuse3 libuv1-dev libjansson-dev libxxhash-dev libsodium-dev libjemalloc-dev libmunge-dev libmicrohttpd-dev libibverbs-dev librdmacm-dev"
packages_test="libcmocka-dev iproute2 util-linux e2fsprogs btrfs-progs python3 rsync git make acl binutils procps nftables gdb munge"
packages_mpi="openmpi-bin libopenmpi-dev mpich libmpich-dev libhdf5-openmpi-dev libhdf5-mpich-dev hdf5-tools libpnetcdf-dev gfortran"
packages_clang="clang"
packages_deb="build-essential debhelper libopenmpi-dev libmpich-dev"
packages_rpm="rpm libopenmpi-dev libmpich-dev"
packages_chroot="mmdebstrap lintian iproute2 util-linux openssh-client python3"

# need_packages GROUP...: 0 when all packages of these groups (build, test, mpi, clang, deb, rpm, chroot) are there.
need_packages() {
	local group missing="" package list
	for group in "$@"; do
		list=packages_$group
		for package in ${!list}; do
			dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing="$missing $package"
		done
	done
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" != 0 ]; then
		echo "missing packages:$missing; install them (apt-get install$missing) and start again" >&2
		return 1
	fi
	echo "installing:$missing"
	# shellcheck disable=SC2086
	if ! { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing ||
		{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; }; } >/tmp/kairan-apt.$$ 2>&1; then
		tail -20 "/tmp/kairan-apt.$$" >&2
		rm -f "/tmp/kairan-apt.$$"
		return 1
	fi
	rm -f "/tmp/kairan-apt.$$"
}

# What the builds look for and is installed, by name.
installed_packages() {
	# shellcheck disable=SC2086
	dpkg-query -W -f '${Package} ${db:Status-Status}\n' $packages_build $packages_test $packages_mpi 2>/dev/null
}

/* Attributes, extended attributes and data of exported files. */
#include "test/unit/server/export/export_fixture.h"

#include "server/export/cred.h"

#include <linux/falloc.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

/* --- attributes ------------------------------------------------------------------------------- */

static void times_are_set_to_the_nanosecond_or_left_alone(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	struct kr_setattr set = {.valid = KR_SET_ATIME | KR_SET_MTIME, .atime = {1000, 1}, .mtime = {-77, 999999999}};
	struct kr_attr attr;

	(void)state;
	ok(kr_export_setattr(F.export, &root_cred, &file, &set, &attr));
	assert_true(attr.atime.sec == 1000 && attr.atime.nsec == 1);
	assert_true(attr.mtime.sec == -77 && attr.mtime.nsec == 999999999);
	set = (struct kr_setattr){.valid = KR_SET_MTIME, .mtime = {5, 6}};
	ok(kr_export_setattr(F.export, &root_cred, &file, &set, &attr));
	assert_true(attr.atime.sec == 1000 && attr.atime.nsec == 1 && attr.mtime.sec == 5);
	set.valid = KR_SET_ATIME | KR_SET_ATIME_NOW;
	ok(kr_export_setattr(F.export, &root_cred, &file, &set, &attr));
	assert_true(attr.atime.sec > 1000000 && attr.mtime.sec == 5);
	set = (struct kr_setattr){.valid = KR_SET_MTIME, .mtime = {5, 1000000000}};
	fails(EINVAL, kr_export_setattr(F.export, &root_cred, &file, &set, &attr));
	/* A symbolic link has times of its own. */
	file = make(&F.root, "l", S_IFLNK | 0777);
	set.mtime.nsec = 9;
	ok(kr_export_setattr(F.export, &root_cred, &file, &set, &attr));
	assert_int_equal(attr.mtime.nsec, 9);
}

static void size_and_times_in_one_call_keep_the_times(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	struct kr_setattr set = {.valid = KR_SET_SIZE | KR_SET_MTIME, .size = 10, .mtime = {5, 6}};
	struct kr_attr attr;

	(void)state;
	ok(kr_export_setattr(F.export, &root_cred, &file, &set, &attr));
	assert_true(attr.size == 10 && attr.mtime.sec == 5 && attr.mtime.nsec == 6);
	set = (struct kr_setattr){.valid = KR_SET_SIZE, .size = UINT64_MAX};
	fails(EFBIG, kr_export_setattr(F.export, &root_cred, &file, &set, &attr));
	file = make(&F.root, "d", S_IFDIR | 0755);
	set.size = 0;
	fails(EISDIR, kr_export_setattr(F.export, &root_cred, &file, &set, &attr));
}

static void a_write_drops_set_id_bits_and_leaves_the_mtime_it_was_told(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	struct kr_setattr set = {.valid = KR_SET_MODE, .mode = 06775};
	struct kr_time mtime = {1234, 5678};
	struct kr_attr attr;

	(void)state;
	ok(kr_export_setattr(F.export, &root_cred, &file, &set, &attr));
	assert_int_equal(attr.mode & 07777, 06775);
	put_bytes(&file, 0, "x", 1);
	ok(kr_export_written(F.export, &file, &mtime, true, &attr));
	assert_int_equal(attr.mode & 07777, 0775);
	assert_true(attr.mtime.sec == 1234 && attr.mtime.nsec == 5678);
	set.mode = 02745; /* without group execution the bit means mandatory locks, and stays */
	ok(kr_export_setattr(F.export, &root_cred, &file, &set, &attr));
	ok(kr_export_setattr(F.export, &root_cred, &file, &(struct kr_setattr){.valid = KR_SET_CLEAR_SUID}, &attr));
	assert_int_equal(attr.mode & 07777, 02745);
}

static void a_truncation_clears_set_id_bits_that_another_writer_has_cleared_since(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	struct kr_setattr set = {.valid = KR_SET_MODE, .mode = 0777};
	struct kr_attr attr;

	(void)state;
	if (!is_root())
		skip();
	ok(kr_export_setattr(F.export, &root_cred, &file, &set, &attr));
	fails(EPERM, kr_export_setattr(F.export, &alice, &file, &set, &attr));
	set.valid |= KR_SET_SIZE;
	ok(kr_export_setattr(F.export, &alice, &file, &set, &attr));
	assert_int_equal(attr.mode & 07777, 0777);
	set.mode = 0666;
	fails(EPERM, kr_export_setattr(F.export, &alice, &file, &set, &attr));
}

static void owners_change_by_the_rules(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	struct kr_setattr set = {.valid = KR_SET_UID | KR_SET_GID, .uid = alice.uid, .gid = alice.gid};
	uint32_t groups[] = {500};
	struct kr_cred member = {alice.uid, alice.gid, 1, groups};
	struct kr_attr attr;

	(void)state;
	if (!is_root()) {
		fails(EPERM, kr_export_setattr(F.export, &root_cred, &file, &set, &attr));
		skip();
	}
	ok(kr_export_setattr(F.export, &root_cred, &file, &set, &attr));
	assert_true(attr.uid == alice.uid && attr.gid == alice.gid);
	set = (struct kr_setattr){.valid = KR_SET_GID, .gid = 500};
	fails(EPERM, kr_export_setattr(F.export, &alice, &file, &set, &attr));
	ok(kr_export_setattr(F.export, &member, &file, &set, &attr));
	assert_int_equal(attr.gid, 500);
	set = (struct kr_setattr){.valid = KR_SET_UID, .uid = 1};
	fails(EPERM, kr_export_setattr(F.export, &alice, &file, &set, &attr));
}

static void access_is_by_the_callers_rights(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0640);
	struct kr_cred owner = {.uid = geteuid(), .gid = getegid()};

	(void)state;
	ok(kr_export_access(F.export, &owner, &file, R_OK | W_OK));
	fails(EACCES, kr_export_access(F.export, &owner, &file, X_OK));
	fails(EINVAL, kr_export_access(F.export, &owner, &file, 8));
	if (is_root())
		fails(EACCES, kr_export_access(F.export, &alice, &file, R_OK));
}

static void statfs_tells_of_the_exports_filesystem(void **state)
{
	struct kr_statfs fs;

	(void)state;
	ok(kr_export_statfs(F.export, &F.root, &fs));
	assert_true(fs.blocks > 0 && fs.bsize > 0 && fs.namelen == 255);
}

static void versions_change_with_bytes_and_survive_a_restart(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	struct kr_export_info info;
	struct kr_attr attr, later;
	uint64_t version;

	(void)state;
	kr_export_info(F.export, &info);
	put_bytes(&file, 0, "a", 1);
	attr = attr_of(&file);
	assert_true(info.exact_ctime ? attr.version != 0 : attr.version == 0);
	version = kr_export_attr_version(F.export, &attr, 1);
	assert_true(version != 0);
	if (!info.exact_ctime)
		assert_true(kr_export_attr_version(F.export, &attr, 2) != version);
	put_bytes(&file, 0, "b", 1);
	later = attr_of(&file);
	if (info.exact_ctime)
		assert_true(later.version != attr.version);
	/* Old enough on any filesystem. */
	later.ctime.sec -= 10;
	version = kr_export_attr_version(F.export, &later, 0);
	assert_true(version != 0 && kr_export_attr_version(F.export, &later, 9) == version);
	restart_export();
	assert_true(kr_export_attr_version(F.export, &later, 0) == version);
	later.size++;
	assert_true(kr_export_attr_version(F.export, &later, 0) != version);
}

/* --- extended attributes ---------------------------------------------------------------------- */

static void extended_attributes_are_set_listed_and_removed(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	char buffer[64];
	size_t length;
	int r;

	(void)state;
	r = kr_export_setxattr(F.export, &root_cred, &file, "user.a", "value", 5, 0);
	if (r == -EOPNOTSUPP)
		skip();
	ok(r);
	fails(EEXIST, kr_export_setxattr(F.export, &root_cred, &file, "user.a", "v", 1, XATTR_CREATE));
	fails(ENODATA, kr_export_setxattr(F.export, &root_cred, &file, "user.b", "v", 1, XATTR_REPLACE));
	ok(kr_export_getxattr(F.export, &root_cred, &file, "user.a", NULL, 0, &length));
	assert_int_equal(length, 5);
	fails(ERANGE, kr_export_getxattr(F.export, &root_cred, &file, "user.a", buffer, 4, &length));
	ok(kr_export_getxattr(F.export, &root_cred, &file, "user.a", buffer, sizeof(buffer), &length));
	assert_memory_equal(buffer, "value", 5);
	fails(ENODATA, kr_export_getxattr(F.export, &root_cred, &file, "user.b", buffer, sizeof(buffer), &length));
	ok(kr_export_listxattr(F.export, &root_cred, &file, buffer, sizeof(buffer), &length));
	assert_int_equal(length, 7);
	assert_string_equal(buffer, "user.a");
	fails(ERANGE, kr_export_listxattr(F.export, &root_cred, &file, buffer, 3, &length));
	ok(kr_export_removexattr(F.export, &root_cred, &file, "user.a"));
	fails(ENODATA, kr_export_removexattr(F.export, &root_cred, &file, "user.a"));
}

static void the_servers_own_label_is_not_shown(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	char path[sizeof(F.path) + 2], buffer[64];
	size_t length;

	(void)state;
	snprintf(path, sizeof(path), "%s/f", F.path);
	/* Before Linux 6.6 tmpfs has no attributes of users. */
	if (setxattr(path, "user.a", "v", 1, 0) < 0 || removexattr(path, "user.a") < 0 ||
		setxattr(path, "security.selinux", "label", 6, 0) < 0)
		skip();
	fails(EOPNOTSUPP, kr_export_getxattr(F.export, &root_cred, &file, "security.selinux", NULL, 0, &length));
	fails(EOPNOTSUPP, kr_export_setxattr(F.export, &root_cred, &file, "security.selinux", "other", 6, 0));
	fails(EOPNOTSUPP, kr_export_removexattr(F.export, &root_cred, &file, "security.selinux"));
	ok(kr_export_listxattr(F.export, &root_cred, &file, NULL, 0, &length));
	assert_int_equal(length, 0);
	assert_true(kr_export_bare(F.export, &file));
	for (const char *const *name = (const char *const[]){"user.a", "user.b", NULL}; *name; name++)
		ok(kr_export_setxattr(F.export, &root_cred, &file, *name, "v", 1, 0));
	assert_false(kr_export_bare(F.export, &file));
	ok(kr_export_listxattr(F.export, &root_cred, &file, buffer, sizeof(buffer), &length));
	assert_int_equal(length, 14);
	assert_null(memmem(buffer, length, "security", 8));
	assert_non_null(memmem(buffer, length, "user.a", 7));
	assert_non_null(memmem(buffer, length, "user.b", 7));
}

/* As the kernel of a node asks for it before somebody else's write or cut. */
static void who_may_write_a_file_takes_its_capabilities_away(void **state)
{
	static const uint8_t net_raw[20] = {
		1, 0, 0, 2, 0, 0x20}; /* struct vfs_cap_data: revision 2, effective, CAP_NET_RAW */
	struct kr_cred pending_conn = {.uid = 4321, .gid = 4321};
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0755);
	struct kr_setattr writable = {.valid = KR_SET_MODE, .mode = 0757};
	struct kr_attr attr;
	size_t length;

	(void)state;
	if (!kr_cred_can_switch())
		skip();
	ok(kr_export_setxattr(F.export, &root_cred, &file, "security.capability", net_raw, sizeof(net_raw), 0));
	ok(kr_export_setxattr(F.export, &root_cred, &file, "security.other", "value", 5, 0));
	fails(EPERM, kr_export_setxattr(F.export, &pending_conn, &file, "security.other", "other", 5, 0));
	fails(EPERM, kr_export_removexattr(F.export, &pending_conn, &file, "security.capability"));
	ok(kr_export_setattr(F.export, &root_cred, &file, &writable, &attr));
	fails(EPERM, kr_export_removexattr(F.export, &pending_conn, &file, "security.other"));
	ok(kr_export_removexattr(F.export, &pending_conn, &file, "security.capability"));
	fails(ENODATA, kr_export_getxattr(F.export, &root_cred, &file, "security.capability", NULL, 0, &length));
	fails(ENODATA, kr_export_removexattr(F.export, &pending_conn, &file, "security.capability"));
}

static void extended_attributes_too_large_are_refused(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	char *value = calloc(1, KR_XATTR_MAX + 1);
	int r;

	(void)state;
	r = kr_export_setxattr(F.export, &root_cred, &file, "user.a", value, KR_XATTR_MAX, 0);
	assert_true(r == 0 || r == -ENOSPC || r == -EOPNOTSUPP || r == -E2BIG);
	fails(E2BIG, kr_export_setxattr(F.export, &root_cred, &file, "user.a", value, KR_XATTR_MAX + 1, 0));
	free(value);
}

static void extended_attributes_need_the_callers_rights(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0600);
	uint8_t acl[4] = {2};
	char buffer[64];
	size_t length;

	(void)state;
	if (!is_root())
		skip();
	fails(EACCES, kr_export_setxattr(F.export, &alice, &file, "user.a", "v", 1, 0));
	fails(EPERM, kr_export_setxattr(F.export, &alice, &file, "trusted.a", "v", 1, 0));
	fails(EPERM, kr_export_setxattr(F.export, &alice, &file, "system.posix_acl_access", acl, sizeof(acl), 0));
	ok(kr_export_setxattr(F.export, &root_cred, &file, "trusted.a", "v", 1, 0));
	fails(ENODATA, kr_export_getxattr(F.export, &alice, &file, "trusted.a", buffer, sizeof(buffer), &length));
}

/* --- data ------------------------------------------------------------------------------------- */

static void pieces_are_written_in_few_calls_and_gaps_stay_holes(void **state)
{
	enum { PIECES = 3000, SIZE = 100, GAP = 1 << 20 };
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	struct kr_write_piece *pieces = calloc(PIECES + 1, sizeof(*pieces));
	struct kr_export_info before, after;
	uint64_t hole;
	char *bytes = malloc(SIZE), zero[4] = {0}, got[4];
	size_t length;
	int i;

	(void)state;
	memset(bytes, 'p', SIZE);
	for (i = 0; i <= PIECES; i++)
		pieces[i] = (struct kr_write_piece){(uint64_t)i * SIZE + (i == PIECES ? GAP : 0), bytes, SIZE};
	kr_export_info(F.export, &before);
	ok(kr_export_pwritev(F.export, &file, pieces, PIECES + 1));
	kr_export_info(F.export, &after);
	assert_int_equal(after.writes - before.writes, 4);
	assert_int_equal(after.write_bytes - before.write_bytes, (PIECES + 1) * SIZE);
	assert_text(&file, PIECES * SIZE - 1, "p");
	ok(kr_export_pread(F.export, &file, PIECES * SIZE, got, 4, &length));
	assert_memory_equal(got, zero, 4);
	ok(kr_export_seek(F.export, &file, 0, SEEK_HOLE, &hole));
	assert_true(hole < PIECES * SIZE + GAP);
	ok(kr_export_pread(F.export, &file, PIECES * SIZE + GAP + SIZE - 2, got, 4, &length));
	assert_int_equal(length, 2);
	ok(kr_export_pread(F.export, &file, UINT64_C(1) << 50, got, 4, &length));
	assert_int_equal(length, 0);
	ok(kr_export_pwritev(F.export, &file, NULL, 0));
	free(pieces);
	free(bytes);
}

static void files_beyond_2_tib_are_sparse(void **state)
{
	const uint64_t far = UINT64_C(3) << 40;
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	struct kr_attr attr;
	uint64_t offset;

	(void)state;
	put_bytes(&file, far, "far away", 8);
	attr = attr_of(&file);
	assert_true(attr.size == far + 8 && attr.blocks < 10000);
	assert_text(&file, far, "far away");
	ok(kr_export_seek(F.export, &file, 0, SEEK_DATA, &offset));
	assert_true(offset > far - (2 << 20) && offset <= far);
	fails(ENXIO, kr_export_seek(F.export, &file, far + 8, SEEK_DATA, &offset));
	fails(EINVAL, kr_export_seek(F.export, &file, 0, SEEK_SET, &offset));
	fails(EFBIG, kr_export_pwritev(F.export, &file, &(struct kr_write_piece){INT64_MAX, "x", 1}, 1));
	ok(kr_export_setattr(F.export, &root_cred, &file, &(struct kr_setattr){.valid = KR_SET_SIZE}, &attr));
	assert_true(attr.size == 0);
}

static void fallocate_grows_keeps_punches_and_refuses_the_rest(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	struct kr_attr attr;
	char got[4];
	size_t length;

	(void)state;
	ok(kr_export_fallocate(F.export, &root_cred, &file, 0, 0, 8192, &attr));
	assert_true(attr.size == 8192 && attr.blocks >= 16);
	ok(kr_export_fallocate(F.export, &root_cred, &file, FALLOC_FL_KEEP_SIZE, 8192, 8192, &attr));
	assert_true(attr.size == 8192 && attr.blocks >= 32);
	put_bytes(&file, 0, "data", 4);
	ok(kr_export_fallocate(
		F.export, &root_cred, &file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096, &attr));
	ok(kr_export_pread(F.export, &file, 0, got, 4, &length));
	assert_memory_equal(got, "\0\0\0\0", 4);
	fails(EOPNOTSUPP, kr_export_fallocate(F.export, &root_cred, &file, FALLOC_FL_COLLAPSE_RANGE, 0, 4096, &attr));
	fails(EINVAL, kr_export_fallocate(F.export, &root_cred, &file, 0, 0, 0, &attr));
	fails(EFBIG, kr_export_fallocate(F.export, &root_cred, &file, 0, INT64_MAX, 5, &attr));
}

static void check_copies(void)
{
	struct kr_fid from = make(&F.root, "from", S_IFREG | 0644), to = make(&F.root, "to", S_IFREG | 0644);
	uint64_t copied;

	put_bytes(&from, 0, "0123456789", 10);
	put_bytes(&to, 0, "abcdefghij", 10);
	ok(kr_export_copy(F.export, &root_cred, &from, 2, &to, 5, 3, &copied));
	assert_int_equal(copied, 3);
	assert_text(&to, 0, "abcde234ij");
	ok(kr_export_copy(F.export, &root_cred, &from, 8, &to, 0, 100, &copied));
	assert_int_equal(copied, 2);
	assert_text(&to, 0, "89cde234ij");
	ok(kr_export_copy(F.export, &root_cred, &from, 10, &to, 0, 100, &copied));
	assert_int_equal(copied, 0);
	ok(kr_export_copy(F.export, &root_cred, &from, 0, &from, 5, 5, &copied));
	assert_text(&from, 0, "0123401234");
	fails(EINVAL, kr_export_copy(F.export, &root_cred, &from, 0, &from, 4, 5, &copied));
}

static void ranges_are_copied_on_the_server(void **state)
{
	(void)state;
	check_copies();
}

/* From here on this process has no copy_file_range, as on old kernels and some filesystems. */
static void ranges_are_copied_without_help_of_the_kernel(void **state)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_copy_file_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {KR_ARRAY_SIZE(code), code};

	(void)state;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		skip();
	check_copies();
}

static void syncing_works_on_files_and_directories(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0444), directory = make(&F.root, "d", S_IFDIR | 0755),
		      fifo = make(&F.root, "p", S_IFIFO | 0644);

	(void)state;
	ok(kr_export_fsync(F.export, &fifo, false)); /* there is nothing to be lost */
	ok(kr_export_fsync(F.export, &file, false));
	put_bytes(&file, 0, "x", 1);
	ok(kr_export_fsync(F.export, &file, true));
	ok(kr_export_fsync(F.export, &directory, false));
}

static void data_of_what_is_no_file_is_refused(void **state)
{
	struct kr_fid directory = make(&F.root, "d", S_IFDIR | 0755), pipe = make(&F.root, "p", S_IFIFO | 0644);
	struct kr_write_piece piece = {0, "x", 1};
	char got[4];
	size_t length;

	(void)state;
	fails(EISDIR, kr_export_pread(F.export, &directory, 0, got, 4, &length));
	fails(EISDIR, kr_export_pwritev(F.export, &directory, &piece, 1));
	fails(ENXIO, kr_export_pread(F.export, &pipe, 0, got, 4, &length));
	fails(ENXIO, kr_export_pwritev(F.export, &pipe, &piece, 1));
}

static void a_full_filesystem_says_so(void **state)
{
	enum { SIZE = 1 << 20 };
	struct kr_export *full;
	struct kr_export_options options = F.options;
	struct kr_fid fid, root;
	struct kr_attr attr;
	char *bytes = calloc(1, SIZE);
	struct kr_write_piece piece = {0, bytes, SIZE};
	struct kr_make request = {.name = "f", .mode = S_IFREG | 0644};
	int r;

	(void)state;
	snprintf(F.path, sizeof(F.path), "%s/full", F.base);
	if (!is_root() || !can_mount || mkdir(F.path, 0755) < 0 || mount("none", F.path, "tmpfs", 0, "size=256k") < 0) {
		free(bytes);
		skip();
	}
	ok(kr_export_new(&options, &full));
	ok(kr_export_walk(full, NULL, "", &root, &attr));
	ok(kr_export_make(full, &alice, &root, &request, &fid, &attr));
	r = kr_export_pwritev(full, &fid, &piece, 1);
	kr_export_free(full);
	umount(F.path);
	free(bytes);
	fails(ENOSPC, r);
}

static int run(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(times_are_set_to_the_nanosecond_or_left_alone),
		CASE(size_and_times_in_one_call_keep_the_times),
		CASE(a_write_drops_set_id_bits_and_leaves_the_mtime_it_was_told),
		CASE(a_truncation_clears_set_id_bits_that_another_writer_has_cleared_since),
		CASE(owners_change_by_the_rules),
		CASE(access_is_by_the_callers_rights),
		CASE(statfs_tells_of_the_exports_filesystem),
		CASE(versions_change_with_bytes_and_survive_a_restart),
		CASE(extended_attributes_are_set_listed_and_removed),
		CASE(who_may_write_a_file_takes_its_capabilities_away),
		CASE(the_servers_own_label_is_not_shown),
		CASE(extended_attributes_too_large_are_refused),
		CASE(extended_attributes_need_the_callers_rights),
		CASE(pieces_are_written_in_few_calls_and_gaps_stay_holes),
		CASE(files_beyond_2_tib_are_sparse),
		CASE(fallocate_grows_keeps_punches_and_refuses_the_rest),
		CASE(ranges_are_copied_on_the_server),
		CASE(syncing_works_on_files_and_directories),
		CASE(data_of_what_is_no_file_is_refused),
		CASE(a_full_filesystem_says_so),
		CASE(ranges_are_copied_without_help_of_the_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	return in_all_worlds(run);
}

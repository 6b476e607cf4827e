/* What the tests of the export share: a directory on a real filesystem, exported, and one-line operations on it.
 *
 * Each group runs in several worlds: on /tmp and on /dev/shm by kernel handles, by inode numbers, and as a user without
 * privileges.  Every world is a child process, so that what it gives up stays given up.
 */
#ifndef KR_TEST_UNIT_EXPORT_FIXTURE_H
#define KR_TEST_UNIT_EXPORT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "server/export/export.h"

struct world {
	const char *name, *directory;
	bool by_inode, unprivileged;
};

struct fixture {
	char base[64]; /* base/export is exported, base/outside is not */
	struct kr_export *export;
	struct kr_export_options options;
	char path[80];
	struct kr_fid root;
};

static struct fixture F;
static const struct world *the_world;
static bool can_mount;
static const struct kr_cred root_cred;
static const struct kr_cred alice = {.uid = 12345, .gid = 12346};

#define ok(call) \
	do { \
		int ok_result = (call); \
		if (ok_result < 0) \
			fail_msg("%s: %s (%s)", #call, strerror(-ok_result), kr_fail_reason()); \
	} while (0)
#define fails(error, call) \
	do { \
		int fails_result = (call); \
		if (fails_result != -(error)) \
			fail_msg("%s: %d (%s), not %s", #call, fails_result, strerror(-fails_result), #error); \
	} while (0)

static inline void start_export(void)
{
	struct kr_attr attr;

	F.options.path = F.path;
	F.options.identity_by_inode = the_world->by_inode;
	ok(kr_export_new(&F.options, &F.export));
	ok(kr_export_walk(F.export, NULL, "", &F.root, &attr));
}

/* A new instance of the server, as after kill -9. */
static inline void restart_export(void)
{
	kr_export_free(F.export);
	start_export();
}

static inline int set_up(void **state)
{
	char outside[80];

	(void)state;
	memset(&F, 0, sizeof(F));
	memset(F.options.secret, 7, sizeof(F.options.secret));
	snprintf(F.base, sizeof(F.base), "%s/kr-export-XXXXXX", the_world->directory);
	assert_non_null(mkdtemp(F.base));
	assert_int_equal(chmod(F.base, 0755), 0);
	snprintf(F.path, sizeof(F.path), "%s/export", F.base);
	assert_int_equal(mkdir(F.path, 0777) || chmod(F.path, 0777), 0); /* anybody may make files in it */
	snprintf(outside, sizeof(outside), "%s/outside", F.base);
	assert_int_equal(mkdir(outside, 0755), 0);
	start_export();
	return 0;
}

static inline int tear_down(void **state)
{
	char command[128];

	(void)state;
	kr_export_free(F.export);
	snprintf(command, sizeof(command), "rm -rf -- %s", F.base);
	return system(command);
}

static inline bool is_root(void)
{
	return geteuid() == 0;
}

static inline struct kr_fid make(const struct kr_fid *parent, const char *name, uint32_t mode)
{
	struct kr_make request = {.name = name, .mode = mode, .target = "target"};
	struct kr_attr attr;
	struct kr_fid fid;

	ok(kr_export_make(F.export, &root_cred, parent, &request, &fid, &attr));
	assert_int_equal(attr.mode & S_IFMT, mode & S_IFMT);
	return fid;
}

static inline struct kr_attr attr_of(const struct kr_fid *fid)
{
	struct kr_attr attr;

	ok(kr_export_getattr(F.export, fid, &attr));
	return attr;
}

static inline void put_bytes(const struct kr_fid *fid, uint64_t offset, const void *bytes, size_t length)
{
	struct kr_write_piece piece = {offset, bytes, length};

	ok(kr_export_pwritev(F.export, fid, &piece, 1));
}

/* The file has TEXT at OFFSET. */
static inline void assert_text(const struct kr_fid *fid, uint64_t offset, const char *text)
{
	char buffer[256];
	size_t length;

	ok(kr_export_pread(F.export, fid, offset, buffer, strlen(text), &length));
	assert_int_equal(length, strlen(text));
	assert_memory_equal(buffer, text, length);
}

static inline struct kr_fid create(const char *name, uint32_t flags, bool exclusive, bool *ret_created)
{
	struct kr_create request = {.name = name, .mode = 0644, .flags = flags, .exclusive = exclusive};
	struct kr_attr attr;
	struct kr_fid fid;
	bool created;

	ok(kr_export_create(
		F.export, &root_cred, &F.root, &request, ret_created ? ret_created : &created, &fid, &attr));
	return fid;
}

static inline int getattr_error(const struct kr_fid *fid)
{
	struct kr_attr attr;

	return kr_export_getattr(F.export, fid, &attr);
}

static inline uint32_t orphans(void)
{
	struct kr_export_info info;

	kr_export_info(F.export, &info);
	return info.orphans;
}

static inline void unlink_name(const char *name, bool orphaned)
{
	struct kr_removed removed;

	ok(kr_export_remove(F.export, &root_cred, &F.root, name, false, 0, &removed));
	assert_int_equal(removed.orphaned, orphaned);
	assert_int_equal(removed.gone, !orphaned);
}

/* PATH below the exported directory, for looking at it past the export. */
static inline const char *on_disk(const char *name)
{
	static char path[400];

	snprintf(path, sizeof(path), "%s/%s", F.path, name);
	return path;
}

static inline int in_world(const struct world *world, int (*run)(void))
{
	int status;
	pid_t pid;

	if (access(world->directory, W_OK) != 0 || (!is_root() && world->unprivileged))
		return 0;
	printf("--- %s\n", world->name);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		the_world = world;
		/* Mounts that a test makes are seen by nobody else, and go with the process. */
		can_mount = unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
		if (world->unprivileged &&
			(setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
				setresuid(65534, 65534, 65534) < 0))
			exit(1);
		exit(run());
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static inline int in_all_worlds(int (*run)(void))
{
	static const struct world worlds[] = {
		{"by handle on /tmp", "/tmp", false, false},
		{"by handle on /dev/shm", "/dev/shm", false, false},
		{"by inode number on /tmp", "/tmp", true, false},
		{"without privileges on /tmp", "/tmp", false, true},
	};
	int failed = 0;
	size_t i;

	for (i = 0; i < KR_ARRAY_SIZE(worlds); i++)
		failed |= in_world(&worlds[i], run);
	return failed;
}

#endif

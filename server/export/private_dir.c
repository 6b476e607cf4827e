#include "server/export/private_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "server/export/export_priv.h"

#define PRIVATE_NAME ".kairan"
#define GATEWAY_NAME PRIVATE_NAME "-gateway-"

bool kr_private_dir_is(const struct kr_export *export, const char *name)
{
	return strcmp(name, PRIVATE_NAME) == 0 ||
		(export->gateway && strncmp(name, GATEWAY_NAME, strlen(GATEWAY_NAME)) == 0);
}

static void choose_name(struct kr_export *export)
{
	if (export->gateway)
		snprintf(export->private_name, sizeof(export->private_name), GATEWAY_NAME "%08x",
			(unsigned)kr_fid_code(export->secret, GATEWAY_NAME, strlen(GATEWAY_NAME)));
	else
		snprintf(export->private_name, sizeof(export->private_name), PRIVATE_NAME);
}

static int make(struct kr_export *export)
{
	return mkdirat(export->root_fd, export->private_name, 0700) < 0 && errno != EEXIST ?
		kr_fail_errno(-errno, "cannot make %s in %s", export->private_name, export->path) :
		0;
}

static int open_it(struct kr_export *export, int *ret_fd)
{
	*ret_fd = openat(export->root_fd, export->private_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret_fd < 0 && errno == ENOTDIR)
		return kr_fail(-ENOTDIR,
			"%s in %s is not a directory: it may be a mount by kairanfs, which only --gateway exports",
			export->private_name, export->path);
	return *ret_fd < 0 ? kr_fail_errno(-errno, "cannot open %s in %s", export->private_name, export->path) : 0;
}

/* The directory belongs to the server's user, and no other server has it. */
static int claim(struct kr_export *export, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return kr_fail_errno(-errno, "cannot look at %s in %s", export->private_name, export->path);
	if (st.st_uid != geteuid())
		return kr_fail(-EPERM, "%s in %s belongs to user %u, not to this server's", export->private_name,
			export->path, st.st_uid);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return kr_fail(-EBUSY, "another kairand exports %s", export->path);
	return 0;
}

int kr_private_dir_open(struct kr_export *export)
{
	struct statvfs fs;
	int r;

	choose_name(export);
	export->read_only = true;
	r = make(export);
	if (r == -EROFS || r == -EACCES)
		return 0;
	if (r == 0)
		r = open_it(export, &export->private_fd);
	if (r < 0)
		return r;
	if (fstatvfs(export->private_fd, &fs) < 0)
		return kr_fail_errno(-errno, "cannot look at %s in %s", export->private_name, export->path);
	export->read_only = fs.f_flag & ST_RDONLY;
	return claim(export, export->private_fd);
}

int kr_private_dir_sign(struct kr_export *export, const uint8_t server[16], bool awaits)
{
	static const char name[] = "server";
	KR_AUTO_FREE char *former = NULL;
	char id[34];
	size_t length;
	int r;

	if (export->private_fd < 0 || export->read_only)
		return 0;
	kr_hex_format(server, 16, id);
	strcat(id, "\n");
	r = kr_read_file(export->private_fd, name, sizeof(id), &former, &length);
	if (r == 0 && strcmp(former, id) == 0)
		return 0;
	if (r == 0 && awaits)
		return kr_fail(-ESTALE,
			"a kairand with another state directory has served %s since this one did, and nodes of this "
			"one may overwrite what that one has taken: give its state directory with --state, or remove "
			"this one so that its nodes have to mount anew (to go on all the same: remove %s/%s/%s)",
			export->path, export->path, export->private_name, name);
	if (kr_write_file(export->private_fd, name, id, strlen(id), 0600) < 0)
		kr_log_warn(
			"cannot note in %s/%s who serves it: %s", export->path, export->private_name, kr_fail_reason());
	return 0;
}

bool kr_private_dir_is_removed(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

int kr_private_dir_renew(struct kr_export *export)
{
	KR_AUTO_FD int fd = -1;
	int r;

	if (!kr_private_dir_is_removed(export->private_fd))
		return 0;
	r = make(export);
	if (r == 0)
		r = open_it(export, &fd);
	if (r == 0)
		r = claim(export, fd);
	if (r == 0 && dup3(fd, export->private_fd, O_CLOEXEC) < 0)
		r = kr_fail_errno(-errno, "cannot open %s in %s", export->private_name, export->path);
	if (r == 0)
		kr_log_warn("%s had been removed from %s: it is made anew", export->private_name, export->path);
	return r;
}

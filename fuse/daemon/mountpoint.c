/* See mountpoint.h. */
#include "fuse/daemon/mountpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/daemon/control_address.h"

extern char **environ;

/* A mount waits for so long for the end of a daemon that has been killed, and looks so often. */
enum { ENDING_MS = 5000, LOOK_MS = 5 };

static const char type_name[] = "fuse.kairanfs";

void kr_mounted_fini(struct kr_mounted *mounted)
{
	free(mounted->path);
	free(mounted->source);
	*mounted = (struct kr_mounted){0};
}

/* The kernel writes blanks and the like in mountinfo as \ooo. */
static char *unescape(const char *text)
{
	char *result = kr_xstrdup(text), *out = result;

	for (const char *in = text; *in; out++) {
		if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] && in[3]) {
			*out = (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0'));
			in += 4;
		} else {
			*out = *in++;
		}
	}
	*out = '\0';
	return result;
}

/* Parses one line: "36 35 98:0 ROOT PATH OPTIONS [FIELDS...] - TYPE SOURCE SUPER_OPTIONS".  False: no kairanfs mount.
 */
static bool parse_line(char *line, struct kr_mounted *ret)
{
	char *words[64], *rest = NULL;
	size_t count = 0, dash = 0;

	for (char *word = strtok_r(line, " \n", &rest); word && count < KR_ARRAY_SIZE(words);
		word = strtok_r(NULL, " \n", &rest)) {
		if (strcmp(word, "-") == 0 && !dash)
			dash = count;
		words[count++] = word;
	}
	if (dash < 6 || dash + 3 >= count || strcmp(words[dash + 1], type_name) != 0)
		return false;
	if (sscanf(words[2], "%u:%u", &ret->dev_major, &ret->dev_minor) != 2)
		return false;
	const char *uid = strstr(words[dash + 3], "user_id=");

	ret->uid = uid ? (unsigned)strtoul(uid + strlen("user_id="), NULL, 10) : 0;
	ret->path = unescape(words[4]);
	ret->source = unescape(words[dash + 2]);
	return true;
}

int kr_mounted_for_each(void (*visit)(const struct kr_mounted *mounted, void *context), void *context)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;

	if (!file)
		return kr_fail_errno(-errno, "/proc/self/mountinfo");
	while (getline(&line, &size, file) > 0) {
		struct kr_mounted mounted = {0};

		if (parse_line(line, &mounted))
			visit(&mounted, context);
		kr_mounted_fini(&mounted);
	}
	free(line);
	fclose(file);
	return 0;
}

struct search {
	const char *path;
	bool exact, found;
	struct kr_mounted *result;
};

static void look_at(const struct kr_mounted *mounted, void *context)
{
	struct search *search = context;

	if (search->exact ? strcmp(search->path, mounted->path) != 0 : !kr_path_below(search->path, mounted->path))
		return;
	if (search->found && strlen(search->result->path) > strlen(mounted->path))
		return;
	if (search->found)
		kr_mounted_fini(search->result);
	search->found = true;
	*search->result = *mounted;
	search->result->path = kr_xstrdup(mounted->path);
	search->result->source = kr_xstrdup(mounted->source);
}

int kr_mounted_find(const char *path, bool exact, struct kr_mounted *ret_mounted)
{
	struct kr_mounted result = {0};
	struct search search = {.path = path, .exact = exact, .result = &result};
	int err = kr_mounted_for_each(look_at, &search);

	if (err < 0)
		return err;
	if (!search.found)
		return -ENOENT;
	*ret_mounted = result;
	return 0;
}

struct device {
	unsigned dev_major, dev_minor;
	bool found;
};

static void compare_device(const struct kr_mounted *mounted, void *context)
{
	struct device *device = context;

	device->found |= mounted->dev_major == device->dev_major && mounted->dev_minor == device->dev_minor;
}

int kr_mounted_has(unsigned dev_major, unsigned dev_minor)
{
	struct device device = {dev_major, dev_minor, false};
	int err = kr_mounted_for_each(compare_device, &device);

	return err < 0 ? err : device.found;
}

char *kr_plain_path(const char *path)
{
	KR_AUTO_FREE char *directory = *path == '/' ? NULL : getcwd(NULL, 0);
	KR_AUTO_FREE char *whole = NULL;
	char *result, *end, *rest = NULL;

	if (asprintf(&whole, "%s/%s", directory ? directory : "", path) < 0)
		abort();
	result = kr_xcalloc(1, strlen(whole) + 2);
	end = result;
	for (char *word = strtok_r(whole, "/", &rest); word; word = strtok_r(NULL, "/", &rest)) {
		if (strcmp(word, ".") == 0)
			continue;
		if (strcmp(word, "..") == 0) {
			while (end > result && *--end != '/')
				;
			*end = '\0';
			continue;
		}
		*end++ = '/';
		end = stpcpy(end, word);
	}
	if (end == result)
		*result = '/';
	return result;
}

static int check_empty(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	bool empty = true;

	if (!dir)
		return kr_fail_errno(-errno, "mount point %s", path);
	while ((entry = readdir(dir)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			empty = false;
	closedir(dir);
	return empty ? 0 :
		       kr_fail(-ENOTEMPTY, "mount point %s is not empty (-o nonempty mounts over what is there)", path);
}

static int run_fusermount(const char *path, bool lazy)
{
	char program[] = "fusermount3", unmount[] = "-u", lazily[] = "-uz", dashes[] = "--";
	KR_AUTO_FREE char *copy = kr_xstrdup(path);
	char *argv[] = {program, lazy ? lazily : unmount, dashes, copy, NULL};
	int status = 0, err;
	pid_t pid;

	err = posix_spawnp(&pid, program, NULL, NULL, argv, environ);
	if (err)
		return kr_fail_errno(-err, "cannot run fusermount3");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 :
							       kr_fail(-EBUSY, "%s is not unmounted (see above)", path);
}

int kr_unmount(const char *path, bool lazy)
{
	if (geteuid() != 0)
		return run_fusermount(path, lazy);
	if (umount2(path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0)
		return 0;
	return kr_fail_errno(-errno, "cannot unmount %s%s", path,
		errno == EBUSY ? " (programs use it: fuser -vm shows which; --force unmounts all the same)" : "");
}

/* Whether its daemon has ended, and the kernel has noticed.  Nothing asks a mount that may hang.  ROOT: its, O_PATH. */
static bool is_dead(const struct kr_mounted *mounted, int root)
{
	KR_AUTO_FREE char *socket = NULL;
	struct statfs room;
	int pid;

	if (kr_control_address_read(mounted, &socket, &pid) < 0)
		return false;
	for (int waited = 0; waited < ENDING_MS && kr_daemon_is_ending(pid); waited += LOOK_MS)
		kr_sleep_ms(LOOK_MS);
	return !kr_daemon_runs(pid) && fstatfs(root, &room) < 0 && (errno == ENOTCONN || errno == ECONNABORTED);
}

/* Unmounts MOUNTED if it is dead, even while programs use it.  Root does so by ROOT, not by the path: another kairanfs may
 * have done the same, and mounted there, meanwhile.  0, or -errno with a reason; -EBUSY: it is not dead. */
static int unmount_dead(const struct kr_mounted *mounted)
{
	KR_AUTO_FD int root = open(mounted->path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0 || !is_dead(mounted, root))
		return kr_fail(-EBUSY, "mount point %s is busy: another mount has come there", mounted->path);
	if (geteuid() != 0)
		return run_fusermount(mounted->path, true);
	if (umount2(kr_fd_path(root).text, MNT_DETACH) == 0 || errno == EINVAL) /* EINVAL: it is gone already */
		return 0;
	return kr_fail_errno(-errno, "cannot unmount %s", mounted->path);
}

int kr_mount_point_free(const char *path)
{
	struct kr_mounted mounted = {0};
	int err = kr_mounted_find(path, true, &mounted);

	if (err == 0)
		err = unmount_dead(&mounted);
	kr_mounted_fini(&mounted);
	return err == -ENOENT ? 0 : err;
}

/* Whether a mount of SOURCE, or of JOB, has the source that the kernel's list says. */
static bool is_of(const char *listed, const char *source, const char *job)
{
	size_t length = job ? strlen(job) : 0;

	if (!job)
		return strcmp(listed, source) == 0;
	return strncmp(listed, "job:", 4) == 0 && strncmp(listed + 4, job, length) == 0 && listed[4 + length] == '@';
}

/* 0 if no kairanfs is mounted on PATH, or a dead one of this source (*RET_DEAD). */
static int check_free(const char *path, const char *source, const char *job, bool *ret_dead)
{
	struct kr_mounted mounted = {0};
	int err = 0;

	*ret_dead = false;
	if (kr_mounted_find(path, true, &mounted) < 0)
		return 0;
	if (is_of(mounted.source, source, job)) {
		KR_AUTO_FD int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

		*ret_dead = root >= 0 && is_dead(&mounted, root);
	}
	if (*ret_dead)
		kr_log_info("the daemon of the mount on %s is gone: this mount takes its place", path);
	else
		err = kr_fail(-EBUSY,
			"mount point %s is busy: %s is mounted there already (fusermount3 -u %s, or -uz if its daemon is gone)",
			path, mounted.source, path);
	kr_mounted_fini(&mounted);
	return err;
}

int kr_mount_point_check(char **path, const char *source, const char *job, bool nonempty, bool *ret_dead)
{
	KR_AUTO_FREE char *plain = kr_plain_path(*path);
	struct stat stat_buffer;
	int err = check_free(plain, source, job, ret_dead);
	char *real;

	if (err < 0) /* before any access to the path: a mount there may hang */
		return err;
	if (*ret_dead) {
		free(*path);
		*path = plain;
		plain = NULL;
		return 0;
	}
	real = realpath(*path, NULL);
	if (!real && errno == ENOTCONN)
		return kr_fail(-ENOTCONN, "mount point %s holds a mount whose daemon is gone: fusermount3 -uz %s first",
			*path, *path);
	if (!real)
		return kr_fail_errno(
			-errno, "mount point %s%s", *path, errno == ENOENT ? " (make the directory first)" : "");
	free(*path);
	*path = real;
	err = check_free(real, source, job, ret_dead);
	if (err < 0 || *ret_dead)
		return err;
	if (stat(real, &stat_buffer) < 0)
		return kr_fail_errno(-errno, "mount point %s", real);
	if (!S_ISDIR(stat_buffer.st_mode))
		return kr_fail(-ENOTDIR, "mount point %s is not a directory", real);
	return nonempty ? 0 : check_empty(real);
}

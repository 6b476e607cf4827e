/* See control_address.h. */
#include "fuse/daemon/control_address.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"

#define ROOTS_PLACE "/run/kairan"

enum { PLACES = 3, NOTE_MAX = 8192, USERS_NAME = 40 };

/* The directories that may hold the note of a mount of UID, best first.  Root of a user namespace only has no right to
 * the first. */
static int list_places(unsigned uid, char *ret_paths[PLACES])
{
	const char *runtime = uid == getuid() ? getenv("XDG_RUNTIME_DIR") : NULL;
	int count = 0;

	if (uid == 0)
		ret_paths[count++] = kr_xstrdup(ROOTS_PLACE);
	if (runtime && *runtime == '/' && asprintf(&ret_paths[count], "%s/kairan", runtime) > 0)
		count++;
	if (uid && asprintf(&ret_paths[count], "/run/user/%u/kairan", uid) > 0)
		count++;
	if (asprintf(&ret_paths[count], "/tmp/kairan-%u", uid) > 0)
		count++;
	return count;
}

static void free_places(char *paths[PLACES], int count)
{
	for (int i = 0; i < count; i++)
		free(paths[i]);
}

/* Opens a directory that belongs to UID and to which no other user can write. */
static int open_place(const char *path, unsigned uid, bool make)
{
	struct stat stat;
	int fd;

	if (make)
		mkdir(path, uid == 0 ? 0755 : 0700);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &stat) == 0 && stat.st_uid == uid && !(stat.st_mode & 022))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static void note_name(unsigned dev_major, unsigned dev_minor, char name[32])
{
	snprintf(name, 32, "%u:%u", dev_major, dev_minor);
}

/* The text of this process's note; owned, or NULL.  No two daemons share a socket. */
static char *note_text(const char *socket)
{
	char *text = NULL;

	return asprintf(&text, "%d %s", (int)getpid(), socket) < 0 ? NULL : text;
}

int kr_control_address_write(unsigned dev_major, unsigned dev_minor, const char *socket)
{
	char *paths[PLACES], name[32];
	int count = list_places(geteuid(), paths), err = -ENOENT;
	KR_AUTO_FREE char *text = note_text(socket);

	note_name(dev_major, dev_minor, name);
	for (int i = 0; i < count && err < 0 && text; i++) {
		KR_AUTO_FD int fd = open_place(paths[i], geteuid(), true);

		if (fd >= 0 && flock(fd, LOCK_EX) == 0)
			err = kr_write_file(fd, name, text, strlen(text), 0644);
	}
	free_places(paths, count);
	return err < 0 ?
		kr_fail_errno(err, "cannot write down where the control socket is (in /run/kairan or the like)") :
		0;
}

void kr_control_address_remove(unsigned dev_major, unsigned dev_minor, const char *socket)
{
	char *paths[PLACES], name[32];
	int count = list_places(geteuid(), paths);
	KR_AUTO_FREE char *text = note_text(socket);

	note_name(dev_major, dev_minor, name);
	for (int i = 0; i < count && text; i++) {
		KR_AUTO_FD int fd = open_place(paths[i], geteuid(), false);
		KR_AUTO_FREE char *found = NULL;
		size_t length;

		/* Under the lock no other process replaces the note in between. */
		if (fd >= 0 && flock(fd, LOCK_EX) == 0 && kr_read_file(fd, name, NOTE_MAX, &found, &length) == 0 &&
			strcmp(found, text) == 0 && unlinkat(fd, name, 0) == 0)
			break;
	}
	free_places(paths, count);
}

static int parse_note(const char *text, char **ret_socket, int *ret_pid)
{
	int length = 0;

	if (sscanf(text, "%d %n", ret_pid, &length) != 1 || text[length] != '/')
		return -EBADMSG;
	*ret_socket = kr_xstrdup(text + length);
	return 0;
}

int kr_control_address_read(const struct kr_mounted *mounted, char **ret_socket, int *ret_pid)
{
	char *paths[PLACES], name[32];
	int count = list_places(mounted->uid, paths), err = -ENOENT;

	note_name(mounted->dev_major, mounted->dev_minor, name);
	for (int i = 0; i < count && err < 0; i++) {
		KR_AUTO_FD int fd = open_place(paths[i], mounted->uid, false);
		KR_AUTO_FREE char *text = NULL;
		size_t length;

		if (fd >= 0 && kr_read_file(fd, name, NOTE_MAX, &text, &length) == 0)
			err = parse_note(text, ret_socket, ret_pid);
	}
	free_places(paths, count);
	return err;
}

static void users_name(unsigned dev_major, unsigned dev_minor, char name[USERS_NAME])
{
	snprintf(name, USERS_NAME, "users-%u:%u", dev_major, dev_minor);
}

/* Makes the socket NAME in PLACE.  The path is in /proc, so that no other user can exchange the directory. */
static int bind_in(int place, const char *name, mode_t mode, ino_t *ret_inode)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;
	struct stat stat;

	if (fd < 0)
		return -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", place, name);
	unlinkat(place, name, 0);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 && fchmodat(place, name, mode, 0) == 0 &&
		fstatat(place, name, &stat, AT_SYMLINK_NOFOLLOW) == 0) {
		*ret_inode = stat.st_ino;
		return fd;
	}
	err = -errno;
	close(fd);
	return err;
}

int kr_control_users_bind(unsigned dev_major, unsigned dev_minor, ino_t *ret_inode)
{
	KR_AUTO_FD int place = geteuid() == 0 ? open_place(ROOTS_PLACE, 0, true) : -1;
	char name[USERS_NAME];

	users_name(dev_major, dev_minor, name);
	if (place < 0)
		return -ENOENT;
	return flock(place, LOCK_EX) < 0 ? -errno : bind_in(place, name, 0666, ret_inode);
}

int kr_control_owner_bind(unsigned dev_major, unsigned dev_minor, char **ret_path)
{
	char *paths[PLACES], name[USERS_NAME];
	int count = list_places(geteuid(), paths), fd = -ENOENT;
	ino_t inode;

	snprintf(name, sizeof(name), "owner-%u:%u", dev_major, dev_minor);
	for (int i = 0; i < count && fd < 0; i++) {
		KR_AUTO_FD int place = open_place(paths[i], geteuid(), true);

		fd = place < 0 ? -ENOENT : bind_in(place, name, 0600, &inode);
		if (fd >= 0 && asprintf(ret_path, "%s/%s", paths[i], name) < 0)
			abort();
	}
	free_places(paths, count);
	return fd;
}

void kr_control_users_remove(unsigned dev_major, unsigned dev_minor, ino_t inode)
{
	KR_AUTO_FD int place = inode ? open_place(ROOTS_PLACE, 0, false) : -1;
	char name[USERS_NAME];
	struct stat stat;

	users_name(dev_major, dev_minor, name);
	if (place >= 0 && flock(place, LOCK_EX) == 0 && fstatat(place, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 &&
		stat.st_ino == inode)
		unlinkat(place, name, 0);
}

int kr_control_users_socket(const struct kr_mounted *mounted, char path[KR_CONTROL_PATH])
{
	KR_AUTO_FD int fd = mounted->uid == 0 ? open_place(ROOTS_PLACE, 0, false) : -1;
	char name[USERS_NAME];

	users_name(mounted->dev_major, mounted->dev_minor, name);
	snprintf(path, KR_CONTROL_PATH, "%s/%s", ROOTS_PLACE, name);
	return fd < 0 || faccessat(fd, name, W_OK, 0) < 0 ? -ENOENT : 0;
}

typedef void (*visit_fn)(unsigned dev_major, unsigned dev_minor, const char *socket, int pid, void *context);

static void visit_place(int place, visit_fn visit, void *context)
{
	DIR *directory = kr_opendir_at(place, ".");
	const struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		unsigned dev_major, dev_minor;
		KR_AUTO_FREE char *text = NULL;
		KR_AUTO_FREE char *socket = NULL;
		size_t length;
		int pid;

		if (sscanf(entry->d_name, "%u:%u", &dev_major, &dev_minor) == 2 &&
			kr_read_file(place, entry->d_name, NOTE_MAX, &text, &length) == 0 &&
			parse_note(text, &socket, &pid) == 0)
			visit(dev_major, dev_minor, socket, pid, context);
	}
	if (directory)
		closedir(directory);
}

void kr_control_address_for_each(visit_fn visit, void *context)
{
	char *paths[PLACES];
	int count = list_places(getuid(), paths);

	for (int i = 0; i < count; i++) {
		KR_AUTO_FD int fd = open_place(paths[i], getuid(), false);

		if (fd >= 0)
			visit_place(fd, visit, context);
	}
	free_places(paths, count);
}

/* What /proc/PID/stat says from the state on; NULL: the process has ended.  TEXT: to be freed. */
static const char *process_state(int pid, char **text)
{
	char path[64];
	size_t length;
	const char *name_end;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (pid <= 0 || kr_read_file(AT_FDCWD, path, 4096, text, &length) < 0)
		return NULL;
	name_end = strrchr(*text, ')'); /* PID (NAME) STATE ... */
	/* Z: it has ended, and may wait for its parent for ever. */
	return name_end && name_end[1] && !strchr("ZX", name_end[2]) ? name_end + 2 : NULL;
}

bool kr_daemon_runs(int pid)
{
	KR_AUTO_FREE char *text = NULL;

	return process_state(pid, &text) != NULL;
}

bool kr_daemon_is_ending(int pid)
{
	const unsigned exiting = 0x4; /* PF_EXITING of the kernel's flags, proc(5) */
	KR_AUTO_FREE char *text = NULL;
	const char *state = process_state(pid, &text);
	unsigned flags;

	return state && sscanf(state, "%*c %*d %*d %*d %*d %*d %u", &flags) == 1 && (flags & exiting);
}

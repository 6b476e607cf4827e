/* See local_dir.h. */
#include "fuse/base/local_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "common/base/table.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "fuse/base/options.h"

enum { ID_BYTES = 16, IDENTITY_MAX = 8192, SECTOR = 512 };
/* The time that a daemon may take to notice the end of its mount, and, after its drain timeout, to end. */
enum { NOTICE_MS = 2000, LEAVE_MS = 5000, LOOK_MS = 20 };

struct kr_local {
	char *path, *journal;
	char *source, *node_name;
	int fd, lock_fd;
	uint8_t node_id[ID_BYTES], export_id[ID_BYTES];
	bool bound; /* export_id is set */
	bool made;  /* by this start */
	bool view;  /* locked, and a view's: nothing stays of it */
	uint64_t incarnation;
};

static bool from_hex(const char *text, uint8_t *bytes, size_t length)
{
	return text && kr_hex_parse(text, bytes, length) == length;
}

/* Opens a directory of this user that no other user can have put there; makes it if it is missing. */
static int make_private(const char *path)
{
	struct stat stat;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return kr_fail_errno(-errno, "cannot make local directory %s", path);
	if (lstat(path, &stat) < 0)
		return kr_fail_errno(-errno, "local directory %s", path);
	if (!S_ISDIR(stat.st_mode) || stat.st_uid != geteuid() || (stat.st_mode & 022))
		return kr_fail(-EPERM, "%s is not a directory of this user alone; give local=DIR", path);
	return 0;
}

static int default_path(const struct kr_mount_options *options, struct kr_local *local)
{
	KR_AUTO_FREE char *parent = NULL, *key = NULL;
	int err;

	if (asprintf(&parent, "/var/tmp/kairan-%u", (unsigned)geteuid()) < 0 ||
		asprintf(&key, "%s:%u:/%s %s", options->view == KR_VIEW_CACHE ? options->server.host : "none",
			options->server.port, options->subdir, options->mount_point) < 0)
		return -ENOMEM;
	err = make_private(parent);
	if (err < 0)
		return err;
	if (asprintf(&local->path, "%s/%016llx", parent, (unsigned long long)kr_hash_bytes(key, strlen(key))) < 0)
		return -ENOMEM;
	local->made = access(local->path, F_OK) < 0;
	return make_private(local->path);
}

/* A user who may make names in the directory above could lead the daemon anywhere by a symbolic link. */
static int check_link(const char *path)
{
	struct stat stat;

	if (lstat(path, &stat) == 0 && S_ISLNK(stat.st_mode) && stat.st_uid != 0 && stat.st_uid != geteuid())
		return kr_fail(-EPERM,
			"local directory %s is a symbolic link of user %u: remove it, or name another with -o "
			"local=DIR",
			path, stat.st_uid);
	return 0;
}

static int find_path(const struct kr_mount_options *options, struct kr_local *local)
{
	struct stat stat_now;
	int err;

	if (!options->local)
		return default_path(options, local);
	local->path = kr_xstrdup(options->local);
	err = check_link(local->path);
	if (err < 0)
		return err;
	local->made = mkdir(local->path, 0700) == 0;
	if (!local->made && errno != EEXIST)
		return kr_fail_errno(-errno, "cannot make local directory %s%s", local->path,
			errno == ENOENT ? " (is the disk mounted? what it lies in is not made here)" : "");
	/* Root, too, must own the directory: the mount gives up the right to write into directories of others, and the
	 * daemon trusts the journal. */
	if (stat(local->path, &stat_now) == 0 && stat_now.st_uid != geteuid() && options->replay)
		return kr_fail(-EPERM,
			"%s belongs to user %u: replay it as that user, with a key of that user; what it holds is that "
			"user's word",
			local->path, stat_now.st_uid);
	if (stat(local->path, &stat_now) == 0 && stat_now.st_uid != geteuid())
		return kr_fail(-EPERM,
			"local directory %s belongs to user %u; give it to user %u, who mounts, or name another with "
			"-o local=DIR",
			local->path, stat_now.st_uid, geteuid());
	return 0;
}

/* The advice for a directory that is not this user's alone.  A used one holds bytes that no other has. */
static const char *advice(const struct kr_local *local, const char *if_new)
{
	return faccessat(local->fd, "identity", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ?
		"it can hold unflushed bytes, so see that no other user has put files there, and make it yours alone "
		"(chown, chmod go-w)" :
		if_new;
}

/* A user who can write to the directory, or has put files there, could take the journal away.  Or that user could make
 * the daemon send a forged journal, in the name of all users.  The owner of the directories above must protect those.
 */
static int check_ours(const struct kr_local *local)
{
	static const char *const names[] = {"journal", "cache", "identity", "lock"};
	struct stat stat;

	if (fstat(local->fd, &stat) < 0)
		return kr_fail_errno(-errno, "local directory %s", local->path);
	if (stat.st_uid != geteuid() || (stat.st_mode & 022))
		return kr_fail(-EPERM,
			"local directory %s can be written to by others (user %u, mode %04o), who could take its "
			"journal away: %s",
			local->path, stat.st_uid, stat.st_mode & 07777,
			advice(local, "chmod go-w it, or name one below it with -o local=DIR"));
	for (size_t i = 0; i < KR_ARRAY_SIZE(names); i++) {
		bool there = fstatat(local->fd, names[i], &stat, AT_SYMLINK_NOFOLLOW) == 0;

		if (!there && errno != ENOENT)
			return kr_fail_errno(-errno, "%s/%s", local->path, names[i]);
		if (there && (stat.st_uid != geteuid() || (!S_ISLNK(stat.st_mode) && (stat.st_mode & 022))))
			return kr_fail(-EPERM, "%s/%s is not this user's alone (user %u, mode %04o): %s", local->path,
				names[i], stat.st_uid, stat.st_mode & 07777,
				advice(local, "name another directory with -o local=DIR"));
	}
	return 0;
}

/* The mount would hide what lies below the mount point, and the daemon would ask itself for it. */
static int check_place(const struct kr_mount_options *options, const struct kr_local *local)
{
	KR_AUTO_FREE char *path = realpath(local->path, NULL);

	if (path && !options->replay && kr_path_below(path, options->mount_point)) /* a replay mounts nothing */
		return kr_fail(-EINVAL,
			"local directory %s lies at or below the mount point: name one on a local disk with -o "
			"local=DIR",
			local->path);
	return 0;
}

static bool holder_leaves(const struct kr_local *local)
{
	char mark;

	return pread(local->lock_fd, &mark, 1, 0) == 1;
}

static int wait_for_lock(const struct kr_local *local, uint64_t drain_ms, bool replay)
{
	uint64_t begin_ns = kr_clock_ns(), waited_ms;
	struct stat stat;
	bool told = false;

	while (flock(local->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		bool leaves;

		if (errno != EWOULDBLOCK && errno != EINTR)
			return kr_fail_errno(-errno, "cannot lock %s/lock", local->path);
		leaves = holder_leaves(local);
		waited_ms = (kr_clock_ns() - begin_ns) / KR_NS_PER_MS;
		if (waited_ms > (leaves ? drain_ms + LEAVE_MS : NOTICE_MS))
			return kr_fail(-EBUSY,
				leaves ?
					"local directory %s is in use by a mount that has ended and still flushes; try "
					"again" :
					"local directory %s is in use by another mount, or by one that was unmounted "
					"lazily under programs that use it, or unmounted here but held by another "
					"mount namespace (fuser %s/lock tells by which process); %s",
				local->path, local->path,
				replay ? "that mount sends its journal itself, or unmount it first" :
					 "give each mount its own with -o local=DIR");
		if (waited_ms > NOTICE_MS && !told)
			kr_log_info("waiting for the mount before, which flushes what it has in %s", local->path);
		told |= waited_ms > NOTICE_MS;
		kr_sleep_ms(LOOK_MS);
	}
	if (fstat(local->lock_fd, &stat) < 0 || stat.st_nlink == 0)
		return -ESTALE; /* removed by the mount that had it */
	return stat.st_size > 0 && ftruncate(local->lock_fd, 0) < 0 ?
		kr_fail_errno(-errno, "cannot write %s/lock", local->path) :
		0;
}

void kr_local_leaving(struct kr_local *local)
{
	(void)!pwrite(local->lock_fd, "leaving\n", 8, 0); /* without it other mounts wait for less time */
}

static int take_lock(struct kr_local *local, uint64_t drain_ms, bool replay)
{
	local->lock_fd = openat(local->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (local->lock_fd < 0)
		return kr_fail_errno(-errno, "cannot write to local directory %s", local->path);
	return wait_for_lock(local, drain_ms, replay);
}

/* The disk is full, perhaps of the journal that this start must drain.  So the new text goes over the old one, which
 * needs no room.  The text fits in a sector: a loss of power leaves the old or the new one. */
static int overwrite_identity(const struct kr_local *local, const char *text, int err)
{
	KR_AUTO_FD int fd = openat(local->fd, "identity", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	size_t length = strlen(text);
	char sector[SECTOR];
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat) < 0 || stat.st_size > SECTOR || length > SECTOR)
		return err;
	memset(sector, '\n', sizeof(sector));
	memcpy(sector, text, length);
	err = kr_pwrite_full(fd, sector, KR_MAX(length, (size_t)stat.st_size), 0);
	return err == 0 && fsync(fd) < 0 ? -errno : err;
}

static int save_identity(const struct kr_local *local)
{
	char node[2 * ID_BYTES + 1], export[2 * ID_BYTES + 1];
	json_t *identity = json_object();
	KR_AUTO_FREE char *text = NULL;
	int err;

	kr_hex_format(local->node_id, ID_BYTES, node);
	kr_hex_format(local->export_id, ID_BYTES, export);
	json_object_set_new(identity, "node_id", json_string(node));
	json_object_set_new(identity, "incarnation", json_integer((json_int_t)local->incarnation));
	json_object_set_new(identity, "source", kr_text_json(local->source));
	json_object_set_new(identity, "node", kr_text_json(local->node_name));
	if (local->bound)
		json_object_set_new(identity, "export_id", json_string(export));
	text = json_dumps(identity, JSON_INDENT(2));
	json_decref(identity);
	if (!text)
		return -ENOMEM;
	err = kr_write_file(local->fd, "identity", text, strlen(text), 0600);
	if (err == -ENOSPC || err == -EDQUOT)
		err = overwrite_identity(local, text, err);
	return err < 0 ? kr_fail_errno(err, "cannot write %s/identity", local->path) : 0;
}

static int parse_identity(struct kr_local *local, const char *text)
{
	json_t *identity = json_loads(text, 0, NULL);
	const char *export = json_string_value(json_object_get(identity, "export_id"));
	const char *source = json_string_value(json_object_get(identity, "source"));
	json_int_t incarnation = json_integer_value(json_object_get(identity, "incarnation"));
	bool good = from_hex(json_string_value(json_object_get(identity, "node_id")), local->node_id, ID_BYTES) &&
		incarnation > 0;

	if (good && export)
		good = local->bound = from_hex(export, local->export_id, ID_BYTES);
	if (good) {
		local->incarnation = (uint64_t)incarnation;
		local->source = kr_xstrdup(source ? source : "?");
	}
	json_decref(identity);
	if (!good)
		return kr_fail(-EBADMSG,
			"%s/identity is damaged; look at %s/journal with kairan journal before you remove the "
			"directory",
			local->path, local->path);
	return 0;
}

static int load_identity(struct kr_local *local, const struct kr_mount_options *options)
{
	KR_AUTO_FREE char *text = NULL;
	size_t length;
	int err = kr_read_file(local->fd, "identity", IDENTITY_MAX, &text, &length);

	if (err == 0) {
		err = parse_identity(local, text);
		if (err < 0)
			return err;
	} else if (err == -ENOENT) {
		if (getrandom(local->node_id, ID_BYTES, 0) != ID_BYTES)
			return kr_fail_errno(-errno, "no random bytes");
		local->source = kr_xstrdup(options->source);
	} else {
		return kr_fail_errno(err, "cannot read %s/identity", local->path);
	}
	local->incarnation++;
	return save_identity(local);
}

static int make_journal(struct kr_local *local)
{
	if (asprintf(&local->journal, "%s/journal", local->path) < 0)
		return -ENOMEM;
	if (mkdirat(local->fd, "journal", 0700) < 0 && errno != EEXIST)
		return kr_fail_errno(-errno, "cannot write to local directory %s", local->path);
	return 0;
}

/* At the end of a view all goes that a mount makes in its directory.  So there must be nothing else by these names.
 * The lock is made first and removed last. */
static int check_only_ours(const struct kr_local *local)
{
	static const char *const ours[] = {".", "..", "lock", "log", "control", "kairan-view", "kairan-job"};
	DIR *stream = kr_opendir_at(local->fd, ".");
	const struct dirent *entry;
	bool locked = false, others = false;
	int err = 0;

	if (!stream)
		return kr_fail_errno(-errno, "local directory %s", local->path);
	while (err == 0 && (entry = readdir(stream))) {
		bool is_ours = false;

		for (size_t i = 0; i < KR_ARRAY_SIZE(ours); i++)
			is_ours |= strcmp(entry->d_name, ours[i]) == 0;
		locked |= strcmp(entry->d_name, "lock") == 0;
		others |= entry->d_name[0] != '.' && strcmp(entry->d_name, "lock") != 0;
		if (!is_ours)
			err = kr_fail(-EINVAL,
				"local directory %s holds %s: name an empty one, or one that is not there yet, with -o "
				"local=DIR",
				local->path, entry->d_name);
	}
	closedir(stream);
	if (err == 0 && others && !locked)
		err = kr_fail(-EINVAL,
			"local directory %s is not empty, and no former mount has left it: name another "
			"with -o local=DIR",
			local->path);
	return err;
}

static int open_once(const struct kr_mount_options *options, struct kr_local **ret_local)
{
	struct kr_local *local = kr_xcalloc(1, sizeof(*local));
	char host[256] = "localhost";
	int err;

	local->fd = local->lock_fd = -1;
	gethostname(host, sizeof(host) - 1);
	local->node_name = kr_xstrdup(options->node ? options->node : host);
	err = find_path(options, local);
	if (err == 0) {
		local->fd = open(local->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (local->fd < 0)
			err = kr_fail_errno(-errno, "local directory %s", local->path);
	}
	if (err == 0)
		err = check_place(options, local);
	if (err == 0)
		err = check_ours(local);
	if (err == 0 && options->view != KR_VIEW_CACHE)
		err = check_only_ours(local);
	if (err == 0)
		err = take_lock(local, options->drain_timeout, options->replay);
	local->view = err == 0 && options->view != KR_VIEW_CACHE;
	if (err == 0 && !local->view) {
		err = make_journal(local);
		if (err == 0)
			err = load_identity(local, options);
	}
	if (err == -ESTALE)
		local->made = false; /* another mount may have made it since */
	if (err < 0)
		kr_local_free(local);
	else
		*ret_local = local;
	return err;
}

int kr_local_open(const struct kr_mount_options *options, struct kr_local **ret_local)
{
	int err;

	do
		err = open_once(options, ret_local);
	while (err == -ESTALE); /* each time another mount has ended */
	return err;
}

int kr_local_bind(struct kr_local *local, const uint8_t export_id[16])
{
	if (local->bound && memcmp(local->export_id, export_id, ID_BYTES) == 0)
		return 0;
	if (local->bound)
		return kr_fail(-EXDEV,
			"local directory %s belongs to another export (%s); give another with -o local=DIR, "
			"or remove it if `kairan journal %s` shows nothing that is needed",
			local->path, local->source, local->journal);
	memcpy(local->export_id, export_id, ID_BYTES);
	local->bound = true;
	return save_identity(local);
}

static void remove_again(const struct kr_local *local)
{
	if (local->fd >= 0) {
		unlinkat(local->fd, "identity", 0);
		unlinkat(local->fd, "journal", AT_REMOVEDIR);
		unlinkat(local->fd, "log", 0);
		unlinkat(local->fd, "lock", 0);
	}
	rmdir(local->path);
}

void kr_local_keep(struct kr_local *local)
{
	local->view = local->made = false;
}

void kr_local_free(struct kr_local *local)
{
	if (!local)
		return;
	if (local->view || (local->made && !local->bound))
		remove_again(local);
	if (local->lock_fd >= 0)
		close(local->lock_fd);
	if (local->fd >= 0)
		close(local->fd);
	free(local->path);
	free(local->journal);
	free(local->source);
	free(local->node_name);
	free(local);
}

const char *kr_local_path(const struct kr_local *local)
{
	return local->path;
}

int kr_local_fd(const struct kr_local *local)
{
	return local->fd;
}

const char *kr_local_journal(const struct kr_local *local)
{
	return local->journal;
}

const uint8_t *kr_local_node_id(const struct kr_local *local)
{
	return local->node_id;
}

uint64_t kr_local_incarnation(const struct kr_local *local)
{
	return local->incarnation;
}

const char *kr_local_node_name(const struct kr_local *local)
{
	return local->node_name;
}

/* Opening the state directory: finds or makes it, locks it, reads it, counts this start. Blocks; before the loop runs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/boot.h"
#include "common/base/fail.h"
#include "common/base/hex.h"
#include "common/base/table.h"
#include "server/base/state_priv.h"

enum { SMALL_FILE_MAX = 8192, NODES_MAX = 1 << 20, MARK_MAX = 80 };

static int default_path(const char *export_path, char **ret_path)
{
	const char *state_home = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	uint64_t hash = kr_hash_bytes(export_path, strlen(export_path));
	int written;

	if (geteuid() == 0)
		written = asprintf(ret_path, "/var/lib/kairan/%016" PRIx64, hash);
	else if (state_home && state_home[0] == '/')
		written = asprintf(ret_path, "%s/kairan/%016" PRIx64, state_home, hash);
	else if (home && home[0] == '/')
		written = asprintf(ret_path, "%s/.local/state/kairan/%016" PRIx64, home, hash);
	else
		return kr_fail(-ENOENT,
			"HOME is not set, so there is no place for the server's state (give one with --state DIR)");
	return written < 0 ? -ENOMEM : 0;
}

/* -EINVAL if DIRECTORY, which exists, lies in the export: root on a node could read the secret that signs file
 * identities. Directories on mounts inside the export are fine, since no node reaches them. */
static int check_outside(const struct kr_state *state, const char *directory, const char *export_path)
{
	struct stat export, here, below = {0};
	KR_AUTO_FD int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (stat(export_path, &export) < 0)
		return kr_fail_errno(-errno, "cannot look at the export %s", export_path);
	for (;;) {
		int above;

		if (fd < 0 || fstat(fd, &here) < 0)
			return kr_fail_errno(
				-errno, "cannot look at what lies above the state directory %s", state->path);
		if (here.st_dev == export.st_dev && here.st_ino == export.st_ino)
			return kr_fail(-EINVAL,
				"the state directory %s lies in the export %s, where nodes could read its secrets: "
				"move it elsewhere, with all that is in it, and name it with --state DIR",
				state->path, export_path);
		if (here.st_dev != export.st_dev || (here.st_dev == below.st_dev && here.st_ino == below.st_ino))
			return 0;
		below = here;
		above = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = above;
	}
}

/* The directory of PATH's last component. Owned. */
static char *parent_of(const char *path)
{
	char *parent = kr_xstrdup(path), *slash = strrchr(parent, '/');

	if (slash) {
		slash[slash == parent] = '\0';
		return parent;
	}
	free(parent);
	return kr_xstrdup(".");
}

/* Makes no directory in the export. */
static int make_directory(const struct kr_state *state, const char *path, const char *export_path)
{
	KR_AUTO_FREE char *parent = parent_of(path);
	int err;

	if (access(path, F_OK) == 0)
		return 0;
	err = check_outside(state, parent, export_path);
	if (err)
		return err;
	if (mkdir(path, 0700) < 0)
		return errno == EEXIST ?
			0 :
			kr_fail_errno(-errno, "cannot make %s (choose another place with --state DIR)", path);
	return kr_sync_directory_of(AT_FDCWD, path); /* its contents would be lost with it */
}

/* mkdir -p, private, durable. */
static int make_path(const struct kr_state *state, const char *export_path)
{
	KR_AUTO_FREE char *copy = kr_xstrdup(state->path);
	int err;

	for (char *slash = copy + 1;; slash++) {
		char kept = *slash;

		if (kept != '/' && kept != '\0')
			continue;
		*slash = '\0';
		err = make_directory(state, copy, export_path);
		if (err)
			return err;
		*slash = kept;
		if (!kept)
			return check_outside(state, state->path, export_path);
	}
}

static int open_directories(struct kr_state *state, const char *export_path)
{
	int err = make_path(state, export_path);

	if (err)
		return err;
	state->dir = open(state->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (state->dir < 0)
		return kr_fail_errno(-errno, "cannot open the state directory %s", state->path);
	if (mkdirat(state->dir, "nodes", 0700) && errno != EEXIST)
		return kr_fail_errno(-errno, "cannot write to the state directory %s (choose another with --state DIR)",
			state->path);
	state->nodes_dir = openat(state->dir, "nodes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (state->nodes_dir < 0)
		return kr_fail_errno(-errno, "cannot open %s/nodes", state->path);
	return 0;
}

static int lock_state(struct kr_state *state)
{
	state->lock = openat(state->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (state->lock < 0)
		return kr_fail_errno(-errno, "cannot write to the state directory %s (choose another with --state DIR)",
			state->path);
	if (flock(state->lock, LOCK_EX | LOCK_NB)) {
		if (errno == EWOULDBLOCK)
			return kr_fail(-EBUSY, "the state directory %s is in use by another kairand (stop it first)",
				state->path);
		return kr_fail_errno(-errno, "cannot lock %s/lock", state->path);
	}
	return 0;
}

/* Two servers with two state directories must not serve one export: each would grant its own leases. Gateways may. */
static int lock_export(struct kr_state *state, const char *export_path, bool gateway)
{
	state->export_lock = open(export_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (state->export_lock < 0)
		return kr_fail_errno(-errno, "cannot open the export %s", export_path);
	if (flock(state->export_lock, (gateway ? LOCK_SH : LOCK_EX) | LOCK_NB)) {
		if (errno == EWOULDBLOCK)
			return kr_fail(-EBUSY,
				"%s is exported by another kairand already (stop it first, or give --gateway to all)",
				export_path);
		return kr_fail_errno(-errno, "cannot lock the export %s", export_path);
	}
	return 0;
}

/* An unreadable record is damaged or of an older version: any client may be the node. */
static struct kr_key_owner read_owner(const struct kr_state *state, const char *name)
{
	struct kr_key_owner owner = {0};
	char record[KR_STATE_RECORD];
	ssize_t length = readlinkat(state->nodes_dir, name, record, sizeof(record) - 1);

	record[KR_MAX(length, 0)] = '\0';
	if (strncmp(record, "node ", 5) == 0)
		owner.kind = KR_KEY_NODE;
	else if (sscanf(record, "user-%u ", &owner.uid) == 1)
		owner.kind = KR_KEY_USER;
	return owner;
}

static int read_nodes(struct kr_state *state)
{
	struct kr_state_facts *facts = &state->facts;
	DIR *dir = kr_opendir_at(state->nodes_dir, ".");
	struct dirent *entry;

	if (!dir)
		return kr_fail_errno(-errno, "cannot read %s/nodes", state->path);
	while ((entry = readdir(dir)) && facts->node_count < NODES_MAX) {
		struct kr_state_node node;

		if (kr_hex_parse(entry->d_name, node.id, 16) != 16)
			continue;
		facts->nodes = realloc(facts->nodes, (facts->node_count + 1) * sizeof(*facts->nodes));
		if (!facts->nodes) {
			closedir(dir);
			return -ENOMEM;
		}
		node.owner = read_owner(state, entry->d_name);
		facts->nodes[facts->node_count++] = node;
	}
	closedir(dir);
	return 0;
}

/* Tells a directory from a later one at the same path. */
static int mark_of(const char *export_path, char mark[MARK_MAX])
{
	struct statx found;

	if (statx(AT_FDCWD, export_path, 0, STATX_INO | STATX_BTIME, &found))
		return kr_fail_errno(-errno, "cannot look at the export %s", export_path);
	if (!(found.stx_mask & STATX_BTIME))
		found.stx_btime = (struct statx_timestamp){0};
	snprintf(mark, MARK_MAX, "%" PRIu64 " %" PRId64 ".%09u", (uint64_t)found.stx_ino,
		(int64_t)found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
	return 0;
}

static int check_export(struct kr_state *state, const char *export_path)
{
	KR_AUTO_FREE char *text = NULL, *now = NULL;
	char mark[MARK_MAX], *old_path;
	size_t length;
	int err = mark_of(export_path, mark);

	if (err)
		return err;
	if (asprintf(&now, "%s\n%s", mark, export_path) < 0)
		return -ENOMEM;
	err = kr_read_file(state->dir, "export", SMALL_FILE_MAX, &text, &length);
	if (err && err != -ENOENT)
		return kr_fail_errno(err, "cannot read %s/export", state->path);
	old_path = err ? NULL : strchr(text, '\n');
	if (old_path && (strncmp(text, mark, (size_t)(old_path - text)) != 0 || mark[old_path - text] != '\0')) {
		if (strcmp(old_path + 1, export_path) != 0)
			return kr_fail(-EEXIST,
				"the state directory %s belongs to another export, %s (choose another with --state "
				"DIR)",
				state->path, old_path + 1);
		return kr_fail(-ENXIO,
			"%s is not the directory that it was: is its filesystem mounted? (If it is meant to be another "
			"one, remove %s: nodes then have to mount it anew, and what they have not flushed stays with "
			"them)",
			export_path, state->path);
	}
	err = kr_write_file(state->dir, "export", now, strlen(now), 0600);
	return err ? kr_fail_errno(err, "cannot write to the state directory %s", state->path) : 0;
}

static int read_identity(struct kr_state *state)
{
	uint8_t bytes[32];
	KR_AUTO_FREE char *text = NULL;
	size_t length = 0;
	int err = kr_read_file(state->dir, "identity", sizeof(bytes), &text, &length);

	if (err == -ENOENT) {
		if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
			return kr_fail(-EIO, "the kernel gives no random bytes");
		err = kr_write_file(state->dir, "identity", bytes, sizeof(bytes), 0600);
		if (err)
			return kr_fail_errno(err, "cannot write %s/identity", state->path);
	} else if (err) {
		return kr_fail_errno(err, "cannot read %s/identity", state->path);
	} else if (length != sizeof(bytes)) {
		return kr_fail(-EBADMSG,
			"%s/identity is damaged: %zu bytes instead of %zu (restore it from a backup, or remove "
			"the directory: then nodes must discard their caches)",
			state->path, length, sizeof(bytes));
	} else {
		memcpy(bytes, text, sizeof(bytes));
	}
	memcpy(state->facts.export_id, bytes, 16);
	memcpy(state->facts.secret, bytes + 16, 16);
	return 0;
}

static int count_start(struct kr_state *state)
{
	KR_AUTO_FREE char *text = NULL;
	char line[32];
	size_t length;
	int written, err = kr_read_file(state->dir, "instance", sizeof(line), &text, &length);

	if (err && err != -ENOENT)
		return kr_fail_errno(err, "cannot read %s/instance", state->path);
	state->facts.instance = (err ? 0 : strtoull(text, NULL, 10)) + 1;
	written = snprintf(line, sizeof(line), "%" PRIu64 "\n", state->facts.instance);
	err = kr_write_file(state->dir, "instance", line, (size_t)written, 0600);
	return err ? kr_fail_errno(err, "cannot write to the state directory %s", state->path) : 0;
}

/* Revokes the clean shutdown durably before the server serves (clean_shutdown.h). */
static int read_clean_shutdown(struct kr_state *state)
{
	struct kr_state_facts *facts = &state->facts;
	uint8_t fresh[16];
	struct kr_clean_shutdown found;
	int err = kr_boot_id(facts->machine_id);

	if (!err && getrandom(fresh, sizeof(fresh), 0) != sizeof(fresh))
		err = kr_fail(-EIO, "the kernel gives no random bytes");
	if (!err)
		err = kr_clean_shutdown_read(state->dir, &found);
	if (err)
		return err;
	/* The kernel passes no syncfs to a FUSE daemon. What was applied has been synced before a clean shutdown, else
	 * it may still be in the daemon's memory. */
	if (kr_is_fuse(state->export_lock) && found.state != KR_CLEAN_SHUTDOWN_STOPPED)
		found.state = KR_CLEAN_SHUTDOWN_FAILED;
	facts->clean = facts->instance == 1 || found.state == KR_CLEAN_SHUTDOWN_STOPPED;
	state->clean_shutdown = kr_clean_shutdown_start(&found, facts->machine_id, fresh, facts->instance == 1);
	memcpy(facts->boot_id, state->clean_shutdown.boot, 16);
	err = kr_clean_shutdown_write(state->dir, &state->clean_shutdown);
	return err ? kr_fail_errno(err, "cannot write to the state directory %s", state->path) : 0;
}

static int fill(struct kr_state *state, const char *export_path, bool gateway)
{
	int err = lock_export(state, export_path, gateway); /* a refused server leaves no state directory behind */

	if (!err)
		err = open_directories(state, export_path);
	if (!err)
		err = lock_state(state);
	if (!err)
		err = check_export(state, export_path);
	if (!err)
		err = read_identity(state);
	if (!err)
		err = count_start(state);
	if (!err)
		err = read_clean_shutdown(state);
	return err ? err : read_nodes(state);
}

int kr_state_open(const char *dir, const char *export_path, bool gateway, struct kr_state **ret_state)
{
	struct kr_state *state = kr_xcalloc(1, sizeof(*state));
	KR_AUTO_FREE char *real = realpath(export_path, NULL);
	int err = 0;

	state->dir = state->nodes_dir = state->lock = state->export_lock = -1;
	kr_list_init(&state->changes);
	if (!real)
		err = kr_fail_errno(-errno, "cannot export %s (make the directory first)", export_path);
	else if (dir)
		state->path = kr_xstrdup(dir);
	else
		err = default_path(real, &state->path);
	if (!err)
		err = fill(state, real, gateway);
	if (err) {
		kr_state_close(state);
		return err;
	}
	*ret_state = state;
	return 0;
}

void kr_state_close(struct kr_state *state)
{
	if (!state)
		return;
	if (state->nodes_dir >= 0)
		close(state->nodes_dir);
	if (state->export_lock >= 0)
		close(state->export_lock);
	if (state->lock >= 0)
		close(state->lock);
	if (state->dir >= 0)
		close(state->dir);
	free(state->facts.nodes);
	free(state->path);
	free(state);
}

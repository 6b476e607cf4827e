/* See fid_aliases.h. */
#include "server/base/fid_aliases.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/hex.h"
#include "common/base/table.h"
#include "common/base/util.h"
#include "server/base/line_log.h"

enum { HEX_MAX = 2 * KR_FID_MAX + 1 };
static const char log_name[] = "aliases";

struct alias {
	struct kr_table_link by_alias, by_real;
	struct kr_fid alias, real;
};

struct kr_fid_aliases {
	int dir, fd; /* fd: the log, to append; -1: not yet opened */
	pthread_mutex_t writing;
	pthread_rwlock_t lock; /* of the tables */
	struct kr_table by_alias, by_real;
	atomic_size_t count; /* without aliases no thread takes the lock */
};

/* [lock] */
static struct alias *find(const struct kr_fid_aliases *aliases, const struct kr_fid *fid)
{
	return KR_TABLE_FIND(
		struct alias, entry, &aliases->by_alias, kr_fid_hash(fid), by_alias, kr_fid_equal(&entry->alias, fid));
}

/* [lock], for writing */
static void put(struct kr_fid_aliases *aliases, const struct kr_fid *alias, const struct kr_fid *real)
{
	struct alias *entry = find(aliases, alias);

	if (entry) {
		kr_table_remove(&aliases->by_real, &entry->by_real);
	} else {
		entry = kr_xcalloc(1, sizeof(*entry));
		entry->alias = *alias;
		kr_table_insert(&aliases->by_alias, &entry->by_alias, kr_fid_hash(alias));
		atomic_fetch_add(&aliases->count, 1);
	}
	entry->real = *real;
	kr_table_insert(&aliases->by_real, &entry->by_real, kr_fid_hash(real));
}

/* [lock], for writing */
static void drop(struct kr_fid_aliases *aliases, struct alias *entry)
{
	kr_table_remove(&aliases->by_real, &entry->by_real);
	kr_table_remove(&aliases->by_alias, &entry->by_alias);
	atomic_fetch_sub(&aliases->count, 1);
	free(entry);
}

/* --- the log ---------------------------------------------------------------------------------- */

static void add_line(struct kr_writer *lines, const struct kr_fid *alias, const struct kr_fid *real)
{
	char alias_hex[HEX_MAX], real_hex[HEX_MAX];

	kr_line_log_add(lines, "alias %s %s", kr_hex_format(alias->bytes, alias->length, alias_hex),
		kr_hex_format(real->bytes, real->length, real_hex));
}

static void read_line(void *context, char *line)
{
	char *rest = line, *word = strsep(&rest, " ");
	const char *alias_hex = strsep(&rest, " ");
	struct kr_fid alias, real;

	if (strcmp(word, "alias") != 0 || !alias_hex || !rest)
		return;
	alias.length = (uint8_t)kr_hex_parse(alias_hex, alias.bytes, KR_FID_MAX);
	real.length = (uint8_t)kr_hex_parse(rest, real.bytes, KR_FID_MAX);
	if (alias.length && real.length)
		put(context, &alias, &real);
}

static int open_log(struct kr_fid_aliases *aliases)
{
	if (aliases->fd >= 0)
		return 0;
	aliases->fd = openat(aliases->dir, log_name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	return aliases->fd < 0 || fsync(aliases->dir) < 0 ? -errno : 0;
}

static int append(struct kr_fid_aliases *aliases, const struct kr_fid *alias, const struct kr_fid *real)
{
	struct kr_writer lines = {0};
	int err = open_log(aliases);

	add_line(&lines, alias, real);
	if (!err)
		err = kr_line_log_append(&lines, aliases->fd);
	kr_writer_fini(&lines);
	return err ? kr_fail_errno(err, "cannot write %s of the state directory", log_name) : 0;
}

int kr_fid_aliases_open(int dir, struct kr_fid_aliases **ret_aliases)
{
	struct kr_fid_aliases *aliases = kr_xcalloc(1, sizeof(*aliases));
	int err;

	aliases->dir = dir;
	aliases->fd = -1;
	pthread_mutex_init(&aliases->writing, NULL);
	pthread_rwlock_init(&aliases->lock, NULL);
	kr_table_init(&aliases->by_alias);
	kr_table_init(&aliases->by_real);
	err = kr_line_log_read(dir, log_name, read_line, aliases, NULL);
	if (err)
		kr_fid_aliases_free(aliases);
	else
		*ret_aliases = aliases;
	return err;
}

void kr_fid_aliases_free(struct kr_fid_aliases *aliases)
{
	if (!aliases)
		return;
	kr_table_fini(&aliases->by_real);
	kr_table_free_all(&aliases->by_alias, offsetof(struct alias, by_alias));
	if (aliases->fd >= 0)
		close(aliases->fd);
	pthread_rwlock_destroy(&aliases->lock);
	pthread_mutex_destroy(&aliases->writing);
	free(aliases);
}

/* --- looking them up -------------------------------------------------------------------------- */

struct kr_fid kr_fid_aliases_real(struct kr_fid_aliases *aliases, const struct kr_fid *fid)
{
	struct kr_fid found = *fid;
	const struct alias *entry;

	if (!aliases || atomic_load(&aliases->count) == 0)
		return found;
	pthread_rwlock_rdlock(&aliases->lock);
	entry = find(aliases, fid);
	if (entry)
		found = entry->real;
	pthread_rwlock_unlock(&aliases->lock);
	return found;
}

struct kr_fid kr_fid_aliases_of(struct kr_fid_aliases *aliases, const struct kr_fid *fid)
{
	struct kr_fid found = *fid;
	const struct alias *entry;

	if (!aliases || atomic_load(&aliases->count) == 0)
		return found;
	pthread_rwlock_rdlock(&aliases->lock);
	KR_TABLE_FOR_EACH_OF(entry, &aliases->by_real, kr_fid_hash(fid), by_real) {
		if (kr_fid_equal(&entry->real, fid)) {
			found = entry->alias;
			break;
		}
	}
	pthread_rwlock_unlock(&aliases->lock);
	return found;
}

bool kr_fid_aliases_has(struct kr_fid_aliases *aliases, const struct kr_fid *alias)
{
	bool found;

	if (!aliases || atomic_load(&aliases->count) == 0)
		return false;
	pthread_rwlock_rdlock(&aliases->lock);
	found = find(aliases, alias) != NULL;
	pthread_rwlock_unlock(&aliases->lock);
	return found;
}

/* --- changes ---------------------------------------------------------------------------------- */

int kr_fid_aliases_add(struct kr_fid_aliases *aliases, const struct kr_fid *alias, const struct kr_fid *real)
{
	int err;
	KR_SCOPED_LOCK(&aliases->writing);

	err = append(aliases, alias, real);
	if (err)
		return err;
	pthread_rwlock_wrlock(&aliases->lock);
	put(aliases, alias, real);
	pthread_rwlock_unlock(&aliases->lock);
	return 0;
}

int kr_fid_aliases_prune(
	struct kr_fid_aliases *aliases, bool (*is_gone)(void *context, const struct kr_fid *alias), void *context)
{
	struct kr_writer lines = {0};
	struct alias *entry;
	bool any_gone = false;
	int err = 0;

	KR_TABLE_FOR_EACH(entry, &aliases->by_alias, by_alias) {
		if (is_gone(context, &entry->alias)) {
			drop(aliases, entry);
			any_gone = true;
		} else {
			add_line(&lines, &entry->alias, &entry->real);
		}
	}
	if (any_gone)
		err = kr_line_log_write(&lines, aliases->dir, log_name);
	kr_writer_fini(&lines);
	return err ? kr_fail_errno(err, "cannot write %s of the state directory", log_name) : 0;
}

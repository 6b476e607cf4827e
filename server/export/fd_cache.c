#include "server/export/fd_cache.h"

#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "server/base/fid.h"

struct kr_fd_cache {
	pthread_mutex_t lock; /* guards all below and the private parts of entries; never held over a system call */
	struct kr_table table;
	struct kr_list ages; /* least recently used first */
	uint32_t limit, count;
};

struct kr_fd_cache *kr_fd_cache_new(uint32_t limit)
{
	struct kr_fd_cache *fds = kr_xcalloc(1, sizeof(*fds));

	pthread_mutex_init(&fds->lock, NULL);
	kr_table_init(&fds->table);
	kr_list_init(&fds->ages);
	fds->limit = limit;
	return fds;
}

static void close_entry(struct kr_fd *entry)
{
	int r = kr_close(entry->fd);

	if (r < 0)
		kr_log_error("closing a file of the export: %s", kr_fail_reason());
	free(entry);
}

static void close_all(struct kr_list *closing)
{
	struct kr_fd *entry;

	while ((entry = KR_LIST_POP(closing, struct kr_fd, by_age)))
		close_entry(entry);
}

/* Takes ENTRY out of the cache; the caller closes it after unlocking. */
static void detach(struct kr_fd_cache *fds, struct kr_fd *entry, struct kr_list *closing)
{
	kr_table_remove(&fds->table, &entry->by_fid);
	kr_list_remove(&entry->by_age);
	kr_list_append(closing, &entry->by_age);
	fds->count--;
}

void kr_fd_cache_free(struct kr_fd_cache *fds)
{
	if (!fds)
		return;
	close_all(&fds->ages);
	kr_table_fini(&fds->table);
	pthread_mutex_destroy(&fds->lock);
	free(fds);
}

static struct kr_fd *find(struct kr_fd_cache *fds, const struct kr_fid *fid, enum kr_fd_cache_mode mode)
{
	return KR_TABLE_FIND(struct kr_fd, entry, &fds->table, kr_fid_hash(fid), by_fid,
		entry->mode == mode && !entry->dropped && (mode != KR_FD_CACHE_DIRECTORY || entry->users == 0) &&
			kr_fid_equal(&entry->fid, fid));
}

struct kr_fd *kr_fd_cache_take(struct kr_fd_cache *fds, const struct kr_fid *fid, enum kr_fd_cache_mode mode)
{
	KR_SCOPED_LOCK(&fds->lock);
	struct kr_fd *entry = find(fds, fid, mode);

	if (!entry)
		return NULL;
	entry->users++;
	kr_list_remove(&entry->by_age);
	kr_list_append(&fds->ages, &entry->by_age);
	return entry;
}

struct kr_fd *kr_fd_cache_peek(struct kr_fd_cache *fds, const struct kr_fid *fid)
{
	struct kr_fd *entry;
	KR_SCOPED_LOCK(&fds->lock);

	KR_TABLE_FOR_EACH_OF(entry, &fds->table, kr_fid_hash(fid), by_fid) {
		if (!entry->dropped && kr_fid_equal(&entry->fid, fid)) {
			entry->users++;
			return entry;
		}
	}
	return NULL;
}

static void shrink_some(struct kr_fd_cache *fds, uint32_t limit, bool even_unsynced, struct kr_list *closing)
{
	struct kr_fd *entry, *after;

	KR_LIST_FOR_EACH_SAFE(entry, after, &fds->ages, by_age) {
		if (fds->count <= limit)
			break;
		if (entry->users == 0 && (even_unsynced || !entry->unsynced))
			detach(fds, entry, closing);
	}
}

static void shrink_to(struct kr_fd_cache *fds, uint32_t limit, struct kr_list *closing)
{
	shrink_some(fds, limit, false, closing);
	shrink_some(fds, limit, true, closing);
}

struct kr_fd *kr_fd_cache_add(struct kr_fd_cache *fds, const struct kr_fid *fid, enum kr_fd_cache_mode mode, int fd)
{
	struct kr_fd *entry = kr_xcalloc(1, sizeof(*entry));
	struct kr_list closing;

	kr_list_init(&closing);
	*entry = (struct kr_fd){.fd = fd, .fid = *fid, .mode = mode, .users = 1};
	{
		KR_SCOPED_LOCK(&fds->lock);
		kr_table_insert(&fds->table, &entry->by_fid, kr_fid_hash(fid));
		kr_list_append(&fds->ages, &entry->by_age);
		fds->count++;
		shrink_to(fds, fds->limit, &closing);
	}
	close_all(&closing);
	return entry;
}

static void unpin(struct kr_fd_cache *fds, struct kr_fd *entry, bool used)
{
	struct kr_list closing;

	kr_list_init(&closing);
	{
		KR_SCOPED_LOCK(&fds->lock);
		if (used)
			entry->used_ns = kr_clock_ns();
		if (--entry->users == 0 && entry->dropped)
			detach(fds, entry, &closing);
		else
			shrink_to(fds, fds->limit, &closing);
	}
	close_all(&closing);
}

void kr_fd_cache_put(struct kr_fd_cache *fds, struct kr_fd *entry)
{
	if (entry)
		unpin(fds, entry, true);
}

void kr_fd_cache_unpeek(struct kr_fd_cache *fds, struct kr_fd *entry)
{
	unpin(fds, entry, false);
}

static struct kr_fd *find_kept(
	struct kr_fd_cache *fds, const struct kr_fid *fid, enum kr_fd_cache_mode mode, bool even_unsynced)
{
	struct kr_fd *entry = find(fds, fid, mode);

	return entry && entry->unsynced && !even_unsynced ? NULL : entry;
}

void kr_fd_cache_drop(struct kr_fd_cache *fds, const struct kr_fid *fid, bool even_unsynced)
{
	struct kr_list closing;
	struct kr_fd *entry;
	int mode;

	kr_list_init(&closing);
	{
		KR_SCOPED_LOCK(&fds->lock);
		for (mode = KR_FD_CACHE_READ; mode <= KR_FD_CACHE_DIRECTORY; mode++)
			while ((entry = find_kept(fds, fid, (enum kr_fd_cache_mode)mode, even_unsynced))) {
				entry->dropped = true;
				if (entry->users == 0)
					detach(fds, entry, &closing);
			}
	}
	close_all(&closing);
}

void kr_fd_cache_reap(struct kr_fd_cache *fds, uint64_t now_ns)
{
	struct kr_fd *entry, *after;
	struct kr_list closing;

	kr_list_init(&closing);
	{
		KR_SCOPED_LOCK(&fds->lock);
		KR_LIST_FOR_EACH_SAFE(entry, after, &fds->ages, by_age)
			if (entry->users == 0 && !entry->unsynced && entry->used_ns + KR_FD_CACHE_IDLE_NS <= now_ns)
				detach(fds, entry, &closing);
	}
	close_all(&closing);
}

void kr_fd_cache_shrink(struct kr_fd_cache *fds)
{
	struct kr_list closing;

	kr_list_init(&closing);
	{
		KR_SCOPED_LOCK(&fds->lock);
		shrink_to(fds, 0, &closing);
	}
	close_all(&closing);
}

uint32_t kr_fd_cache_count(struct kr_fd_cache *fds)
{
	KR_SCOPED_LOCK(&fds->lock);

	return fds->count;
}

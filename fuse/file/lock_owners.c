/* See lock_owners.h. */
#include "fuse/file/lock_owners.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/table.h"
#include "common/base/util.h"

/* One process and one file. */
struct locker {
	struct kr_table_link link;
	uint64_t owner;
	const void *file;
	uint32_t count;
};

struct kr_lock_owners {
	pthread_mutex_t lock;  /* guards the table */
	atomic_size_t count;   /* of lockers: mostly there is none, and writes look here first */
	struct kr_table table; /* by owner */
};

struct kr_lock_owners *kr_lock_owners_new(void)
{
	struct kr_lock_owners *lockers = kr_xcalloc(1, sizeof(*lockers));

	pthread_mutex_init(&lockers->lock, NULL);
	kr_table_init(&lockers->table);
	return lockers;
}

void kr_lock_owners_free(struct kr_lock_owners *lockers)
{
	if (!lockers)
		return;
	kr_table_free_all(&lockers->table, offsetof(struct locker, link));
	pthread_mutex_destroy(&lockers->lock);
	free(lockers);
}

static struct locker *find_or_add(struct kr_lock_owners *lockers, uint64_t owner, const void *file)
{
	const uint64_t hash = kr_hash_u64(owner);
	struct locker *locker;

	KR_TABLE_FOR_EACH_OF(locker, &lockers->table, hash, link)
		if (locker->owner == owner && locker->file == file)
			return locker;
	locker = kr_xcalloc(1, sizeof(*locker));
	*locker = (struct locker){.owner = owner, .file = file};
	kr_table_insert(&lockers->table, &locker->link, hash);
	return locker;
}

void kr_lock_owners_count(struct kr_lock_owners *lockers, uint64_t owner, const void *file, int change)
{
	KR_SCOPED_LOCK(&lockers->lock);
	struct locker *locker = find_or_add(lockers, owner, file);

	assert(change > 0 || locker->count > 0);
	locker->count = change > 0 ? locker->count + 1 : locker->count - 1;
	if (locker->count == 0) {
		kr_table_remove(&lockers->table, &locker->link);
		free(locker);
	}
	atomic_store(&lockers->count, lockers->table.count);
}

bool kr_lock_owners_elsewhere(struct kr_lock_owners *lockers, uint64_t owner, const void *file)
{
	const struct locker *locker;

	if (atomic_load(&lockers->count) == 0)
		return false;
	KR_SCOPED_LOCK(&lockers->lock);
	KR_TABLE_FOR_EACH_OF(locker, &lockers->table, kr_hash_u64(owner), link)
		if (locker->owner == owner && locker->file != file)
			return true;
	return false;
}

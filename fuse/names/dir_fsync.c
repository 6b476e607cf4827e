/* fsync of a directory after the server's loss of power: see dir_fsync.h. */
#include "fuse/names/dir_fsync.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/util.h"

/* A directory with changes that no fsync of it has followed. */
struct change {
	struct kr_table_link by_dir;
	struct kr_link link;
	struct kr_fid dir;
	uint64_t number;     /* of the latest change */
	uint64_t changed_ns; /* ... and when it was heard of */
	uint64_t lost_ns;    /* one that was made before the server's last boot may be lost, which was heard of then; 0:
				none may */
};

struct kr_dir_fsync {
	struct kr_table by_dir;
	struct kr_list settling; /* struct change, the latest last ... */
	struct kr_list lost;     /* ... and those with lost_ns */
	_Atomic uint64_t last_number;
};

struct kr_dir_fsync *kr_dir_fsync_new(void)
{
	struct kr_dir_fsync *syncs = kr_xcalloc(1, sizeof(*syncs));

	kr_table_init(&syncs->by_dir);
	kr_list_init(&syncs->settling);
	kr_list_init(&syncs->lost);
	return syncs;
}

static void forget(struct kr_dir_fsync *syncs, struct change *change)
{
	kr_table_remove(&syncs->by_dir, &change->by_dir);
	kr_list_remove(&change->link);
	free(change);
}

static struct change *first_of(struct kr_list *list)
{
	return kr_list_empty(list) ? NULL : KR_LIST_ENTRY(list->head.next, struct change, link);
}

void kr_dir_fsync_free(struct kr_dir_fsync *syncs)
{
	struct change *change;

	if (!syncs)
		return;
	while ((change = first_of(&syncs->settling)) || (change = first_of(&syncs->lost)))
		forget(syncs, change);
	kr_table_fini(&syncs->by_dir);
	free(syncs);
}

static struct change *find(const struct kr_dir_fsync *syncs, const struct kr_fid *dir)
{
	return KR_TABLE_FIND(struct change, change, &syncs->by_dir, kr_hash_bytes(dir->bytes, dir->length), by_dir,
		kr_fid_equal(&change->dir, dir));
}

static bool is_past(uint64_t then_ns, uint64_t seconds, uint64_t now_ns)
{
	return then_ns + seconds * KR_NS_PER_S < now_ns;
}

/* Forgets changes that have settled, or were lost long ago, at NOW_NS, when the server is heard, and the oldest of too
 * many. */
static void forget_old(struct kr_dir_fsync *syncs, uint64_t now_ns)
{
	struct change *change;

	while ((change = first_of(&syncs->lost)) &&
		(syncs->by_dir.count > KR_DIR_FSYNC_MAX || is_past(change->lost_ns, KR_DIR_LOST_S, now_ns)))
		forget(syncs, change);
	while ((change = first_of(&syncs->settling)) &&
		(syncs->by_dir.count > KR_DIR_FSYNC_MAX || is_past(change->changed_ns, KR_DIR_SETTLED_S, now_ns)))
		forget(syncs, change);
}

void kr_dir_fsync_changed(struct kr_dir_fsync *syncs, const struct kr_fid *dir, uint64_t now_ns)
{
	struct change *change = find(syncs, dir);

	if (change && !change->lost_ns) {
		kr_list_remove(&change->link);
	} else if (!change) {
		change = kr_xcalloc(1, sizeof(*change));
		change->dir = *dir;
		kr_table_insert(&syncs->by_dir, &change->by_dir, kr_hash_bytes(dir->bytes, dir->length));
	}
	change->number = ++syncs->last_number;
	change->changed_ns = now_ns;
	if (!change->lost_ns)
		kr_list_append(&syncs->settling, &change->link);
	forget_old(syncs, now_ns);
}

void kr_dir_fsync_answered(struct kr_dir_fsync *syncs, uint16_t type, const union kr_any_msg *asked,
	const union kr_any_msg *reply, uint64_t now_ns)
{
	switch (type) {
	case KR_MSG_CREATE:
		if (reply->create_reply.created)
			kr_dir_fsync_changed(syncs, &asked->create_request.parent, now_ns);
		break;
	case KR_MSG_MAKE:
		kr_dir_fsync_changed(syncs, &asked->make_request.parent, now_ns);
		break;
	case KR_MSG_REMOVE:
		kr_dir_fsync_changed(syncs, &asked->remove_request.parent, now_ns);
		break;
	case KR_MSG_LINK:
		kr_dir_fsync_changed(syncs, &asked->link_request.parent, now_ns);
		break;
	case KR_MSG_RENAME:
		kr_dir_fsync_changed(syncs, &asked->rename_request.parent, now_ns);
		kr_dir_fsync_changed(syncs, &asked->rename_request.new_parent, now_ns);
		break;
	default:
		break;
	}
}

size_t kr_dir_fsync_booted(struct kr_dir_fsync *syncs, uint64_t heard_ns, uint64_t now_ns)
{
	struct change *change;
	size_t count = 0;

	forget_old(syncs, heard_ns);
	for (; (change = first_of(&syncs->settling)); count++) {
		kr_list_remove(&change->link);
		kr_list_append(&syncs->lost, &change->link);
		change->lost_ns = now_ns;
	}
	return count;
}

uint64_t kr_dir_fsync_begin(const struct kr_dir_fsync *syncs)
{
	return syncs->last_number;
}

int kr_dir_fsync_end(struct kr_dir_fsync *syncs, const struct kr_fid *dir, uint64_t begun, int err, uint64_t now_ns)
{
	struct change *change = err ? NULL : find(syncs, dir);

	if (!change)
		return err;
	if (change->lost_ns) {
		err = is_past(change->lost_ns, KR_DIR_LOST_S, now_ns) ? 0 : -EIO;
		change->lost_ns = 0;
		kr_list_remove(&change->link);
		kr_list_append(&syncs->settling, &change->link);
	}
	if (change->number <= begun)
		forget(syncs, change);
	return err;
}

/* Requests of this node that change something: from their submission to their end, the cache does not answer for what
 * they change.  Other nodes may see the change, and tell this node's programs, before the reply arrives here.
 *
 * The kernel drops the attributes of these files before the request is sent.  The kernel's own request holds the files
 * that it names, so the loop thread may notify it (kernel_attrs.h).
 *
 * A name that changes leaves other names of its directory known, but not the directory's listing, nor its attributes.
 */
#include <stdio.h> /* RENAME_EXCHANGE */
#include <stdlib.h>

#include "common/rpc/msg.h"
#include "common/rpc/attr_cache.h"
#include "fuse/names/attr_cache_priv.h"
#include "fuse/names/kernel_attrs.h"
#include "fuse/names/kernel_names.h"

enum { OPEN_TRUNCATE = 4 /* `flags` of OPEN (msgs.def) */, PLACES = 4 };

/* Everything of the files in a slot, or what one name stands for. */
struct place {
	uint32_t slot;
	uint64_t name; /* a hash, 0: everything */
};

/* What a request of our own changes, while it is under way. */
struct change {
	struct kr_link link; /* kr_attr_cache.changes */
	struct place places[PLACES];
	uint32_t count;
	const struct kr_fid *held[PLACES]; /* files that the kernel's request names; valid in _begin only */
	uint32_t held_count;
	uint32_t victims[PLACES]; /* buckets of files that names in the request stand for */
	uint32_t victim_count;
};

static uint64_t hash_name(const char *name)
{
	return kr_hash_bytes(name, strlen(name)) | 1;
}

static void add_all(struct change *change, const struct kr_fid *fid)
{
	change->places[change->count++] = (struct place){.slot = kr_attr_cache_bucket(fid)};
}

static void add_held(struct change *change, const struct kr_fid *fid)
{
	add_all(change, fid);
	change->held[change->held_count++] = fid;
}

/* [lock] NAME of DIR, and what it stands for, as far as that is noted: if the name goes, that has a link less. */
static void add_name(struct kr_attr_cache *cache, struct change *change, const struct kr_fid *dir, const char *name)
{
	const struct kr_attr_cache_entry *entry;
	struct kr_attr_cache_key key;
	struct kr_fid file;

	change->places[change->count++] = (struct place){.slot = kr_attr_cache_bucket(dir), .name = hash_name(name)};
	change->held[change->held_count++] = dir;
	kr_attr_cache_key_entry(&key, dir, name);
	entry = kr_attr_cache_store_get(&cache->store, key.bytes, key.length, kr_clock_ns());
	if (!entry || entry->err)
		return;
	memcpy(&file, kr_note_value(entry), sizeof(file));
	change->victims[change->victim_count++] = kr_attr_cache_bucket(&file);
	add_all(change, &file);
}

/* [lock] */
static void add_places(struct kr_attr_cache *cache, struct change *change, uint16_t type, const union kr_any_msg *asked)
{
	switch (type) {
	case KR_MSG_CREATE:
		add_name(cache, change, &asked->create_request.parent, asked->create_request.name);
		break;
	case KR_MSG_MAKE:
		add_name(cache, change, &asked->make_request.parent, asked->make_request.name);
		break;
	case KR_MSG_REMOVE:
		add_name(cache, change, &asked->remove_request.parent, asked->remove_request.name);
		break;
	case KR_MSG_LINK:
		add_name(cache, change, &asked->link_request.parent, asked->link_request.name);
		add_held(change, &asked->link_request.file);
		break;
	case KR_MSG_RENAME:
		add_name(cache, change, &asked->rename_request.parent, asked->rename_request.name);
		add_name(cache, change, &asked->rename_request.new_parent, asked->rename_request.new_name);
		break;
	case KR_MSG_SETATTR:
		add_held(change, &asked->setattr_request.file);
		break;
	case KR_MSG_SETXATTR:
		add_held(change, &asked->setxattr_request.file);
		break;
	case KR_MSG_REMOVEXATTR:
		add_held(change, &asked->removexattr_request.file);
		break;
	case KR_MSG_FALLOCATE:
		add_held(change, &asked->fallocate_request.file);
		break;
	case KR_MSG_COPY:
		add_held(change, &asked->copy_request.to);
		break;
	case KR_MSG_OPEN:
		if (asked->open_request.flags & OPEN_TRUNCATE)
			add_held(change, &asked->open_request.file);
		break;
	default:
		break;
	}
}

static bool may_change(uint16_t type)
{
	switch (type) {
	case KR_MSG_CREATE:
	case KR_MSG_MAKE:
	case KR_MSG_REMOVE:
	case KR_MSG_LINK:
	case KR_MSG_RENAME:
	case KR_MSG_SETATTR:
	case KR_MSG_SETXATTR:
	case KR_MSG_REMOVEXATTR:
	case KR_MSG_FALLOCATE:
	case KR_MSG_COPY:
	case KR_MSG_OPEN:
		return true;
	default:
		return false;
	}
}

/* Names that the kernel has on loan move, too. */
static void move_in_kernel(struct kr_mount *mount, const struct kr_rename_request *asked)
{
	if (kr_fid_equal(&asked->parent, &asked->new_parent))
		return;
	kr_kernel_names_moves(mount, &asked->parent, &asked->new_parent);
	if (asked->flags & RENAME_EXCHANGE)
		kr_kernel_names_moves(mount, &asked->new_parent, &asked->parent);
}

/* No new grants are given any more: the change is listed. */
static void drop_in_kernel(struct kr_mount *mount, const struct change *change)
{
	for (uint32_t i = 0; i < change->held_count; i++)
		kr_kernel_attrs_drop_held(mount, change->held[i]);
	for (uint32_t i = 0; i < change->victim_count; i++)
		kr_kernel_attrs_invalidate(mount, change->victims[i], NULL);
}

void *kr_attr_cache_change_begin(struct kr_mount *mount, uint16_t type, const union kr_any_msg *asked)
{
	struct kr_attr_cache *cache = mount->attr_cache;
	struct change *change;

	if (!cache || !may_change(type))
		return NULL;
	change = kr_xcalloc(1, sizeof(*change));
	pthread_mutex_lock(&cache->lock);
	add_places(cache, change, type, asked);
	if (change->count)
		kr_list_append(&cache->changes, &change->link);
	pthread_mutex_unlock(&cache->lock);
	drop_in_kernel(mount, change);
	if (type == KR_MSG_RENAME)
		move_in_kernel(mount, &asked->rename_request);
	if (change->count)
		return change;
	free(change);
	return NULL;
}

void kr_attr_cache_change_end(struct kr_mount *mount, void *ended)
{
	struct change *change = ended;

	if (!change)
		return;
	pthread_mutex_lock(&mount->attr_cache->lock);
	kr_list_remove(&change->link);
	pthread_mutex_unlock(&mount->attr_cache->lock);
	free(change);
}

/* [lock] Whether a change is under way in SLOT: of NAME or all there, of anything (ANY), or of all (NAME 0). */
static bool under_way(const struct kr_attr_cache *cache, uint32_t slot, uint64_t name, bool any)
{
	const struct change *change;

	KR_LIST_FOR_EACH(change, &cache->changes, link) {
		for (uint32_t i = 0; i < change->count; i++) {
			const struct place *place = &change->places[i];

			if (place->slot == slot && (any || !place->name || place->name == name))
				return true;
		}
	}
	return false;
}

bool kr_attr_cache_all_changes(const struct kr_attr_cache *cache, const struct kr_fid *fid)
{
	return under_way(cache, kr_attr_cache_bucket(fid), 0, false);
}

bool kr_attr_cache_any_changes(const struct kr_attr_cache *cache, const struct kr_fid *fid)
{
	return under_way(cache, kr_attr_cache_bucket(fid), 0, true);
}

bool kr_attr_cache_name_changes(const struct kr_attr_cache *cache, const struct kr_fid *dir, const char *name)
{
	return under_way(cache, kr_attr_cache_bucket(dir), hash_name(name), false);
}

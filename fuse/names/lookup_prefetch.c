/* See lookup_prefetch.h.  A call keeps the names that it has asked for: the listing they come from may be gone when it
 * is answered. */
#include "fuse/base/cred.h"
#include "fuse/names/lookup_prefetch.h"

#include <stdlib.h>

#include "common/rpc/lookups.h"
#include "common/rpc/msg.h"
#include "common/base/table.h"
#include "common/base/util.h"
#include "fuse/names/dir_listing.h"
#include "fuse/names/attr_cache.h"
#include "fuse/base/waiter.h"
#include "fuse/session/rpc.h"
#include "fuse/names/walk_detector.h"

enum { PAGE_BYTES = 65536 };

/* A directory as a caller sees it. */
struct place {
	struct kr_fid fid;
	struct kr_cred cred;
	uint32_t *groups; /* in it */
};

struct kr_lookup_prefetch {
	struct kr_table by_place; /* listed */
	struct kr_list listed;    /* by_age: the latest last */
	size_t bytes;             /* of all of them */
	struct kr_list calls;
	size_t call_count;
	uint64_t looked_ms; /* when a program has last looked up names as they were listed */
	struct kr_walk_detector walks;
	unsigned walking; /* listings of our own under way */
};

struct listed {
	struct kr_table_link by_place;
	struct kr_link by_age;
	struct place place;
	struct kr_dir_listing *listing;
	size_t bytes;
};

/* A request under way. */
struct call {
	struct kr_link link;
	struct kr_mount *mount;
	struct place place;
	struct kr_writer names;
	struct kr_list waiting; /* struct kr_waiter */
};

/* A listing of our own under way. */
struct walk {
	struct kr_mount *mount;
	struct place place;
	uint64_t cookie;
	unsigned pages;
};

struct kr_lookup_prefetch *kr_lookup_prefetch_new(void)
{
	struct kr_lookup_prefetch *prefetch = kr_xcalloc(1, sizeof(*prefetch));

	kr_table_init(&prefetch->by_place);
	kr_list_init(&prefetch->listed);
	kr_list_init(&prefetch->calls);
	return prefetch;
}

/* --- places ----------------------------------------------------------------------------------- */

static bool is_at(const struct place *place, const struct kr_fid *fid, const struct kr_cred *cred)
{
	const struct kr_cred *own = &place->cred;

	return kr_fid_equal(&place->fid, fid) && own->uid == cred->uid && own->gid == cred->gid &&
		own->group_count == cred->group_count &&
		(own->group_count == 0 ||
			memcmp(own->groups, cred->groups, own->group_count * sizeof(own->groups[0])) == 0);
}

static void place_init(struct place *place, const struct kr_fid *fid, const struct kr_cred *cred)
{
	*place = (struct place){.fid = *fid, .cred = *cred, .groups = kr_cred_copy_groups(cred)};
	place->cred.groups = place->groups;
}

/* --- listings --------------------------------------------------------------------------------- */

static struct listed *find(struct kr_lookup_prefetch *prefetch, const struct kr_fid *fid, const struct kr_cred *cred)
{
	return KR_TABLE_FIND(struct listed, listed, &prefetch->by_place, kr_fid_hash(fid), by_place,
		is_at(&listed->place, fid, cred));
}

static void drop(struct kr_lookup_prefetch *prefetch, struct listed *listed)
{
	kr_table_remove(&prefetch->by_place, &listed->by_place);
	kr_list_remove(&listed->by_age);
	prefetch->bytes -= listed->bytes;
	kr_dir_listing_free(listed->listing);
	free(listed->place.groups);
	free(listed);
}

static struct listed *oldest(struct kr_lookup_prefetch *prefetch)
{
	return KR_LIST_ENTRY(prefetch->listed.head.next, struct listed, by_age);
}

static struct listed *add(struct kr_lookup_prefetch *prefetch, const struct kr_fid *fid, const struct kr_cred *cred)
{
	struct listed *listed = kr_xcalloc(1, sizeof(*listed));

	listed->listing = kr_dir_listing_new();
	place_init(&listed->place, fid, cred);
	kr_table_insert(&prefetch->by_place, &listed->by_place, kr_fid_hash(fid));
	return listed;
}

/* LISTED, which is new or has changed, stays; others may have to go for it. */
static void keep(struct kr_lookup_prefetch *prefetch, struct listed *listed)
{
	kr_list_remove(&listed->by_age);
	kr_list_append(&prefetch->listed, &listed->by_age);
	prefetch->bytes -= listed->bytes;
	listed->bytes = kr_dir_listing_bytes(listed->listing);
	prefetch->bytes += listed->bytes;
	while (oldest(prefetch) != listed &&
		(prefetch->bytes > KR_LOOKUP_PREFETCH_BYTES_MAX ||
			prefetch->by_place.count > KR_LOOKUP_PREFETCH_LISTINGS_MAX))
		drop(prefetch, oldest(prefetch));
}

void kr_lookup_prefetch_listed(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid,
	uint64_t cookie, const void *entries, size_t length, bool anew)
{
	struct kr_lookup_prefetch *prefetch = mount->lookup_prefetch;
	struct listed *listed;

	listed = find(prefetch, fid, cred);
	if (!listed && cookie != 0)
		return;
	if (!listed)
		listed = add(prefetch, fid, cred);
	else if (cookie == 0 && !anew)
		return;
	kr_dir_listing_add(listed->listing, cookie, entries, length);
	keep(prefetch, listed);
}

void kr_lookup_prefetch_free(struct kr_lookup_prefetch *prefetch)
{
	if (!prefetch)
		return;
	while (!kr_list_empty(&prefetch->listed))
		drop(prefetch, oldest(prefetch));
	kr_table_fini(&prefetch->by_place);
	free(prefetch);
}

/* --- calls ------------------------------------------------------------------------------------ */

static bool asks_for(const struct call *call, const char *name)
{
	char one[KR_NAME_MAX + 1];
	struct kr_reader r;

	kr_reader_init(&r, call->names.bytes, call->names.length);
	while (kr_lookups_take_name(&r, one) > 0) {
		if (strcmp(one, name) == 0)
			return true;
	}
	return false;
}

static struct call *find_call(
	struct kr_lookup_prefetch *prefetch, const struct kr_cred *cred, const struct kr_fid *parent, const char *name)
{
	return KR_LIST_FIND(
		struct call, call, &prefetch->calls, link, is_at(&call->place, parent, cred) && asks_for(call, name));
}

static bool known(void *context, const char *name)
{
	const struct call *call = context;

	return kr_attr_cache_has(call->mount, &call->place.cred, &call->place.fid, name);
}

static void free_call(struct call *call)
{
	kr_writer_fini(&call->names);
	free(call->place.groups);
	free(call);
}

static struct call *new_call(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent)
{
	struct call *call = kr_xcalloc(1, sizeof(*call));

	call->mount = mount;
	place_init(&call->place, parent, cred);
	kr_writer_init(&call->names);
	kr_list_init(&call->waiting);
	return call;
}

/* The listing learns what has come of it. */
static void tell_listing(struct call *call)
{
	struct listed *listed = find(call->mount->lookup_prefetch, &call->place.fid, &call->place.cred);
	char name[KR_NAME_MAX + 1];
	struct kr_reader r;
	bool any = false;

	if (!listed)
		return;
	kr_reader_init(&r, call->names.bytes, call->names.length);
	while (kr_lookups_take_name(&r, name) > 0) {
		bool good = known(call, name);

		kr_dir_listing_brought(listed->listing, name, good, kr_clock_ms());
		any |= good;
	}
	if (!any)
		kr_dir_listing_restrain(listed->listing);
}

/* The attribute cache has the names of the reply already; the waiting lookups look there. */
static void on_reply(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct call *call = context;

	(void)err, (void)reply, (void)data;
	kr_list_remove(&call->link);
	call->mount->lookup_prefetch->call_count--;
	tell_listing(call);
	kr_waiters_wake(&call->waiting);
	free_call(call);
}

/* Asks for names of LISTED: NAME and those behind it; NULL: the first ones. */
static struct call *begin_call(struct kr_mount *mount, const struct listed *listed, const char *name)
{
	struct kr_lookup_prefetch *prefetch = mount->lookup_prefetch;
	struct kr_lookups_request msg = {.cred = listed->place.cred, .parent = listed->place.fid};
	const char *names[KR_LOOKUPS_MAX];
	struct call *call;
	size_t count;

	if (prefetch->call_count == KR_LOOKUP_PREFETCH_CALLS_MAX)
		return NULL;
	call = new_call(mount, &listed->place.cred, &listed->place.fid);
	count = name ? kr_dir_listing_ahead(listed->listing, name, kr_clock_ms(), known, call, names) :
		       kr_dir_listing_first(listed->listing, known, call, names);
	for (size_t i = 0; i < count; i++)
		kr_lookups_put_name(&call->names, names[i]);
	if (count == 0) {
		free_call(call);
		return NULL;
	}
	msg.names = (struct kr_bytes){call->names.bytes, (uint32_t)call->names.length};
	kr_list_append(&prefetch->calls, &call->link);
	prefetch->call_count++;
	kr_rpc_call(mount->rpc, KR_MSG_LOOKUPS, &msg, NULL, 0, KR_RPC_READ_ONLY | KR_RPC_HARD, on_reply, call);
	return call;
}

struct kr_list *kr_lookup_prefetch_ask(
	struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent, const char *name)
{
	struct kr_lookup_prefetch *prefetch = mount->lookup_prefetch;
	struct listed *listed = prefetch ? find(prefetch, parent, cred) : NULL;
	struct call *call;

	if (!listed)
		return NULL;
	call = find_call(prefetch, cred, parent, name);
	if (call)
		return &call->waiting;
	call = begin_call(mount, listed, name);
	if (!call)
		return NULL;
	prefetch->looked_ms = kr_clock_ms();
	return &call->waiting;
}

struct kr_list *kr_lookup_prefetch_ahead(
	struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent)
{
	struct kr_lookup_prefetch *prefetch = mount->lookup_prefetch;
	struct listed *listed = find(prefetch, parent, cred);
	struct call *call;

	if (!listed || !prefetch->looked_ms || kr_clock_ms() - prefetch->looked_ms > KR_LOOKUP_PREFETCH_LOOKED_MS)
		return NULL;
	call = begin_call(mount, listed, NULL);
	return call ? &call->waiting : NULL;
}

/* --- listings of our own ---------------------------------------------------------------------- */

static void free_walk(struct walk *walk)
{
	walk->mount->lookup_prefetch->walking--;
	free(walk->place.groups);
	free(walk);
}

static void on_page(void *context, int err, const void *message, struct kr_buf *data);

static void ask_page(struct walk *walk)
{
	struct kr_readdir_request msg = {
		.cred = walk->place.cred, .file = walk->place.fid, .cookie = walk->cookie, .size = PAGE_BYTES};

	walk->pages++;
	kr_rpc_call(walk->mount->rpc, KR_MSG_READDIR, &msg, NULL, 0, KR_RPC_READ_ONLY | KR_RPC_HARD, on_page, walk);
}

/* After an error the node asks for names one by one.  (A user who may search a directory need not be allowed to list
 * it.)
 */
static void on_page(void *context, int err, const void *message, struct kr_buf *data)
{
	const struct kr_readdir_reply *reply = message;
	struct walk *walk = context;
	const struct listed *listed = NULL;

	(void)data;
	if (!err && reply->entries.length) {
		kr_lookup_prefetch_listed(walk->mount, &walk->place.cred, &walk->place.fid, walk->cookie,
			reply->entries.bytes, reply->entries.length, true);
		listed = find(walk->mount->lookup_prefetch, &walk->place.fid, &walk->place.cred);
	}
	if (!listed || reply->end || walk->pages == KR_LOOKUP_PREFETCH_PAGES_MAX ||
		kr_dir_listing_end(listed->listing) == walk->cookie) {
		free_walk(walk);
		return;
	}
	walk->cookie = kr_dir_listing_end(listed->listing);
	ask_page(walk);
}

void kr_lookup_prefetch_asked(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent)
{
	struct kr_lookup_prefetch *prefetch = mount->lookup_prefetch;
	struct walk *walk;

	if (prefetch->walking == KR_LOOKUP_PREFETCH_WALKS_MAX)
		return;
	if (!kr_walk_detector_asked(&prefetch->walks, kr_fid_hash(parent) ^ kr_hash_u64(cred->uid)))
		return;
	walk = kr_xcalloc(1, sizeof(*walk));
	walk->mount = mount;
	place_init(&walk->place, parent, cred);
	prefetch->walking++;
	ask_page(walk);
}

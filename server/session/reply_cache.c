#include "server/session/reply_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/rpc/msg.h"

static struct kr_kept_reply *find(const struct kr_reply_cache *replies, uint64_t id)
{
	return KR_TABLE_FIND(struct kr_kept_reply, kept, &replies->by_id, kr_hash_u64(id), by_id, kept->id == id);
}

static void drop(struct kr_reply_cache *replies, struct kr_kept_reply *kept)
{
	kr_table_remove(&replies->by_id, &kept->by_id);
	kr_list_remove(&kept->order);
	replies->count--;
	replies->bytes -= sizeof(*kept) + kept->length;
	free(kept);
}

static struct kr_kept_reply *oldest(const struct kr_reply_cache *replies)
{
	return kr_list_empty(&replies->order) ? NULL :
						KR_LIST_ENTRY(replies->order.head.next, struct kr_kept_reply, order);
}

void kr_reply_cache_init(struct kr_reply_cache *replies)
{
	*replies = (struct kr_reply_cache){0};
	kr_table_init(&replies->by_id);
	kr_list_init(&replies->order);
}

void kr_reply_cache_fini(struct kr_reply_cache *replies)
{
	kr_reply_cache_prune(replies, UINT64_MAX);
	kr_table_fini(&replies->by_id);
}

/* Encodes what the server may send again later: no leases, no data. */
static void encode(uint16_t type, const void *msg, struct kr_writer *w)
{
	if (type == KR_MSG_OPEN) {
		struct kr_open_reply open = *(const struct kr_open_reply *)msg;

		open.granted = open.has_data = 0;
		open.checksum = 0;
		kr_msg_encode(type, true, &open, w);
	} else if (type == KR_MSG_CREATE) {
		struct kr_create_reply create = *(const struct kr_create_reply *)msg;

		create.granted = 0;
		kr_msg_encode(type, true, &create, w);
	} else if (msg) {
		kr_msg_encode(type, true, msg, w);
	}
}

void kr_reply_cache_keep(
	struct kr_reply_cache *replies, uint64_t now_ns, uint64_t id, uint16_t type, int err, const void *msg)
{
	struct kr_kept_reply *kept = find(replies, id);
	struct kr_writer w;

	if (kept)
		drop(replies, kept);
	kr_writer_init(&w);
	if (err == 0)
		encode(type, msg, &w);
	kept = kr_xcalloc(1, sizeof(*kept) + w.length);
	kept->id = id;
	kept->kept_ns = now_ns;
	kept->type = type;
	kept->err = err;
	kept->length = (uint32_t)w.length;
	if (w.length)
		memcpy(kept->fields, w.bytes, w.length);
	kr_writer_fini(&w);
	kr_table_insert(&replies->by_id, &kept->by_id, kr_hash_u64(id));
	kr_list_append(&replies->order, &kept->order);
	replies->count++;
	replies->bytes += sizeof(*kept) + kept->length;
	if (replies->count > KR_REPLY_CACHE_MAX)
		drop(replies, KR_LIST_ENTRY(replies->order.head.next, struct kr_kept_reply, order));
}

const struct kr_kept_reply *kr_reply_cache_find(const struct kr_reply_cache *replies, uint64_t id)
{
	return find(replies, id);
}

void kr_reply_cache_again(struct kr_reply_cache *replies, uint64_t now_ns, uint64_t id)
{
	struct kr_kept_reply *kept = find(replies, id);

	if (!kept)
		return;
	kept->kept_ns = now_ns;
	kr_list_remove(&kept->order);
	kr_list_append(&replies->order, &kept->order);
}

void kr_reply_cache_prune(struct kr_reply_cache *replies, uint64_t before_ns)
{
	struct kr_kept_reply *kept;

	while ((kept = oldest(replies)) && kept->kept_ns < before_ns)
		drop(replies, kept);
}

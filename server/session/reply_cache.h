/* Encoded replies for requests that the node may resend, by request id, bounded.
 *
 * A request that changes the export must not run twice when the node repeats it on a new connection. The cache keeps
 * the latest KR_REPLY_CACHE_MAX replies, so a node may have at most that many unanswered requests. Replies that the
 * node has certainly received go earlier (kr_reply_cache_prune). PURE. */
#ifndef KR_SERVER_REPLY_CACHE_H
#define KR_SERVER_REPLY_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/table.h"

enum { KR_REPLY_CACHE_MAX = 16384 }; /* as KR_SESSION_REQUESTS_MAX */

struct kr_reply_cache {
	struct kr_table by_id;
	struct kr_list order; /* oldest first */
	size_t count, bytes;
};

struct kr_kept_reply {
	struct kr_table_link by_id;
	struct kr_link order;
	uint64_t id, kept_ns;
	uint16_t type;
	int err;
	uint32_t length;
	uint8_t fields[]; /* encoded reply; empty when err is not 0 */
};

void kr_reply_cache_init(struct kr_reply_cache *replies);
void kr_reply_cache_fini(struct kr_reply_cache *replies);
/* Keeps the reply to request ID. MSG is NULL for a reply without fields. Replies to OPEN and CREATE are kept without
 * leases and data: the server may have recalled them before a repetition. */
void kr_reply_cache_keep(
	struct kr_reply_cache *replies, uint64_t now_ns, uint64_t id, uint16_t type, int err, const void *msg);
const struct kr_kept_reply *kr_reply_cache_find(const struct kr_reply_cache *replies, uint64_t id);
/* The reply is sent again NOW: kept as long as a new one. */
void kr_reply_cache_again(struct kr_reply_cache *replies, uint64_t now_ns, uint64_t id);
/* Drops replies kept before BEFORE_NS. */
void kr_reply_cache_prune(struct kr_reply_cache *replies, uint64_t before_ns);

#endif

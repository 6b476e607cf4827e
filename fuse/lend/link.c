/* See link.h. */
#include "fuse/lend/link.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "fuse/base/cred.h"

enum { OWED_MESSAGES = 64, OWED_BYTES = 4 << 20 };

void kr_lend_link_init(struct kr_lend_link *link)
{
	*link = (struct kr_lend_link){0};
	kr_list_init(&link->kept);
}

static void drop(struct kr_lend_link *link, struct kr_lend_kept *kept)
{
	kr_list_remove(&kept->link);
	link->kept_bytes -= kept->data ? kept->data->length : 0;
	kr_buf_put(kept->data);
	free((void *)(uintptr_t)kept->message.caller.groups);
	free(kept);
}

static void drop_up_to(struct kr_lend_link *link, uint64_t seq)
{
	struct kr_lend_kept *kept, *after;

	KR_LIST_FOR_EACH_SAFE(kept, after, &link->kept, link) {
		if (kept->message.seq > seq)
			break;
		drop(link, kept);
	}
}

void kr_lend_link_fini(struct kr_lend_link *link)
{
	drop_up_to(link, UINT64_MAX);
}

const struct kr_lend_kept *kr_lend_link_add(
	struct kr_lend_link *link, const struct kr_lend_message_request *message, struct kr_buf *data)
{
	struct kr_lend_kept *kept = kr_xcalloc(1, sizeof(*kept));

	kept->message = *message;
	kept->message.caller.groups = kr_cred_copy_groups(&message->caller);
	kept->message.seq = ++link->sent;
	kept->data = data ? kr_buf_get(data) : NULL;
	link->kept_bytes += data ? data->length : 0;
	kr_list_append(&link->kept, &kept->link);
	return kept;
}

uint64_t kr_lend_link_tell(struct kr_lend_link *link)
{
	link->told = link->received;
	link->fresh_bytes = 0;
	return link->received;
}

int kr_lend_link_acked(struct kr_lend_link *link, uint64_t ack)
{
	if (ack > link->sent)
		return kr_fail(-EPROTO, "message %" PRIu64 " is acknowledged, and only %" PRIu64 " were sent", ack,
			link->sent);
	if (ack > link->acked) {
		link->acked = ack;
		drop_up_to(link, ack);
	}
	return 0;
}

int kr_lend_link_take(struct kr_lend_link *link, const struct kr_lend_message_request *message, size_t length)
{
	int err = kr_lend_link_acked(link, message->ack);

	if (err < 0)
		return err;
	if (message->seq <= link->received)
		return 0;
	if (message->seq != link->received + 1)
		return kr_fail(-EPROTO, "message %" PRIu64 " follows message %" PRIu64, message->seq, link->received);
	link->received++;
	link->fresh_bytes += length;
	return 1;
}

bool kr_lend_link_owes(const struct kr_lend_link *link)
{
	return link->received - link->told >= OWED_MESSAGES || link->fresh_bytes >= OWED_BYTES;
}

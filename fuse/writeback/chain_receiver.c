/* The incoming streams of flush rounds, from upstream neighbours.  See chain.h.
 *
 * A stream that comes before our own ROUND waits as an early receiver, its connection paused.  Any node of the ring can
 * open a stream.  The stream becomes part of a chain only if that chain has an upstream, and no stream yet.
 */
#include <errno.h>
#include <stdlib.h>

#include "fuse/writeback/chain_priv.h"
#include "fuse/readcache/hops.h"

void kr_chain_drop_receiver(struct kr_chain_receiver *receiver)
{
	if (receiver->chain)
		receiver->chain->receiver = NULL;
	kr_list_remove(&receiver->link);
	if (receiver->conn) {
		if (receiver->paused)
			kr_conn_resume(receiver->conn);
		kr_conn_close(receiver->conn, false);
	}
	free(receiver);
}

static struct kr_chain *find_chain(struct kr_chains *chains, const struct kr_fid *file, uint64_t round)
{
	return KR_LIST_FIND(struct kr_chain, chain, &chains->running, link,
		chain->round == round && kr_fid_equal(&chain->file, file));
}

static struct kr_chain_receiver *find_intake(struct kr_chains *chains, const struct kr_conn *conn)
{
	return KR_LIST_FIND(struct kr_chain_receiver, receiver, &chains->receivers, link, receiver->conn == conn);
}

static void on_stream(
	struct kr_chains *chains, struct kr_conn *conn, uint64_t id, const struct kr_stream_request *request)
{
	struct kr_chain *chain = find_chain(chains, &request->file, request->round);
	struct kr_chain_receiver *receiver;

	if (find_intake(chains, conn) || (chain && (chain->receiver || !chain->has_upstream)) || chains->stopped) {
		kr_conn_reply(conn, KR_MSG_STREAM, id, 0, -EPROTO, NULL, NULL, 0);
		kr_conn_close(conn, true);
		return;
	}
	receiver = kr_xcalloc(1, sizeof(*receiver));
	receiver->conn = conn;
	receiver->stream = id;
	receiver->file = request->file;
	receiver->round = request->round;
	receiver->since_ns = kr_clock_ns();
	receiver->chain = chain;
	kr_list_append(&chains->receivers, &receiver->link);
	if (chain) {
		chain->receiver = receiver;
	} else { /* our own ROUND is still on its way */
		receiver->paused = true;
		kr_conn_pause(conn);
		chains->on_early(chains->mount->flusher);
	}
}

static void on_extent(struct kr_chain_receiver *receiver, const struct kr_extent_request *request, struct kr_buf *data)
{
	struct kr_chain *chain = receiver->chain;
	int err = -EBADMSG;

	if (request->stream == receiver->stream && data && kr_checksum(data->data, data->length) == request->checksum)
		err = kr_merge_push(&chain->merge, KR_MERGE_LOW, request->offset, data, 0, data->length);
	if (err) {
		kr_chain_fail(chain, err, false);
		return;
	}
	receiver->extents++;
	receiver->bytes += data->length;
	chain->bytes_taken += data->length;
	if (!receiver->paused && kr_merge_queued(&chain->merge, KR_MERGE_LOW) > KR_CHAIN_INPUT) {
		receiver->paused = true;
		kr_conn_pause(receiver->conn);
	}
	kr_chain_pump(chain);
}

static void on_stream_end(struct kr_chain_receiver *receiver, const struct kr_stream_end_request *request)
{
	struct kr_chain *chain = receiver->chain;

	if (request->error || request->stream != receiver->stream || request->extents != receiver->extents ||
		request->bytes != receiver->bytes) {
		kr_chain_fail(chain, request->error ? kr_status_to_errno(request->error) : -EBADMSG, false);
		return;
	}
	chain->overlapped = request->overlapped;
	kr_merge_end(&chain->merge, KR_MERGE_LOW);
	kr_conn_reply(receiver->conn, KR_MSG_STREAM, receiver->stream, 0, 0, NULL, NULL, 0);
	chain->receiver = NULL;
	if (receiver->paused)
		kr_conn_resume(receiver->conn);
	kr_list_remove(&receiver->link);
	free(receiver);
	kr_chain_pump(chain);
}

static void on_frame(struct kr_mount *mount, struct kr_conn *conn, uint32_t node, const struct kr_frame *frame)
{
	struct kr_chains *chains = mount->chains;
	struct kr_chain_receiver *receiver = find_intake(chains, conn);
	union kr_any_msg msg;

	(void)node;
	if (kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, NULL) < 0)
		kr_conn_close(conn, false);
	else if (frame->header.type == KR_MSG_STREAM)
		on_stream(chains, conn, frame->header.id, &msg.stream_request);
	else if (!receiver || !receiver->chain) /* of a stream that has been given up */
		kr_conn_close(conn, false);
	else if (frame->header.type == KR_MSG_EXTENT)
		on_extent(receiver, &msg.extent_request, frame->data);
	else
		on_stream_end(receiver, &msg.stream_end_request);
}

static void on_closed(struct kr_mount *mount, struct kr_conn *conn)
{
	struct kr_chain_receiver *receiver = find_intake(mount->chains, conn);
	struct kr_chain *chain = receiver ? receiver->chain : NULL;

	if (!receiver)
		return;
	receiver->conn = NULL;
	kr_chain_drop_receiver(receiver);
	if (chain)
		kr_chain_fail(chain, -ECONNRESET, false);
}

/* --- those that came early -------------------------------------------------------------------- */

void kr_chain_take_early(struct kr_chain *chain)
{
	struct kr_chain_receiver *receiver, *next;

	KR_LIST_FOR_EACH_SAFE(receiver, next, &chain->chains->receivers, link) {
		if (receiver->chain || receiver->round != chain->round || !kr_fid_equal(&receiver->file, &chain->file))
			continue;
		if (chain->receiver || !chain->has_upstream) {
			kr_chain_drop_receiver(receiver);
			continue;
		}
		receiver->chain = chain;
		chain->receiver = receiver;
	}
}

void kr_chain_drop_early(struct kr_chains *chains)
{
	struct kr_chain_receiver *receiver, *next;

	KR_LIST_FOR_EACH_SAFE(receiver, next, &chains->receivers, link)
		if (!receiver->chain)
			kr_chain_drop_receiver(receiver);
}

void kr_chains_forget_round(struct kr_chains *chains, const struct kr_fid *file, uint64_t round)
{
	struct kr_chain_receiver *receiver, *next;

	KR_LIST_FOR_EACH_SAFE(receiver, next, &chains->receivers, link)
		if (!receiver->chain && receiver->round == round && kr_fid_equal(&receiver->file, file))
			kr_chain_drop_receiver(receiver);
}

/* A paused connection does not show that its peer has closed it. */
bool kr_chains_tick(struct kr_chains *chains, uint64_t now_ns)
{
	struct kr_chain_receiver *receiver, *next;

	KR_LIST_FOR_EACH_SAFE(receiver, next, &chains->receivers, link)
		if (!receiver->chain && now_ns > receiver->since_ns + KR_CHAIN_EARLY_MS * KR_NS_PER_MS)
			kr_chain_drop_receiver(receiver);
	return !kr_list_empty(&chains->receivers);
}

void kr_chain_receivers_init(struct kr_mount *mount)
{
	kr_hops_on(mount->hops, KR_MSG_STREAM, on_frame, on_closed);
	kr_hops_on(mount->hops, KR_MSG_EXTENT, on_frame, NULL);
	kr_hops_on(mount->hops, KR_MSG_STREAM_END, on_frame, NULL);
}

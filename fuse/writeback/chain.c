/* The streams of flush rounds through this node.  See chain.h.
 *
 * A chain is one round's stream: `merge` between the incoming stream (a receiver, LOW) and the own extents (HIGH), and
 * an outgoing lane. kr_chain_pump does all that can be done now.  Each event that may unblock the chain (a frame, a
 * read, room on the lane) calls kr_chain_pump again.
 */
#include "fuse/writeback/chain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "fuse/writeback/chain_priv.h"
#include "fuse/readcache/hops.h"
#include "fuse/base/mount.h"

/* --- lanes: connections to downstreams, kept idle for the next round that goes the same way ---- */

static void lane_answered(struct kr_chain *chain, int err);
static void lane_lost(struct kr_chain *chain, int err);
static void lane_close(struct kr_chain_lane *lane, bool flush);

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)frame; /* a downstream only answers */
	kr_conn_close(conn, false);
}

static void on_drain(struct kr_conn *conn)
{
	struct kr_chain_lane *lane = kr_conn_context(conn);

	if (lane->chain)
		kr_chain_pump(lane->chain);
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_chain_lane *lane = kr_conn_context(conn);
	struct kr_chain *chain = lane->chain;

	if (!lane->closing)
		kr_log_debug("connection to downstream %s ended: %s", kr_conn_peer(conn), reason);
	if (lane->idle)
		lane->chains->idle_lanes--;
	kr_list_remove(&lane->link);
	free(lane->address);
	free(lane);
	if (chain)
		lane_lost(chain, err);
}

static bool leads_to(const struct kr_chain_lane *lane, const struct kr_hop_address *to)
{
	return lane->node == to->node && lane->port == to->port && lane->session == to->session &&
		memcmp(lane->ticket, to->ticket, sizeof(lane->ticket)) == 0 && strcmp(lane->address, to->address) == 0;
}

static struct kr_chain_lane *new_lane(struct kr_chains *chains, const struct kr_hop_address *to)
{
	static const struct kr_conn_handler handler = {
		.on_frame = on_frame, .on_drain = on_drain, .on_closed = on_closed};
	struct kr_chain_lane *lane = kr_xcalloc(1, sizeof(*lane));

	lane->chains = chains;
	if (kr_hop_dial(chains->mount->hops, to, false, &handler, lane, &lane->conn) < 0) {
		free(lane);
		return NULL;
	}
	lane->node = to->node;
	lane->port = to->port;
	lane->session = to->session;
	memcpy(lane->ticket, to->ticket, sizeof(lane->ticket));
	lane->address = kr_xstrdup(to->address);
	kr_list_append(&chains->lanes, &lane->link);
	return lane;
}

/* An idle lane to the downstream, or a new one; NULL: cannot be had. */
static struct kr_chain_lane *lane_get(struct kr_chains *chains, const struct kr_hop_address *to)
{
	struct kr_chain_lane *lane;

	if (chains->stopped)
		return NULL;
	KR_LIST_FOR_EACH(lane, &chains->lanes, link) {
		if (!lane->idle || !leads_to(lane, to))
			continue;
		lane->idle = false;
		chains->idle_lanes--;
		return lane;
	}
	return new_lane(chains, to);
}

static void on_answer(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct kr_chain_lane *lane = context;

	(void)reply, (void)data, (void)more;
	if (lane->chain && err != -ECONNRESET) /* that one is told by on_closed */
		lane_answered(lane->chain, err);
}

/* Says STREAM for CHAIN; returns its id (0: the lane is dead already, lane_lost follows). */
static uint64_t lane_begin(struct kr_chain_lane *lane, struct kr_chain *chain, const struct kr_stream_request *stream)
{
	lane->chain = chain;
	return kr_conn_request(lane->conn, KR_MSG_STREAM, stream, NULL, 0, on_answer, lane);
}

static void lane_idle(struct kr_chain_lane *lane)
{
	struct kr_chains *chains = lane->chains;

	lane->chain = NULL;
	if (chains->stopped || chains->idle_lanes >= KR_CHAIN_IDLE_LANES) {
		lane_close(lane, false);
		return;
	}
	lane->idle = true;
	chains->idle_lanes++;
}

/* The chain has no lane any more.  FLUSH: the connection still sends its queue. */
static void lane_close(struct kr_chain_lane *lane, bool flush)
{
	lane->chain = NULL;
	lane->closing = true;
	kr_conn_close(lane->conn, flush);
}

static void lanes_close_idle(struct kr_chains *chains)
{
	struct kr_chain_lane *lane, *next;

	KR_LIST_FOR_EACH_SAFE(lane, next, &chains->lanes, link) {
		if (!lane->idle)
			continue;
		lane->idle = false;
		chains->idle_lanes--;
		lane_close(lane, false);
	}
}

void kr_chains_each(const struct kr_chains *chains, kr_hop_each_fn each, void *context)
{
	const struct kr_chain_lane *lane;

	KR_LIST_FOR_EACH(lane, &chains->lanes, link)
		each(context, lane->conn, false);
}

/* --- ends ------------------------------------------------------------------------------------- */

static void free_chain(struct kr_chain *chain)
{
	kr_list_remove(&chain->link);
	kr_loop_forget(chain->chains->mount->kr_loop, &chain->kick);
	if (chain->read)
		chain->read->chain = NULL; /* its end frees it */
	if (chain->receiver)
		kr_chain_drop_receiver(chain->receiver);
	kr_merge_fini(&chain->merge);
	free(chain);
}

uint64_t kr_chain_sent(const struct kr_chain *chain)
{
	const uint64_t queued = chain->lane ? kr_conn_queued(chain->lane->conn) : 0,
		       here = chain->bytes_taken - chain->bytes_sent + queued;

	return chain->own_taken - KR_MIN(chain->own_taken, here);
}

void kr_chain_abort(struct kr_chain *chain)
{
	if (!chain)
		return;
	if (chain->lane)
		lane_close(chain->lane, false);
	free_chain(chain);
}

void kr_chain_fail(struct kr_chain *chain, int err, bool own)
{
	kr_chain_done_fn done = chain->done;
	void *context = chain->context;

	if (chain->lane) {
		struct kr_stream_end_request end = {.stream = chain->stream,
			.extents = chain->extents_sent,
			.bytes = chain->bytes_sent,
			.error = kr_status_from_errno(err)};

		kr_conn_oneway(chain->lane->conn, KR_MSG_STREAM_END, &end, NULL, 0);
		lane_close(chain->lane, true);
	}
	kr_log_debug("stream of round %" PRIu64 " ended: %s", chain->round, strerror(-err));
	free_chain(chain);
	done(context, err, own);
}

/* --- own extents ------------------------------------------------------------------------------ */

/* In the pool: all pieces into one buffer; those that follow each other in the file make a run. */
static void read_pieces(uv_work_t *work)
{
	struct kr_chain_read *read = work->data;

	read->buf = read->bytes ? kr_buf_new(read->bytes) : NULL;
	if (read->bytes && !read->buf)
		read->err = -ENOMEM;
	for (uint32_t i = 0; i < read->count && read->err == 0; i++) {
		const struct kr_extent *piece = &read->pieces[i];
		struct kr_chain_run *run = read->run_count ? &read->runs[read->run_count - 1] : NULL;

		if (!run || run->offset + run->length != piece->offset) {
			run = &read->runs[read->run_count++];
			*run = (struct kr_chain_run){piece->offset, read->buf->length, 0};
		}
		read->err = kr_journal_read_verified(
			read->journal, piece->position, read->buf->data + read->buf->length, piece->length);
		if (read->err)
			kr_log_error("a flush's bytes %" PRIu64 " to %" PRIu64 ": %s", piece->offset,
				piece->offset + piece->length, kr_fail_reason());
		run->length += piece->length;
		read->buf->length += piece->length;
	}
}

static void free_read(struct kr_chain_read *read)
{
	if (read->buf)
		kr_buf_put(read->buf);
	for (uint32_t i = 0; i < read->count; i++)
		kr_journal_release(read->journal, &read->pieces[i]);
	free(read);
}

static void after_read(uv_work_t *work, int status)
{
	struct kr_chain_read *read = work->data;
	struct kr_chain *chain = read->chain;
	int err = status ? -ECANCELED : read->err;

	if (chain) {
		chain->read = NULL;
		for (uint32_t i = 0; i < read->run_count && err == 0; i++) {
			err = kr_merge_push(&chain->merge, KR_MERGE_HIGH, read->runs[i].offset, read->buf,
				read->runs[i].start, read->runs[i].length);
			chain->own_taken += read->runs[i].length;
			chain->bytes_taken += read->runs[i].length;
		}
		if (err == 0 && read->last)
			kr_merge_end(&chain->merge, KR_MERGE_HIGH);
	}
	free_read(read);
	if (chain && err)
		kr_chain_fail(chain, err, err != -ENOMEM && err != -ECANCELED);
	else if (chain)
		kr_chain_pump(chain);
}

/* The next own pieces, of at most a block each; they are held for as long as the job may read them. */
static void plan_read(struct kr_chain *chain, struct kr_chain_read *read)
{
	struct kr_extent extent;

	read->last = true;
	while (kr_extent_map_find(chain->extents, chain->next, &extent)) {
		struct kr_extent *piece = &read->pieces[read->count];
		uint64_t skip = chain->next > extent.offset ? chain->next - extent.offset : 0;

		if (read->count == KR_CHAIN_PIECES || read->bytes >= KR_CHAIN_READ) {
			read->last = false;
			break;
		}
		*piece = (struct kr_extent){
			extent.offset + skip, extent.length - skip, extent.position + skip, extent.seq};
		piece->length = KR_MIN(piece->length, (uint64_t)KR_BLOCK_SIZE);
		kr_journal_hold(read->journal, piece);
		chain->next = piece->offset + piece->length;
		read->bytes += piece->length;
		read->count++;
	}
}

static int start_read(struct kr_chain *chain)
{
	struct kr_chain_read *read = calloc(1, sizeof(*read));
	int err;

	if (!read)
		return -ENOMEM;
	read->journal = chain->chains->mount->journal;
	read->work.data = read;
	plan_read(chain, read);
	chain->own_planned = read->last;
	err = uv_queue_work(chain->chains->mount->loop, &read->work, read_pieces, after_read);
	if (err) {
		free_read(read);
		return err;
	}
	read->chain = chain;
	chain->read = read;
	return 0;
}

/* --- the pump --------------------------------------------------------------------------------- */

static int send_piece(struct kr_chain *chain, struct kr_piece *piece)
{
	struct kr_extent_request extent = {
		.stream = chain->stream,
		.offset = piece->offset,
		.checksum = kr_checksum(piece->buf->data + piece->start, piece->length),
	};
	struct kr_slice slice = {piece->buf, piece->start, piece->length};
	int err = kr_conn_oneway(chain->lane->conn, KR_MSG_EXTENT, &extent, &slice, 1);

	kr_buf_put(piece->buf);
	chain->extents_sent++;
	chain->bytes_sent += piece->length;
	return err;
}

static int send_end(struct kr_chain *chain)
{
	struct kr_stream_end_request end = {.stream = chain->stream,
		.extents = chain->extents_sent,
		.bytes = chain->bytes_sent,
		.overlapped = chain->overlapped + (chain->bytes_taken - chain->bytes_sent)};

	if (KR_FAULT("chain.end"))
		return -EIO;
	chain->end_sent = true;
	return kr_conn_oneway(chain->lane->conn, KR_MSG_STREAM_END, &end, NULL, 0);
}

static int send_ready(struct kr_chain *chain)
{
	while (kr_conn_queued(chain->lane->conn) < KR_CHAIN_WINDOW) {
		struct kr_piece piece;
		int got = kr_merge_pop(&chain->merge, &piece);

		if (got <= 0)
			return got;
		got = send_piece(chain, &piece);
		if (got < 0)
			return got;
	}
	return 0;
}

void kr_chain_pump(struct kr_chain *chain)
{
	struct kr_chain_receiver *receiver = chain->receiver;
	int err = send_ready(chain);

	if (err == 0 && !chain->read && !chain->own_planned &&
		kr_merge_queued(&chain->merge, KR_MERGE_HIGH) < KR_CHAIN_READ)
		err = start_read(chain);
	if (err == 0 && !chain->end_sent && kr_merge_done(&chain->merge))
		err = send_end(chain);
	if (err < 0) {
		kr_chain_fail(chain, err, false);
		return;
	}
	if (receiver && receiver->paused && kr_merge_queued(&chain->merge, KR_MERGE_LOW) < KR_CHAIN_INPUT / 2) {
		receiver->paused = false;
		kr_conn_resume(receiver->conn);
	}
}

static void lane_answered(struct kr_chain *chain, int err)
{
	struct kr_chain_lane *lane = chain->lane;
	kr_chain_done_fn done = chain->done;
	void *context = chain->context;

	if (err == 0 && !chain->end_sent)
		err = -EBADMSG; /* it has all, before all was sent? */
	if (err) {
		kr_chain_fail(chain, err, false);
		return;
	}
	chain->lane = NULL;
	lane_idle(lane);
	free_chain(chain);
	done(context, 0, false);
}

static void lane_lost(struct kr_chain *chain, int err)
{
	chain->lane = NULL;
	kr_chain_fail(chain, err ? err : -ECONNRESET, false);
}

/* --- life ------------------------------------------------------------------------------------- */

static void kick(struct kr_task *task)
{
	kr_chain_pump(KR_CONTAINER_OF(task, struct kr_chain, kick));
}

struct kr_chain *kr_chain_start(struct kr_chains *chains, const struct kr_round_request *round,
	const struct kr_extent_map *extents, kr_chain_done_fn done, void *context)
{
	struct kr_stream_request stream = {.file = round->file, .round = round->round};
	struct kr_chain *chain = calloc(1, sizeof(*chain));

	if (!chain)
		return NULL;
	chain->lane = lane_get(chains, &round->downstream);
	if (!chain->lane) {
		free(chain);
		return NULL;
	}
	chain->chains = chains;
	chain->file = round->file;
	chain->round = round->round;
	chain->has_upstream = round->has_upstream;
	chain->extents = extents;
	chain->done = done;
	chain->context = context;
	kr_merge_init(&chain->merge);
	if (!round->has_upstream)
		kr_merge_end(&chain->merge, KR_MERGE_LOW);
	kr_list_append(&chains->running, &chain->link);
	chain->stream = lane_begin(chain->lane, chain, &stream);
	kr_chain_take_early(chain);
	chain->kick.fn = kick;
	kr_loop_post(chains->mount->kr_loop, &chain->kick); /* so DONE is never called from in here */
	return chain;
}

int kr_chains_new(struct kr_mount *mount, void (*on_early)(struct kr_flusher *flusher), struct kr_chains **ret_chains)
{
	struct kr_chains *chains = kr_xcalloc(1, sizeof(*chains));

	chains->mount = mount;
	chains->on_early = on_early;
	kr_list_init(&chains->running);
	kr_list_init(&chains->receivers);
	kr_list_init(&chains->lanes);
	kr_chain_receivers_init(mount);
	*ret_chains = chains;
	return 0;
}

void kr_chains_session_lost(struct kr_chains *chains)
{
	kr_chain_drop_early(chains);
	lanes_close_idle(chains);
}

void kr_chains_stop(struct kr_chains *chains)
{
	chains->stopped = true;
	kr_chains_session_lost(chains); /* each running chain is aborted by its send */
}

void kr_chains_free(struct kr_chains *chains)
{
	free(chains);
}

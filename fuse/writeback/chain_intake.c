/* What comes in of flush rounds: the streams of upstream neighbours.  See chain.h.
 *
 * A stream that comes before our own ROUND waits as an early intake, its connection paused.  Whoever is in the ring can open one:
 * it becomes part of a chain only if that has an upstream, and none yet.
 */
#include <errno.h>
#include <stdlib.h>

#include "fuse/writeback/chain_priv.h"
#include "fuse/readcache/hops.h"

void kr_chain_drop_intake(struct kr_chain_intake *intake)
{
	if (intake->chain)
		intake->chain->intake = NULL;
	kr_list_remove(&intake->link);
	if (intake->conn) {
		if (intake->paused)
			kr_conn_resume(intake->conn);
		kr_conn_close(intake->conn, false);
	}
	free(intake);
}

static struct kr_chain *find_chain(struct kr_chains *chains, const struct kr_fid *file, uint64_t round)
{
	struct kr_chain *chain;

	KR_LIST_FOR_EACH(chain, &chains->running, link)
		if (chain->round == round && kr_fid_equal(&chain->file, file))
			return chain;
	return NULL;
}

static struct kr_chain_intake *find_intake(struct kr_chains *chains, const struct kr_conn *conn)
{
	struct kr_chain_intake *intake;

	KR_LIST_FOR_EACH(intake, &chains->intakes, link)
		if (intake->conn == conn)
			return intake;
	return NULL;
}

static void on_stream(struct kr_chains *chains, struct kr_conn *conn, uint64_t id,
	const struct kr_stream_request *request)
{
	struct kr_chain *chain = find_chain(chains, &request->file, request->round);
	struct kr_chain_intake *intake;

	if (find_intake(chains, conn) || (chain && (chain->intake || !chain->has_upstream)) || chains->stopped) {
		kr_conn_reply(conn, KR_MSG_STREAM, id, 0, -EPROTO, NULL, NULL, 0);
		kr_conn_close(conn, true);
		return;
	}
	intake = kr_xcalloc(1, sizeof(*intake));
	intake->conn = conn;
	intake->stream = id;
	intake->file = request->file;
	intake->round = request->round;
	intake->since_ns = kr_clock_ns();
	intake->chain = chain;
	kr_list_append(&chains->intakes, &intake->link);
	if (chain) {
		chain->intake = intake;
	} else { /* our own ROUND is still on its way */
		intake->paused = true;
		kr_conn_pause(conn);
	}
}

static void on_extent(struct kr_chain_intake *intake, const struct kr_extent_request *request, struct kr_buf *data)
{
	struct kr_chain *chain = intake->chain;
	int err = -EBADMSG;

	if (request->stream == intake->stream && data && kr_checksum(data->data, data->length) == request->checksum)
		err = kr_merge_push(&chain->merge, KR_MERGE_LOW, request->offset, data, 0, data->length);
	if (err) {
		kr_chain_fail(chain, err, false);
		return;
	}
	intake->extents++;
	intake->bytes += data->length;
	chain->bytes_taken += data->length;
	if (!intake->paused && kr_merge_queued(&chain->merge, KR_MERGE_LOW) > KR_CHAIN_INPUT) {
		intake->paused = true;
		kr_conn_pause(intake->conn);
	}
	kr_chain_pump(chain);
}

static void on_stream_end(struct kr_chain_intake *intake, const struct kr_stream_end_request *request)
{
	struct kr_chain *chain = intake->chain;

	if (request->error || request->stream != intake->stream || request->extents != intake->extents ||
		request->bytes != intake->bytes) {
		kr_chain_fail(chain, request->error ? kr_status_to_errno(request->error) : -EBADMSG, false);
		return;
	}
	chain->overlapped = request->overlapped;
	kr_merge_end(&chain->merge, KR_MERGE_LOW);
	kr_conn_reply(intake->conn, KR_MSG_STREAM, intake->stream, 0, 0, NULL, NULL, 0);
	chain->intake = NULL;
	if (intake->paused)
		kr_conn_resume(intake->conn);
	kr_list_remove(&intake->link);
	free(intake);
	kr_chain_pump(chain);
}

static void on_frame(struct kr_mount *mount, struct kr_conn *conn, uint32_t node, const struct kr_frame *frame)
{
	struct kr_chains *chains = kr_chains_of(mount);
	struct kr_chain_intake *intake = find_intake(chains, conn);
	struct kr_arena arena = {0};
	union kr_any_msg msg;

	(void)node;
	if (kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, &arena) < 0)
		kr_conn_close(conn, false);
	else if (frame->header.type == KR_MSG_STREAM)
		on_stream(chains, conn, frame->header.id, &msg.stream_request);
	else if (!intake || !intake->chain) /* of a stream that has been given up */
		kr_conn_close(conn, false);
	else if (frame->header.type == KR_MSG_EXTENT)
		on_extent(intake, &msg.extent_request, frame->data);
	else
		on_stream_end(intake, &msg.stream_end_request);
	kr_arena_fini(&arena);
}

static void on_closed(struct kr_mount *mount, struct kr_conn *conn)
{
	struct kr_chain_intake *intake = find_intake(kr_chains_of(mount), conn);
	struct kr_chain *chain = intake ? intake->chain : NULL;

	if (!intake)
		return;
	intake->conn = NULL;
	kr_chain_drop_intake(intake);
	if (chain)
		kr_chain_fail(chain, -ECONNRESET, false);
}

/* --- those that came early ------------------------------------------------------------------------------------- */

void kr_chain_take_early(struct kr_chain *chain)
{
	struct kr_chain_intake *intake, *next;

	KR_LIST_FOR_EACH_SAFE(intake, next, &chain->chains->intakes, link) {
		if (intake->chain || intake->round != chain->round || !kr_fid_equal(&intake->file, &chain->file))
			continue;
		if (chain->intake || !chain->has_upstream) {
			kr_chain_drop_intake(intake);
			continue;
		}
		intake->chain = chain;
		chain->intake = intake;
	}
}

void kr_chain_drop_early(struct kr_chains *chains)
{
	struct kr_chain_intake *intake, *next;

	KR_LIST_FOR_EACH_SAFE(intake, next, &chains->intakes, link)
		if (!intake->chain)
			kr_chain_drop_intake(intake);
}

void kr_chains_forget_round(struct kr_chains *chains, const struct kr_fid *file, uint64_t round)
{
	struct kr_chain_intake *intake, *next;

	KR_LIST_FOR_EACH_SAFE(intake, next, &chains->intakes, link)
		if (!intake->chain && intake->round == round && kr_fid_equal(&intake->file, file))
			kr_chain_drop_intake(intake);
}

/* A paused connection does not show that its peer has closed it. */
void kr_chains_tick(struct kr_chains *chains, uint64_t now_ns)
{
	struct kr_chain_intake *intake, *next;

	KR_LIST_FOR_EACH_SAFE(intake, next, &chains->intakes, link)
		if (!intake->chain && now_ns > intake->since_ns + KR_CHAIN_EARLY_MS * KR_NS_PER_MS)
			kr_chain_drop_intake(intake);
}

void kr_chain_intakes_init(struct kr_mount *mount)
{
	kr_hops_on(mount->hops, KR_MSG_STREAM, on_frame, on_closed);
	kr_hops_on(mount->hops, KR_MSG_EXTENT, on_frame, NULL);
	kr_hops_on(mount->hops, KR_MSG_STREAM_END, on_frame, NULL);
}

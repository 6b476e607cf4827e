/* The block server (see block_server.h). */
#include "server/pipelines/block_server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/flush/data_state.h"
#include "server/export/export.h"
#include "server/flush/hop.h"

/* One PULL until its answer. */
struct pull {
	struct kr_link link;   /* kr_hop.pulls: has blocks left to read */
	struct kr_hop *hop;    /* reference */
	struct kr_sfile *file; /* reference */
	uint64_t id, version;
	struct kr_range *ranges; /* of blocks */
	uint32_t range_count, range;
	uint64_t done_in_range;
	size_t jobs;
	int err;
};

struct read_job {
	struct kr_pool_share_job gated;
	struct pull *pull;
	uint64_t first, changes; /* block number; file->changes when it began */
	size_t count, read;
	struct kr_buf *bufs[KR_BLOCK_SERVER_BLOCKS];
	uint64_t checksums[KR_BLOCK_SERVER_BLOCKS];
	struct kr_attr attr; /* after the reads */
	int err;
};

/* --- reading, in the pool --------------------------------------------------------------------- */

/* The last block of a file may be short: it shall not take a whole block of memory while it waits for a slow peer.
 * Takes BUF. */
static struct kr_buf *as_small(struct kr_buf *buf)
{
	struct kr_buf *small = buf->length < KR_BLOCK_SERVER_SHORT ? kr_buf_new(buf->length) : NULL;

	if (!small)
		return buf;
	memcpy(small->data, buf->data, buf->length);
	small->length = buf->length;
	kr_buf_put(buf);
	return small;
}

static int read_block(struct kr_export *export, struct read_job *job)
{
	uint64_t offset = (job->first + job->read) * KR_BLOCK_SIZE;
	struct kr_buf *buf = kr_buf_new(KR_BLOCK_SIZE);
	int err;

	if (!buf)
		return -ENOMEM;
	err = kr_export_pread(export, &job->pull->file->fid, offset, buf->data, KR_BLOCK_SIZE, &buf->length);
	if (err || buf->length == 0) {
		kr_buf_put(buf);
		return err ? err : -EINVAL; /* behind the end */
	}
	buf = as_small(buf);
	job->checksums[job->read] = kr_checksum(buf->data, buf->length);
	job->bufs[job->read++] = buf;
	return 0;
}

static void run(struct kr_pool_share_job *gated)
{
	struct read_job *job = KR_CONTAINER_OF(gated, struct read_job, gated);
	struct kr_export *export = job->pull->file->server->export;
	int err = 0;

	while (err == 0 && job->read < job->count)
		err = read_block(export, job);
	job->err = kr_export_getattr(export, &job->pull->file->fid, &job->attr);
	if (job->err == 0)
		job->err = err;
}

/* --- answering -------------------------------------------------------------------------------- */

static void pause_pulls(struct kr_hop *hop)
{
	bool pause = hop->pull_count >= KR_BLOCK_SERVER_PULLS || hop->range_count >= KR_BLOCK_SERVER_RANGES;

	if (pause == hop->pulls_paused || !hop->conn)
		return;
	hop->pulls_paused = pause;
	if (pause)
		kr_conn_pause(hop->conn);
	else
		kr_conn_resume(hop->conn);
}

static void end_pull(struct pull *pull)
{
	struct kr_hop *hop = pull->hop;

	if (hop->conn)
		kr_conn_reply(hop->conn, KR_MSG_PULL, pull->id, 0, pull->err,
			pull->err ? NULL : &(struct kr_pull_reply){0}, NULL, 0);
	kr_list_remove(&pull->link);
	hop->pull_count--;
	hop->range_count -= pull->range_count;
	pause_pulls(hop);
	kr_sfile_put(pull->file);
	free(pull->ranges);
	free(pull);
	kr_hop_put(hop);
}

/* Ends PULL if no work is left. */
static void settle(struct pull *pull)
{
	if (pull->jobs == 0 && (pull->err || pull->range == pull->range_count))
		end_pull(pull);
}

/* Whether the bytes read are those of the version that the node asked for. */
static bool is_asked_version(const struct read_job *job)
{
	const struct pull *pull = job->pull;
	struct kr_attr attr = job->attr;

	if (pull->version == 0) /* valid under the lease only: nothing has changed since */
		return !pull->file->changing && pull->file->changes == job->changes;
	kr_sfile_version(pull->file, job->changes, &attr);
	return attr.version == pull->version;
}

static void send_blocks(struct read_job *job)
{
	struct pull *pull = job->pull;
	struct kr_data *data = pull->hop->data;
	struct kr_session *session = kr_session_find(data->server, pull->hop->session);

	for (size_t i = 0; i < job->read && pull->hop->conn; i++) {
		struct kr_pull_reply reply = {.block = job->first + i, .checksum = job->checksums[i]};
		struct kr_slice slice = {.buf = job->bufs[i], .length = job->bufs[i]->length};

		kr_conn_reply(pull->hop->conn, KR_MSG_PULL, pull->id, KR_FRAME_MORE, 0, &reply, &slice, 1);
		data->counters.fed_blocks++;
		data->counters.fed_bytes += slice.length;
		if (session)
			session->ring.served_bytes += slice.length;
	}
}

static void done(struct kr_pool_share_job *gated)
{
	struct read_job *job = KR_CONTAINER_OF(gated, struct read_job, gated);
	struct pull *pull = job->pull;
	struct kr_hop *hop = kr_hop_get(pull->hop);
	int err = job->err;

	if ((err == 0 || err == -EINVAL) && !is_asked_version(job))
		err = -ESTALE;
	else if (err == 0 || err == -EINVAL)
		send_blocks(job);
	/* A node asks without a version under a lease.  But a program of that node may have truncated the file since.
	 */
	if (err == -EINVAL && pull->version == 0)
		err = -ESTALE;
	if (err && !pull->err)
		pull->err = err;
	for (size_t i = 0; i < job->read; i++)
		kr_buf_put(job->bufs[i]);
	free(job);
	hop->feeding--;
	pull->jobs--;
	if (pull->err)
		kr_list_remove(&pull->link);
	settle(pull);
	kr_block_server_go_on(hop);
	kr_hop_put(hop);
}

/* --- whose turn it is ------------------------------------------------------------------------- */

/* Starts to read the next blocks of PULL, which has some left. */
static void start_job(struct pull *pull)
{
	const struct kr_range *range = &pull->ranges[pull->range];
	struct read_job *job = kr_xcalloc(1, sizeof *job);

	job->pull = pull;
	job->first = range->offset + pull->done_in_range;
	job->count = (size_t)KR_MIN(range->length - pull->done_in_range, (uint64_t)KR_BLOCK_SERVER_BLOCKS);
	job->changes = pull->file->changes;
	pull->done_in_range += job->count;
	if (pull->done_in_range == range->length) {
		pull->range++;
		pull->done_in_range = 0;
	}
	pull->jobs++;
	pull->hop->feeding++;
	kr_list_remove(&pull->link);
	if (pull->range < pull->range_count)
		kr_list_append(&pull->hop->pulls, &pull->link);
	kr_pool_share_start(&pull->hop->data->feeds, &job->gated, run, done);
}

/* The bytes that wait for the peer, and those that the running jobs will add. */
static size_t owed(const struct kr_hop *hop)
{
	return (hop->conn ? kr_conn_queued(hop->conn) : 0) + hop->feeding * KR_BLOCK_SERVER_BLOCKS * KR_BLOCK_SIZE;
}

static size_t owed_to_node(const struct kr_hop *hop)
{
	const struct kr_hop *other;
	size_t all = 0;

	KR_LIST_FOR_EACH(other, &hop->data->hops, link)
		all += other->node == hop->node ? owed(other) : 0;
	return all;
}

static bool has_room(const struct kr_hop *hop)
{
	if (kr_conn_queued_frames(hop->conn) > KR_BLOCK_SERVER_FRAMES)
		return false;
	if (!kr_session_memory_tight())
		return hop->feeding < KR_BLOCK_SERVER_JOBS && kr_conn_queued(hop->conn) < KR_BLOCK_SERVER_QUEUE;
	return owed(hop) < KR_BLOCK_SERVER_QUEUE_TIGHT && owed_to_node(hop) < KR_BLOCK_SERVER_NODE_TIGHT;
}

void kr_block_server_go_on(struct kr_hop *hop)
{
	while (hop->conn && !kr_list_empty(&hop->pulls) && has_room(hop))
		start_job(KR_LIST_ENTRY(hop->pulls.head.next, struct pull, link));
}

/* Copies the ranges that are not empty; -EINVAL for blocks that no file can have. */
static int copy_ranges(struct pull *pull, const struct kr_ranges *blocks)
{
	size_t count = 0;

	for (uint32_t i = 0; i < blocks->count; i++)
		count += blocks->ranges[i].length > 0;
	pull->ranges = kr_xcalloc(count ? count : 1, sizeof(pull->ranges[0]));
	for (uint32_t i = 0; i < blocks->count; i++) {
		const struct kr_range *range = &blocks->ranges[i];
		uint64_t most = (uint64_t)INT64_MAX / KR_BLOCK_SIZE;

		if (range->offset > most || range->length > most - range->offset)
			return -EINVAL;
		if (range->length)
			pull->ranges[pull->range_count++] = *range;
	}
	return 0;
}

/* The session has the file open for reading. */
static bool may_pull(const struct pull *pull)
{
	struct kr_session *session = kr_session_find_node(pull->hop->data->server, pull->hop->node);

	return session && kr_open_rights_allowed(session, &pull->file->fid, KR_OPEN_RIGHT_READ);
}

void kr_block_server_pull(struct kr_hop *hop, const struct kr_frame *frame)
{
	struct kr_arena arena = {0};
	union kr_any_msg msg;
	struct pull *pull;
	int err = kr_msg_decode(KR_MSG_PULL, false, frame->fields, frame->header.fields_length, &msg, &arena);

	if (err) {
		kr_conn_reply(hop->conn, KR_MSG_PULL, frame->header.id, 0, -EPROTO, NULL, NULL, 0);
		kr_arena_fini(&arena);
		return;
	}
	pull = kr_xcalloc(1, sizeof *pull);
	pull->hop = kr_hop_get(hop);
	pull->file = kr_sfile_get(hop->data->server, &msg.pull_request.file);
	pull->id = frame->header.id;
	pull->version = msg.pull_request.version;
	pull->err = may_pull(pull) ? copy_ranges(pull, &msg.pull_request.blocks) : -EACCES;
	kr_arena_fini(&arena);
	hop->pull_count++;
	hop->range_count += pull->range_count;
	pause_pulls(hop);
	if (pull->err || pull->range_count == 0) {
		settle(pull);
		return;
	}
	kr_list_append(&hop->pulls, &pull->link);
	kr_block_server_go_on(hop);
}

void kr_block_server_tick(struct kr_data *data)
{
	struct kr_hop *hop;

	KR_LIST_FOR_EACH(hop, &data->hops, link)
		kr_block_server_go_on(hop);
}

void kr_block_server_hop_closed(struct kr_hop *hop)
{
	struct pull *pull, *after;

	KR_LIST_FOR_EACH_SAFE(pull, after, &hop->pulls, link) {
		pull->err = -ECONNRESET;
		kr_list_remove(&pull->link);
		settle(pull);
	}
}

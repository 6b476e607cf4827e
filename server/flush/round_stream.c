/* Streams of chained rounds (see round_stream.h).
 *
 * A round stream belongs to its file (data.round_stream) from KR_ROUND_BEGIN until all is written or the round is
 * aborted.  A discarded round stream lives until its last apply job is done.
 */
#include "server/flush/round_stream.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "server/flush/apply.h"
#include "server/flush/data_state.h"
#include "server/flush/hop.h"

struct kr_round_stream *kr_round_stream_new(struct kr_sfile *file, uint64_t round, uint32_t node)
{
	struct kr_round_stream *round_stream = kr_xcalloc(1, sizeof *round_stream);

	round_stream->file = file;
	round_stream->round = round;
	round_stream->node = node;
	round_stream->moved_ns = kr_clock_ns();
	kr_link_init(&round_stream->of_hop);
	kr_link_init(&round_stream->throttled);
	return round_stream;
}

/* --- back-pressure ---------------------------------------------------------------------------- */

static bool too_much(const struct kr_round_stream *round_stream)
{
	return round_stream->memory > KR_ROUND_STREAM_MAX ||
		(round_stream->memory > KR_ROUND_STREAM_SHARE &&
			kr_data_of(round_stream->file)->round_stream_bytes > KR_ROUND_STREAM_TOTAL);
}

static void resume(struct kr_round_stream *round_stream)
{
	kr_list_remove(&round_stream->throttled);
	if (!round_stream->paused)
		return;
	round_stream->paused = false;
	if (round_stream->hop && round_stream->hop->conn)
		kr_conn_resume(round_stream->hop->conn);
}

static void pause_if_too_much(struct kr_round_stream *round_stream)
{
	if (round_stream->paused || !round_stream->hop || !too_much(round_stream))
		return;
	round_stream->paused = true;
	kr_conn_pause(round_stream->hop->conn);
	kr_list_append(&kr_data_of(round_stream->file)->throttled, &round_stream->throttled);
}

static void account(struct kr_round_stream *round_stream, size_t taken, size_t freed)
{
	struct kr_data *data = kr_data_of(round_stream->file);
	struct kr_round_stream *other, *after;

	round_stream->memory += taken - freed;
	data->round_stream_bytes += taken - freed;
	if (!freed)
		return;
	KR_LIST_FOR_EACH_SAFE(other, after, &data->throttled, throttled) {
		if (!too_much(other))
			resume(other);
	}
}

/* --- the end of an round stream --------------------------------------------------------------- */

/* Answers STREAM, if it has come and is unanswered, and leaves the connection. */
static void leave_hop(struct kr_round_stream *round_stream, int err)
{
	resume(round_stream);
	if (round_stream->begun && round_stream->hop && round_stream->hop->conn)
		kr_conn_reply(round_stream->hop->conn, KR_MSG_STREAM, round_stream->stream, 0, err, NULL, NULL, 0);
	kr_list_remove(&round_stream->of_hop);
	round_stream->hop = NULL;
}

static void drop_batch(struct kr_round_stream *round_stream)
{
	struct kr_apply *batch = round_stream->batch;

	round_stream->batch = NULL;
	if (batch) {
		account(round_stream, 0, batch->memory);
		kr_apply_free(batch);
	}
}

void kr_round_stream_free(struct kr_round_stream *round_stream)
{
	if (!round_stream)
		return;
	leave_hop(round_stream, -ECANCELED);
	drop_batch(round_stream);
	free(round_stream);
}

static void drained(struct kr_round_stream *round_stream)
{
	struct kr_sfile *file = round_stream->file;
	uint64_t round = round_stream->round;

	kr_round_stream_free(round_stream);
	kr_flush_drained(file, round);
}

void kr_round_stream_discard(struct kr_round_stream *round_stream)
{
	round_stream->discarded = true;
	leave_hop(round_stream, -ECANCELED);
	drop_batch(round_stream);
	if (round_stream->jobs == 0)
		drained(round_stream);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void start_jobs(struct kr_round_stream *round_stream);

/* Whether the stream has ended and all of it is written; then the round stream is freed. */
static bool complete(struct kr_round_stream *round_stream)
{
	struct kr_sfile *file = round_stream->file;
	struct kr_data *data = kr_data_of(file);
	uint64_t round = round_stream->round;
	struct kr_session *session;

	if (!round_stream->ended || round_stream->jobs || round_stream->batch || round_stream->failed)
		return false;
	session = round_stream->hop ? kr_session_find(data->server, round_stream->hop->session) : NULL;
	if (session)
		session->ring.flushed_bytes += round_stream->bytes;
	leave_hop(round_stream, 0);
	data->counters.bytes += round_stream->bytes;
	data->counters.extents += round_stream->extents;
	file->data->round_stream = NULL;
	kr_round_stream_free(round_stream);
	kr_flush_received(file, round);
	return true;
}

static void job_done(struct kr_apply *apply)
{
	struct kr_round_stream *round_stream = apply->context;
	struct kr_sfile *file = kr_sfile_ref(round_stream->file);
	int err = apply->err;

	round_stream->jobs--;
	round_stream->moved_ns = kr_clock_ns();
	account(round_stream, 0, apply->memory);
	if (err == 0 && apply->want_before)
		kr_flush_before(file, &apply->before);
	if (!round_stream->discarded)
		file->data->differs |= apply->differs;
	kr_apply_free(apply);
	if (round_stream->discarded) {
		if (round_stream->jobs == 0)
			drained(round_stream);
	} else if (err) {
		round_stream->failed = true;
		kr_flush_failed(file, round_stream->round, err);
	} else {
		start_jobs(round_stream);
	}
	kr_sfile_put(file);
}

/* Starts the collected batch if it is large enough, or the last, and a job is free. */
static void start_jobs(struct kr_round_stream *round_stream)
{
	struct kr_apply *batch = round_stream->batch;

	if (round_stream->failed)
		return;
	if (batch && round_stream->jobs < KR_ROUND_STREAM_JOBS &&
		(round_stream->ended || batch->bytes >= KR_ROUND_STREAM_JOB || batch->count >= KR_APPLY_PIECES)) {
		round_stream->batch = NULL;
		round_stream->jobs++;
		kr_apply_start(batch);
	}
	complete(round_stream);
}

static void collect(struct kr_round_stream *round_stream, uint64_t offset, struct kr_buf *buf)
{
	size_t before;

	if (!round_stream->batch) {
		round_stream->batch = kr_apply_new(round_stream->file, round_stream->round, job_done, round_stream);
		round_stream->batch->want_before = round_stream->extents == 0;
		round_stream->batch->compare = round_stream->file->data->resend;
	}
	before = round_stream->batch->memory;
	kr_apply_add(round_stream->batch, offset, buf, 0, buf->length);
	account(round_stream, round_stream->batch->memory - before, 0);
	round_stream->extents++;
	round_stream->bytes += buf->length;
	round_stream->next = offset + buf->length;
}

/* --- frames ----------------------------------------------------------------------------------- */

/* The stream is malformed: the round is run again.  Of a file that is gone that is nothing: its writers discard. */
static void break_off(struct kr_round_stream *round_stream, const char *why)
{
	if (round_stream->file->gone) {
		kr_flush_broken(round_stream->file, round_stream->round);
		return;
	}
	kr_log_warn("flush round %llu: the stream from %s is broken: %s; the round is run again",
		(unsigned long long)round_stream->round,
		round_stream->hop && round_stream->hop->conn ? kr_conn_peer(round_stream->hop->conn) : "its last node",
		why);
	kr_flush_broken(round_stream->file, round_stream->round);
}

static struct kr_round_stream *find_stream(const struct kr_hop *hop, uint64_t stream)
{
	return KR_LIST_FIND(
		struct kr_round_stream, round_stream, &hop->round_streams, of_hop, round_stream->stream == stream);
}

void kr_round_stream_begin(struct kr_hop *hop, const struct kr_frame *frame)
{
	union kr_any_msg msg;
	struct kr_sfile *file;
	struct kr_round_stream *round_stream;
	int err = kr_msg_decode(KR_MSG_STREAM, false, frame->fields, frame->header.fields_length, &msg, NULL);

	if (err) {
		kr_conn_reply(hop->conn, KR_MSG_STREAM, frame->header.id, 0, -EPROTO, NULL, NULL, 0);
		return;
	}
	file = kr_sfile_find(hop->data->server, &msg.stream_request.file);
	round_stream = file ? file->data->round_stream : NULL;
	if (!round_stream || round_stream->round != msg.stream_request.round || round_stream->node != hop->node ||
		round_stream->begun) {
		/* of a round that has been aborted meanwhile */
		kr_conn_reply(hop->conn, KR_MSG_STREAM, frame->header.id, 0, -ESTALE, NULL, NULL, 0);
		return;
	}
	round_stream->begun = true;
	round_stream->hop = hop;
	round_stream->stream = frame->header.id;
	round_stream->moved_ns = kr_clock_ns();
	kr_list_append(&hop->round_streams, &round_stream->of_hop);
}

void kr_round_stream_extent(struct kr_hop *hop, const struct kr_frame *frame)
{
	union kr_any_msg msg;
	struct kr_round_stream *round_stream;
	struct kr_buf *buf = frame->data;
	int err = kr_msg_decode(KR_MSG_EXTENT, false, frame->fields, frame->header.fields_length, &msg, NULL);

	round_stream = err ? NULL : find_stream(hop, msg.extent_request.stream);
	if (!round_stream || round_stream->ended || round_stream->failed)
		return; /* the rest of an aborted stream; a malformed one ends in STREAM_END's counts */
	if (!buf || msg.extent_request.offset < round_stream->next ||
		msg.extent_request.offset > (uint64_t)INT64_MAX - buf->length) {
		break_off(round_stream, "its extents do not ascend");
		return;
	}
	if (kr_checksum(buf->data, buf->length) != msg.extent_request.checksum) {
		break_off(round_stream, "a checksum does not match");
		return;
	}
	round_stream->moved_ns = kr_clock_ns();
	collect(round_stream, msg.extent_request.offset, buf);
	pause_if_too_much(round_stream);
	start_jobs(round_stream);
}

void kr_round_stream_end(struct kr_hop *hop, const struct kr_frame *frame)
{
	union kr_any_msg msg;
	struct kr_round_stream *round_stream;
	int err = kr_msg_decode(KR_MSG_STREAM_END, false, frame->fields, frame->header.fields_length, &msg, NULL);

	round_stream = err ? NULL : find_stream(hop, msg.stream_end_request.stream);
	if (!round_stream || round_stream->ended || round_stream->failed)
		return;
	if (msg.stream_end_request.error) {
		break_off(round_stream, "a participant could not go on");
		return;
	}
	if (msg.stream_end_request.extents != round_stream->extents ||
		msg.stream_end_request.bytes != round_stream->bytes) {
		break_off(round_stream, "extents are missing");
		return;
	}
	round_stream->ended = true;
	round_stream->file->data->round_overlapped = msg.stream_end_request.overlapped;
	round_stream->moved_ns = kr_clock_ns();
	start_jobs(round_stream);
}

void kr_round_stream_hop_closed(struct kr_hop *hop)
{
	struct kr_round_stream *round_stream, *after;

	KR_LIST_FOR_EACH_SAFE(round_stream, after, &hop->round_streams, of_hop) {
		if (round_stream->ended)
			leave_hop(round_stream, 0); /* all is here; only the answer is lost */
		else
			break_off(round_stream, "the connection ended");
	}
}

/* Streams of chained rounds (see intake.h).
 *
 * An intake belongs to its file (data.intake) from KR_ROUND_BEGIN until all is written or the round is aborted.  Apply jobs
 * outlive neither: a discarded intake lives until its last job is done.
 */
#include "server/flush/intake.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "server/flush/apply.h"
#include "server/flush/data_priv.h"
#include "server/pipelines/hop.h"

struct kr_intake *kr_intake_new(struct kr_sfile *file, uint64_t round, uint32_t node)
{
	struct kr_intake *intake = kr_xcalloc(1, sizeof *intake);

	intake->file = file;
	intake->round = round;
	intake->node = node;
	intake->moved_ns = kr_clock_ns();
	kr_link_init(&intake->of_hop);
	kr_link_init(&intake->throttled);
	return intake;
}

/* --- back-pressure ------------------------------------------------------------------------------------------------- */

static bool too_much(const struct kr_intake *intake)
{
	return intake->memory > KR_INTAKE_MAX ||
		(intake->memory > KR_INTAKE_SHARE && kr_data_of(intake->file)->intake_bytes > KR_INTAKE_TOTAL);
}

static void resume(struct kr_intake *intake)
{
	kr_list_remove(&intake->throttled);
	if (!intake->paused)
		return;
	intake->paused = false;
	if (intake->hop && intake->hop->conn)
		kr_conn_resume(intake->hop->conn);
}

static void pause_if_too_much(struct kr_intake *intake)
{
	if (intake->paused || !intake->hop || !too_much(intake))
		return;
	intake->paused = true;
	kr_conn_pause(intake->hop->conn);
	kr_list_append(&kr_data_of(intake->file)->throttled, &intake->throttled);
}

static void account(struct kr_intake *intake, size_t taken, size_t freed)
{
	struct kr_data *data = kr_data_of(intake->file);
	struct kr_intake *other, *after;

	intake->memory += taken - freed;
	data->intake_bytes += taken - freed;
	if (!freed)
		return;
	KR_LIST_FOR_EACH_SAFE(other, after, &data->throttled, throttled) {
		if (!too_much(other))
			resume(other);
	}
}

/* --- the end of an intake ------------------------------------------------------------------------------------------ */

/* Answers STREAM, if it has come and is not answered yet, and leaves the connection. */
static void leave_hop(struct kr_intake *intake, int err)
{
	resume(intake);
	if (intake->begun && intake->hop && intake->hop->conn)
		kr_conn_reply(intake->hop->conn, KR_MSG_STREAM, intake->stream, 0, err, NULL, NULL, 0);
	kr_list_remove(&intake->of_hop);
	intake->hop = NULL;
}

static void drop_batch(struct kr_intake *intake)
{
	struct kr_apply *batch = intake->batch;

	intake->batch = NULL;
	if (batch) {
		account(intake, 0, batch->memory);
		kr_apply_free(batch);
	}
}

void kr_intake_free(struct kr_intake *intake)
{
	if (!intake)
		return;
	leave_hop(intake, -ECANCELED);
	drop_batch(intake);
	free(intake);
}

static void drained(struct kr_intake *intake)
{
	struct kr_sfile *file = intake->file;
	uint64_t round = intake->round;

	kr_intake_free(intake);
	kr_flush_drained(file, round);
}

void kr_intake_discard(struct kr_intake *intake)
{
	intake->discarded = true;
	leave_hop(intake, -ECANCELED);
	drop_batch(intake);
	if (intake->jobs == 0)
		drained(intake);
}

/* --- writing ------------------------------------------------------------------------------------------------------- */

static void start_jobs(struct kr_intake *intake);

/* Whether the stream has ended and all of it is written; then the intake is gone. */
static bool complete(struct kr_intake *intake)
{
	struct kr_sfile *file = intake->file;
	uint64_t round = intake->round;

	if (!intake->ended || intake->jobs || intake->batch || intake->failed)
		return false;
	leave_hop(intake, 0);
	kr_data_of(file)->counters.bytes += intake->bytes;
	kr_data_of(file)->counters.extents += intake->extents;
	file->data.intake = NULL;
	kr_intake_free(intake);
	kr_flush_received(file, round);
	return true;
}

static void job_done(struct kr_apply *apply)
{
	struct kr_intake *intake = apply->context;
	struct kr_sfile *file = kr_sfile_ref(intake->file);
	int err = apply->err;

	intake->jobs--;
	intake->moved_ns = kr_clock_ns();
	account(intake, 0, apply->memory);
	if (err == 0 && apply->want_before)
		kr_flush_before(file, &apply->before);
	kr_apply_free(apply);
	if (intake->discarded) {
		if (intake->jobs == 0)
			drained(intake);
	} else if (err) {
		intake->failed = true;
		kr_flush_failed(file, intake->round, err);
	} else {
		start_jobs(intake);
	}
	kr_sfile_put(file);
}

/* Starts the collected batch if it is large enough, or the last, and a job may be started. */
static void start_jobs(struct kr_intake *intake)
{
	struct kr_apply *batch = intake->batch;

	if (intake->failed)
		return;
	if (batch && intake->jobs < KR_INTAKE_JOBS &&
		(intake->ended || batch->bytes >= KR_INTAKE_JOB || batch->count >= KR_APPLY_PIECES)) {
		intake->batch = NULL;
		intake->jobs++;
		kr_apply_start(batch);
	}
	complete(intake);
}

static void collect(struct kr_intake *intake, uint64_t offset, struct kr_buf *buf)
{
	size_t before;

	if (!intake->batch) {
		intake->batch = kr_apply_new(intake->file, intake->round, job_done, intake);
		intake->batch->want_before = intake->extents == 0;
	}
	before = intake->batch->memory;
	kr_apply_add(intake->batch, offset, buf, 0, buf->length);
	account(intake, intake->batch->memory - before, 0);
	intake->extents++;
	intake->bytes += buf->length;
	intake->next = offset + buf->length;
}

/* --- frames -------------------------------------------------------------------------------------------------------- */

/* The stream is not as it must be: the round is run again. */
static void break_off(struct kr_intake *intake, const char *why)
{
	kr_log_warn("flush round %llu: the stream from %s is broken: %s; the round is run again", (unsigned long long)intake->round,
		intake->hop && intake->hop->conn ? kr_conn_peer(intake->hop->conn) : "its last node", why);
	kr_flush_broken(intake->file, intake->round);
}

static struct kr_intake *find_stream(const struct kr_hop *hop, uint64_t stream)
{
	struct kr_intake *intake;

	KR_LIST_FOR_EACH(intake, &hop->intakes, of_hop) {
		if (intake->stream == stream)
			return intake;
	}
	return NULL;
}

void kr_intake_stream(struct kr_hop *hop, const struct kr_frame *frame)
{
	struct kr_arena arena = { 0 };
	union kr_any_msg msg;
	struct kr_sfile *file;
	struct kr_intake *intake;
	int err = kr_msg_decode(KR_MSG_STREAM, false, frame->fields, frame->header.fields_length, &msg, &arena);

	kr_arena_fini(&arena);
	if (err) {
		kr_conn_reply(hop->conn, KR_MSG_STREAM, frame->header.id, 0, -EPROTO, NULL, NULL, 0);
		return;
	}
	file = kr_sfile_find(hop->data->server, &msg.stream_request.file);
	intake = file ? file->data.intake : NULL;
	if (!intake || intake->round != msg.stream_request.round || intake->node != hop->node || intake->begun) {
		/* of a round that has been aborted meanwhile */
		kr_conn_reply(hop->conn, KR_MSG_STREAM, frame->header.id, 0, -ESTALE, NULL, NULL, 0);
		return;
	}
	intake->begun = true;
	intake->hop = hop;
	intake->stream = frame->header.id;
	intake->moved_ns = kr_clock_ns();
	kr_list_append(&hop->intakes, &intake->of_hop);
}

void kr_intake_extent(struct kr_hop *hop, const struct kr_frame *frame)
{
	struct kr_arena arena = { 0 };
	union kr_any_msg msg;
	struct kr_intake *intake;
	struct kr_buf *buf = frame->data;
	int err = kr_msg_decode(KR_MSG_EXTENT, false, frame->fields, frame->header.fields_length, &msg, &arena);

	kr_arena_fini(&arena);
	intake = err ? NULL : find_stream(hop, msg.extent_request.stream);
	if (!intake || intake->ended || intake->failed)
		return; /* the rest of an aborted stream; a malformed one ends in STREAM_END's counts */
	if (!buf || msg.extent_request.offset < intake->next || msg.extent_request.offset > (uint64_t)INT64_MAX - buf->length) {
		break_off(intake, "its extents do not ascend");
		return;
	}
	if (kr_checksum(buf->data, buf->length) != msg.extent_request.checksum) {
		break_off(intake, "a checksum does not match");
		return;
	}
	intake->moved_ns = kr_clock_ns();
	collect(intake, msg.extent_request.offset, buf);
	pause_if_too_much(intake);
	start_jobs(intake);
}

void kr_intake_end(struct kr_hop *hop, const struct kr_frame *frame)
{
	struct kr_arena arena = { 0 };
	union kr_any_msg msg;
	struct kr_intake *intake;
	int err = kr_msg_decode(KR_MSG_STREAM_END, false, frame->fields, frame->header.fields_length, &msg, &arena);

	kr_arena_fini(&arena);
	intake = err ? NULL : find_stream(hop, msg.stream_end_request.stream);
	if (!intake || intake->ended || intake->failed)
		return;
	if (msg.stream_end_request.error) {
		break_off(intake, "a participant could not go on");
		return;
	}
	if (msg.stream_end_request.extents != intake->extents || msg.stream_end_request.bytes != intake->bytes) {
		break_off(intake, "extents are missing");
		return;
	}
	intake->ended = true;
	intake->file->data.round_overlapped = msg.stream_end_request.overlapped;
	intake->moved_ns = kr_clock_ns();
	start_jobs(intake);
}

void kr_intake_hop_closed(struct kr_hop *hop)
{
	struct kr_intake *intake, *after;

	KR_LIST_FOR_EACH_SAFE(intake, after, &hop->intakes, of_hop) {
		if (intake->ended)
			leave_hop(intake, 0); /* all is here; it only cannot be told */
		else
			break_off(intake, "the connection ended");
	}
}

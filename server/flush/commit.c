/* Who is uncommitted: the writers of each file, and what they are told (see commit.h).  syncs.c syncs.
 */
#include "server/flush/commit_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "server/leases/leases.h"
#include "server/session/expiry.h"

/* --- writers ---------------------------------------------------------------------------------- */

struct kr_file_writer *kr_file_writer_find(const struct kr_sfile *file, uint32_t node)
{
	return KR_LIST_FIND(struct kr_file_writer, writer, &kr_commit_of(file)->writers, link, writer->node == node);
}

static struct kr_file_writer *get_writer(struct kr_sfile *file, uint32_t node)
{
	struct kr_file_writer *writer = kr_file_writer_find(file, node);

	if (writer)
		return writer;
	writer = kr_xcalloc(1, sizeof(*writer));
	writer->node = node;
	kr_list_append(&kr_commit_of(file)->writers, &writer->link);
	if (!kr_link_linked(&kr_commit_of(file)->writing))
		kr_list_append(&kr_data_of(file)->writing, &kr_commit_of(file)->writing);
	return writer;
}

static void free_writer(struct kr_sfile *file, struct kr_file_writer *writer)
{
	kr_list_remove(&writer->link);
	if (kr_list_empty(&kr_commit_of(file)->writers))
		kr_list_remove(&kr_commit_of(file)->writing);
	free(writer);
}

/* WRITER has nothing uncommitted any more.  The caller holds FILE. */
void kr_file_writer_committed(struct kr_sfile *file, struct kr_file_writer *writer)
{
	uint32_t node = writer->node;

	free_writer(file, writer);
	kr_leases_committed(file, node, 0);
}

static void add_rounds(struct kr_file_writer *writer, uint64_t first, uint64_t last)
{
	writer->first = writer->first ? KR_MIN(writer->first, first) : first;
	writer->last = KR_MAX(writer->last, last);
}

static void owe(struct kr_sfile *file, struct kr_session *session, struct kr_file_writer *writer, uint64_t seq)
{
	if (!writer->owed)
		writer->owed_ns = kr_clock_ns();
	writer->owed = KR_MAX(writer->owed, seq);
	kr_leases_uncommitted(file, session, 0);
}

/* The server repairs the bytes of FILE that failed syncs may have lost.  No other node gets FILE before. */
static void repair(struct kr_sfile *file, uint64_t first, uint64_t last)
{
	add_rounds(get_writer(file, 0), first, last);
	kr_commit_of(file)->applied = KR_MAX(kr_commit_of(file)->applied, last);
	kr_leases_uncommitted_of_ended(file, 0);
}

/* WRITER owes no bytes any more, though it has not sent them.  The next sync is followed by STABLE for applied ones. */
static void owes_nothing(struct kr_sfile *file, struct kr_file_writer *writer)
{
	if (writer->err && kr_commit_of(file)->failed)
		repair(file, writer->first, writer->last);
	writer->owed = writer->told = 0;
	writer->err = 0;
	if (writer->last)
		kr_syncs_enqueue(file);
	else
		kr_file_writer_committed(file, writer);
}

bool kr_commit_is_writer(const struct kr_sfile *file, const struct kr_session *session)
{
	return kr_file_writer_find(file, session->node) != NULL;
}

int kr_commit_error(const struct kr_sfile *file, const struct kr_session *session)
{
	const struct kr_file_writer *writer = kr_file_writer_find(file, session->node);

	return writer && writer->owed ? writer->err : 0;
}

void kr_commit_owe(struct kr_sfile *file, struct kr_session *session, uint64_t seq)
{
	struct kr_file_writer *writer =
		seq ? get_writer(file, session->node) : kr_file_writer_find(file, session->node);

	if (!writer)
		return;
	if (writer->owed == KR_WRITER_OWES_ALL)
		writer->owed = seq;
	if (seq)
		owe(file, session, writer, seq);
	else if (!writer->owed)
		owes_nothing(file, writer);
}

void kr_commit_refused(struct kr_sfile *file, const struct kr_session *session)
{
	struct kr_file_writer *writer = kr_file_writer_find(file, session->node);

	if (writer && writer->owed && !writer->telling)
		owes_nothing(file, writer);
}

/* The node has the rest of what it owes judged before it sends that, and others do not wait for it: the judgement waits
 * for them. */
static void writer_gave_up(struct kr_sfile *file, struct kr_session *session)
{
	struct kr_file_writer *writer = kr_file_writer_find(file, session->node);

	if (writer && writer->owed)
		owes_nothing(file, writer);
}

/* The nodes free the file's bytes in their journals.  The server does not wait for their answers. */
void kr_commit_gone(struct kr_sfile *file)
{
	struct kr_commit *commit = kr_commit_of(file);
	struct kr_stable_request msg = {.file = file->fid, .round = commit->applied};

	kr_sfile_ref(file);
	while (!kr_list_empty(&commit->writers)) {
		struct kr_file_writer *writer = KR_LIST_ENTRY(commit->writers.head.next, struct kr_file_writer, link);
		struct kr_session *session = kr_session_find_node(file->server, writer->node);

		if (session && writer->last)
			kr_callback_send(session, KR_MSG_STABLE, &msg, NULL, NULL);
		kr_file_writer_committed(file, writer);
	}
	kr_sfile_put(file);
}

uint64_t kr_commit_applied_seq(const struct kr_sfile *file, const uint8_t node_id[16])
{
	return kr_applied_seq(&kr_data_of(file)->applied, &file->fid, node_id);
}

uint64_t kr_commit_reached_seq(const struct kr_sfile *file, const uint8_t node_id[16])
{
	return kr_applied_reached(&kr_data_of(file)->applied, &file->fid, node_id);
}

bool kr_commit_remembers_all(const struct kr_data *data)
{
	return !data->applied.incomplete;
}

/* The writer's bytes belong to ended sessions now: no node will send them again. */
static void pass_to_nobody(struct kr_sfile *file, struct kr_file_writer *writer)
{
	struct kr_file_writer *nobody;

	if (writer->last <= kr_commit_of(file)->good && !kr_commit_of(file)->failed) {
		kr_file_writer_committed(file, writer);
		return;
	}
	nobody = get_writer(file, 0);
	add_rounds(nobody, writer->first, writer->last);
	free_writer(file, writer);
	kr_syncs_enqueue(file);
}

static void writer_ended(struct kr_sfile *file, struct kr_session *session, struct kr_session *successor)
{
	struct kr_file_writer *writer = kr_file_writer_find(file, session->node);

	if (!writer)
		return;
	if (!successor) {
		pass_to_nobody(file, writer);
		return;
	}
	writer->node = successor->node;
	writer->owed = KR_WRITER_OWES_ALL;
	writer->owed_ns = kr_clock_ns();
	writer->told = 0;
}

static void writer_reclaimed(struct kr_sfile *file, struct kr_session *session)
{
	struct kr_file_writer *writer = kr_file_writer_find(file, session->node);

	if (writer && writer->owed == KR_WRITER_OWES_ALL)
		owes_nothing(file, writer);
}

/* --- what nodes are told ---------------------------------------------------------------------- */

/* A STABLE or UNSTABLE on its way to a node. */
struct told {
	struct kr_sfile *file; /* reference */
	uint64_t round;
};

static struct told *told_new(struct kr_sfile *file, uint64_t round)
{
	struct told *told = kr_xcalloc(1, sizeof(*told));

	*told = (struct told){.file = kr_sfile_ref(file), .round = round};
	return told;
}

static void told_free(struct told *told)
{
	kr_sfile_put(told->file);
	free(told);
}

static void stable_answered(struct kr_session *session, void *context, int err, const void *reply)
{
	struct told *told = context;
	struct kr_file_writer *writer = err == -ENOTCONN ? NULL : kr_file_writer_find(told->file, session->node);

	(void)reply;
	if (writer && !writer->owed && writer->last <= told->round) {
		kr_file_writer_committed(told->file, writer);
	} else if (writer && !writer->owed && writer->first <= told->round) {
		writer->first = told->round + 1;
		kr_leases_committed(told->file, writer->node, writer->first);
	}
	told_free(told);
}

void kr_file_writer_tell_stable(struct kr_sfile *file, struct kr_file_writer *writer)
{
	struct kr_stable_request msg = {.file = file->fid, .round = kr_commit_of(file)->good};
	struct kr_session *session = kr_session_find_node(file->server, writer->node);
	struct told *told;

	if (!session || writer->owed || writer->first > msg.round || KR_MIN(msg.round, writer->last) <= writer->told)
		return;
	writer->told = msg.round;
	told = told_new(file, msg.round);
	if (!kr_callback_send(session, KR_MSG_STABLE, &msg, stable_answered, told))
		told_free(told);
}

static void unstable_answered(struct kr_session *session, void *context, int err, const void *reply)
{
	struct told *told = context;
	struct kr_file_writer *writer = kr_file_writer_find(told->file, session->node);

	(void)err, (void)reply;
	if (writer && writer->telling)
		writer->telling--;
	told_free(told);
}

/* The node's rounds after the last good one, up to the last applied, may be lost. */
void kr_file_writer_tell_unstable(struct kr_sfile *file, struct kr_file_writer *writer, int err)
{
	const struct kr_commit *commit = kr_commit_of(file);
	struct kr_unstable_request msg = {
		.file = file->fid, .round = commit->good, .last = commit->applied, .error = kr_status_from_errno(err)};
	struct kr_session *session = kr_session_find_node(file->server, writer->node);
	struct told *told;

	writer->lost = writer->last;
	if (!session)
		return; /* just ending */
	writer->err = err;
	owe(file, session, writer, writer->seq);
	told = told_new(file, msg.last);
	if (kr_callback_send(session, KR_MSG_UNSTABLE, &msg, unstable_answered, told))
		writer->telling++;
	else
		told_free(told);
}

bool kr_file_writers_owe_lost_bytes(const struct kr_sfile *file)
{
	const struct kr_file_writer *writer;

	KR_LIST_FOR_EACH(writer, &kr_commit_of(file)->writers, link) {
		if (writer->owed && writer->err)
			return true;
	}
	return false;
}

/* --- rounds ----------------------------------------------------------------------------------- */

/* Whose the bytes of PART are: its session may have ended during the round. */
static struct kr_session *session_of(const struct kr_sfile *file, const struct kr_flush_part *part)
{
	struct kr_session *session = kr_session_find_node(file->server, part->node), *successor;

	if (session)
		return session;
	successor = kr_session_find_node_id(file->server, part->node_id);
	return successor && successor->recovery.inheriting ? successor : NULL;
}

void kr_commit_applied_in_part(struct kr_sfile *file, uint64_t round)
{
	struct kr_commit *commit = kr_commit_of(file);

	commit->applied = KR_MAX(commit->applied, round);
	commit->full = true;
	add_rounds(get_writer(file, 0), round, round);
	kr_leases_uncommitted_of_ended(file, round);
	kr_syncs_enqueue_later(file);
}

void kr_commit_applied(struct kr_sfile *file, const struct kr_flush_part *part, uint64_t round)
{
	struct kr_commit *commit = kr_commit_of(file);
	struct kr_session *session = session_of(file, part);
	struct kr_file_writer *writer = get_writer(file, session ? session->node : 0);

	commit->applied = KR_MAX(commit->applied, round);
	commit->full = true;
	add_rounds(writer, round, round);
	writer->seq = KR_MAX(writer->seq, part->seq);
	if (!session)
		kr_leases_uncommitted_of_ended(file, round);
	else
		kr_leases_uncommitted(file, session, round);
	if (session && session->node != part->node) {
		if (!writer->owed)
			owe(file, session, writer, KR_WRITER_OWES_ALL); /* until its RECLAIM */
	} else if (session && round <= commit->lost) {
		kr_file_writer_tell_unstable(file, writer, writer->err ? writer->err : -EIO);
	} else if (writer->owed && !writer->telling && part->seq >= writer->owed) {
		/* a FLUSH has all of the node's bytes, those that it had lost included, if it came after UNSTABLE's
		 * answer */
		writer->owed = 0;
		writer->err = 0;
		writer->first = round;
	}
	if (session && !writer->owed)
		kr_applied_note(&kr_data_of(file)->applied, &file->fid, part->node_id, part->seq);
	kr_syncs_enqueue_later(file);
}

void kr_commit_lost_change(struct kr_sfile *file)
{
	repair(file, 1, KR_MAX(kr_commit_of(file)->applied, UINT64_C(1)));
}

/* A session that is alive, and does not send what it owes, while others wait for that. */
void kr_file_writers_end_patience(const struct kr_sfile *file, uint64_t now_ns)
{
	const uint64_t patience_ns = KR_SESSION_CLAIM_LEASES * file->server->lease_ms * KR_NS_PER_MS;
	const struct kr_file_writer *writer;

	if (kr_list_empty(&file->leases.waiting))
		return;
	KR_LIST_FOR_EACH(writer, &kr_commit_of(file)->writers, link) {
		struct kr_session *session = writer->owed ? kr_session_find_node(file->server, writer->node) : NULL;

		if (!session || session->expiry.unresponsive || now_ns < writer->owed_ns + patience_ns ||
			kr_rounds_asked_by(&file->data->rounds, writer->node))
			continue;
		kr_log_warn("node %s does not send again what may be lost of a file", session->name);
		kr_session_silence(session);
	}
}

void kr_commit_file_init(struct kr_sfile *file)
{
	struct kr_commit *commit = kr_commit_of(file);

	kr_list_init(&commit->writers);
	kr_list_init(&commit->waiters);
	kr_link_init(&commit->writing);
	kr_link_init(&commit->queued);
	kr_link_init(&commit->failing);
}

void kr_commit_register(struct kr_data *data)
{
	kr_list_init(&data->writing);
	data->server->files->hooks.writer_ended = writer_ended;
	data->server->files->hooks.writer_reclaimed = writer_reclaimed;
	data->server->files->hooks.writer_gave_up = writer_gave_up;
	data->server->files->hooks.awaited = kr_syncs_hurry;
}

/* See late.h. */
#include "server/recovery/late.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "common/base/fail.h"
#include "common/base/log.h"
#include "server/recovery/conflict_log.h"
#include "server/flush/data.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/recovery/recovery.h"
#include "server/leases/file_table.h"
#include "server/session/session.h"
#include "server/base/state.h"

static bool is_late(const struct kr_request *request)
{
	return request->session->recovery.lapse.kind != KR_LAPSE_NONE;
}

/* Whether the bytes not flushed were refused, and a lease was given back while the node had them: as the node says, or
 * as is known here, since *RET_EPOCH (0: not known). */
static bool is_uncovered(const struct kr_request *request, uint64_t *ret_epoch)
{
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;
	const struct kr_sfile *file = kr_sfile_find(request->server, &msg->file);
	const struct kr_attachment *attachment = file ? kr_attachment_find(file, request->session) : NULL;

	*ret_epoch = attachment ? attachment->cover.lost : 0;
	return msg->last && (*ret_epoch || (msg->kinds & KR_RECLAIM_UNCOVERED));
}

static bool has_late_bytes(const struct kr_request *request)
{
	uint64_t epoch;

	return request->msg.reclaim_request.last && (is_late(request) || is_uncovered(request, &epoch));
}

bool kr_late_claims_valid(const struct kr_reclaim_request *msg)
{
	return msg->first <= msg->last && msg->last <= INT64_MAX && msg->replay_first <= msg->replay_last &&
		msg->replay_last <= INT64_MAX && msg->oldest <= msg->newest;
}

/* Replays of this session were refused while they were collected, since later ones of others were there. */
static bool is_overtaken(const struct kr_request *request)
{
	const struct kr_sfile *file = kr_sfile_find(request->server, &request->msg.reclaim_request.file);
	const struct kr_attachment *attachment = file ? kr_attachment_find(file, request->session) : NULL;

	return attachment && attachment->overtaken;
}

/* Replays of awaited nodes that are collected go in by the order of rounds. What comes later comes after what others
 * have written since. */
static bool comes_after_the_others(const struct kr_request *request)
{
	return is_late(request) || !kr_data_collecting(request->server->data) || is_overtaken(request);
}

bool kr_late_has_replays(const struct kr_request *request)
{
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;

	if (!msg->replay_last)
		return false;
	switch (kr_data_judge_replays(request->server->data, request->session->node_id, msg)) {
	case KR_SYNCED_ALL:
		return false;
	case KR_SYNCED_NOT:
		return comes_after_the_others(request);
	case KR_SYNCED_OVERTAKEN:
		break;
	}
	return true;
}

/* Collected replays are going in, and nobody can tell what they will change; or these are in, and the grace period is
 * about to be over: who waits for that holds up nobody. */
static bool grace_is_ending(const struct kr_server *server)
{
	return kr_data_replaying(server->data) || server->sessions->forgetting;
}

bool kr_late_must_wait(const struct kr_request *request)
{
	const struct kr_server *server = request->server;

	return server->sessions->grace.active &&
		(is_late(request) || has_late_bytes(request) ||
			(grace_is_ending(server) && kr_late_has_replays(request)));
}

bool kr_late_has_bytes(const struct kr_request *request)
{
	/* In the grace period others are not asked for what they have reclaimed: they may be waiting for its end. */
	return has_late_bytes(request) ||
		((is_late(request) || !request->server->sessions->grace.active) && kr_late_has_replays(request));
}

/* Whether any bytes from FIRST to LAST (0: none) of the node have been declared to be in conflict with the file. */
static bool is_declared(const struct kr_request *request, uint64_t first, uint64_t last)
{
	return last &&
		kr_conflicts_find(&request->server->recovery->conflicts, request->session->node_id,
			&request->msg.reclaim_request.file, first, last);
}

/* --- the judgement ---------------------------------------------------------------------------- */

/* It is behind still: what was changed after SINCE, which has been, can have an earlier time. (The node's notion of our
 * clock errs by less than 1 s.) */
static bool clock_was_set_back(struct kr_time since)
{
	return since.sec > (int64_t)(kr_clock_real_ns() / KR_NS_PER_S) + 1;
}

/* Of replays that are not synced, and were refused in their turn, at this instance since it collects them: all that
 * others have changed. */
static bool refused_here(const struct kr_request *request)
{
	const struct kr_server *server = request->server;
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;

	return !is_late(request) && kr_state_facts(server->state)->new_boot && !kr_data_collecting(server->data) &&
		msg->replay_last &&
		kr_data_judge_replays(server->data, request->session->node_id, msg) == KR_SYNCED_NOT;
}

/* ... than the replays of this RECLAIM, which may be missing: that can have happened in any boot since, whatever is
 * known of this one. */
static bool later_ones_are_synced(const struct kr_request *request)
{
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;

	return msg->replay_last &&
		kr_data_judge_replays(request->server->data, request->session->node_id, msg) == KR_SYNCED_OVERTAKEN;
}

/* A moment before TIME, as the node has said it: its notion of our clock errs by less than 1 s, and files' times tick,
 * so they are up to 10 ms behind. */
static struct kr_time safely(struct kr_time time)
{
	time.sec -= time.sec > INT64_MIN;
	return time;
}

/* Of a journal that may be a copy: whatever this instance knows of the node's end, a former one may have applied these
 * bytes, and others covered them. What was written after our start was unflushed then, and what became of it since is
 * known here. */
static bool is_of_before(const struct kr_request *request)
{
	const struct kr_time since = request->msg.reclaim_request.since, started = request->server->recovery->started;

	return request->session->recovery.replay &&
		(kr_time_compare(safely(since), started) <= 0 ||
			kr_setbacks_doubt(&request->server->recovery->setbacks, started, since));
}

/* Whether the times tell that others may have changed the file, which has CTIME.  They could at once, when the node
 * gave a lease back, or had flushed.  But a lost node has had a good lease then: it serves for three quarters of the
 * lease time (fence.h), and others get the file after all of it.  That is a quarter of a second later at least, and
 * five seconds by default. */
static bool is_changed_since(const struct kr_request *request, struct kr_time ctime)
{
	const struct kr_time since = request->msg.reclaim_request.since;
	uint64_t epoch;
	bool at_once = is_uncovered(request, &epoch) || is_of_before(request);

	return kr_time_compare(ctime, at_once ? safely(since) : since) > 0 || clock_was_set_back(since) ||
		kr_setbacks_doubt(&request->server->recovery->setbacks, ctime, since);
}

/* Since when others' changes count. *RET_EXACT: the file has not left the table since. */
static struct kr_lapse lapse_of(const struct kr_request *request, bool *ret_exact)
{
	static const struct kr_lapse since_start = {.kind = KR_LAPSE_KNOWN}, unknown = {.kind = KR_LAPSE_UNKNOWN};
	uint64_t epoch;
	bool uncovered = is_uncovered(request, &epoch);

	*ret_exact = false;
	if (later_ones_are_synced(request))
		return unknown;
	if (refused_here(request))
		return since_start;
	if (uncovered && epoch) {
		*ret_exact = true;
		return (struct kr_lapse){.kind = KR_LAPSE_KNOWN, .epoch = epoch};
	}
	if ((uncovered && !is_late(request)) || is_of_before(request))
		return unknown;
	return request->session->recovery.lapse;
}

/* They may have been applied before the lapse, and covered since: then they are of a copy of the journal. */
static bool may_be_applied(const struct kr_request *request)
{
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;
	const uint64_t first =
		msg->replay_first && (!msg->first || msg->replay_first < msg->first) ? msg->replay_first : msg->first;

	return request->session->recovery.replay &&
		kr_data_forgotten(request->server->data, &msg->file, request->session->node_id) >= first;
}

/* Replays of a former boot that are not known to be there, when those that this instance, or a former one of this boot,
 * has collected have gone in: whoever is late, and whatever has been synced since. */
static bool is_out_of_turn(const struct kr_request *request)
{
	const struct kr_server *server = request->server;
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;

	if (!kr_state_facts(server->state)->new_boot &&
		!kr_data_replayed_others(server->data, &msg->file, request->session->node_id))
		return false; /* nobody has had a turn */
	return (!kr_data_collecting(server->data) || is_overtaken(request)) && msg->replay_last &&
		kr_data_judge_replays(server->data, request->session->node_id, msg) != KR_SYNCED_ALL;
}

/* Since the machine's boot, by what has gone in out of this node's turn: as this instance knows, or a former one has
 * written down. */
static bool changed_in_boot(const struct kr_request *request, uint64_t changed)
{
	return changed ||
		kr_data_replayed_others(
			request->server->data, &request->msg.reclaim_request.file, request->session->node_id);
}

/* Others' leases are given up, so what they wrote has been applied. */
static bool touched(const struct kr_request *request, const struct kr_sfile *file, const struct kr_attr *attr)
{
	bool exact;
	const struct kr_lapse lapse = lapse_of(request, &exact);
	struct kr_time ctime = attr->ctime;
	uint64_t changed = file->changed_epoch, epoch;
	/* Perhaps before anything that is known here. */
	bool uncovered_before = is_uncovered(request, &epoch) && !epoch;

	if (changed && changed == file->own_epoch && memcmp(file->own_node, request->session->node_id, 16) == 0) {
		changed = file->own_base;
		ctime = may_be_applied(request) ? ctime : file->own_ctime;
	}
	if (file->changing > 0 || (is_out_of_turn(request) && changed_in_boot(request, changed)))
		return true;
	/* Made for these bytes, and as it was made: the node was killed before its own were in it. (Times tick.) */
	if (!changed && attr->size == 0 &&
		kr_conflicts_is_new(
			&file->server->recovery->conflicts, request->session->node_id, &file->fid, attr->ctime))
		return false;
	if (lapse.kind == KR_LAPSE_KNOWN && changed > lapse.epoch)
		return true;
	if (lapse.kind == KR_LAPSE_KNOWN && (exact || file->server->files->forgotten_epoch <= lapse.epoch) &&
		!may_be_applied(request) && !uncovered_before &&
		!(file->server->files->forgotten_epoch && is_out_of_turn(request)))
		return false;
	return is_changed_since(request, ctime);
}

bool kr_late_contested(const struct kr_request *request, const struct kr_sfile *file)
{
	const struct kr_attachment *other;
	const struct kr_late_claim *claim;

	if (!kr_late_has_bytes(request))
		return false;
	/* Who has reclaimed all can wait: nobody waits for it but for what it has leases of. */
	if (!request->session->recovery.reclaiming && !request->msg.reclaim_request.replay_last)
		return false;
	KR_LIST_FOR_EACH(claim, &file->late, link) {
		if (memcmp(claim->session->node_id, request->session->node_id, 16) != 0)
			return true;
	}
	KR_LIST_FOR_EACH(other, &file->attachments, of_file) {
		if (other->session == request->session)
			continue;
		if (!is_late(request) && other->replays)
			return true; /* refused as well, judged before, and still on its way perhaps */
		if (other->session->recovery.reclaiming &&
			(kr_lease_table_held(&file->leases, other->session->node) & KR_LEASE_WRITE))
			return true;
	}
	return false;
}

void kr_late_claim_begin(struct kr_late_claim *claim, const struct kr_request *request, struct kr_sfile *file)
{
	claim->session = request->session;
	kr_list_append(&file->late, &claim->link);
}

void kr_late_claim_end(struct kr_late_claim *claim)
{
	if (claim->session)
		kr_list_remove(&claim->link);
	claim->session = NULL;
}

uint8_t kr_late_conflict(
	struct kr_request *request, const struct kr_sfile *file, const struct kr_attr *attr, bool contested)
{
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;
	/* This machine has lost its power, and perhaps the file with it, which nobody had removed: its bytes are in
	 * journals alone. */
	bool undone = !attr && kr_data_collecting(request->server->data);
	bool dirty = has_late_bytes(request) || (msg->last && undone);
	bool replays = msg->replay_last && (undone || kr_late_has_replays(request));
	/* A file whose last name was removed is gone for everybody who did not have it open all the time. */
	bool lost = (dirty || replays) && (contested || !attr || attr->nlink == 0 || touched(request, file, attr));
	uint8_t parts = 0;

	/* Told before, and not all of it is away: whatever has happened to this server since. */
	if ((dirty && lost) || is_declared(request, msg->first, msg->last))
		parts |= KR_CONFLICT_DIRTY;
	if ((replays && lost) || is_declared(request, msg->replay_first, msg->replay_last))
		parts |= KR_CONFLICT_REPLAYS;
	return parts;
}

struct declaration {
	struct kr_job job;
	struct kr_request *request;
	struct kr_conflict *conflict;
	void (*done)(struct kr_request *request);
	int err;
};

static void run_declaration(struct kr_job *job)
{
	struct declaration *declaration = KR_CONTAINER_OF(job, struct declaration, job);

	declaration->err = KR_FAULT("conflict.declare");
	if (!declaration->err)
		declaration->err = kr_conflicts_log(&job->server->recovery->conflicts, declaration->conflict);
	if (declaration->err)
		kr_log_error("%s", kr_fail_reason());
}

static void declared(struct kr_job *job)
{
	struct declaration *declaration = KR_CONTAINER_OF(job, struct declaration, job);
	struct kr_request *request = declaration->request;
	void (*done)(struct kr_request *) = declaration->done;

	(void)KR_FAULT("conflict.declared");
	if (declaration->err) { /* who is told so, and forgotten, might flush at the next server */
		request->err = -EIO;
		request->session->recovery.unjudged = true;
		kr_conflict_free(declaration->conflict);
	} else {
		kr_conflicts_put(&job->server->recovery->conflicts, declaration->conflict);
	}
	free(declaration);
	done(request);
}

void kr_late_declare(struct kr_request *request, const struct kr_sfile *file, uint8_t parts, uint64_t ino,
	void (*done)(struct kr_request *request))
{
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;
	uint64_t first = parts & KR_CONFLICT_REPLAYS ? msg->replay_first : msg->first;
	uint64_t last = parts & KR_CONFLICT_DIRTY ? msg->last : msg->replay_last;
	const struct kr_session *session = request->session;
	struct kr_conflicts *conflicts = &request->server->recovery->conflicts;
	const struct kr_conflict *old = kr_conflicts_present(conflicts, session->node_id, &file->fid, first);
	struct declaration *declaration;

	if (old && first >= old->first && last <= old->last) {
		done(request);
		return;
	}
	kr_log_warn("node %s comes back late with unflushed bytes of file %llu, which others have %s since: "
		    "they go to a conflict "
		    "file",
		session->name, (unsigned long long)ino, request->err ? "removed" : "changed");
	declaration = kr_xcalloc(1, sizeof(*declaration));
	declaration->request = request;
	declaration->done = done;
	if (old) {
		declaration->conflict = kr_conflict_copy(old);
		declaration->conflict->first = KR_MIN(first, old->first);
		declaration->conflict->last = KR_MAX(last, old->last);
	} else {
		declaration->conflict = kr_conflict_new(session->node_id,
			session->trust.key ? &session->trust.key->owner : NULL, session->name, &file->fid, first, last);
	}
	kr_job_start(request->server, &declaration->job, run_declaration, declared);
}

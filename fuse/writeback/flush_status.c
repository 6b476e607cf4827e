/* What is not yet safe, for the log, status, drain and waiting writers.  Loop thread. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/hex.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "fuse/writeback/flush_priv.h"
#include "fuse/session/fence.h"
#include "fuse/base/options.h"

/* --- the log says what has waited for too long ------------------------------------------------- */

/* A file's bytes are late after so many times flush_age, but not before LATE_MS; an answer after so many lease times.
 */
enum { LATE_AGES = 4, LATE_MS = 10000, LATE_LEASES = 2 };

/* Since when there have been unflushed bytes without a flush in between; 0: there are none. */
static uint64_t flush_dirty_since(struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->lock);
	return kr_extent_map_empty(&file->dirty) ? 0 : file->flush->dirty_since_ns;
}

/* Whether that is longer than it should be. */
static bool flush_is_late(const struct kr_file *file, uint64_t since_ns, uint64_t now_ns)
{
	uint64_t late_ms = KR_MAX(LATE_AGES * file->mount->options->flush_age, (uint64_t)LATE_MS);

	return since_ns && since_ns + late_ms * KR_NS_PER_MS < now_ns;
}

/* Without a server that could take them. */
static const char *why_nobody(const struct kr_file *file)
{
	if (!kr_rpc_connected(file->mount->rpc))
		return "there is no connection to the server";
	if (kr_flusher_of(file)->recovering)
		return "the session is being recovered";
	return kr_mount_fenced(file->mount) ? "the server is silent" : NULL;
}

static const char *why_lease(struct kr_file *file)
{
	const struct kr_lease_state *holder = &file->holder;

	KR_SCOPED_LOCK(&file->lock);
	if (kr_lease_state_may_flush(holder))
		return NULL;
	return holder->asked ? "the server has not granted the lease yet" : "the lease is being given up";
}

/* Why the file's bytes are still here. KNOWN: the log says so elsewhere. */
static const char *flush_why(struct kr_file *file, bool *ret_known)
{
	const struct kr_flush *flush = file->flush;
	const char *why;

	*ret_known = true;
	if (flush->late)
		return "they go to a conflict file";
	if (flush->plan.refused)
		return strerror(-flush->plan.refused);
	why = why_nobody(file);
	if (why)
		return why;
	if (flush->send)
		return "the server has not answered the flush yet";
	why = why_lease(file);
	*ret_known = why && file->holder.asked; /* kr_rpc_watch */
	if (why)
		return why;
	return flush->plan.passing ? "the server says to try again" : "the flush is not due yet";
}

void kr_flush_watch(struct kr_file *file, uint64_t now_ns)
{
	struct kr_flush *flush = file->flush;
	uint64_t since_ns = flush_dirty_since(file);
	struct kr_file_label label;
	const char *why;
	bool known;

	if (flush->said_ns && since_ns != flush->said_ns) {
		kr_log_info("%s: its bytes go to the server again, after %" PRIu64 " s", kr_file_label(file, &label),
			(now_ns - flush->said_ns) / KR_NS_PER_S);
		flush->said_ns = 0;
	}
	if (flush->said_ns || !flush_is_late(file, since_ns, now_ns))
		return;
	why = flush_why(file, &known);
	if (known)
		return;
	kr_log_warn("%s: unflushed for %" PRIu64 " s: %s", kr_file_label(file, &label),
		(now_ns - since_ns) / KR_NS_PER_S, why);
	flush->said_ns = since_ns;
}

static bool say(void *context, uint16_t type, const struct kr_fid *fid, uint64_t waited_ns, bool answered)
{
	struct kr_flusher *flusher = context;
	struct kr_file *file = kr_file_find(flusher->mount, fid);
	struct kr_file_label label = {"a file"};
	/* A chain takes the longer, the more bytes it has: the server ends a chain in which nothing moves. */
	bool streaming = file && type == KR_MSG_FLUSH && file->flush->send && file->flush->send->chain;

	if (file)
		kr_file_label(file, &label);
	if (answered)
		kr_log_info("%s: the server has answered %s after %" PRIu64 " s", label.text, kr_msg_name(type),
			waited_ns / KR_NS_PER_S);
	else if (!streaming)
		kr_log_warn("%s: the server has not answered %s for %" PRIu64 " s", label.text, kr_msg_name(type),
			waited_ns / KR_NS_PER_S);
	kr_file_put(file);
	return !streaming;
}

void kr_flush_watch_calls(struct kr_flusher *flusher)
{
	const struct kr_session_facts *facts = kr_session_facts(flusher->mount->session);

	kr_rpc_watch(flusher->mount->rpc, LATE_LEASES * facts->lease_ms * KR_NS_PER_MS, say, flusher);
}

/* --- status -------------------------------------------------------------------------------------- */

/* One file's share. */
struct share {
	uint64_t dirty, unstable;
	uint64_t sent;     /* of the dirty ones: by the flush under way */
	uint64_t since_ns; /* as kr_flusher_left.oldest_ns */
	const char *state;
	int error;
};

static uint64_t sent_by(const struct kr_flush_send *send)
{
	if (send->chain)
		return kr_chain_sent(send->chain);
	return send->round ? send->extents.bytes : 0;
}

static void look_at(struct kr_file *file, struct share *ret)
{
	const struct kr_flush *flush = file->flush;
	struct kr_applied *applied;
	uint64_t moved;

	*ret = (struct share){.error = flush->plan.refused};
	pthread_mutex_lock(&file->lock);
	ret->dirty = file->dirty.bytes;
	ret->since_ns = ret->dirty ? flush->dirty_since_ns : 0;
	pthread_mutex_unlock(&file->lock);
	ret->sent = flush->send ? KR_MIN(sent_by(flush->send), ret->dirty) : 0;
	KR_LIST_FOR_EACH(applied, &flush->applied, link)
		ret->unstable += applied->extents.bytes;
	if (flush->late) {
		ret->dirty += kr_late_bytes(flush->late, &moved, &ret->error);
		ret->unstable += moved;
	}
	if (flush->late)
		ret->state = "conflict";
	else if (flush->orphaned)
		ret->state = flush->unjudged ? "refused" : "orphaned";
	else if (ret->dirty && ret->error)
		ret->state = "refused";
	else if (flush->send)
		ret->state = "flushing";
	else
		ret->state = ret->dirty ? "dirty" : "unstable";
}

static struct kr_file *file_at(struct kr_link *link)
{
	return KR_CONTAINER_OF(link, struct kr_flush, busy)->file;
}

/* A start found that the bytes were refused, and the server has not been asked yet: it may have room now. */
static bool awaits_judgement(const struct kr_file *file)
{
	return file->flush->unjudged && !file->flush->judge_ns;
}

void kr_flusher_left(struct kr_flusher *flusher, struct kr_flusher_left *ret_left)
{
	*ret_left = (struct kr_flusher_left){.damages = flusher->damages, .conflict_files = flusher->conflict_files};
	for (struct kr_link *link = flusher->busy.head.next; link != &flusher->busy.head; link = link->next) {
		const struct kr_flush *flush = file_at(link)->flush;
		struct share share;

		look_at(file_at(link), &share);
		ret_left->files++;
		if (share.since_ns && (!ret_left->oldest_ns || share.since_ns < ret_left->oldest_ns))
			ret_left->oldest_ns = share.since_ns;
		ret_left->dirty += share.dirty;
		if (flush->orphaned && !flush->unjudged) { /* its unstable bytes will not become stable either */
			ret_left->orphaned_files++;
			ret_left->orphaned += share.dirty;
			continue;
		}
		ret_left->unstable += share.unstable;
		if (share.dirty && share.error && !awaits_judgement(file_at(link))) {
			ret_left->refused_files++;
			ret_left->refused += share.dirty;
		}
	}
}

/* The refused bytes that fill the journal. */
struct stuck {
	struct kr_file *most; /* the file with most of them */
	uint64_t most_bytes;
	int err; /* why the server refuses that file's */
	uint32_t files;
};

/* 0: something may still come free, or there is nothing. */
static int why_refused(struct kr_file *file, uint64_t *ret_bytes)
{
	struct share share;

	look_at(file, &share);
	*ret_bytes = share.dirty;
	if (file->flush->orphaned)
		return file->flush->unjudged && share.error ? share.error : -EIO;
	return share.unstable || file->flush->send ? 0 : share.error;
}

static bool is_stuck(struct kr_flusher *flusher, struct stuck *ret)
{
	*ret = (struct stuck){0};
	for (struct kr_link *link = flusher->busy.head.next; link != &flusher->busy.head; link = link->next) {
		uint64_t bytes;
		int err = why_refused(file_at(link), &bytes);

		if (!err)
			return false;
		ret->files++;
		if (ret->most && bytes <= ret->most_bytes)
			continue;
		ret->most = file_at(link);
		ret->most_bytes = bytes;
		ret->err = err;
	}
	return ret->files > 0;
}

static void say_stuck(struct kr_flusher *flusher, const struct stuck *stuck)
{
	uint64_t now_ns = kr_clock_ns();
	struct kr_file_label label;

	if (flusher->stuck_said_ns && now_ns - flusher->stuck_said_ns < KR_FLUSH_STUCK_S * KR_NS_PER_S)
		return;
	flusher->stuck_said_ns = now_ns;
	kr_log_warn("the journal is full, and the server refuses all that is in it: %" PRIu64
		    " bytes of %s (%s) and those of %" PRIu32
		    " other files. Writes to files that have none there fail for want of room, until it takes them, or "
		    "`kairan flush --discard` lets them go",
		stuck->most_bytes, kr_file_label(stuck->most, &label), strerror(-stuck->err), stuck->files - 1);
}

int kr_flusher_hopeless(struct kr_flusher *flusher, struct kr_file *file)
{
	struct stuck stuck;
	uint64_t bytes;

	if (!is_stuck(flusher, &stuck))
		return 0;
	if (kr_link_linked(&file->flush->busy))
		return why_refused(file, &bytes);
	say_stuck(flusher, &stuck);
	return -ENOSPC;
}

void kr_flusher_discard_damage(struct kr_flusher *flusher)
{
	kr_journal_damage_free(&flusher->damage);
	flusher->damages = 0;
	kr_journal_discard_damage(flusher->mount->journal);
}

/* A hint is only a hint. */
static json_t *hint_of(const struct kr_file *file)
{
	return kr_text_json(file->journal_file && file->journal_file->hint ? file->journal_file->hint : "");
}

/* The last write that is not known to be on the server's disk; and the seq up to which all writes are. */
static void take_writes(struct kr_file *file, uint64_t *ret_written, uint64_t *ret_safe)
{
	const struct kr_flush *flush = file->flush;
	const uint64_t oldest = kr_flush_oldest(file);

	KR_SCOPED_LOCK(&file->lock);
	*ret_written = file->written_seq;
	if (kr_extent_map_empty(&file->dirty) && !kr_list_empty(&flush->applied))
		*ret_written = KR_LIST_ENTRY(flush->applied.head.prev, struct kr_applied, link)->up_to;
	*ret_safe = flush->late || flush->orphaned ? 0 : KR_MIN(oldest - 1, file->written_seq);
}

static json_t *file_status(struct kr_file *file)
{
	char fid[2 * KR_FID_MAX + 1];
	uint64_t since_ns = flush_dirty_since(file), now_ns = kr_clock_ns(), written, safe;
	struct share share;
	bool known;

	look_at(file, &share);
	take_writes(file, &written, &safe);
	kr_hex_format(file->fid.bytes, file->fid.length, fid);
	return json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:b, s:s, s:I, s:I}", "path", hint_of(file),
		"fid", fid, "ino", (json_int_t)file->base.ino, "dirty", (json_int_t)share.dirty, "sent",
		(json_int_t)share.sent, "unstable", (json_int_t)share.unstable, "state", share.state, "error",
		share.error ? strerror(-share.error) : "", "unflushed_ms",
		(json_int_t)(since_ns ? (now_ns - since_ns) / KR_NS_PER_MS : 0), "late",
		flush_is_late(file, since_ns, now_ns), "why", since_ns ? flush_why(file, &known) : "", "written",
		(json_int_t)written, "safe", (json_int_t)safe);
}

json_t *kr_flusher_journal_status(struct kr_flusher *flusher)
{
	struct kr_journal_usage usage;
	struct kr_file_label label;
	struct stuck stuck;
	bool is_full;

	kr_journal_usage(flusher->mount->journal, &usage);
	is_full = usage.waiting && is_stuck(flusher, &stuck);
	return json_pack("{s:I, s:I, s:I, s:I, s:i, s:b, s:o, s:s, s:I}", "live", (json_int_t)usage.live, "used",
		(json_int_t)usage.used, "set_aside", (json_int_t)usage.set_aside, "max", (json_int_t)usage.max,
		"segments", (int)usage.segments, "waiting", usage.waiting, "refused",
		kr_text_json(is_full ? kr_file_label(stuck.most, &label) : ""), "error",
		usage.error ? strerror(-usage.error) : "", "slow_ms",
		(json_int_t)kr_uncovered_slow_ms(flusher->uncovered));
}

json_t *kr_flusher_status(struct kr_flusher *flusher)
{
	json_t *files = json_array(), *damage = json_array();
	const struct kr_journal_damage *item;

	for (struct kr_link *link = flusher->busy.head.next; link != &flusher->busy.head; link = link->next)
		json_array_append_new(files, file_status(file_at(link)));
	KR_LIST_FOR_EACH(item, &flusher->damage, link)
		json_array_append_new(damage, kr_text_json(item->text));
	return json_pack("{s:o, s:o, s:O, s:I, s:o}", "files", files, "damage", damage, "conflicts", flusher->conflicts,
		"conflict_files", (json_int_t)flusher->conflict_files, "journal", kr_flusher_journal_status(flusher));
}

static bool belongs_to(struct kr_file *file, uint32_t uid)
{
	KR_SCOPED_LOCK(&file->lock);
	return file->base.ino && file->base.uid == uid;
}

json_t *kr_flusher_files_of(struct kr_flusher *flusher, uint32_t uid)
{
	json_t *files = json_array();

	for (struct kr_link *link = flusher->busy.head.next; link != &flusher->busy.head; link = link->next) {
		if (json_array_size(files) == KR_FLUSH_SHOWN_MAX)
			break;
		if (belongs_to(file_at(link), uid))
			json_array_append_new(files, file_status(file_at(link)));
	}
	return files;
}

uint64_t kr_flush_unflushed(struct kr_file *file)
{
	struct share share;

	look_at(file, &share);
	return share.dirty + share.unstable;
}

struct kr_file *kr_flusher_find(struct kr_flusher *flusher, const char *path)
{
	for (struct kr_link *link = flusher->busy.head.next; link != &flusher->busy.head; link = link->next) {
		struct kr_file *file = file_at(link);
		char fid[2 * KR_FID_MAX + 1];

		kr_hex_format(file->fid.bytes, file->fid.length, fid);
		if (strcmp(fid, path) == 0)
			return file;
		if (file->journal_file && file->journal_file->hint && strcmp(file->journal_file->hint, path) == 0)
			return file;
	}
	return NULL;
}

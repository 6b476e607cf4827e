/* The memory of replayed rounds: see replayed.h. */
#include "server/flush/replayed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "server/base/line_log.h"
#include "server/base/server.h"

enum { LOG_MAX = 2 * (KR_REPLAYED_LOG + KR_APPLIED_MAX) * KR_LINE_MAX };

static const char log_name[] = "replayed";

struct note {
	struct kr_link link;
	struct kr_fid file;
	uint8_t node_id[16];
	struct kr_applied_replay replay; /* round 0: lost */
	void (*done)(void *context, int err);
	void *context;
};

/* --- what former processes have applied ------------------------------------------------------- */

/* A file. */
struct former {
	struct kr_table_link link;
	struct kr_fid file;
	uint8_t node_id[16];
	uint64_t order, others; /* the highest, which is of NODE_ID, and the highest of the others */
};

static bool is_of_file(const struct kr_table_link *link, const void *file)
{
	return kr_fid_equal(&KR_CONTAINER_OF(link, const struct former, link)->file, file);
}

static struct former *find_former(const struct kr_replayed *replayed, const struct kr_fid *file)
{
	struct kr_table_link *link = kr_table_find(&replayed->former, kr_fid_hash(file), is_of_file, file);

	return link ? KR_CONTAINER_OF(link, struct former, link) : NULL;
}

static void note_former_entry(struct kr_replayed *replayed, const struct kr_applied_entry *entry)
{
	struct former *former = find_former(replayed, &entry->file);

	if (!former) {
		former = kr_xcalloc(1, sizeof(*former));
		former->file = entry->file;
		kr_table_insert(&replayed->former, &former->link, kr_fid_hash(&entry->file));
	}
	if (entry->order <= former->order) {
		former->others = KR_MAX(former->others, entry->order);
		return;
	}
	former->others = former->order;
	former->order = entry->order;
	memcpy(former->node_id, entry->node_id, 16);
}

/* Of each file and node there is one entry. */
static void note_former(struct kr_replayed *replayed)
{
	const struct kr_applied_entry *entry;

	KR_LIST_FOR_EACH(entry, &replayed->applied->uses, use) {
		if (entry->replayed && !entry->lossy)
			note_former_entry(replayed, entry);
	}
}

static bool free_former(struct kr_table_link *link, void *context)
{
	struct kr_replayed *replayed = context;

	kr_table_remove(&replayed->former, link);
	free(KR_CONTAINER_OF(link, struct former, link));
	return true;
}

uint64_t kr_replayed_others(const struct kr_replayed *replayed, const struct kr_fid *file, const uint8_t node_id[16])
{
	const struct former *former = find_former(replayed, file);

	if (!former)
		return 0;
	return memcmp(former->node_id, node_id, 16) == 0 ? former->others : former->order;
}

/* --- the log ---------------------------------------------------------------------------------- */

static void add_entry(struct kr_line_log *text, const struct kr_fid *file, const uint8_t node_id[16],
	const struct kr_applied_replay *replay)
{
	char line[KR_LINE_MAX], fid[2 * KR_FID_MAX + 1], node[33];

	kr_hex_format(file->bytes, file->length, fid);
	kr_hex_format(node_id, 16, node);
	snprintf(line, sizeof(line), "node %s %s %" PRIu64 " %" PRIu64 " %" PRIu64, node, fid, replay->seq,
		replay->round, replay->order);
	kr_line_log_add(text, line);
}

static void add_lost(struct kr_line_log *text, const struct kr_fid *file)
{
	char line[KR_LINE_MAX], fid[2 * KR_FID_MAX + 1];

	kr_hex_format(file->bytes, file->length, fid);
	snprintf(line, sizeof(line), "lost %s", fid);
	kr_line_log_add(text, line);
}

/* All that counts. */
static uint64_t add_all(struct kr_line_log *text, const struct kr_replayed *replayed)
{
	char line[KR_LINE_MAX], hex[33];
	const struct kr_applied_entry *entry;
	uint64_t lines = 0;

	kr_hex_format(replayed->boot_id, 16, hex);
	snprintf(line, sizeof(line), "boot %s", hex);
	kr_line_log_add(text, line);
	KR_LIST_FOR_EACH(entry, &replayed->applied->uses, use) {
		struct kr_applied_replay replay = {.seq = entry->seq, .round = entry->round, .order = entry->order};

		if (!entry->replayed || entry->lossy)
			continue;
		add_entry(text, &entry->file, entry->node_id, &replay);
		lines++;
	}
	return lines;
}

static bool read_fid(const char *hex, struct kr_fid *ret_file)
{
	ret_file->length = (uint8_t)kr_hex_parse(hex, ret_file->bytes, KR_FID_MAX);
	return ret_file->length != 0;
}

struct reading {
	struct kr_replayed *replayed;
	bool begun, of_this_boot;
};

/* The first line tells of which boot all are. */
static void read_line(void *context, char *line)
{
	struct reading *reading = context;
	struct kr_replayed *replayed = reading->replayed;
	char node[33], fid[2 * KR_FID_MAX + 1];
	struct kr_applied_replay replay = {0};
	uint8_t node_id[16];
	struct kr_fid file;

	if (!reading->begun) {
		reading->begun = true;
		kr_hex_format(replayed->boot_id, 16, node);
		reading->of_this_boot = strncmp(line, "boot ", 5) == 0 && strcmp(line + 5, node) == 0;
	} else if (!reading->of_this_boot) {
		return;
	} else if (sscanf(line, "node %32s %304s %" SCNu64 " %" SCNu64 " %" SCNu64, node, fid, &replay.seq,
			   &replay.round, &replay.order) >= 4) {
		if (kr_hex_parse(node, node_id, 16) == 16 && read_fid(fid, &file))
			kr_applied_note_replayed(replayed->applied, &file, node_id, &replay);
	} else if (sscanf(line, "lost %304s", fid) == 1 && read_fid(fid, &file)) {
		kr_applied_lose(replayed->applied, &file);
	}
}

static int open_log(struct kr_replayed *replayed)
{
	if (replayed->fd >= 0)
		close(replayed->fd);
	replayed->fd = openat(replayed->dir, log_name, O_WRONLY | O_APPEND | O_CLOEXEC);
	return replayed->fd < 0 ? -errno : 0;
}

static int write_whole(struct kr_replayed *replayed, const struct kr_line_log *text)
{
	int err = text->failed ? -ENOMEM : kr_write_file(replayed->dir, log_name, text->bytes, text->length, 0600);

	return err ? err : open_log(replayed);
}

int kr_replayed_open(struct kr_replayed *replayed, struct kr_server *server, int dir, const uint8_t boot_id[16],
	struct kr_applied *applied)
{
	struct reading reading = {.replayed = replayed};
	struct kr_line_log text = {0};
	int err;

	*replayed = (struct kr_replayed){.server = server, .applied = applied, .dir = dir, .fd = -1};
	memcpy(replayed->boot_id, boot_id, 16);
	kr_list_init(&replayed->notes);
	kr_table_init(&replayed->former);
	err = kr_line_log_read(dir, log_name, LOG_MAX, read_line, &reading);
	if (err)
		return err;
	note_former(replayed);
	replayed->lines = add_all(&text, replayed);
	err = write_whole(replayed, &text);
	free(text.bytes);
	return err ? kr_fail_errno(err, "cannot write %s of the state directory", log_name) : 0;
}

void kr_replayed_close(struct kr_replayed *replayed)
{
	struct kr_link *link;

	if (!replayed->notes.head.next) /* never opened */
		return;
	while ((link = kr_list_pop(&replayed->notes)))
		free(KR_LIST_ENTRY(link, struct note, link));
	kr_table_for_each(&replayed->former, free_former, replayed);
	kr_table_fini(&replayed->former);
	if (replayed->fd >= 0)
		close(replayed->fd);
	replayed->fd = -1;
}

/* --- writing ---------------------------------------------------------------------------------- */

struct batch {
	struct kr_job job;
	struct kr_replayed *replayed;
	struct kr_list notes;
	bool whole;
	struct kr_line_log text;
	int err;
};

static void run_batch(struct kr_job *job)
{
	struct batch *batch = KR_CONTAINER_OF(job, struct batch, job);

	batch->err = KR_FAULT("replayed.write");
	if (!batch->err)
		batch->err = batch->whole ? write_whole(batch->replayed, &batch->text) :
					    kr_line_log_append(&batch->text, batch->replayed->fd);
}

static void finish(struct kr_replayed *replayed, struct note *note, int err)
{
	if (!err && note->replay.round)
		kr_applied_note_replayed(replayed->applied, &note->file, note->node_id, &note->replay);
	note->done(note->context, err);
	free(note);
}

static void start_batch(struct kr_replayed *replayed);

/* What failed is written again with the next batch, but for what is tried once. */
static void settle(struct kr_replayed *replayed, struct kr_list *notes, int err)
{
	struct kr_list again;
	struct kr_link *link;

	kr_list_init(&again);
	while ((link = kr_list_pop(notes))) {
		struct note *note = KR_LIST_ENTRY(link, struct note, link);

		if (err && note->replay.round && !replayed->given_up)
			kr_list_append(&again, link);
		else
			finish(replayed, note, err ? -EAGAIN : 0);
	}
	while ((link = kr_list_pop(&replayed->notes)))
		kr_list_append(&again, link);
	while ((link = kr_list_pop(&again)))
		kr_list_append(&replayed->notes, link);
}

static void batch_done(struct kr_job *job)
{
	struct batch *batch = KR_CONTAINER_OF(job, struct batch, job);
	struct kr_replayed *replayed = batch->replayed;

	replayed->writing = false;
	if (batch->err && !replayed->failing)
		kr_log_error("cannot write %s of the state directory: %s; replays wait until that succeeds", log_name,
			strerror(-batch->err));
	replayed->failing = batch->err != 0;
	replayed->rewrite |= batch->err != 0; /* what is in the log now is not known */
	settle(replayed, &batch->notes, batch->err);
	free(batch->text.bytes);
	free(batch);
	if (!replayed->failing)
		start_batch(replayed);
}

static void start_batch(struct kr_replayed *replayed)
{
	struct batch *batch;
	struct kr_link *link;

	if (replayed->writing || kr_list_empty(&replayed->notes))
		return;
	replayed->writing = true;
	batch = kr_xcalloc(1, sizeof(*batch));
	batch->replayed = replayed;
	batch->whole = replayed->rewrite || replayed->lines > KR_REPLAYED_LOG;
	kr_list_init(&batch->notes);
	if (batch->whole)
		replayed->lines = add_all(&batch->text, replayed);
	while ((link = kr_list_pop(&replayed->notes))) {
		const struct note *note = KR_LIST_ENTRY(link, struct note, link);

		if (note->replay.round)
			add_entry(&batch->text, &note->file, note->node_id, &note->replay);
		else
			add_lost(&batch->text, &note->file);
		kr_list_append(&batch->notes, link);
		replayed->lines++;
	}
	replayed->rewrite = false;
	kr_job_start(replayed->server, &batch->job, run_batch, batch_done);
}

void kr_replayed_note(struct kr_replayed *replayed, const struct kr_fid *file, const uint8_t node_id[16],
	const struct kr_applied_replay *replay, void (*done)(void *context, int err), void *context)
{
	struct note *note = kr_xcalloc(1, sizeof(*note));

	*note = (struct note){.file = *file, .replay = *replay, .done = done, .context = context};
	memcpy(note->node_id, node_id, 16);
	kr_list_append(&replayed->notes, &note->link);
	if (!replayed->failing || replayed->given_up)
		start_batch(replayed);
}

void kr_replayed_lose(
	struct kr_replayed *replayed, const struct kr_fid *file, void (*done)(void *context, int err), void *context)
{
	struct note *note;

	if (!replayed->lines) {
		done(context, 0);
		return;
	}
	note = kr_xcalloc(1, sizeof(*note));
	*note = (struct note){.file = *file, .done = done, .context = context};
	kr_list_append(&replayed->notes, &note->link);
	start_batch(replayed);
}

void kr_replayed_tick(struct kr_replayed *replayed)
{
	start_batch(replayed);
}

void kr_replayed_give_up(struct kr_replayed *replayed)
{
	struct kr_list notes;
	struct kr_link *link;

	replayed->given_up = true;
	kr_list_init(&notes);
	while (replayed->failing && (link = kr_list_pop(&replayed->notes)))
		kr_list_append(&notes, link);
	while ((link = kr_list_pop(&notes)))
		finish(replayed, KR_LIST_ENTRY(link, struct note, link), -EAGAIN);
}

bool kr_replayed_busy(const struct kr_replayed *replayed)
{
	return replayed->writing;
}

/* The memory of synced rounds: see synced.h. */
#include "server/flush/synced.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/fail.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "server/base/line_log.h"
#include "server/base/server.h"

enum { LOG_MAX = 4 * (KR_SYNCED_MAX + KR_SYNCED_LOG) * KR_LINE_MAX };

static const char log_name[] = "synced";

struct entry {
	struct kr_table_link link;
	struct kr_link order;
	struct kr_fid file;
	struct kr_synced_span span;
};

struct note {
	struct kr_link link;
	struct kr_fid file;
	struct kr_synced_span span;
	void (*done)(void *context, int err);
	void *context;
};

/* --- what is known ---------------------------------------------------------------------------- */

static bool match(const struct kr_table_link *link, const void *fid)
{
	return kr_fid_equal(&KR_CONTAINER_OF(link, struct entry, link)->file, fid);
}

static struct entry *find(const struct kr_synced *synced, const struct kr_fid *file)
{
	struct kr_table_link *link = kr_table_find(&synced->table, kr_fid_hash(file), match, file);

	return link ? KR_CONTAINER_OF(link, struct entry, link) : NULL;
}

static void drop(struct kr_synced *synced, struct entry *entry)
{
	kr_table_remove(&synced->table, &entry->link);
	kr_list_remove(&entry->order);
	free(entry);
}

static struct entry *oldest(const struct kr_synced *synced)
{
	return KR_LIST_ENTRY(synced->order.head.next, struct entry, order);
}

/* Of too many the oldest goes: what it knew nobody knows any more. */
static void forget_oldest(struct kr_synced *synced)
{
	uint64_t round = KR_MAX(oldest(synced)->span.round, synced->floor.round);

	synced->floor = (struct kr_synced_span){round, round};
	drop(synced, oldest(synced));
}

static void set(struct kr_synced *synced, const struct kr_fid *file, struct kr_synced_span span)
{
	struct entry *entry = find(synced, file);

	if (span.round <= synced->floor.round)
		return;
	if (entry)
		drop(synced, entry);
	if (synced->table.count >= KR_SYNCED_MAX)
		forget_oldest(synced);
	entry = kr_xcalloc(1, sizeof(*entry));
	entry->file = *file;
	entry->span = span;
	kr_table_insert(&synced->table, &entry->link, kr_fid_hash(file));
	kr_list_append(&synced->order, &entry->order);
}

static void set_floor(struct kr_synced *synced, struct kr_synced_span floor)
{
	struct entry *entry, *next;

	if (floor.round < synced->floor.round)
		return;
	synced->floor = floor;
	KR_LIST_FOR_EACH_SAFE(entry, next, &synced->order, order) {
		if (entry->span.round <= floor.round)
			drop(synced, entry);
	}
}

uint64_t kr_synced_round(const struct kr_synced *synced, const struct kr_fid *file)
{
	const struct entry *entry = find(synced, file);

	return KR_MAX(synced->floor.round, entry ? entry->span.round : 0);
}

static bool has(struct kr_synced_span span, uint64_t first, uint64_t last)
{
	return span.lost < first && last <= span.round;
}

enum kr_synced_verdict kr_synced_judge(
	const struct kr_synced *synced, const struct kr_fid *file, uint64_t oldest_round, uint64_t newest)
{
	const struct entry *entry = find(synced, file);
	uint64_t known = kr_synced_round(synced, file), last = KR_MIN(newest, known);

	if (oldest_round > known)
		return KR_SYNCED_NOT;
	if (!has(synced->floor, oldest_round, last) && !(entry && has(entry->span, oldest_round, last)))
		return KR_SYNCED_OVERTAKEN;
	return newest <= known ? KR_SYNCED_ALL : KR_SYNCED_NOT;
}

/* --- the log ---------------------------------------------------------------------------------- */

static void add_file(struct kr_line_log *text, const struct kr_fid *file, struct kr_synced_span span)
{
	char line[KR_LINE_MAX], hex[2 * KR_FID_MAX + 1];

	kr_hex_format(file->bytes, file->length, hex);
	snprintf(line, sizeof(line), "file %s %" PRIu64 " %" PRIu64, hex, span.lost, span.round);
	kr_line_log_add(text, line);
}

static void add_all(struct kr_line_log *text, const struct kr_synced *synced, struct kr_synced_span floor)
{
	char line[KR_LINE_MAX], hex[33];
	const struct entry *entry;

	kr_hex_format(synced->boot_id, 16, hex);
	snprintf(line, sizeof(line), "boot %s %" PRIu64, hex, synced->lost);
	kr_line_log_add(text, line);
	snprintf(line, sizeof(line), "all %" PRIu64 " %" PRIu64, floor.lost, floor.round);
	kr_line_log_add(text, line);
	KR_LIST_FOR_EACH(entry, &synced->order, order) {
		if (entry->span.round > floor.round)
			add_file(text, &entry->file, entry->span);
	}
}

struct reading {
	struct kr_synced *synced;
	uint8_t boot_id[16];
	uint64_t lost;
};

static void read_line(void *context, char *line)
{
	struct reading *reading = context;
	struct kr_synced *synced = reading->synced;
	char hex[2 * KR_FID_MAX + 1];
	struct kr_synced_span span;
	struct kr_fid file;

	if (sscanf(line, "boot %32s %" SCNu64, hex, &reading->lost) == 2)
		kr_hex_parse(hex, reading->boot_id, 16);
	else if (sscanf(line, "all %" SCNu64 " %" SCNu64, &span.lost, &span.round) == 2)
		set_floor(synced, span);
	else if (sscanf(line, "file %304s %" SCNu64 " %" SCNu64, hex, &span.lost, &span.round) == 3 &&
		(file.length = (uint8_t)kr_hex_parse(hex, file.bytes, KR_FID_MAX)))
		set(synced, &file, span);
}

static int write_log(const struct kr_synced *synced, const struct kr_line_log *text)
{
	return text->failed ? -ENOMEM : kr_write_file(synced->dir, log_name, text->bytes, text->length, 0600);
}

static int open_log(struct kr_synced *synced)
{
	if (synced->fd >= 0)
		close(synced->fd);
	synced->fd = openat(synced->dir, log_name, O_WRONLY | O_APPEND | O_CLOEXEC);
	return synced->fd < 0 ? -errno : 0;
}

int kr_synced_open(
	struct kr_synced *synced, struct kr_server *server, int dir, const uint8_t boot_id[16], uint64_t last_round)
{
	struct reading reading = {.synced = synced};
	struct kr_line_log text = {0};
	int err;

	*synced = (struct kr_synced){.server = server, .dir = dir, .fd = -1};
	memcpy(synced->boot_id, boot_id, 16);
	kr_table_init(&synced->table);
	kr_list_init(&synced->order);
	kr_list_init(&synced->notes);
	err = kr_line_log_read(dir, log_name, LOG_MAX, read_line, &reading);
	if (err)
		return err;
	/* What a former boot has not synced may be missing. */
	synced->lost = memcmp(reading.boot_id, boot_id, 16) == 0 ? reading.lost : last_round;
	add_all(&text, synced, synced->floor);
	err = write_log(synced, &text);
	free(text.bytes);
	if (!err)
		err = open_log(synced);
	return err ? kr_fail_errno(err, "cannot write %s of the state directory", log_name) : 0;
}

void kr_synced_close(struct kr_synced *synced)
{
	if (!synced->order.head.next) /* never opened */
		return;
	while (!kr_list_empty(&synced->order))
		drop(synced, oldest(synced));
	kr_table_fini(&synced->table);
	if (synced->fd >= 0)
		close(synced->fd);
	synced->fd = -1;
}

/* --- writing ---------------------------------------------------------------------------------- */

struct batch {
	struct kr_job job;
	struct kr_synced *synced;
	struct kr_list notes;
	struct kr_synced_span floor; /* round 0: it stays */
	bool whole;
	struct kr_line_log text;
	int err;
};

static int append(const struct kr_synced *synced, const struct kr_line_log *text)
{
	int err = kr_line_log_append(text, synced->fd);

	if (err)
		return err;
	return fdatasync(synced->fd) < 0 ? -errno : 0;
}

static void run_batch(struct kr_job *job)
{
	struct batch *batch = KR_CONTAINER_OF(job, struct batch, job);

	batch->err = batch->whole ? write_log(batch->synced, &batch->text) : append(batch->synced, &batch->text);
	if (!batch->err && batch->whole)
		batch->err = open_log(batch->synced);
}

static void start_batch(struct kr_synced *synced);

static void batch_done(struct kr_job *job)
{
	struct batch *batch = KR_CONTAINER_OF(job, struct batch, job);
	struct kr_synced *synced = batch->synced;
	struct kr_link *link;

	synced->writing = false;
	synced->rewrite |= batch->err != 0; /* what is in the log now is not known */
	synced->writes++;
	if (batch->err)
		kr_log_error("cannot write %s of the state directory: %s", log_name, strerror(-batch->err));
	else if (batch->floor.round)
		set_floor(synced, batch->floor);
	while ((link = kr_list_pop(&batch->notes))) {
		struct note *note = KR_LIST_ENTRY(link, struct note, link);

		if (!batch->err)
			set(synced, &note->file, note->span);
		note->done(note->context, batch->err);
		free(note);
	}
	free(batch->text.bytes);
	free(batch);
	start_batch(synced);
}

static void start_batch(struct kr_synced *synced)
{
	struct batch *batch;
	struct kr_link *link;

	if (synced->writing || (kr_list_empty(&synced->notes) && !synced->raising))
		return;
	synced->writing = true;
	batch = kr_xcalloc(1, sizeof(*batch));
	batch->synced = synced;
	batch->whole = synced->rewrite || synced->raising || synced->lines > KR_SYNCED_LOG + 2 * synced->table.count;
	kr_list_init(&batch->notes);
	if (synced->raising)
		batch->floor = (struct kr_synced_span){synced->lost, synced->raising};
	if (batch->whole) {
		add_all(&batch->text, synced, synced->raising ? batch->floor : synced->floor);
		synced->lines = 0;
	}
	while ((link = kr_list_pop(&synced->notes))) {
		const struct note *note = KR_LIST_ENTRY(link, struct note, link);

		add_file(&batch->text, &note->file, note->span);
		kr_list_append(&batch->notes, link);
		synced->lines++;
	}
	synced->rewrite = false;
	synced->raising = 0;
	kr_job_start(synced->server, &batch->job, run_batch, batch_done);
}

void kr_synced_note(struct kr_synced *synced, const struct kr_fid *file, uint64_t round,
	void (*done)(void *context, int err), void *context)
{
	struct note *note = kr_xcalloc(1, sizeof(*note));

	*note = (struct note){.file = *file, .span = {synced->lost, round}, .done = done, .context = context};
	kr_list_append(&synced->notes, &note->link);
	start_batch(synced);
}

void kr_synced_raise(struct kr_synced *synced, uint64_t round)
{
	if (round <= KR_MAX(synced->floor.round, synced->raising))
		return;
	synced->raising = round;
	start_batch(synced);
}

void kr_synced_lose(struct kr_synced *synced, uint64_t round)
{
	synced->lost = KR_MAX(synced->lost, round);
	synced->rewrite = true;
}

bool kr_synced_busy(const struct kr_synced *synced)
{
	return synced->writing;
}

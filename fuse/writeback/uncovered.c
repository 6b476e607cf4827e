/* See uncovered.h. */
#include "fuse/writeback/uncovered.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/file/file.h"
#include "fuse/journal/journal_uncovered.h"
#include "fuse/writeback/flush.h"
#include "fuse/base/mount.h"
#include "fuse/session/session.h"

enum { RETRY_MS = 1000, AHEAD = 1 << 16 };

struct kr_uncovered_log {
	struct kr_mount *mount;
	struct kr_list lines;    /* struct kr_uncovered_line */
	uint64_t changes;        /* of the list, so far ... */
	uint64_t tried, written; /* ... and what the disk has been asked to take, and has taken */
	uint64_t retry_ns;       /* after a failure: not before */
	int err;                 /* the latest failure's; 0: the last went well */
	bool writing, stopped;
	bool said_slow;
	uint64_t began_ns; /* writing: when that began */
	uv_work_t work;
	char *text;
	size_t length;
	uint64_t writing_change;
	int write_err;
	char reason[256];
};

static struct kr_file *file_of(struct kr_link *link)
{
	return KR_CONTAINER_OF(link, struct kr_flush, uncovered_line.link)->file;
}

/* --- writing --- */

static void make_text(struct kr_uncovered_log *log)
{
	struct kr_uncovered_line *line;
	size_t count = 0;

	KR_LIST_FOR_EACH(line, &log->lines, link)
		count++;
	log->length = 0;
	log->text = kr_xmalloc(sizeof(KR_UNCOVERED_HEAD) + count * KR_UNCOVERED_LINE_MAX);
	if (count)
		log->length = strlen(strcpy(log->text, KR_UNCOVERED_HEAD));
	KR_LIST_FOR_EACH(line, &log->lines, link) {
		const struct kr_uncovered uncovered = {file_of(&line->link)->fid, line->since, line->up_to};

		log->length += kr_uncovered_format(&uncovered, log->text + log->length);
	}
}

static void write_text(uv_work_t *work)
{
	struct kr_uncovered_log *log = work->data;

	log->write_err = kr_journal_write_uncovered(log->mount->journal, log->text, log->length);
	if (log->write_err)
		snprintf(log->reason, sizeof(log->reason), "%s", kr_fail_reason());
}

static void note_result(struct kr_uncovered_log *log)
{
	if (log->said_slow)
		kr_log_info("the local directory has answered after %" PRIu64 " s",
			(kr_clock_ns() - log->began_ns) / KR_NS_PER_S);
	log->said_slow = false;
	if (!log->write_err) {
		if (log->err)
			kr_log_info("the local directory takes again which files have refused bytes");
		log->tried = log->written = log->writing_change;
	} else {
		if (log->err != log->write_err) /* once, not at each retry */
			kr_log_error("%s: that bytes which the server has refused may be older than those of others is "
				     "known only as long as this daemon or the server's lives",
				log->reason);
		log->tried = log->changes;
		log->retry_ns = kr_clock_ns() + RETRY_MS * KR_NS_PER_MS;
	}
	log->err = log->write_err;
}

static void start(struct kr_uncovered_log *log);

static void written(uv_work_t *work, int status)
{
	struct kr_uncovered_log *log = work->data;
	const uint64_t before = log->tried;
	struct kr_uncovered_line *line;

	log->writing = false;
	free(log->text);
	log->text = NULL;
	if (status)
		log->write_err = -ECANCELED;
	note_result(log);
	KR_LIST_FOR_EACH(line, &log->lines, link)
		if (!log->stopped && line->change > before && line->change <= log->tried)
			kr_file_step(file_of(&line->link));
	start(log);
}

static void start(struct kr_uncovered_log *log)
{
	if (log->writing || log->stopped || log->written == log->changes || kr_clock_ns() < log->retry_ns)
		return;
	log->writing = true;
	log->began_ns = kr_clock_ns();
	log->writing_change = log->changes;
	log->reason[0] = '\0';
	make_text(log);
	log->work.data = log;
	if (uv_queue_work(log->mount->loop, &log->work, write_text, written) < 0) {
		write_text(&log->work);
		written(&log->work, 0);
	}
}

uint64_t kr_uncovered_slow_ms(const struct kr_uncovered_log *log)
{
	const uint64_t ms = log->writing ? (kr_clock_ns() - log->began_ns) / KR_NS_PER_MS : 0;

	return ms > kr_session_facts(log->mount->session)->lease_ms / 2 ? ms : 0;
}

bool kr_uncovered_tick(struct kr_uncovered_log *log)
{
	const uint64_t slow_ms = kr_uncovered_slow_ms(log);

	start(log);
	if (slow_ms && !log->said_slow) {
		kr_log_warn("the local directory has not taken for %" PRIu64
			    " s which files have refused bytes: leases of such files may wait for it",
			slow_ms / 1000);
		log->said_slow = true;
	}
	return log->written != log->changes;
}

/* --- the list --- */

bool kr_uncovered_awaited(struct kr_uncovered_log *log, struct kr_file *file, struct kr_time since, uint64_t up_to)
{
	struct kr_uncovered_line *line = &file->flush->uncovered_line;

	if (!kr_link_linked(&line->link)) {
		line->up_to = 0;
		kr_list_append(&log->lines, &line->link);
	}
	if (up_to > line->up_to) {
		if (!file->flush->uncovered) /* what it said was of bytes that are judged or taken */
			line->since = since;
		line->up_to = up_to + AHEAD;
		line->change = ++log->changes;
		start(log);
	}
	return line->change > log->tried;
}

void kr_uncovered_forget(struct kr_uncovered_log *log, struct kr_file *file)
{
	struct kr_uncovered_line *line = &file->flush->uncovered_line;

	if (!kr_link_linked(&line->link))
		return;
	kr_list_remove(&line->link);
	log->changes++; /* the next tick is soon enough */
}

void kr_uncovered_recovered(struct kr_uncovered_log *log, struct kr_file *file, const struct kr_uncovered *uncovered)
{
	struct kr_uncovered_line *line = &file->flush->uncovered_line;

	*line = (struct kr_uncovered_line){.since = uncovered->since, .up_to = uncovered->up_to};
	kr_list_append(&log->lines, &line->link);
}

void kr_uncovered_rewrite(struct kr_uncovered_log *log)
{
	log->changes++;
}

/* --- life --- */

struct kr_uncovered_log *kr_uncovered_log_new(struct kr_mount *mount)
{
	struct kr_uncovered_log *log = kr_xcalloc(1, sizeof(*log));

	log->mount = mount;
	kr_list_init(&log->lines);
	return log;
}

void kr_uncovered_log_stop(struct kr_uncovered_log *log)
{
	log->stopped = true;
}

void kr_uncovered_log_free(struct kr_uncovered_log *log)
{
	if (!log)
		return;
	if (log->written != log->changes) {
		make_text(log);
		log->work.data = log;
		write_text(&log->work);
		free(log->text);
	}
	while (kr_list_pop(&log->lines))
		continue;
	free(log);
}

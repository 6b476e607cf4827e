/* See failed_syncs.h. */
#include "server/flush/failed_syncs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hex.h"
#include "common/base/log.h"
#include "server/base/line_log.h"
#include "server/base/server.h"

static const char log_name[] = "failed";

struct failed_file {
	struct kr_table_link link;
	struct kr_fid fid;
};

struct failed_wait {
	struct kr_link link;
	void (*done)(void *context);
	void *context;
};

struct write_job {
	struct kr_job job;
	struct kr_failed_syncs *failed;
	struct kr_list waits;
	struct kr_writer text;
	int err;
};

static struct failed_file *find(const struct kr_failed_syncs *failed, const struct kr_fid *fid)
{
	return KR_TABLE_FIND(
		struct failed_file, file, &failed->files, kr_fid_hash(fid), link, kr_fid_equal(&file->fid, fid));
}

static void add(struct kr_failed_syncs *failed, const struct kr_fid *fid)
{
	struct failed_file *file = kr_xcalloc(1, sizeof(*file));

	file->fid = *fid;
	kr_table_insert(&failed->files, &file->link, kr_fid_hash(fid));
}

struct reading {
	struct kr_failed_syncs *failed;
	void (*fn)(void *context, const struct kr_fid *file);
	void *context;
};

static void read_line(void *context, char *line)
{
	const struct reading *reading = context;
	char hex[2 * KR_FID_MAX + 1];
	struct kr_fid fid = {0};

	if (sscanf(line, "file %304s", hex) != 1)
		return;
	fid.length = (uint8_t)kr_hex_parse(hex, fid.bytes, KR_FID_MAX);
	if (!fid.length || find(reading->failed, &fid))
		return;
	add(reading->failed, &fid);
	reading->fn(reading->context, &fid);
}

int kr_failed_syncs_open(struct kr_failed_syncs *failed, struct kr_server *server, int dir,
	void (*fn)(void *context, const struct kr_fid *file), void *context)
{
	struct reading reading = {.failed = failed, .fn = fn, .context = context};

	*failed = (struct kr_failed_syncs){.server = server, .dir = dir};
	kr_table_init(&failed->files);
	kr_list_init(&failed->waits);
	return kr_line_log_read(dir, log_name, read_line, &reading, NULL);
}

void kr_failed_syncs_close(struct kr_failed_syncs *failed)
{
	struct failed_wait *wait;

	if (!failed->server) /* never opened */
		return;
	kr_table_free_all(&failed->files, offsetof(struct failed_file, link));
	while ((wait = KR_LIST_POP(&failed->waits, struct failed_wait, link)))
		free(wait);
}

static void run_write(struct kr_job *job)
{
	struct write_job *write = KR_CONTAINER_OF(job, struct write_job, job);

	write->err = kr_line_log_write(&write->text, write->failed->dir, log_name);
}

static void start_write(struct kr_failed_syncs *failed);

static void written(struct kr_job *job)
{
	struct write_job *write = KR_CONTAINER_OF(job, struct write_job, job);
	struct kr_failed_syncs *failed = write->failed;
	struct failed_wait *wait;

	failed->writing = false;
	if (write->err)
		kr_log_error("cannot write %s of the state directory, which tells what a failed sync may have lost: %s",
			log_name, strerror(-write->err));
	while ((wait = KR_LIST_POP(&write->waits, struct failed_wait, link))) {
		wait->done(wait->context);
		free(wait);
	}
	kr_writer_fini(&write->text);
	free(write);
	start_write(failed);
}

static void start_write(struct kr_failed_syncs *failed)
{
	struct write_job *write;
	const struct failed_file *file;
	char hex[2 * KR_FID_MAX + 1];

	if (failed->writing || !failed->changed)
		return;
	failed->writing = true;
	failed->changed = false;
	write = kr_xcalloc(1, sizeof(*write));
	write->failed = failed;
	kr_list_init(&write->waits);
	kr_list_move(&failed->waits, &write->waits);
	KR_TABLE_FOR_EACH(file, &failed->files, link)
		kr_line_log_add(&write->text, "file %s", kr_hex_format(file->fid.bytes, file->fid.length, hex));
	kr_job_start(failed->server, &write->job, run_write, written);
}

void kr_failed_syncs_add(
	struct kr_failed_syncs *failed, const struct kr_fid *file, void (*done)(void *context), void *context)
{
	struct failed_wait *wait;

	if (!find(failed, file)) {
		add(failed, file);
		failed->changed = true;
	} else if (!failed->changed && !failed->writing) {
		done(context);
		return;
	} else {
		failed->changed = true; /* the write under way may lack FILE */
	}
	wait = kr_xcalloc(1, sizeof(*wait));
	*wait = (struct failed_wait){.done = done, .context = context};
	kr_list_append(&failed->waits, &wait->link);
	start_write(failed);
}

void kr_failed_syncs_remove(struct kr_failed_syncs *failed, const struct kr_fid *fid)
{
	struct failed_file *file = find(failed, fid);

	if (!file)
		return;
	kr_table_remove(&failed->files, &file->link);
	free(file);
	failed->changed = true;
	start_write(failed);
}

bool kr_failed_syncs_busy(const struct kr_failed_syncs *failed)
{
	return failed->writing;
}

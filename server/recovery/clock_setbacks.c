/* See clock_setbacks.h. */
#include "server/recovery/clock_setbacks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/fail.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "server/base/line_log.h"
#include "server/base/server.h"
#include "server/recovery/recovery.h"
#include "server/base/state.h"

static const char log_name[] = "clock";

static void add(struct kr_setbacks *setbacks, int64_t to, int64_t from)
{
	struct kr_setback *list = setbacks->list;

	if (setbacks->count == KR_SETBACKS_MAX) {
		list[1].to = KR_MIN(list[0].to, list[1].to);
		list[1].from = KR_MAX(list[0].from, list[1].from);
		memmove(&list[0], &list[1], --setbacks->count * sizeof(*list));
	}
	list[setbacks->count++] = (struct kr_setback){to, from};
	setbacks->unsaved = true;
}

static int64_t seconds(uint64_t ns)
{
	return (int64_t)(ns / KR_NS_PER_S);
}

/* When between the two looks it was set is not known: at the first, perhaps. */
void kr_setbacks_look(struct kr_setbacks *setbacks, uint64_t real_ns, uint64_t raw_ns)
{
	uint64_t passed = raw_ns - KR_MIN(raw_ns, setbacks->raw_ns), expected = setbacks->real_ns + passed;

	if (setbacks->real_ns && real_ns + KR_NS_PER_S < expected)
		add(setbacks, seconds(real_ns) - seconds(passed) - 1, seconds(expected) + 1);
	/* Set forward: the next one may be back, and seen by the next instance only. */
	setbacks->unsaved |= real_ns > expected + KR_NS_PER_S;
	setbacks->real_ns = real_ns;
	setbacks->raw_ns = raw_ns;
}

/* RAW_NS: since the boot. */
void kr_setbacks_boot(struct kr_setbacks *setbacks, uint64_t real_ns, uint64_t raw_ns, uint64_t unseen_s)
{
	uint64_t latest = setbacks->real_ns + unseen_s * KR_NS_PER_S, booted = real_ns - KR_MIN(real_ns, raw_ns);

	if (booted < setbacks->real_ns && real_ns >= setbacks->real_ns)
		booted = real_ns; /* another machine, which was up before */
	if (setbacks->real_ns && booted < latest)
		add(setbacks, seconds(booted) - 1, seconds(latest));
	setbacks->real_ns = real_ns;
	setbacks->raw_ns = raw_ns;
}

bool kr_setbacks_doubt(const struct kr_setbacks *setbacks, struct kr_time changed, struct kr_time since)
{
	for (unsigned i = 0; i < setbacks->count; i++) {
		if (changed.sec >= setbacks->list[i].to && since.sec <= setbacks->list[i].from)
			return true;
	}
	return false;
}

/* --- the log ---------------------------------------------------------------------------------- */

static uint64_t raw_clock_ns(void)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * KR_NS_PER_S + (uint64_t)now.tv_nsec;
}

struct reading {
	struct kr_setbacks *setbacks;
	uint8_t boot_id[16];
};

static void read_line(void *context, char *line)
{
	struct reading *reading = context;
	struct kr_setbacks *setbacks = reading->setbacks;
	uint64_t real_ns, raw_ns;
	struct kr_setback back;
	char hex[33];

	if (sscanf(line, "boot %32s %" SCNu64 " %" SCNu64, hex, &real_ns, &raw_ns) == 3 &&
		kr_hex_parse(hex, reading->boot_id, 16) == 16) {
		setbacks->real_ns = real_ns;
		setbacks->raw_ns = raw_ns;
	} else if (sscanf(line, "back %" SCNd64 " %" SCNd64, &back.to, &back.from) == 2) {
		add(setbacks, back.to, back.from);
	}
}

static void add_lines(const struct kr_setbacks *setbacks, const uint8_t boot_id[16], struct kr_writer *lines)
{
	char hex[33];

	kr_line_log_add(lines, "boot %s %" PRIu64 " %" PRIu64, kr_hex_format(boot_id, 16, hex), setbacks->real_ns,
		setbacks->raw_ns);
	for (unsigned i = 0; i < setbacks->count; i++)
		kr_line_log_add(lines, "back %" PRId64 " %" PRId64, setbacks->list[i].to, setbacks->list[i].from);
}

int kr_setbacks_open(struct kr_setbacks *setbacks, int dir, const uint8_t boot_id[16])
{
	uint64_t real_ns = kr_clock_real_ns(), raw_ns = raw_clock_ns();
	struct reading reading = {.setbacks = setbacks};
	int err;

	*setbacks = (struct kr_setbacks){0};
	err = kr_line_log_read(dir, log_name, read_line, &reading, NULL);
	if (err)
		return err;
	setbacks->former_ns = setbacks->real_ns;
	if (memcmp(reading.boot_id, boot_id, 16) == 0)
		kr_setbacks_look(setbacks, real_ns, raw_ns);
	else
		kr_setbacks_boot(setbacks, real_ns, raw_ns, 2 * KR_SETBACKS_SAVE_S);
	return 0;
}

int kr_setbacks_save(struct kr_setbacks *setbacks, int dir, const uint8_t boot_id[16])
{
	struct kr_writer lines = {0};
	int err;

	add_lines(setbacks, boot_id, &lines);
	err = kr_line_log_write(&lines, dir, log_name);
	kr_writer_fini(&lines);
	setbacks->unsaved = false;
	setbacks->saved_ns = setbacks->raw_ns;
	return err ? kr_fail_errno(err, "cannot write %s of the state directory", log_name) : 0;
}

struct save {
	struct kr_job job;
	struct kr_writer lines;
	int err;
};

static void run_save(struct kr_job *job)
{
	struct save *save = KR_CONTAINER_OF(job, struct save, job);

	save->err = kr_line_log_write(&save->lines, kr_state_dir(job->server->state), log_name);
}

static void saved(struct kr_job *job)
{
	struct save *save = KR_CONTAINER_OF(job, struct save, job);
	struct kr_setbacks *setbacks = &job->server->recovery->setbacks;

	setbacks->saving = false;
	if (save->err && !setbacks->unsaved)
		kr_log_error("cannot write %s of the state directory: %s", log_name, strerror(-save->err));
	setbacks->unsaved |= save->err != 0;
	kr_writer_fini(&save->lines);
	free(save);
}

void kr_setbacks_tick(struct kr_server *server)
{
	struct kr_setbacks *setbacks = &server->recovery->setbacks;
	struct save *save;

	kr_setbacks_look(setbacks, kr_clock_real_ns(), raw_clock_ns());
	if (setbacks->saving || server->stopping ||
		(!setbacks->unsaved && setbacks->raw_ns < setbacks->saved_ns + KR_SETBACKS_SAVE_S * KR_NS_PER_S))
		return;
	setbacks->saving = true;
	setbacks->unsaved = false;
	setbacks->saved_ns = setbacks->raw_ns;
	save = kr_xcalloc(1, sizeof(*save));
	add_lines(setbacks, kr_state_facts(server->state)->machine_id, &save->lines);
	kr_job_start(server, &save->job, run_save, saved);
}

/* See access_log.h. */
#include "fuse/ops/access_log.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/list.h"
#include "common/base/util.h"
#include "fuse/base/counters.h"
#include "fuse/ops/kernel_requests.h"

/* At 100,000 operations a second a buffer is full after about 70 ms. */
enum { READERS_MAX = 4, BUFFER_MAX = 1 << 20 };

struct kr_access_reader {
	struct kr_access_log *log;
	struct kr_link link;
	json_t *filter;
	const char *path; /* in FILTER; NULL: all */
	int pid;          /* 0: all */
	json_int_t uid;   /* -1: all */
	json_int_t slower_us;
	struct kr_writer lines; /* guarded by the log's lock, as is LOST */
	uint64_t lost;
};

struct kr_access_log {
	struct kr_mount *mount;
	_Atomic size_t reader_count; /* changes under the lock */
	pthread_mutex_t lock;
	struct kr_list readers;
};

struct kr_access_log *kr_access_log_new(struct kr_mount *mount)
{
	struct kr_access_log *log = kr_xcalloc(1, sizeof(*log));

	log->mount = mount;
	pthread_mutex_init(&log->lock, NULL);
	kr_list_init(&log->readers);
	return log;
}

void kr_access_log_free(struct kr_access_log *log)
{
	if (!log)
		return;
	pthread_mutex_destroy(&log->lock);
	free(log);
}

/* --- readers ---------------------------------------------------------------------------------- */

static int parse_filter(struct kr_access_reader *reader, const char *filter)
{
	reader->uid = -1;
	reader->filter = json_loads(filter, 0, NULL);
	return json_unpack(reader->filter, "{s?i, s?I, s?I, s?s !}", "pid", &reader->pid, "uid", &reader->uid,
		       "slower_us", &reader->slower_us, "path", &reader->path) < 0 ?
		-EINVAL :
		0;
}

static int add_reader(struct kr_access_log *log, struct kr_access_reader *reader)
{
	KR_SCOPED_LOCK(&log->lock);

	if (log->reader_count == READERS_MAX)
		return -EBUSY;
	reader->log = log;
	kr_list_append(&log->readers, &reader->link);
	log->reader_count++;
	kr_kernel_requests_watch(log->mount->requests, true);
	return 0;
}

int kr_access_reader_new(struct kr_access_log *log, const char *filter, struct kr_access_reader **ret_reader)
{
	struct kr_access_reader *reader = kr_xcalloc(1, sizeof(*reader));
	int err = parse_filter(reader, filter);

	kr_writer_init(&reader->lines);
	if (err == 0)
		err = add_reader(log, reader);
	if (err == 0)
		*ret_reader = reader;
	else
		kr_access_reader_free(reader);
	return err;
}

static void remove_reader(struct kr_access_log *log, struct kr_access_reader *reader)
{
	KR_SCOPED_LOCK(&log->lock);

	kr_list_remove(&reader->link);
	kr_kernel_requests_watch(log->mount->requests, false);
	log->reader_count--;
}

void kr_access_reader_free(struct kr_access_reader *reader)
{
	if (!reader)
		return;
	if (reader->log)
		remove_reader(reader->log, reader);
	kr_writer_fini(&reader->lines);
	json_decref(reader->filter);
	free(reader);
}

void kr_access_take(struct kr_access_reader *reader, struct kr_writer *ret_lines)
{
	char lost[48];
	KR_SCOPED_LOCK(&reader->log->lock);

	if (reader->lost) {
		snprintf(lost, sizeof(lost), "{\"lost\":%" PRIu64 "}\n", reader->lost);
		kr_put_bytes(&reader->lines, lost, strlen(lost));
	}
	*ret_lines = reader->lines;
	kr_writer_init(&reader->lines);
	reader->lost = 0;
}

/* PATH may be NULL. */
static bool is_below(const char *path, const char *top)
{
	return path && kr_path_below(path, top);
}

static bool wants(const struct kr_access_reader *reader, const struct kr_kernel_request *request)
{
	return (!reader->pid || reader->pid == request->pid) &&
		(reader->uid < 0 || reader->uid == request->header.uid) &&
		request->took_ns / 1000 >= (uint64_t)reader->slower_us &&
		(!reader->path || is_below(request->path, reader->path) || is_below(request->to, reader->path));
}

/* Takes LINE, of LENGTH bytes; NULL: it could not be made.  No line follows lost ones before {"lost"} does.  The log's
 * lock is held. */
static void add_line(struct kr_access_reader *reader, const char *line, size_t length)
{
	if (!line || reader->lost || length > KR_ACCESS_LINE_MAX || reader->lines.length + length > BUFFER_MAX)
		reader->lost++;
	else
		kr_put_bytes(&reader->lines, line, length);
}

/* For how long the request has waited, by cause, in microseconds; NULL: it has not. */
static json_t *make_waits(const struct kr_kernel_request *request)
{
	static const char *const names[KR_WAITS] = KR_WAIT_NAMES;
	json_t *waits = NULL;

	for (int wait = KR_WAIT_HERE + 1; wait < KR_WAITS; wait++) {
		const json_int_t us = (json_int_t)(request->waited_ns[wait] / 1000);

		if (us == 0)
			continue;
		if (!waits)
			waits = json_object();
		json_object_set_new(waits, names[wait], json_integer(us));
	}
	return waits;
}

/* The line, owned; NULL: out of memory. */
static char *make_line(const struct kr_kernel_request *request)
{
	const uint32_t opcode = request->header.opcode;
	const uint64_t us = request->took_ns / 1000;
	const double time_s = (double)(kr_clock_real_ns() / 1000 - us) / 1e6;
	json_t *line = json_pack("{sf si sI ss ss* ss*}", "time", time_s, "pid", request->pid, "uid",
		(json_int_t)request->header.uid, "operation", kr_request_name(opcode), "path", request->path, "to",
		request->to);
	json_t *waits;
	char *text;

	if (opcode == FUSE_READ || opcode == FUSE_WRITE)
		json_object_set_new(line, "offset", json_integer((json_int_t)request->offset));
	if (request->bytes >= 0)
		json_object_set_new(line, "bytes", json_integer(request->bytes));
	if (request->error)
		json_object_set_new(line, "errno", json_string(strerrorname_np(request->error)));
	json_object_set_new(line, "us", json_integer((json_int_t)us));
	if ((waits = make_waits(request)))
		json_object_set_new(line, "waits", waits);
	text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(16));
	json_decref(line);
	return text;
}

static bool any_wants(struct kr_access_log *log, const struct kr_kernel_request *request)
{
	const struct kr_access_reader *reader;
	KR_SCOPED_LOCK(&log->lock);

	KR_LIST_FOR_EACH(reader, &log->readers, link)
		if (wants(reader, request))
			return true;
	return false;
}

bool kr_access_is_read(const struct kr_access_log *log)
{
	return atomic_load_explicit(&log->reader_count, memory_order_relaxed) > 0;
}

void kr_access_answered(struct kr_access_log *log, const struct kr_kernel_request *request)
{
	KR_AUTO_FREE char *line = NULL;
	struct kr_access_reader *reader;
	size_t length;

	if (!kr_access_is_read(log) || !any_wants(log, request))
		return;
	line = make_line(request);
	length = line ? strlen(line) + 1 : 0;
	if (line)
		line[length - 1] = '\n';
	KR_SCOPED_LOCK(&log->lock);
	KR_LIST_FOR_EACH(reader, &log->readers, link)
		if (wants(reader, request))
			add_line(reader, line, length);
}

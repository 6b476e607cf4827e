/* See access_log.h. */
#include "fuse/ops/access_log.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "common/kairan_ioctl.h"
#include "fuse/base/counters.h"
#include "fuse/names/inode_table.h"

/* At 100,000 operations a second a buffer is full after about 70 ms. */
enum { READERS_MAX = 4, BUFFER_MAX = 1 << 20, CALLERS = 64 };

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

/* A request that has not been answered. */
struct record {
	struct kr_table_link link;
	struct fuse_in_header request;
	uint64_t arrived_ns, us; /* US: it took so long; set with its answer */
	uint64_t offset;         /* of a read or write */
	int pid;
	char *path, *to; /* owned; NULL: there is none */
};

struct kr_access_log {
	struct kr_mount *mount;
	_Atomic size_t reader_count; /* changes under the lock */
	pthread_mutex_t lock;
	struct kr_list readers;
	struct kr_table records; /* empty without readers */
};

struct kr_access_log *kr_access_log_new(struct kr_mount *mount)
{
	struct kr_access_log *log = kr_xcalloc(1, sizeof(*log));

	log->mount = mount;
	pthread_mutex_init(&log->lock, NULL);
	kr_list_init(&log->readers);
	kr_table_init(&log->records);
	return log;
}

void kr_access_log_free(struct kr_access_log *log)
{
	if (!log)
		return;
	kr_table_fini(&log->records);
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

static void record_free(struct record *record)
{
	free(record->path);
	free(record->to);
	free(record);
}

static bool drop_record(struct kr_table_link *link, void *context)
{
	kr_table_remove(context, link);
	record_free(KR_CONTAINER_OF(link, struct record, link));
	return true;
}

static void remove_reader(struct kr_access_log *log, struct kr_access_reader *reader)
{
	KR_SCOPED_LOCK(&log->lock);

	kr_list_remove(&reader->link);
	if (--log->reader_count == 0)
		kr_table_for_each(&log->records, drop_record, &log->records);
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

static bool is_below(const char *path, const char *top)
{
	size_t length = strlen(top);

	return path && strncmp(path, top, length) == 0 && (!path[length] || path[length] == '/');
}

static bool wants(const struct kr_access_reader *reader, const struct record *record)
{
	return (!reader->pid || reader->pid == record->pid) &&
		(reader->uid < 0 || reader->uid == record->request.uid) && record->us >= (uint64_t)reader->slower_us &&
		(!reader->path || is_below(record->path, reader->path) || is_below(record->to, reader->path));
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

/* --- arrival ---------------------------------------------------------------------------------- */

/* A thread that has called this worker. */
struct caller {
	int thread, process;
	uint64_t asked_ns;
};

static int ask_process(int thread)
{
	char text[256];
	int process = thread;
	FILE *status;

	snprintf(text, sizeof(text), "/proc/%d/status", thread);
	status = fopen(text, "re");
	if (!status)
		return thread;
	while (fgets(text, sizeof(text), status))
		if (sscanf(text, "Tgid: %d", &process) == 1)
			break;
	fclose(status);
	return process;
}

/* The process of a thread.  /proc takes about 15 us, so a worker asks it once in a while for each thread; no number is
 * given to another thread so soon. */
static int find_process(int thread, uint64_t now_ns)
{
	static _Thread_local struct caller callers[CALLERS];
	struct caller *caller;

	if (thread <= 0)
		return 0;
	caller = &callers[thread % CALLERS];
	if (caller->thread != thread || now_ns - caller->asked_ns > KR_NS_PER_S) {
		caller->thread = thread;
		caller->process = ask_process(thread);
		caller->asked_ns = now_ns;
	}
	return caller->process;
}

/* The path of NODE, or of NAME in it, from the mount's root on, as text; owned. NULL: not known. */
static char *find_path(struct kr_mount *mount, uint64_t node, const char *name)
{
	KR_AUTO_FREE char *below = NULL;
	KR_AUTO_FREE char *path = NULL;
	struct kr_fid fid;

	if (node == KR_INODE_BATCH_FILE) {
		below = kr_xstrdup(KR_BATCH_FILE);
	} else if (node != FUSE_ROOT_ID) {
		kr_inode_fid(mount->inodes, node, &fid);
		below = kr_inode_path(mount->inodes, &fid);
		if (!below)
			return NULL;
	}
	if (asprintf(&path, "/%s%s%s", below ? below : "", below && name ? "/" : "", name ? name : "") < 0)
		abort();
	return kr_text_utf8(path);
}

/* How many bytes lie before the name in the body of a request; -1: it has no name in a directory. */
static int name_offset(uint32_t opcode)
{
	switch (opcode) {
	case FUSE_LOOKUP:
	case FUSE_SYMLINK:
	case FUSE_UNLINK:
	case FUSE_RMDIR:
		return 0;
	case FUSE_MKNOD:
		return sizeof(struct fuse_mknod_in);
	case FUSE_MKDIR:
		return sizeof(struct fuse_mkdir_in);
	case FUSE_CREATE:
		return sizeof(struct fuse_create_in);
	case FUSE_RENAME:
		return sizeof(struct fuse_rename_in);
	case FUSE_RENAME2:
		return sizeof(struct fuse_rename2_in);
	case FUSE_LINK:
		return sizeof(struct fuse_link_in);
	default:
		return -1;
	}
}

static struct record *make_record(struct kr_mount *mount, const struct fuse_in_header *request, const char *body)
{
	struct record *record = kr_xcalloc(1, sizeof(*record));
	int before = name_offset(request->opcode);
	const char *name = before < 0 ? NULL : body + before;

	record->request = *request;
	record->arrived_ns = kr_clock_ns();
	record->pid = find_process((int)request->pid, record->arrived_ns);
	record->path = find_path(mount, request->nodeid, name);
	if (request->opcode == FUSE_RENAME || request->opcode == FUSE_RENAME2) {
		uint64_t directory; /* the first field of both */

		memcpy(&directory, body, sizeof(directory));
		record->to = find_path(mount, directory, name + strlen(name) + 1);
	} else if (request->opcode == FUSE_READ || request->opcode == FUSE_WRITE) {
		_Static_assert(offsetof(struct fuse_read_in, offset) == offsetof(struct fuse_write_in, offset),
			"reads and writes begin alike");
		memcpy(&record->offset, body + offsetof(struct fuse_read_in, offset), sizeof(record->offset));
	}
	return record;
}

void kr_access_arrived(struct kr_access_log *log, const void *message)
{
	struct fuse_in_header request;
	struct record *record;

	if (!atomic_load_explicit(&log->reader_count, memory_order_relaxed))
		return;
	memcpy(&request, message, sizeof(request));
	if (!kr_request_name(request.opcode))
		return;
	record = make_record(log->mount, &request, (const char *)message + sizeof(request));
	KR_SCOPED_LOCK(&log->lock);
	if (log->reader_count)
		kr_table_insert(&log->records, &record->link, kr_hash_u64(request.unique));
	else
		record_free(record);
}

/* --- answers ---------------------------------------------------------------------------------- */

static bool is_unique(const struct kr_table_link *link, const void *key)
{
	return KR_CONTAINER_OF(link, const struct record, link)->request.unique == *(const uint64_t *)key;
}

static bool any_wants(const struct kr_access_log *log, const struct record *record)
{
	const struct kr_access_reader *reader;

	KR_LIST_FOR_EACH(reader, &log->readers, link)
		if (wants(reader, record))
			return true;
	return false;
}

/* Takes the record of a request that ends now out of the log.  NULL: there is none, or no reader wants its line. */
static struct record *take_record(struct kr_access_log *log, uint64_t unique)
{
	KR_SCOPED_LOCK(&log->lock);
	struct kr_table_link *link = kr_table_find(&log->records, kr_hash_u64(unique), is_unique, &unique);
	struct record *record;

	if (!link)
		return NULL; /* a notification, or a request from before the first reader */
	kr_table_remove(&log->records, link);
	record = KR_CONTAINER_OF(link, struct record, link);
	record->us = (kr_clock_ns() - record->arrived_ns) / 1000;
	if (any_wants(log, record))
		return record;
	record_free(record);
	return NULL;
}

/* The bytes that a request has moved; -1: it has failed, or moves none. */
static json_int_t moved_bytes(uint32_t opcode, const struct fuse_out_header *reply, const struct iovec *body)
{
	struct fuse_write_out out;

	if (reply->error)
		return -1;
	if (opcode == FUSE_READ)
		return (json_int_t)(reply->len - sizeof(*reply));
	if (opcode != FUSE_WRITE && opcode != FUSE_COPY_FILE_RANGE)
		return -1;
	memcpy(&out, body->iov_base, sizeof(out));
	return out.size;
}

/* The line, owned; NULL: out of memory. */
static char *make_line(const struct record *record, const char *error, json_int_t bytes)
{
	const uint32_t opcode = record->request.opcode;
	const double time_s = (double)(kr_clock_real_ns() / 1000 - record->us) / 1e6;
	json_t *line = json_pack("{sf si sI ss ss* ss*}", "time", time_s, "pid", record->pid, "uid",
		(json_int_t)record->request.uid, "operation", kr_request_name(opcode), "path", record->path, "to",
		record->to);
	char *text;

	if (opcode == FUSE_READ || opcode == FUSE_WRITE)
		json_object_set_new(line, "offset", json_integer((json_int_t)record->offset));
	if (bytes >= 0)
		json_object_set_new(line, "bytes", json_integer(bytes));
	if (error)
		json_object_set_new(line, "errno", json_string(error));
	json_object_set_new(line, "us", json_integer((json_int_t)record->us));
	text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(16));
	json_decref(line);
	return text;
}

/* Gives LINE to the readers that want it. */
static void give_line(struct kr_access_log *log, const struct record *record, char *line)
{
	size_t length = line ? strlen(line) + 1 : 0;
	struct kr_access_reader *reader;
	KR_SCOPED_LOCK(&log->lock);

	if (line)
		line[length - 1] = '\n';
	KR_LIST_FOR_EACH(reader, &log->readers, link)
		if (wants(reader, record))
			add_line(reader, line, length);
}

void kr_access_answers(struct kr_access_log *log, const struct iovec *iov, int count)
{
	struct fuse_out_header reply;
	struct record *record;

	if (!atomic_load_explicit(&log->reader_count, memory_order_relaxed))
		return;
	memcpy(&reply, iov[0].iov_base, sizeof(reply));
	record = take_record(log, reply.unique);
	if (record) {
		const char *error = reply.error ? strerrorname_np(-reply.error) : NULL;
		json_int_t bytes = moved_bytes(record->request.opcode, &reply, &iov[count - 1]);
		KR_AUTO_FREE char *line = make_line(record, error, bytes);

		give_line(log, record, line);
		record_free(record);
	}
}

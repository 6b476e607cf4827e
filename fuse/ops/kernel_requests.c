/* See kernel_requests.h. */
#include "fuse/ops/kernel_requests.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/util.h"
#include "common/kairan_ioctl.h"
#include "fuse/base/counters.h"
#include "fuse/base/lent.h"
#include "fuse/names/inode_table.h"
#include "fuse/ops/access_log.h"
#include "fuse/ops/io_trace.h"

/* Requests that follow each other are in different shards, so that workers seldom meet. */
enum { SHARDS = 16, CALLERS = 64, OPCODE_TMPFILE = 51 /* older headers lack it */ };

struct shard {
	_Alignas(64) pthread_mutex_t lock;
	struct kr_table records; /* empty without watchers */
};

struct kr_kernel_requests {
	struct kr_mount *mount;
	_Atomic unsigned watchers;
	struct shard shards[SHARDS];
};

struct kr_kernel_requests *kr_kernel_requests_new(struct kr_mount *mount)
{
	struct kr_kernel_requests *requests = aligned_alloc(_Alignof(struct kr_kernel_requests), sizeof(*requests));

	if (!requests)
		abort();
	memset(requests, 0, sizeof(*requests));
	requests->mount = mount;
	for (size_t i = 0; i < SHARDS; i++) {
		pthread_mutex_init(&requests->shards[i].lock, NULL);
		kr_table_init(&requests->shards[i].records);
	}
	return requests;
}

static void request_free(struct kr_kernel_request *request)
{
	if (!request)
		return;
	free(request->path);
	free(request->to);
	free(request);
}

static void drop_records(struct kr_kernel_requests *requests)
{
	for (size_t i = 0; i < SHARDS; i++) {
		struct shard *shard = &requests->shards[i];
		struct kr_kernel_request *request;
		KR_SCOPED_LOCK(&shard->lock);

		KR_TABLE_FOR_EACH(request, &shard->records, link) {
			kr_table_remove(&shard->records, &request->link);
			request_free(request);
		}
	}
}

void kr_kernel_requests_free(struct kr_kernel_requests *requests)
{
	if (!requests)
		return;
	drop_records(requests);
	for (size_t i = 0; i < SHARDS; i++) {
		kr_table_fini(&requests->shards[i].records);
		pthread_mutex_destroy(&requests->shards[i].lock);
	}
	free(requests);
}

void kr_kernel_requests_watch(struct kr_kernel_requests *requests, bool on)
{
	if (on)
		atomic_fetch_add(&requests->watchers, 1);
	else if (atomic_fetch_sub(&requests->watchers, 1) == 1)
		drop_records(requests);
}

bool kr_kernel_requests_watched(const struct kr_kernel_requests *requests)
{
	return requests && atomic_load_explicit(&requests->watchers, memory_order_relaxed) > 0;
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
	if (kr_lent())
		return thread; /* of another machine */
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

/* The paths are as they are before the request has its effect. */
static void add_paths(struct kr_mount *mount, struct kr_kernel_request *request, const char *body)
{
	int before = name_offset(request->header.opcode);
	const char *name = before < 0 ? NULL : body + before;

	request->path = find_path(mount, request->header.nodeid, name);
	if (request->header.opcode == FUSE_RENAME || request->header.opcode == FUSE_RENAME2) {
		uint64_t directory; /* the first field of both */

		memcpy(&directory, body, sizeof(directory));
		request->to = find_path(mount, directory, name + strlen(name) + 1);
	}
}

static struct shard *shard_of(struct kr_kernel_requests *requests, uint64_t unique)
{
	return &requests->shards[unique / 2 % SHARDS]; /* the kernel's numbers are even */
}

void kr_kernel_request_arrived(struct kr_kernel_requests *requests, const void *message)
{
	const char *body = (const char *)message + sizeof(struct fuse_in_header);
	struct kr_kernel_request *request;
	struct fuse_in_header header;
	struct shard *shard;

	if (!kr_kernel_requests_watched(requests))
		return;
	memcpy(&header, message, sizeof(header));
	if (!kr_request_name(header.opcode))
		return;
	request = kr_xcalloc(1, sizeof(*request));
	request->header = header;
	request->arrived_ns = kr_clock_ns();
	request->pid = find_process((int)header.pid, request->arrived_ns);
	if (header.opcode == FUSE_READ || header.opcode == FUSE_WRITE) {
		_Static_assert(offsetof(struct fuse_read_in, offset) == offsetof(struct fuse_write_in, offset),
			"reads and writes begin alike");
		memcpy(&request->offset, body + offsetof(struct fuse_read_in, offset), sizeof(request->offset));
	}
	if (header.opcode == FUSE_COPY_FILE_RANGE)
		memcpy(&request->other, body + offsetof(struct fuse_copy_file_range_in, nodeid_out),
			sizeof(request->other));
	if (kr_access_is_read(requests->mount->access_log))
		add_paths(requests->mount, request, body);
	shard = shard_of(requests, header.unique);
	KR_SCOPED_LOCK(&shard->lock);
	if (kr_kernel_requests_watched(requests))
		kr_table_insert(&shard->records, &request->link, kr_hash_u64(header.unique));
	else
		request_free(request);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* With the shard's lock held.  NULL: a notification, or a request from before the first watcher. */
static struct kr_kernel_request *find(struct shard *shard, uint64_t unique)
{
	return KR_TABLE_FIND(struct kr_kernel_request, request, &shard->records, kr_hash_u64(unique), link,
		request->header.unique == unique);
}

void kr_kernel_request_waited(struct kr_kernel_requests *requests, uint64_t unique, const uint64_t waited_ns[KR_WAITS])
{
	struct shard *shard = shard_of(requests, unique);
	KR_SCOPED_LOCK(&shard->lock);
	struct kr_kernel_request *request = find(shard, unique);

	if (request)
		memcpy(request->waited_ns, waited_ns, sizeof(request->waited_ns));
}

static struct kr_kernel_request *take(struct kr_kernel_requests *requests, uint64_t unique)
{
	struct shard *shard = shard_of(requests, unique);
	KR_SCOPED_LOCK(&shard->lock);
	struct kr_kernel_request *request = find(shard, unique);

	if (request)
		kr_table_remove(&shard->records, &request->link);
	return request;
}

/* Adds what the reply says. */
static void note_reply(struct kr_kernel_request *request, const struct fuse_out_header *reply, const struct iovec *body)
{
	const uint32_t opcode = request->header.opcode;
	struct fuse_write_out written;

	request->took_ns = kr_clock_ns() - request->arrived_ns;
	request->error = -reply->error;
	request->bytes = -1;
	if (reply->error)
		return;
	if (opcode == FUSE_READ) {
		request->bytes = (int64_t)(reply->len - sizeof(*reply));
	} else if (opcode == FUSE_WRITE || opcode == FUSE_COPY_FILE_RANGE) {
		memcpy(&written, body->iov_base, sizeof(written));
		request->bytes = written.size;
	} else if (opcode == FUSE_CREATE || opcode == OPCODE_TMPFILE) {
		memcpy(&request->other, body->iov_base, sizeof(request->other)); /* fuse_entry_out begins with it */
	}
}

void kr_kernel_request_answered(struct kr_kernel_requests *requests, const struct iovec *iov, int count)
{
	struct kr_kernel_request *request;
	struct fuse_out_header reply;

	if (!kr_kernel_requests_watched(requests))
		return;
	memcpy(&reply, iov[0].iov_base, sizeof(reply));
	request = take(requests, reply.unique);
	if (!request)
		return;
	note_reply(request, &reply, &iov[count - 1]);
	kr_access_answered(requests->mount->access_log, request);
	kr_io_trace_answered(requests->mount->io_trace, request);
	request_free(request);
}

/* See counters.h. */
#include "fuse/base/counters.h"

#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/histogram.h"

enum { SHARDS = 8, OPCODES = 64 };

struct kr_counters {
	struct shard {
		_Alignas(128) _Atomic uint64_t sums[KR_COUNTERS];
		struct kr_histogram requests[OPCODES];
	} shards[SHARDS];
};

static const char *const sum_names[KR_COUNTERS] = {
	[KR_COUNT_READ_BYTES] = "read_bytes",
	[KR_COUNT_WRITTEN_BYTES] = "written_bytes",
	[KR_COUNT_CACHE_HITS] = "cache_hits",
	[KR_COUNT_CACHE_MISSES] = "cache_misses",
	[KR_COUNT_FLUSHES] = "flushes",
	[KR_COUNT_FLUSHED_BYTES] = "flushed_bytes",
	[KR_COUNT_FLUSH_ERRORS] = "flush_errors",
	[KR_COUNT_RECALLS] = "recalls",
};

/* Those that are answered. */
static const char *const request_names[OPCODES] = {
	[FUSE_LOOKUP] = "lookup",
	[FUSE_GETATTR] = "getattr",
	[FUSE_SETATTR] = "setattr",
	[FUSE_READLINK] = "readlink",
	[FUSE_SYMLINK] = "symlink",
	[FUSE_MKNOD] = "mknod",
	[FUSE_MKDIR] = "mkdir",
	[FUSE_UNLINK] = "unlink",
	[FUSE_RMDIR] = "rmdir",
	[FUSE_RENAME] = "rename",
	[FUSE_RENAME2] = "rename",
	[FUSE_LINK] = "link",
	[FUSE_OPEN] = "open",
	[FUSE_READ] = "read",
	[FUSE_WRITE] = "write",
	[FUSE_STATFS] = "statfs",
	[FUSE_RELEASE] = "release",
	[FUSE_FSYNC] = "fsync",
	[FUSE_SETXATTR] = "setxattr",
	[FUSE_GETXATTR] = "getxattr",
	[FUSE_LISTXATTR] = "listxattr",
	[FUSE_REMOVEXATTR] = "removexattr",
	[FUSE_FLUSH] = "flush",
	[FUSE_OPENDIR] = "opendir",
	[FUSE_READDIR] = "readdir",
	[FUSE_READDIRPLUS] = "readdir",
	[FUSE_RELEASEDIR] = "releasedir",
	[FUSE_FSYNCDIR] = "fsyncdir",
	[FUSE_GETLK] = "getlk",
	[FUSE_SETLK] = "setlk",
	[FUSE_SETLKW] = "setlk",
	[FUSE_ACCESS] = "access",
	[FUSE_CREATE] = "create",
	[FUSE_IOCTL] = "ioctl",
	[FUSE_FALLOCATE] = "fallocate",
	[FUSE_LSEEK] = "lseek",
	[FUSE_COPY_FILE_RANGE] = "copy_file_range",
	[51] = "tmpfile", /* FUSE_TMPFILE, which older headers lack */
};

const char *kr_request_name(uint32_t opcode)
{
	return opcode < OPCODES ? request_names[opcode] : NULL;
}

struct kr_counters *kr_counters_new(void)
{
	struct kr_counters *counters = aligned_alloc(_Alignof(struct kr_counters), sizeof(*counters));

	if (!counters)
		abort();
	memset(counters, 0, sizeof(*counters));
	return counters;
}

void kr_counters_free(struct kr_counters *counters)
{
	free(counters);
}

/* Threads share the shards in turn. */
static struct shard *own_shard(struct kr_counters *counters)
{
	static _Atomic unsigned threads;
	static _Thread_local unsigned mine; /* the number of the thread; 0: none yet */

	if (!mine)
		mine = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
	return &counters->shards[mine % SHARDS];
}

void kr_count(struct kr_counters *counters, enum kr_counter counter, uint64_t add)
{
	atomic_fetch_add_explicit(&own_shard(counters)->sums[counter], add, memory_order_relaxed);
}

void kr_count_request(struct kr_counters *counters, uint32_t opcode, uint64_t ns)
{
	if (kr_request_name(opcode))
		kr_histogram_add(&own_shard(counters)->requests[opcode], ns);
}

static uint64_t sum_of(const struct kr_counters *counters, unsigned counter)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < SHARDS; i++)
		sum += atomic_load_explicit(&counters->shards[i].sums[counter], memory_order_relaxed);
	return sum;
}

/* The numbers of some kinds of request are two. */
static json_t *requests_status(const struct kr_counters *counters)
{
	json_t *status = json_object();

	for (unsigned first = 0; first < OPCODES; first++) {
		struct kr_histogram all = {0};

		if (!request_names[first] || json_object_get(status, request_names[first]))
			continue;
		for (unsigned opcode = first; opcode < OPCODES; opcode++) {
			if (!request_names[opcode] || strcmp(request_names[opcode], request_names[first]) != 0)
				continue;
			for (unsigned i = 0; i < SHARDS; i++)
				kr_histogram_merge(&all, &counters->shards[i].requests[opcode]);
		}
		json_object_set_new(status, request_names[first], kr_histogram_json(&all));
	}
	return status;
}

json_t *kr_counters_status(const struct kr_counters *counters)
{
	json_t *status = json_object();

	for (unsigned i = 0; i < KR_COUNTERS; i++)
		json_object_set_new(status, sum_names[i], json_integer((json_int_t)sum_of(counters, i)));
	json_object_set_new(status, "requests", requests_status(counters));
	return status;
}

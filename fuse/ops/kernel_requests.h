/* The kernel's requests from their arrival to their answer, for what watches them: the access log and the trace.
 *
 * While somebody watches, each request has a record.  The kernel's number of the request finds it, so it does not
 * matter which thread answers.  That thread holds no lock of the mount, because watchers look for paths.  Without a
 * watcher a request costs two loads of an atomic.  Any thread. */
#ifndef KR_FUSE_KERNEL_REQUESTS_H
#define KR_FUSE_KERNEL_REQUESTS_H

#include <linux/fuse.h>
#include <sys/uio.h>

#include "common/base/table.h"
#include "fuse/base/mount.h"
#include "fuse/ops/io_trace_format.h"

struct kr_kernel_request {
	struct kr_table_link link;
	struct fuse_in_header header;
	uint64_t arrived_ns;
	uint64_t offset; /* of a read or write */
	uint64_t other;  /* the number of the file that a copy writes to, or a create has made or opened; 0: none */
	int pid;         /* the process; 0: the kernel itself, or a process of another PID namespace */
	char *path, *to; /* owned; only while the access log has a reader.  NULL: not known, or there is none */
	uint64_t waited_ns[KR_WAITS];

	/* With the answer. */
	uint64_t took_ns;
	int error;     /* errno, 0: none */
	int64_t bytes; /* that it has moved; -1: it has failed, or moves none */
};

struct kr_kernel_requests;

struct kr_kernel_requests *kr_kernel_requests_new(struct kr_mount *mount);
/* No request will come.  NULL is fine. */
void kr_kernel_requests_free(struct kr_kernel_requests *requests);
/* One more watcher, or one less.  With the last one all records go. */
void kr_kernel_requests_watch(struct kr_kernel_requests *requests, bool on);
bool kr_kernel_requests_watched(const struct kr_kernel_requests *requests);

/* A worker has received a MESSAGE of the kernel and will serve it. */
void kr_kernel_request_arrived(struct kr_kernel_requests *requests, const void *message);
/* For how long the request UNIQUE has waited, by cause, before its answer. */
void kr_kernel_request_waited(struct kr_kernel_requests *requests, uint64_t unique, const uint64_t waited_ns[KR_WAITS]);
/* The reply in IOV is about to be written (kr_shim_reply_fn): the watchers hear of it. */
void kr_kernel_request_answered(struct kr_kernel_requests *requests, const struct iovec *iov, int count);

#endif

/* The trace of a mount: what each process asks of which file, and what its requests wait for (kairan trace).
 *
 * While it is on, the thread that answers a request adds it to the sums of its process and file.  Every few seconds,
 * and when there are many sums, libuv's pool writes them as lines to LOCAL/trace (io_trace_format.h), and they begin
 * anew. So memory is bounded, and no request waits for the disk.  While it is off, a request costs two loads of an
 * atomic (kernel_requests.h). */
#ifndef KR_FUSE_IO_TRACE_H
#define KR_FUSE_IO_TRACE_H

#include <jansson.h>

#include "fuse/base/mount.h"

struct kr_kernel_request;
struct kr_io_trace;

struct kr_io_trace *kr_io_trace_new(struct kr_mount *mount);
/* Loop thread, before it ends: closes the timer. */
void kr_io_trace_close(struct kr_io_trace *trace);
/* The loop has ended, and no request will come; writes the sums that are left.  NULL is fine. */
void kr_io_trace_free(struct kr_io_trace *trace);

/* Loop thread.  Begins a new file; -EEXIST: it is on; other errors of the file, with a reason. */
int kr_io_trace_start(struct kr_io_trace *trace);
/* Loop thread.  Has the sums written, and the trace ended if STOP.  -ENODATA: it is off. */
int kr_io_trace_write(struct kr_io_trace *trace, bool stop);
/* Loop thread.  {"on", "writing", "file", "error"}, owned.  "writing": what was asked last is not in the file yet.
 * "error": why the trace has ended by itself; "": it has not. */
json_t *kr_io_trace_status(const struct kr_io_trace *trace);

/* Any thread: REQUEST has its answer.  TRACE may be NULL. */
void kr_io_trace_answered(struct kr_io_trace *trace, const struct kr_kernel_request *request);

#endif

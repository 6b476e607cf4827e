/* The access log: a line for each operation of programs, for clients that read it now (kairan log).
 *
 * While there is a reader, each request of the kernel has a record from its arrival to its reply.  The kernel's number
 * of the request finds the record, so it does not matter which thread replies.  The thread that replies first appends
 * the line to the buffers of the readers that want it.  A full buffer takes no line, and the reader counts those that
 * it has lost: no operation waits for a reader.  There are at most 4 readers, with buffers of 1 MiB.  Without readers,
 * a request costs two loads of an atomic.
 *
 * A line is a JSON object: {"time", "pid", "uid", "operation", "path", "to", "offset", "bytes", "errno", "us"}.
 *   time      when the request arrived, in seconds since 1970
 *   pid       the process; 0: the kernel itself, or a process of another PID namespace
 *   path, to  from the mount's root on ("/a/b"), as text (kr_text_utf8); a rename has two.  Left out where not known.
 *   offset    of a read or write
 *   bytes     read, written or copied
 *   errno     "ENOENT"; left out after success
 *   us        how long the operation took
 * {"lost": N} stands where N lines are missing.
 *
 * Any thread. */
#ifndef KR_FUSE_ACCESS_LOG_H
#define KR_FUSE_ACCESS_LOG_H

#include <sys/uio.h>

#include "common/rpc/wire.h"
#include "fuse/base/mount.h"

struct kr_access_log;
struct kr_access_reader;

/* Longer lines are lost. */
enum { KR_ACCESS_LINE_MAX = 60000 };

struct kr_access_log *kr_access_log_new(struct kr_mount *mount);
/* All readers have been freed, and no request will come.  NULL is fine. */
void kr_access_log_free(struct kr_access_log *log);

/* FILTER is a JSON object: lines come of operations of the process "pid" and the user "uid", on "path" or below it,
 * that took at least "slower_us"; each may be left out.  0; -EINVAL: FILTER is wrong; -EBUSY: there are too many
 * readers. */
int kr_access_reader_new(struct kr_access_log *log, const char *filter, struct kr_access_reader **ret_reader);
/* NULL is fine. */
void kr_access_reader_free(struct kr_access_reader *reader);
/* Moves the lines since the last call to RET_LINES, which the caller owns (kr_writer_fini). */
void kr_access_take(struct kr_access_reader *reader, struct kr_writer *ret_lines);

/* A worker has received a MESSAGE of the kernel and will serve it. */
void kr_access_arrived(struct kr_access_log *log, const void *message);
/* The reply in IOV is about to be written (kr_shim_reply_fn). */
void kr_access_answers(struct kr_access_log *log, const struct iovec *iov, int count);

#endif

/* The access log: a line for each operation of programs, for clients that read it now (kairan log).
 *
 * The thread that replies to a request (kernel_requests.h) first appends the line to the buffers of the readers that
 * want it.  A full buffer takes no line, and the reader counts those that it has lost: no operation waits for a reader.
 * There are at most 4 readers, with buffers of 1 MiB.
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

#include "common/rpc/wire.h"
#include "fuse/base/mount.h"

struct kr_access_log;
struct kr_access_reader;
struct kr_kernel_request;

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

/* Whether there is a reader: then requests must have paths. */
bool kr_access_is_read(const struct kr_access_log *log);
/* REQUEST has its answer. */
void kr_access_answered(struct kr_access_log *log, const struct kr_kernel_request *request);

#endif

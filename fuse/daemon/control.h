/* The mount's control socket (LOCAL/control).  The mount answers the kairan command's STATUS messages, also when the
 * server is away.  Loop thread.
 *
 *   what      argument             does
 *   status    -                    Nothing.
 *   flush     FILE, or empty       Starts to flush the file, or all files; the refused files, too.
 *   drain     milliseconds         The mount's end drains no longer than this from now.
 *   end       -                    Drains and ends, as SIGTERM does.  Copies of the mount in other namespaces do not
 *                                  keep the daemon alive.
 *   discard   FILE                 Drops the unflushed bytes of that file for good.
 *   trace     start, stop, write   Begins a trace (fuse/ops/io_trace.h), ends it, or has its sums so far written.  stop and
 *                                  write have happened when the status says so.
 *   log       filter               Answers with lines of the access log as they come (fuse/ops/access_log.h), each
 *                                  frame with whole lines, until the connection ends.
 *
 * A mount of root has a second socket, in /run/kairan, for all users.  There only `status` is answered, as far as it is
 * the user's (kr_mount_status_for).  The kernel says who asks (SO_PEERCRED); each user may have few connections and ask
 * a few times a second (EAGAIN: too often).
 *
 * FILE is a path, or a file's identity in hex.  All but `log` answer with the status as JSON (mount_status.h).
 */
#ifndef KR_FUSE_CONTROL_H
#define KR_FUSE_CONTROL_H

#include "fuse/base/mount.h"

struct kr_control;

/* Listens, and notes the address (control_address.h) for the mount on this device. */
int kr_control_new(struct kr_mount *mount, unsigned dev_major, unsigned dev_minor, struct kr_control **ret_control);
/* NULL is fine.  The loop frees the memory in a later turn. */
void kr_control_free(struct kr_control *control);

#endif

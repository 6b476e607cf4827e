/* The life of a mount, from the first HELLO to the end. */
#ifndef KR_FUSE_SERVE_H
#define KR_FUSE_SERVE_H

#include <jansson.h>
#include <stdbool.h>

struct kr_mount_options;
struct kr_local;

/* Mounts, serves until it is unmounted or a signal ends it (SIGTERM, SIGINT, SIGHUP), and drains.  READY runs in the
 * caller's thread when the mount is there and answers; it returns false to have the mount taken down again.  Returns 0
 * when all bytes are on the server, and 1 when some stay in the journal.  Returns -errno (reason in kr_fail_reason)
 * when the mount never came to be; then it leaves nothing behind.  Main thread.
 *
 * -ENOTCONN: the mount is there, but options->head is gone, so that all is lost.  Threads still run.  The caller
 * removes what is on the disk, and calls _exit.  -EHOSTDOWN: the same, but the head may still serve, and has not got
 * all bytes: the caller keeps what is on the disk.  Then the kernel ends what waits, and answers programs with ENOTCONN
 * until the mount is unmounted.  The daemon does not unmount: programs would find the directory below, and fill
 * that. */
int kr_serve(
	const struct kr_mount_options *options, struct kr_local *local, bool (*ready)(void *context), void *context);

/* The same without a mount, for the local directory of a dead node.  Brings the bytes in its journal to the server, as
 * that node would after its return, and ends.  *RET_BEFORE and *RET_AFTER (owned by the caller) are kr_flusher_status
 * after the journal was read, and at the end.  Returns as kr_serve does. */
int kr_serve_replay(
	const struct kr_mount_options *options, struct kr_local *local, json_t **ret_before, json_t **ret_after);

/* Keeps the privileges that a mount needs, and gives up all others. */
void kr_serve_give_up_privileges(void);

#endif

/* The life of a mount, from the first HELLO to the end. */
#ifndef KR_FUSE_SERVE_H
#define KR_FUSE_SERVE_H

#include <jansson.h>
#include <stdbool.h>

struct kr_mount_options;
struct kr_local;

/* Mounts, serves until unmounted or told to end (SIGTERM, SIGINT, SIGHUP), drains.  READY runs in the caller's thread
 * when the mount is there and answers; false from it means that nobody wants it any more.  Returns 0 when all was left
 * on the server, 1 when bytes stay in the journal, -errno (reason in kr_fail_reason) when it never came to be, with
 * nothing left behind.  Main thread. */
int kr_serve(
	const struct kr_mount_options *options, struct kr_local *local, bool (*ready)(void *context), void *context);

/* The same without a mount: brings what LOCAL's journal holds (a dead node's) to the server, as that node would if it
 * came back, and ends.  *RET_BEFORE and *RET_AFTER (owned by the caller): kr_flusher_status when it had been read, and
 * in the end.  Returns as kr_serve does. */
int kr_serve_replay(
	const struct kr_mount_options *options, struct kr_local *local, json_t **ret_before, json_t **ret_after);

#endif

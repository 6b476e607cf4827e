/* A mount of view=node, from its making to its end: main.c's other half for mounts without a server.  Main thread. */
#ifndef KR_FUSE_SERVE_VIEW_H
#define KR_FUSE_SERVE_VIEW_H

#include <stdbool.h>

#include "fuse/base/local_dir.h"
#include "fuse/base/options.h"

/* Mounts, calls READY, and returns when the mount has ended: 0, with all that it held removed; -errno with the
 * reason in kr_fail_reason.  READY false: unmounts again. */
int kr_serve_view(
	const struct kr_mount_options *options, struct kr_local *local, bool (*ready)(void *context), void *context);

#endif

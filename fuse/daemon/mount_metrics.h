/* A mount's metrics over HTTP (-o metrics=ADDR:PORT). */
#ifndef KR_FUSE_MOUNT_METRICS_H
#define KR_FUSE_MOUNT_METRICS_H

#include "fuse/base/mount.h"

/* Sets mount->metrics, if the options ask for metrics; end it with kr_metrics_stop.  Loop thread.  0 or -errno with a
 * reason. */
int kr_mount_metrics_start(struct kr_mount *mount);

#endif

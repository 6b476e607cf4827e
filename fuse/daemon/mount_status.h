/* A mount's status, for the kairan command. */
#ifndef KR_FUSE_MOUNT_STATUS_H
#define KR_FUSE_MOUNT_STATUS_H

#include <jansson.h>

#include "fuse/base/mount.h"

/* The status as JSON, owned by the caller; loop thread. NULL: out of memory. */
json_t *kr_mount_status(struct kr_mount *mount);
/* The same as far as the user UID may know it: without others' files, and without paths but those of that user's own
 * files. */
json_t *kr_mount_status_for(struct kr_mount *mount, uint32_t uid);
/* The numbers of that alone, without any file or path; owned by the caller; loop thread. */
json_t *kr_mount_figures(struct kr_mount *mount);

#endif

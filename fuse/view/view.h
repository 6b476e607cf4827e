/* A file system private to this node (view=node): a passthrough to LOCAL/kairan-view, a directory on a local disk that
 * nobody else can reach.  It is empty after the mount, and removed with all that it holds at the mount's end.
 *
 * Nobody but this daemon changes it, so the kernel may keep names and attributes for ever.  Reads and writes go past
 * the daemon where the kernel can do that (view_io.c says when), and a limit holds (project.h, space.h).
 *
 * Files of the folder: view.c, the directory, the handshake and the figures; inodes.c, the inodes that the kernel
 * knows; view_names.c, view_attr.c, view_dir.c and view_io.c, operations; as_caller.c, the caller's rights;
 * space.c, counting; project.c, the disk's own quota; passthrough.c, what the kernel wants for it; tree.c, removal.
 */
#ifndef KR_FUSE_VIEW_H
#define KR_FUSE_VIEW_H

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>
#include <jansson.h>

#include "fuse/base/mount.h"

struct kr_view;

/* They find their view by mount->view. */
extern const struct fuse_lowlevel_ops kr_view_operations;

/* Removes what a daemon that was killed has left, and makes the directory.  -errno with a sentence.  Main thread,
 * before others: gives up privileges. */
int kr_view_new(struct kr_mount *mount, struct kr_view **ret_view);
/* Removes the directory.  No operation comes any more.  NULL is fine. */
void kr_view_free(struct kr_view *view);
/* The figures of `kairan status`; any thread. */
json_t *kr_view_status(struct kr_view *view);

#endif

/* Changes of names and attributes that others make in the export: what nodes have noted of them is forgotten
 * (invalidation.h).
 *
 * Told by fanotify, on a descriptor of its own: so that many new names elsewhere in the filesystem do not make data
 * look changed when the kernel's queue overflows.  Where that is not to be had nobody may take notes.  Loop thread.
 */
#ifndef KR_SERVER_WATCH_NAMES_H
#define KR_SERVER_WATCH_NAMES_H

#include "common/base/types.h"

struct kr_server;

/* Begins to listen, and allows notes if that can be. Never fails. */
void kr_watch_names_start(struct kr_server *server);
/* Closes the handles; the loop must run until they are closed. */
void kr_watch_names_stop(struct kr_server *server);
void kr_watch_names_free(struct kr_server *server);

#endif

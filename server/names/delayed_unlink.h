/* Small files that have lost their name, for the moment in which somebody may still open them.
 *
 * A program's open is two requests, LOOKUP and OPEN.  On a local disk nothing comes between the two; here a rename or
 * removal can, and who reads a file that is replaced, or removed and made anew, again and again would meet ESTALE (the
 * kernel looks the name up again only once).  So the server itself keeps such a file open for KR_DELAYED_UNLINK_MS: an
 * open that looked the name up before finds the file of then. Not more than KR_DELAYED_UNLINK_MAX of them (then the
 * oldest ends), none larger than KR_DELAYED_UNLINK_SIZE_MAX, and none where space or inodes run short (remove.c): who
 * removes a file to have its room shall have it at once.  Loop thread.
 */
#ifndef KR_SERVER_DELAYED_UNLINK_H
#define KR_SERVER_DELAYED_UNLINK_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"

struct kr_fid;
struct kr_server;

enum { KR_DELAYED_UNLINK_MS = 2000, KR_DELAYED_UNLINK_MAX = 256, KR_DELAYED_UNLINK_SIZE_MAX = 64 * 1024 };

struct kr_delayed_unlink {
	struct kr_list files; /* the oldest first */
	size_t count;
};

void kr_delayed_unlink_init(struct kr_server *server);
/* Takes the hold of a file that kr_export_rename or kr_export_remove has let linger. The file, borrowed. */
struct kr_sfile *kr_delayed_unlink_add(struct kr_server *server, const struct kr_fid *fid);
void kr_delayed_unlink_tick(struct kr_server *server, uint64_t now_ns);
/* All of them end now; their last jobs begin. */
void kr_delayed_unlink_end(struct kr_server *server);
/* What could not be ended any more stays among the export's orphans, until the next start. */
void kr_delayed_unlink_fini(struct kr_server *server);

#endif

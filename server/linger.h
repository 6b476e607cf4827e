/* Files that a rename has replaced, for the moment in which somebody may still open them.
 *
 * A program's open is two requests, LOOKUP and OPEN.  On a local disk nothing comes between the two; here another rename can, and who
 * reads a file that is replaced again and again would meet ESTALE (the kernel looks the name up again only once).  So the
 * server itself keeps a file that was replaced open for KR_LINGER_MS, and not more than KR_LINGER_MAX of them: an open that looked
 * the name up before the rename finds the file of then.  A file whose name is removed does not linger: where its name is looked up again
 * it is not there.  Loop thread.
 */
#ifndef KR_SERVER_LINGER_H
#define KR_SERVER_LINGER_H

#include <stddef.h>
#include <stdint.h>

#include "common/list.h"

struct kr_fid;
struct kr_server;

enum { KR_LINGER_MS = 2000, KR_LINGER_MAX = 256 };

struct kr_linger {
	struct kr_list files; /* the oldest first */
	size_t count;
};

void kr_linger_init(struct kr_server *server);
/* Takes the hold of a file that kr_export_rename has let linger. The file, borrowed. */
struct kr_sfile *kr_linger_add(struct kr_server *server, const struct kr_fid *fid);
void kr_linger_tick(struct kr_server *server, uint64_t now_ns);
/* All of them end now; their last jobs begin. */
void kr_linger_end(struct kr_server *server);
/* What could not be ended any more stays among the export's orphans, until the next start. */
void kr_linger_fini(struct kr_server *server);

#endif

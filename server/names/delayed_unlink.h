/* Small files that have lost their name, kept while a node may still open them.
 *
 * A program's open is two requests, LOOKUP and OPEN.  On a local disk nothing comes between the two; here a rename or
 * removal can.  The kernel repeats the lookup only once, so a program that opens a file which others replace again and
 * again would meet ESTALE.  So the server keeps such a file open for KR_DELAYED_UNLINK_MS, and the OPEN finds the file
 * of its LOOKUP.  A file that has had its name for KR_EXPORT_YOUNG_S does not need that: the second lookup finds no
 * name, or a younger file.
 *
 * At most KR_DELAYED_UNLINK_MAX files are kept (then the oldest ends), none larger than KR_DELAYED_UNLINK_SIZE_MAX.
 * None is kept where space or inodes run short (remove.c): a program that removes a file for its room gets the room at
 * once.  Loop thread.
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
/* Takes over the hold of a file whose removal kr_export_rename or kr_export_remove has delayed.  Returns the file,
 * borrowed. */
struct kr_sfile *kr_delayed_unlink_add(struct kr_server *server, const struct kr_fid *fid);
void kr_delayed_unlink_tick(struct kr_server *server, uint64_t now_ns);
/* All of them end now; their last jobs begin. */
void kr_delayed_unlink_end(struct kr_server *server);
/* The rest stays among the export's orphans until the next start. */
void kr_delayed_unlink_fini(struct kr_server *server);

#endif

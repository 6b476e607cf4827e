/* fsync of a directory, and the server's loss of power before it.
 *
 * An fsync of a directory confirms that its changes are on the server's disk; without one they get there after a while.
 * If the server loses power first, they are lost, as on a local disk.  But a local program would be gone, too; here it
 * lives on, and the server's next boot answers its fsync with success.  So the node remembers which directories it has
 * changed.  Within KR_DIR_LOST_S after it heard of the boot, one fsync of each fails (EIO), whoever calls it.
 *
 * A change that had been made KR_DIR_SETTLED_S before the server was last heard counts as on the disk: file systems
 * write down their names within half a minute.  After a clean shutdown the server has lost nothing, and the node
 * hears of no other boot (server/base/clean_shutdown.h). The node remembers KR_DIR_FSYNC_MAX directories at most, the
 * latest changed.  Loop thread, but for kr_dir_fsync_begin.
 */
#ifndef KR_FUSE_DIR_FSYNC_H
#define KR_FUSE_DIR_FSYNC_H

#include <stddef.h>
#include <stdint.h>

#include "common/rpc/msg.h"

struct kr_dir_fsync;

enum { KR_DIR_FSYNC_MAX = 65536, KR_DIR_SETTLED_S = 60, KR_DIR_LOST_S = 600 };

struct kr_dir_fsync *kr_dir_fsync_new(void);
void kr_dir_fsync_free(struct kr_dir_fsync *syncs);
/* The request ASKED of TYPE has been answered with success and REPLY at NOW_NS (kr_clock_ns). */
void kr_dir_fsync_answered(struct kr_dir_fsync *syncs, uint16_t type, const union kr_any_msg *asked,
	const union kr_any_msg *reply, uint64_t now_ns);
/* A name of DIR has been changed at NOW_NS. */
void kr_dir_fsync_changed(struct kr_dir_fsync *syncs, const struct kr_fid *dir, uint64_t now_ns);
/* At NOW_NS it is heard that the server's machine has booted; before that it was heard until HEARD_NS. Returns how many
 * more directories may have lost changes. */
size_t kr_dir_fsync_booted(struct kr_dir_fsync *syncs, uint64_t heard_ns, uint64_t now_ns);
/* Before a sync of DIR is asked for: what kr_dir_fsync_end wants to know. Any thread. */
uint64_t kr_dir_fsync_begin(const struct kr_dir_fsync *syncs);
/* A sync of DIR has been answered with ERR at NOW_NS: what the program is to be told. */
int kr_dir_fsync_end(struct kr_dir_fsync *syncs, const struct kr_fid *dir, uint64_t begun, int err, uint64_t now_ns);

#endif

/* Which rounds of a former boot have been replayed in this one, kept beyond the end of the server's process.  A node
 * may not have got the answer, and replays them once more at the next start: that must not cover what came after them.
 * The page cache outlives the process and has what was applied; the order in which that happened
 * was known to the process alone (applied.h), and the nodes that were answered do not replay theirs again.
 *
 * Hence the rule (flush_round.c): a replay that has been applied is written down before it is answered and before the
 * next round of its file begins.  Killed before that, nothing has come after it, and it may be applied again.  Nothing
 * is synced: what the machine's end takes away is the machine's end's business, all is replayed then, in the order of
 * rounds.
 *
 * That order goes on over restarts: what a node brings at the next start (it was away before, or lost, or had been
 * refused) is out of its turn when others' later ones are there (kr_replayed_others; flush.c refuses it, late.c judges
 * it then).
 *
 * What nodes flush that is no replay, before the grace period of a new boot is over, is written down in the same way:
 * it is later than all that may be collected at the next start.
 *
 * `replayed` in the state directory is a log of lines (line_log.h):
 *   boot ID               the boot of the machine (32 hex digits) that all others are of; those of another mean nothing
 *   node ID FID SEQ ROUND ORDER of the journal of the node ID all up to SEQ has been applied to the file FID, the last
 *                         in ROUND; the highest `replay_order` among it is ORDER (of what is no replay, ROUND; of an
 *                         earlier version, which wrote none, 0)
 *   lost FID              ... of no node any more: a sync of the file failed
 * It is begun anew in each boot, and written anew when it is longer than what counts of it.  What it says is put into
 * struct kr_applied when it is opened, which is as bounded as ever: of what was pushed out there nothing is known.
 * Loop thread; what blocks runs in the pool, one write for all that has come up meanwhile.
 */
#ifndef KR_SERVER_REPLAYED_H
#define KR_SERVER_REPLAYED_H

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"
#include "server/flush/applied.h"

struct kr_server;

enum { KR_REPLAYED_LOG = 2 * KR_APPLIED_MAX }; /* lines after which the log is written anew */

struct kr_replayed {
	struct kr_server *server;
	struct kr_applied *applied; /* borrowed: what is known, also beyond the log */
	int dir, fd;
	uint8_t boot_id[16];
	struct kr_list notes;   /* to be written */
	struct kr_table former; /* struct former of replayed.c: files of which former processes have applied replays */
	uint64_t lines;         /* of the log, but for the first; 0: there was no replay in this boot */
	bool writing, failing;  /* a write is under way; the last one failed: kr_replayed_tick tries again ... */
	bool given_up;          /* ... or nobody does */
	bool rewrite;           /* the next one is of the whole log */
};

/* Reads DIR/replayed into APPLIED, if it is of the boot BOOT_ID. 0 or -errno with a reason. Blocks. */
int kr_replayed_open(struct kr_replayed *replayed, struct kr_server *server, int dir, const uint8_t boot_id[16],
	struct kr_applied *applied);
/* No write may be under way; DONE of what is not written is never called. */
void kr_replayed_close(struct kr_replayed *replayed);

/* The highest ORDER of what former processes of this boot have applied of FILE, and of other journals than NODE_ID;
 * 0: none. */
uint64_t kr_replayed_others(const struct kr_replayed *replayed, const struct kr_fid *file, const uint8_t node_id[16]);

/* REPLAY of the journal NODE_ID counts among APPLIED as soon as it is written down: then DONE in
 * the loop. It is tried until it succeeds, or the server stops (then DONE with the error). */
void kr_replayed_note(struct kr_replayed *replayed, const struct kr_fid *file, const uint8_t node_id[16],
	const struct kr_applied_replay *replay, void (*done)(void *context, int err), void *context);
/* A sync of FILE failed: what the log says of it counts no more. Then DONE, at once if it says nothing; tried once.
 * (What APPLIED says is the caller's business.) */
void kr_replayed_lose(
	struct kr_replayed *replayed, const struct kr_fid *file, void (*done)(void *context, int err), void *context);
/* Tries again what could not be written. */
void kr_replayed_tick(struct kr_replayed *replayed);
/* The server stops: what cannot be written now never is; what waits is answered with -EAGAIN. */
void kr_replayed_give_up(struct kr_replayed *replayed);
bool kr_replayed_busy(const struct kr_replayed *replayed);

#endif

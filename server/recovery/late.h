/* Late nodes: what becomes of bytes that a node brings after it has lost its leases (P7).
 *
 * RECLAIM of a late node (its session has a lapse, lapses.h) that has bytes of a file waits until the other nodes have
 * given up their leases of it. Then all that they wrote is here. The server looks whether the file has changed since
 * the lapse, other than by that node's own rounds. If not, the node gets READ and WRITE with the answer, and nobody
 * comes in between before it has flushed: it does that before it gives READ back. If so, that is declared, durably
 * (conflict_log.h), before the node is told. CONFLICT gives it a file for them (conflict_request.c).
 *
 * What counts as a change, for a lapse of this instance: any change of the file's bytes or size, seen by its epoch.
 * Where the kernel does not tell of others' changes, one of attributes or names may count as well (last_stat.h). For
 * one of before its start (and for files that have left the table): the file's ctime against the last moment at which
 * the node knew it had the file for itself; a chmod then counts as well. Where others could have the file from that
 * very moment on, what was changed in the second before it counts, too, because clocks differ, and the times of files
 * tick.
 *
 * Bytes that this server refused are late, too, when their node has given a lease back with them (cover.h): since that
 * moment, or if nobody here knows it, since what the node says.
 *
 * Rounds to be replayed after a loss of the server's power, but not in their turn (because they were refused then),
 * are judged in the same way. So are those that later ones have overtaken, perhaps before this instance's start, by
 * their ctime. FLUSH drops those that are durable, or were replayed in this boot. Out of its turn, too, is what is
 * older than what others have replayed before a restart (replayed.h): FLUSH refuses that, and it is judged when it is
 * reclaimed again. And a file that is gone then may have been un-created by that loss: whatever a node brings of it
 * while replays are collected is in conflict, and so comes back beside where it was. Loop thread.
 */
#ifndef KR_SERVER_LATE_H
#define KR_SERVER_LATE_H

#include "common/rpc/msg.h"
#include "server/leases/file_table.h"

struct kr_request;

/* Such a RECLAIM until it is answered; zeros: none. */
struct kr_late_claim {
	struct kr_link link;
	const struct kr_session *session;
};

/* Whether what a RECLAIM says of its bytes can be. */
bool kr_late_claims_valid(const struct kr_reclaim_request *msg);
/* Whether a RECLAIM must wait for the end of the grace period: only what awaited nodes had is theirs before. */
bool kr_late_must_wait(const struct kr_request *request);
/* Whether a RECLAIM is for late bytes, so that others' leases are in its way. (Replays of an awaited one that have been
 * overtaken are judged as well, but it comes before others have got any.) */
bool kr_late_has_bytes(const struct kr_request *request);
/* Whether the replays of a RECLAIM have to be judged: what is there already is dropped when it comes. */
bool kr_late_has_replays(const struct kr_request *request);
/* Whether such a RECLAIM is in conflict at once, because another node that is reclaiming itself has got WRITE already,
 * or is about to (claims): that one can flush only when all its own RECLAIMs are answered, and they may wait for this
 * node. */
bool kr_late_contested(const struct kr_request *request, const struct kr_sfile *file);
void kr_late_claim_begin(struct kr_late_claim *claim, const struct kr_request *request, struct kr_sfile *file);
void kr_late_claim_end(struct kr_late_claim *claim);
/* The judgement on a RECLAIM: which of its bytes are in conflict (enum kr_conflict_part). ATTR: of the file now; NULL:
 * it is gone. CONTESTED: as above. */
uint8_t kr_late_conflict(
	struct kr_request *request, const struct kr_sfile *file, const struct kr_attr *attr, bool contested);
/* Declares that PARTS of the bytes of this RECLAIM are in conflict (INO for the log, 0: not known); then DONE, with
 * request->err as it was, or -EIO: it could not be written down, and the node keeps them. */
void kr_late_declare(struct kr_request *request, const struct kr_sfile *file, uint8_t parts, uint64_t ino,
	void (*done)(struct kr_request *request));

#endif

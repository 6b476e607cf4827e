/* The flush room: rounds, syncs, ring connections.
 *
 * One struct kr_data per server, made after the loop, the export and the tables; handlers register themselves in the
 * dispatch table.  Loop thread only; what blocks runs in libuv's pool.
 */
#ifndef KR_SERVER_DATA_H
#define KR_SERVER_DATA_H

#include <jansson.h>

#include "common/rpc/conn.h"
#include "server/flush/flush.h"
#include "server/flush/stable.h"
#include "server/flush/synced.h"

struct kr_server;
struct kr_session;

/* Makes the flush room of SERVER and registers FLUSH and FSYNC.  0 or -errno. */
int kr_data_init(struct kr_server *server, struct kr_data **ret_data);
/* The clean shutdown begins: no round begins any more, ring connections close, applied bytes are synced at once.  Then
 * wait for kr_data_idle, and end the sessions. */
void kr_data_stop(struct kr_data *data);
/* No round is under way and everything applied is synced. */
bool kr_data_idle(const struct kr_data *data);
/* Stops what is left, drops its references to files, and closes its handles: the loop must run until they are closed;
 * then kr_data_free. No jobs may be in the pool. */
void kr_data_fini(struct kr_data *data);
void kr_data_free(struct kr_data *data);

/* For RECLAIM: what of the journal of SESSION's node is applied to FILE in this boot; zeros when unknown.  The server
 * sends STABLE (or UNSTABLE) of FILE after a sync. */
void kr_data_reclaimed(struct kr_sfile *file, struct kr_session *session, uint64_t *ret_seq, uint64_t *ret_round,
	uint64_t *ret_forgotten);
/* While the server collects replays, flushes wait, so that it can apply replays in round order.  It collects after a
 * boot of the machine, during the grace period.  Call with true before the first session.  Call with false when all
 * nodes have sent RECLAIM_DONE or the grace period has ended.  Then the replays are applied; when kr_data_replaying
 * becomes false, the grace period ends. */
void kr_data_collect_replays(struct kr_data *data, bool collecting);
bool kr_data_collecting(const struct kr_data *data);
bool kr_data_replaying(const struct kr_data *data);

/* All nodes that have rounds of a former boot to replay are back or judged.  From now on the floor of what is known to
 * be synced (synced.h) may rise. */
void kr_data_settled(struct kr_data *data);
/* What is known of the rounds that the node claims to replay.  Rounds that it has replayed in this boot count as
 * synced. */
enum kr_synced_verdict kr_data_judge_replays(
	struct kr_data *data, const uint8_t node_id[16], const struct kr_reclaim_request *claim);
/* Whether a former process of this boot has applied replays of FILE by other nodes. */
bool kr_data_replayed_others(const struct kr_data *data, const struct kr_fid *file, const uint8_t node_id[16]);
/* Up to which sequence number of the node's journal more may be applied to FILE than is known; 0: none. */
uint64_t kr_data_forgotten(struct kr_data *data, const struct kr_fid *file, const uint8_t node_id[16]);
/* A SETATTR has set the mtime of FILE to MTIME: a running round must not change it. */
void kr_data_mtime_set(struct kr_sfile *file, struct kr_time mtime);
/* Rounds, writes (number, mean size), syncs, blocks served: an object for STATUS; owned by the caller. */
json_t *kr_data_status(const struct kr_data *data);

#endif

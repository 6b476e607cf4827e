/* The flush room: rounds, syncs, ring connections.
 *
 * One struct kr_data per server, made after the loop, the export and the tables; handlers register themselves in the
 * dispatch table.  Loop thread only; what blocks runs in libuv's pool.
 */
#ifndef KR_SERVER_DATA_H
#define KR_SERVER_DATA_H

#include <jansson.h>

#include "common/rpc/conn.h"
#include "server/flush/commit.h"
#include "server/flush/flush.h"

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

/* A SETATTR has set the mtime of FILE to MTIME: a running round must not change it. */
void kr_data_mtime_set(struct kr_sfile *file, struct kr_time mtime);
/* Rounds, writes (number, mean size), syncs, blocks served: an object for STATUS; owned by the caller. */
json_t *kr_data_status(const struct kr_data *data);
/* The ring connections, and what moves their data: an array for STATUS; owned by the caller. */
json_t *kr_data_hops(const struct kr_data *data);
/* The first files whose writers wrote the same bytes: an array for STATUS; owned by the caller. */
json_t *kr_data_overlaps(const struct kr_data *data);

#endif

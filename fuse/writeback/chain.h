/* This node's part in a flush round: own extents, merged with the upstream neighbour's stream, go on to the downstream.
 *
 * Loop thread.  ROUND names the downstream.  The stream to the downstream has a connection (lane) of its own, kept idle
 * for the next round.  The upstream's STREAM comes in on a ring connection that carries nothing else meanwhile.  The
 * STREAM may come before our ROUND.  Then the node pauses the connection until ROUND comes, or for KR_CHAIN_EARLY_MS:
 * the server may have aborted the round before its stream came. ring/merge.h merges.
 *
 * Bounds: at most KR_CHAIN_WINDOW bytes are queued to the downstream's connection.  At most KR_CHAIN_INPUT of the
 * upstream's extents are held; then the upstream's connection is paused.  At most twice KR_CHAIN_READ own bytes
 * are read ahead from the journal, in libuv's pool.  Failure of either connection, a bad checksum or an unreadable
 * journal ends the stream.  The downstream hears of the end by STREAM_END's error or the end of the connection, the
 * server by the break.  The server aborts the round, and the FLUSH stays asked.  Nothing here decides that bytes are
 * applied: only the reply to FLUSH does.
 */
#ifndef KR_FUSE_CHAIN_H
#define KR_FUSE_CHAIN_H

#include "common/base/extent_map.h"
#include "common/rpc/msg.h"
#include "fuse/base/mount.h"
#include "fuse/readcache/hops.h"

enum {
	KR_CHAIN_WINDOW = 4 << 20,
	KR_CHAIN_INPUT = 4 << 20,
	KR_CHAIN_READ = 1 << 20,
	KR_CHAIN_IDLE_LANES = 8,
	KR_CHAIN_EARLY_MS = 60000
};

struct kr_chain;
struct kr_chains;

/* Registers STREAM, EXTENT and STREAM_END with the hops.  ON_EARLY: a stream waits for its ROUND (kr_chains_tick). */
int kr_chains_new(struct kr_mount *mount, void (*on_early)(struct kr_flusher *flusher), struct kr_chains **ret_chains);
/* Drops all streams and lanes; they are gone when the loop has run. */
void kr_chains_stop(struct kr_chains *chains);
void kr_chains_free(struct kr_chains *chains);
/* Calls EACH for the connections to downstreams, as kr_hops_each. */
void kr_chains_each(const struct kr_chains *chains, kr_hop_each_fn each, void *context);
/* The session is another: its early streams and idle lanes are dropped (each running chain by its send). */
void kr_chains_session_lost(struct kr_chains *chains);
/* Now and then: drops streams that have waited too long for their ROUND.  Whether there are streams. */
bool kr_chains_tick(struct kr_chains *chains, uint64_t now_ns);

/* How a stream ended, once, unless aborted: 0 all is with the downstream; -EBADMSG or -EIO with `own` the journal's own
 * bytes cannot be read; else a connection broke. */
typedef void (*kr_chain_done_fn)(void *context, int err, bool own);

/* Streams EXTENTS (borrowed until the chain ends or is aborted; their journal bytes are held) of FILE as ROUND
 * says. NULL: out of memory. */
struct kr_chain *kr_chain_start(struct kr_chains *chains, const struct kr_round_request *round,
	const struct kr_extent_map *extents, kr_chain_done_fn done, void *context);
/* Ends it without DONE; NULL is fine. */
void kr_chain_abort(struct kr_chain *chain);
/* About how many own bytes it has sent. */
uint64_t kr_chain_sent(const struct kr_chain *chain);
/* The server aborted a round that we may have early streams of. */
void kr_chains_forget_round(struct kr_chains *chains, const struct kr_fid *file, uint64_t round);

#endif

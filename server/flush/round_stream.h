/* The stream of a chained round as it arrives from the last participant: checked, collected, written.
 *
 * An extent must match its checksum and lie after the former one, and STREAM_END must announce the right counts.  Else
 * the round is broken and run again.  Extents are collected into KR_ROUND_STREAM_JOBS jobs of up to
 * KR_ROUND_STREAM_JOB bytes.  More than KR_ROUND_STREAM_MAX unwritten bytes pause the connection.  So does
 * KR_ROUND_STREAM_SHARE while all rounds have more than KR_ROUND_STREAM_TOTAL.  Loop thread.
 */
#ifndef KR_SERVER_ROUND_STREAM_H
#define KR_SERVER_ROUND_STREAM_H

#include "common/rpc/conn.h"
#include "common/base/list.h"

struct kr_apply;
struct kr_hop;
struct kr_sfile;

enum {
	KR_ROUND_STREAM_JOB = 4 << 20,
	KR_ROUND_STREAM_JOBS = 2,
	KR_ROUND_STREAM_MAX = 16 << 20,
	KR_ROUND_STREAM_SHARE = 1 << 20,
	KR_ROUND_STREAM_TOTAL = 256 << 20,
};

struct kr_round_stream {
	struct kr_sfile *file; /* borrowed: a file with a round stays */
	uint64_t round;
	uint32_t node;      /* the sender */
	struct kr_hop *hop; /* NULL before STREAM, after STREAM_END and once the connection has broken */
	struct kr_link of_hop, throttled;
	uint64_t stream; /* id of the STREAM request, to be answered */
	uint64_t next, extents, bytes;
	struct kr_apply *batch; /* being collected */
	size_t jobs, memory;    /* at work; held by batch and jobs */
	uint64_t moved_ns;      /* time of the latest progress */
	bool begun, ended, discarded, paused;
	bool failed; /* a write failed: nothing more is started */
};

/* Returns a round stream that is ready for ROUND from NODE. */
struct kr_round_stream *kr_round_stream_new(struct kr_sfile *file, uint64_t round, uint32_t node);
/* The round is aborted: kr_flush_drained when no job runs any more, perhaps from inside this call.  Takes
 * ROUND_STREAM. */
void kr_round_stream_discard(struct kr_round_stream *round_stream);
/* The server stops. */
void kr_round_stream_free(struct kr_round_stream *round_stream);

/* Frames of a ring connection. */
void kr_round_stream_begin(struct kr_hop *hop, const struct kr_frame *frame);
void kr_round_stream_extent(struct kr_hop *hop, const struct kr_frame *frame);
void kr_round_stream_end(struct kr_hop *hop, const struct kr_frame *frame);
/* The connection has ended: its streams are broken. */
void kr_round_stream_hop_closed(struct kr_hop *hop);

#endif

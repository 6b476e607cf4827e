/* FLUSH and its rounds: connects round.c with sessions, streams (round_stream.c), writes (apply.c) and syncs
 * (commit.c).
 *
 * Loop thread.  struct kr_sfile_data is the flush room's state of one file: `data` in struct kr_sfile.
 */
#ifndef KR_SERVER_FLUSH_H
#define KR_SERVER_FLUSH_H

#include "common/base/types.h"
#include "server/flush/round.h"
#include "server/flush/commit.h"

struct kr_data;
struct kr_sfile;
struct kr_round_stream;

/* A participant of the running round, and up to where its journal goes in. */
struct kr_flush_part {
	uint32_t node;
	uint8_t node_id[16];
	uint64_t seq; /* 0: not accepted yet */
};

struct kr_sfile_data {
	struct kr_data *owner;
	struct kr_sfile *file;
	struct kr_rounds rounds;
	bool executing;           /* actions of `rounds` */
	struct kr_link busy;      /* in the owner's list of files with flushes; holds a reference to the file */
	struct kr_link gathering; /* in the owner's list: the next round waits until gather_ns for other writers */
	uint64_t gather_ns;
	struct kr_commit commit;
	struct kr_list pipelines; /* kr_reader_pipeline.of_file: one for each ring that reads the file */

	/* Of the running round. */
	struct kr_round_stream *round_stream; /* while a chain's stream comes in */
	uint64_t received_ns;                 /* when the latest was complete */
	struct kr_flush_part *parts;
	uint32_t part_count, part_capacity;
	bool changing, clear_suid, base_known;
	bool resend;                 /* only what differs from the file is written ... */
	bool differs;                /* ... and something did */
	uint64_t epoch_before;       /* file->changed_epoch before the round ... */
	struct kr_time ctime_before; /* ... and its ctime; INT64_MAX s: not known */
	uint64_t round_overlapped;   /* bytes of the round that more than one node had written */
	uint64_t overlapped;         /* ... of all rounds since the file was entered into the table */
	uint64_t changes; /* file->changes as the round left it: after other changes its attributes are outdated */
	uint64_t base_changes, base_version; /* ... before the round, and the version then */
	struct kr_time mtime;                /* the participants' latest */
	struct kr_attr after;                /* what it replies */

	struct kr_time mtime_rounds; /* latest that rounds have set since a SETATTR */
	struct kr_time mtime_set;    /* by SETATTR, during a round */
	bool mtime_is_set;
};

#endif

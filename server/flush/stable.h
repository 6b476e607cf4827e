/* Makes applied rounds stable: a queue of files to fdatasync, STABLE or UNSTABLE to those whose rounds they were.
 *
 * Loop thread; the syncs run in libuv's pool, at most KR_STABLE_PARALLEL at once.  A file is synced within
 * KR_STABLE_DELAY_MS of its round, at once when somebody waits.  A sync covers the rounds that were applied when it
 * began; rounds after a failed sync's last good one are reported UNSTABLE and never called stable later (unstable.c).
 *
 * Where more than one node has rounds, what is synced is written down before anybody is told (synced.h): else a node
 * that was away would, after a crash of this machine, replay its older round over the bytes of those that have let go
 * of theirs.
 */
#ifndef KR_SERVER_STABLE_H
#define KR_SERVER_STABLE_H

#include "common/base/list.h"

struct kr_data;
struct kr_sfile;
struct kr_session;

enum { KR_STABLE_PARALLEL = 4, KR_STABLE_DELAY_MS = 500 };

/* ERR: 0, or the negative errno of the sync. Called from the loop, never from inside kr_stable_wait. */
typedef void (*kr_stable_fn)(void *context, int err);

/* A node whose journal waits for STABLE of this file: its rounds up to ROUND. */
struct kr_stable_owner {
	uint8_t node_id[16];
	uint64_t round;
};

/* Embedded in struct kr_sfile_data. */
struct kr_stable {
	struct kr_link queued; /* in the queue of files to sync, or nowhere; queued or running holds the file */
	struct kr_list waiters;
	struct kr_stable_owner *owners;
	uint32_t owner_count, owner_capacity;
	uint64_t applied; /* last round applied */
	uint64_t good;    /* last round known to be stable */
	uint64_t due_ns;
	bool running;           /* a sync is under way */
	bool again;             /* it is to be followed by another */
	bool full;              /* the next one syncs metadata too */
	uint64_t first;         /* the earliest round that no sync which has begun covers; 0: none */
	uint64_t syncing;       /* ... that the present one covers */
	struct kr_link in_sync; /* in the list of those that are being synced */
	uint8_t writer[16];     /* whose the last round was ... */
	uint64_t writer_round;  /* ... and its number */
	uint64_t others_round;  /* the last round of anybody else */
	bool cut_owed; /* a change that is in no journal (truncate_barrier.h) has been made, and its sync failed */
	int taint;     /* a sync failed while a round was running: the round is run once more */
	struct kr_list asked;     /* of unstable.c: UNSTABLEs that no round may begin before ... */
	uint64_t asked_until_ns;  /* ... but from then on they are not waited for ... */
	struct kr_link restoring; /* ... in the list of the files of which that is so */
};

/* Everything that has been applied to FILE (and any other change made before this call) is on stable storage when
 * CALLBACK runs. DATA_ONLY: fdatasync suffices. NODE_ID: who waits. FILE is kept alive meanwhile. */
void kr_stable_wait(
	struct kr_sfile *file, const uint8_t node_id[16], bool data_only, kr_stable_fn callback, void *context);
/* Whether a crash of this machine now could be followed by a replay of some other node's rounds of FILE. */
bool kr_stable_others(const struct kr_sfile *file, const uint8_t node_id[16]);

#endif

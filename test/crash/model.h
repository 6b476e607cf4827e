/* The server that the node of the journal's life talks to: what it has applied of this node and of others, what of it
 * is on its disk, and what it knows to be synced (the real server/flush/synced.c) and replayed (replayed.c).
 * Single-threaded, but for the writes of these, which are waited for. */
#ifndef KR_TEST_CRASH_MODEL_H
#define KR_TEST_CRASH_MODEL_H

#include "server/daemon/life.h"
#include "server/flush/synced.h"
#include "server/flush/flush.h"
#include "server/leases/file_table.h"
#include "server/leases/invalidation.h"
#include "server/pipelines/staging.h"
#include "server/recovery/recovery.h"
#include "server/session/session.h"

enum { FILES = 4, CELLS = 192, THEIRS = 16 };

/* A round of another node, which that node replays after a loss of the server's power: all are there, but this one
 * perhaps. */
struct model_round {
	uint64_t order;
	uint32_t cells[CELLS];
};

struct model_file {
	uint32_t content[CELLS], durable[CELLS]; /* numbers of writes */
	uint64_t applied_seq;                    /* of the node, as far as this instance knows */
	uint64_t synced;                         /* rounds up to this one are durable */
	struct model_round theirs[THEIRS];       /* not known to be synced, ascending */
	int their_count;
};

struct model {
	struct model_file files[FILES];
	uint64_t instance, round;
	uint8_t boot;
	bool forgetful; /* broken on purpose: it does not know what is synced ... */
	bool oblivious; /* ... or, once started anew, what was replayed */
	uv_loop_t loop;
	struct kr_server server;
	struct kr_synced synced;
	struct model_replays *replays; /* the server and the node both have a struct kr_applied */
	int dir;
};

struct kr_fid model_fid(int index);

/* DIRECTORY is empty. */
void model_begin(struct model *model, const char *directory);
void model_end(struct model *model);
/* A restart of its process, or (REBOOT) a loss of its machine's power: what was not synced is gone. */
void model_restart(struct model *model, bool reboot);
/* Syncs FILE; that is written down if other nodes have rounds, and they hear of it. */
void model_sync(struct model *model, int file);
/* It has applied a replay of this node, up to SEQ, as round ROUND. */
void model_replayed(struct model *model, int file, uint64_t seq, uint64_t round);
/* Up to where its next process would know that. */
uint64_t model_replayed_seq(struct model *model, int file);
/* Another node writes CELLS (0: not that one). */
void model_write(struct model *model, int file, const uint32_t cells[CELLS]);
/* What it says of the round ROUND when this node replays it. */
enum kr_synced_verdict model_judge(const struct model *model, int file, uint64_t round);
/* The other nodes' rounds of FILE from number *NEXT on that come before ORDER go into CONTENT. */
void model_replay(const struct model *model, int file, int *next, uint64_t order, uint32_t content[CELLS]);

#endif

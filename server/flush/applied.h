/* What of each node's journal has been applied to which file in this boot: the answer to a RECLAIM.  Bounded: the least
 * recently used entry goes (of those whose nodes have been told of all losses, as a rule), and then "nothing known" is
 * the answer (the node flushes again).  Up to which sequence number entries of a node have been forgotten is kept: a
 * node that has lost power may have old bytes without the newer ones, and must not take "nothing known" for "nothing
 * applied".  Loop thread; PURE.
 */
#ifndef KR_SERVER_APPLIED_H
#define KR_SERVER_APPLIED_H

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"

enum { KR_APPLIED_MAX = 65536, KR_APPLIED_NODES_MAX = 4096 };

struct kr_applied_entry {
	struct kr_table_link link;
	struct kr_link use;
	struct kr_fid file;
	uint8_t node_id[16];
	uint64_t seq, round; /* the latest */
	bool replayed;       /* there were replays among it: replayed.h keeps it ... */
	uint64_t order;      /* ... and the highest `replay_order` of them */
	int unstable_err;    /* not 0: rounds after `good` were lost by a failed sync and the node has not taken note */
	uint64_t good, last; /* ... and up to `last` */
	bool lossy;          /* there was such a loss: a flush on its way then may lack the lost bytes.  So SEQ stays 0:
			      * no position tells any more what is applied */
	bool owing; /* ... and the node has not said since that it has nothing of the file to send, nor sent all it had
		     */
	bool resending;              /* ... but all of it is in the replays that it has sent since */
	uint64_t incarnation, since; /* the first FLUSH that came after the node had taken note; 0: none */
};

/* A FLUSH that is no replay. A node numbers its requests in the order in which it makes them; its daemon, started anew,
 * begins anew. */
struct kr_applied_flush {
	uint8_t node_id[16];
	uint64_t incarnation, number;
};

struct kr_applied {
	struct kr_table table;
	struct kr_list uses;       /* least recently used first */
	struct kr_table forgotten; /* struct forgotten of applied.c, by node */
	size_t owing;              /* entries */
};

void kr_applied_init(struct kr_applied *applied);
void kr_applied_fini(struct kr_applied *applied);
void kr_applied_note(
	struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16], uint64_t seq, uint64_t round);
/* The same of a replay: all up to SEQ is there, the last in ROUND; ORDER: when it was applied at first (FLUSH in
 * msgs.def). */
struct kr_applied_replay {
	uint64_t seq, round, order;
};
void kr_applied_note_replayed(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16],
	const struct kr_applied_replay *replay);
/* What is known of FILE counts no more, whoever's it is. */
void kr_applied_lose(struct kr_applied *applied, const struct kr_fid *file);
/* A failed sync: rounds after GOOD, up to LAST, are lost with ERR. */
struct kr_applied_loss {
	uint64_t good, last;
	int err;
};
/* Nothing of those rounds counts as applied any more. */
void kr_applied_note_unstable(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16],
	const struct kr_applied_loss *loss);
/* The node has answered that it knows of LOSS.  RESENT: before that it has sent all of it again, as replays. */
void kr_applied_told(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16],
	const struct kr_applied_loss *loss, bool resent);
/* A replay of the node has been answered with ERR; MORE: others of it have not. */
void kr_applied_resent(
	struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16], int err, bool more);
/* Whether the node may have bytes that it is to send again. (What is forgotten, being too much, is owed no more.) */
bool kr_applied_owes(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16]);
/* The node says that it has nothing to send, and has been told of every loss since it lost its last session. */
void kr_applied_clean(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16]);
/* FLUSH is about to be handled ... */
void kr_applied_flush_came(struct kr_applied *applied, const struct kr_fid *file, const struct kr_applied_flush *flush);
/* ... and it is applied. A node sends all it has of a file with each FLUSH, one after the other; but what it had lost
 * is not in the one that was on its way when it heard of that. So the next one has it. */
void kr_applied_flush_done(struct kr_applied *applied, const struct kr_fid *file, const struct kr_applied_flush *flush);
/* The highest sequence number of the node's journal that may have been applied to the file beyond what kr_applied_find
 * says; 0: none. */
uint64_t kr_applied_forgotten(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16]);
/* Borrowed until the next call; NULL: nothing known. */
struct kr_applied_entry *kr_applied_find(
	struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16]);

#endif

/* The leases of one file: a pure state machine.  Events in, actions out; no clocks, sockets or sessions.
 *
 * Holders are nodes (number > 0) with kinds READ and WRITE, or operations of the server, which hold for their
 * duration.  READ: no other node writes.  READ|WRITE: no other node reads or writes.  An operation for a node does not
 * exclude that node's own leases.  Invariants:
 *  - READ of a node never coexists with WRITE of another.
 *  - Waiters that exclude each other are granted in the order of asking.
 *  - Exception: a node that holds all it asks, and is not asked for it back, does not wait.
 *  - Exception: an operation for the only holder of both kinds waits behind earlier operations for that node only.
 *  - The server recalls what excludes the first waiters, each holder's kinds once until the holder answers.
 *  - A kind under recall is not granted to its holder again before the answer, which would take the new grant away.
 *  - The server announces a grant to its node before it emits a recall of the grant (kr_lease_table_announced).
 *  - WRITE of several nodes coexists.  A node whose bytes the server refused excludes new writers
 *    (kr_lease_table_refused).
 *  - A node is uncommitted while it has bytes in the file that are not durable, as far as it knows
 *    (kr_lease_table_uncommitted); node 0 stands for ended sessions.  Meanwhile READ of other nodes and operations for
 *    other nodes wait; WRITE alone does not.  READ of the node itself waits, too, if another node was uncommitted at
 *    the same time.
 *  - Bytes may change under READ of others (kr_lease_table_outdate): then the server recalls READ from all nodes.  The
 *    node that changed them can wait for that (kr_lease_table_await).
 */
#ifndef KR_SERVER_LEASE_TABLE_H
#define KR_SERVER_LEASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/types.h"

struct kr_lease_holder {
	struct kr_link link;
	uint32_t node;
	uint8_t kinds;         /* enum kr_lease_kind: held, including those under recall */
	uint8_t recalling;     /* of these: recalled (emitted or about to be) */
	uint8_t unsent;        /* of recalling: not emitted, because a grant is not announced yet */
	bool excludes_writers; /* no other node gets WRITE anew: the server refused bytes of this one */
	uint32_t announcing;   /* grants not announced yet */
	uint64_t recalls[2];   /* numbers of the latest recalls of READ and of WRITE */
	uint64_t outdated;     /* the first kr_lease_table_outdate since its READ, which is under recall; 0: none */
	bool uncommitted;      /* bytes of this node are */
	bool among_others;     /* ... and bytes of other nodes were at the same time */
	uint64_t first;        /* the first round of them */
};

/* Whose bytes are to be committed before a waiter is granted. */
enum kr_lease_commitment {
	KR_COMMITTED_OTHERS, /* those of other nodes (and, for READ, see the invariants) */
	KR_COMMITTED_ALL,    /* the waiter's node's, too */
	KR_COMMITTED_NONE,
};

struct kr_lease_waiter {
	struct kr_link link; /* in `waiting` or `operations` */
	uint32_t node;       /* the node that asks; an operation: the node whose leases do not count (0: none) */
	uint8_t kinds;       /* 0, of an operation: waits only until what is applied now is committed */
	bool operation;
	enum kr_lease_commitment commitment;
	uint64_t mark; /* set by kr_lease_table_ask: the latest uncommitted round then */
};

/* A wait until other nodes have given back the READ that they had when the bytes changed. */
struct kr_lease_await {
	struct kr_link link; /* in `awaits` */
	uint32_t node;       /* the node that waits: its own READ does not count */
	uint64_t outdates;   /* the number of kr_lease_table_outdate before the wait */
};

struct kr_lease_actions {
	/* WAITER has its kinds.  The caller announces a node's grant when the reply is handed to the connection.  An
	 * operation ends with kr_lease_table_end.  Called from inside an event in a consistent state: it may call
	 * further events, but not free the table.  A node's WAITER leaves the table with this call. */
	void (*grant)(void *context, struct kr_lease_waiter *waiter);
	/* Recall KINDS from NODE; its answer goes to kr_lease_table_recalled with the number RECALL. */
	void (*recall)(void *context, uint32_t node, uint8_t kinds, uint64_t recall);
	/* The wait of AWAIT is over; AWAIT has left the table.  Called as `grant` is. */
	void (*awaited)(void *context, struct kr_lease_await *await);
};

struct kr_lease_table {
	struct kr_list holders;
	struct kr_list operations; /* granted */
	struct kr_list waiting;    /* in order of asking */
	struct kr_list awaits;
	uint64_t last_recall, outdates;
	uint64_t last_round; /* the latest that was noted as uncommitted */
	const struct kr_lease_actions *actions;
	void *context;
};

void kr_lease_table_init(struct kr_lease_table *table, const struct kr_lease_actions *actions, void *context);
/* Frees the holders; there must be no waiters, no operations and no awaits. */
void kr_lease_table_fini(struct kr_lease_table *table);

/* WAITER is granted now or later.  The caller owns it and has filled in node, kinds, operation, commitment. */
void kr_lease_table_ask(struct kr_lease_table *table, struct kr_lease_waiter *waiter);
/* Grants NODE those of KINDS that are free now, without a recall and behind all waiters.  Returns them, announcing if
 * not 0: then kr_lease_table_announced must follow. */
uint8_t kr_lease_table_try(struct kr_lease_table *table, uint32_t node, uint8_t kinds);
/* OPERATION is granted and excludes all other nodes.  Leaves KINDS to its own node, before all waiters.  Returns them,
 * announcing as kr_lease_table_try. */
uint8_t kr_lease_table_leave(struct kr_lease_table *table, const struct kr_lease_waiter *operation, uint8_t kinds);
/* A waiter that is not granted yet withdraws. */
void kr_lease_table_withdraw(struct kr_lease_table *table, struct kr_lease_waiter *waiter);
/* The message that tells NODE of a grant is sent. */
void kr_lease_table_announced(struct kr_lease_table *table, uint32_t node);
/* Recalls KINDS from all nodes though no node waits: what they know under these kinds is outdated. */
void kr_lease_table_revoke(struct kr_lease_table *table, uint8_t kinds);
/* The server has refused unflushed bytes of NODE, or no longer.  While it has, WRITE of NODE excludes new writers, but
 * not those that hold WRITE.  So NODE learns when other nodes begin to write. */
void kr_lease_table_refused(struct kr_lease_table *table, uint32_t node, bool refused);
/* The bytes have changed although nodes may hold READ: recalls READ from all. */
void kr_lease_table_outdate(struct kr_lease_table *table);
/* NODE (0: an ended session) has uncommitted bytes from ROUND on; 0: of before all rounds. */
void kr_lease_table_uncommitted(struct kr_lease_table *table, uint32_t node, uint64_t round);
/* NODE has no uncommitted bytes of rounds before NEXT any more; NEXT 0: none at all. */
void kr_lease_table_committed(struct kr_lease_table *table, uint32_t node, uint64_t next);
/* Whether no node but NODE holds READ from before the last kr_lease_table_outdate.  If not, AWAIT (the caller's
 * memory) waits until `awaited` is called or its link is removed.  It does not wait for later ones. */
bool kr_lease_table_await(struct kr_lease_table *table, uint32_t node, struct kr_lease_await *await);
/* Recalls KINDS from NODE, as far as it holds them and no recall is out. */
void kr_lease_table_take_back(struct kr_lease_table *table, uint32_t node, uint8_t kinds);
/* The node's answer to recall number RECALL: it has given KINDS up.  Old numbers are ignored. */
void kr_lease_table_recalled(struct kr_lease_table *table, uint32_t node, uint8_t kinds, uint64_t recall);
/* The node gives KINDS back by itself. */
void kr_lease_table_release(struct kr_lease_table *table, uint32_t node, uint8_t kinds);
/* An operation is over. */
void kr_lease_table_end(struct kr_lease_table *table, struct kr_lease_waiter *operation);
/* SUCCESSOR takes the place of NODE and is uncommitted as NODE was.  If NODE held WRITE, SUCCESSOR gets its holdings,
 * as if granted and not announced yet; recalls of them wait for kr_lease_table_announced.  SUCCESSOR must be unknown,
 * and the waiters of NODE must have been withdrawn. */
void kr_lease_table_inherit(struct kr_lease_table *table, uint32_t node, uint32_t successor);
/* The session of NODE has ended: its leases are free, its uncommitted bytes are node 0's.  The caller has withdrawn its
 * waiters. */
void kr_lease_table_expire(struct kr_lease_table *table, uint32_t node);

/* The kinds that NODE holds, including `recalling` ones. */
uint8_t kr_lease_table_held(const struct kr_lease_table *table, uint32_t node);
/* Of these, the kinds under recall. */
uint8_t kr_lease_table_recalling(const struct kr_lease_table *table, uint32_t node);
/* Whether NODE holds a lease, has a grant to be announced, or is uncommitted. */
bool kr_lease_table_known(const struct kr_lease_table *table, uint32_t node);
/* Whether any node but EXCEPT (0: none excepted) holds one of KINDS. */
bool kr_lease_table_others_hold(const struct kr_lease_table *table, uint32_t except, uint8_t kinds);

#endif

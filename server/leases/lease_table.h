/* The leases of one file: a pure state machine.  Events in, actions out; no clocks, sockets or sessions.
 *
 * Holders are nodes (number > 0) with kinds READ, WRITE, or operations of the server itself, which hold for their
 * duration: READ = no other node writes, READ|WRITE = nobody else reads or writes.  An operation on behalf of a node
 * does not exclude that node's own leases.  Invariants:
 *  - READ of one never coexists with WRITE of another;
 *  - waiters are granted in the order of asking, where they conflict; one that conflicts with an earlier waiter waits
 *    behind it, except a node that already holds (and is not being recalled from) all it asks, and an operation for a
 *    node that holds both kinds (recalled or not), which nobody else has then: it waits behind earlier ones for that
 *    node only;
 *  - what is in the way of the first waiters is recalled, each holder's kinds at most once until it answers; a kind
 *    under recall cannot be granted to its holder again before the answer, which would take the new grant away;
 *  - a grant is announced to its node before a recall of it is emitted (kr_lease_table_announced);
 *  - WRITE of one goes with WRITE of another, but not with that of one who asks for it when the former's bytes have
 *    been refused (kr_lease_table_refused);
 *  - bytes may change under READ of others all the same (kr_lease_table_outdate): then it is recalled from all, and who
 *    has changed them can wait until it is gone (kr_lease_table_await).
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
	uint8_t kinds;         /* enum kr_lease_kind, held, including those under recall */
	uint8_t recalling;     /* of these, asked back (emitted or about to be) */
	uint8_t unsent;        /* of recalling, not emitted yet: a grant has not been announced */
	bool excludes_writers; /* nobody gets WRITE anew beside its own: some of what it has written was refused */
	uint32_t announcing;   /* grants not announced yet */
	uint64_t recalls[2];   /* numbers of the latest emitted recalls of READ and of WRITE */
	uint64_t outdated; /* the first kr_lease_table_outdate since it has READ; 0: none. READ is under recall then */
};

struct kr_lease_waiter {
	struct kr_link link; /* waiting or, for an operation, operations */
	uint32_t node;       /* who asks; an operation: whose leases do not matter (0: everybody's matter) */
	uint8_t kinds;
	bool operation;
	void *token; /* the caller's */
};

/* Waits until others have given READ back that they had when the bytes changed. */
struct kr_lease_await {
	struct kr_link link; /* awaits */
	uint32_t node;       /* who waits: its own READ does not matter */
	uint64_t outdates;   /* those before it began */
};

struct kr_lease_actions {
	/* The waiter has what it asked. A node's must be announced when its reply has been handed to the connection; an
	 * operation's ends with kr_lease_table_end. Called from inside the event, when the state is consistent: it may
	 * call further events, but not free the table. WAITER is no longer the table's unless it is an operation. */
	void (*grant)(void *context, struct kr_lease_waiter *waiter);
	/* Ask NODE to give KINDS back; its answer goes to kr_lease_table_recalled with the number RECALL. */
	void (*recall)(void *context, uint32_t node, uint8_t kinds, uint64_t recall);
	/* What AWAIT waits for has happened; it is no longer the table's. Called as `grant` is. */
	void (*awaited)(void *context, struct kr_lease_await *await);
};

struct kr_lease_table {
	struct kr_list holders;
	struct kr_list operations; /* granted */
	struct kr_list waiting;    /* in order of asking */
	struct kr_list awaits;
	uint64_t last_recall, outdates;
	const struct kr_lease_actions *actions;
	void *context;
};

void kr_lease_table_init(struct kr_lease_table *table, const struct kr_lease_actions *actions, void *context);
/* Frees the holders; there must be no waiters, no operations and no awaits. */
void kr_lease_table_fini(struct kr_lease_table *table);

/* WAITER (the caller's memory, node, kinds, operation and token filled in) is granted now or later. */
void kr_lease_table_ask(struct kr_lease_table *table, struct kr_lease_waiter *waiter);
/* Gives NODE of KINDS what is free right now without recalling or overtaking anybody; returns those (held before or
 * not), announcing if not 0: then kr_lease_table_announced must follow. */
uint8_t kr_lease_table_try(struct kr_lease_table *table, uint32_t node, uint8_t kinds);
/* OPERATION, which is granted and keeps everybody else out, leaves KINDS to the node that it is for, before all that
 * wait; returns those, announcing as kr_lease_table_try. */
uint8_t kr_lease_table_leave(struct kr_lease_table *table, const struct kr_lease_waiter *operation, uint8_t kinds);
/* A waiter that is not granted yet withdraws. */
void kr_lease_table_withdraw(struct kr_lease_table *table, struct kr_lease_waiter *waiter);
/* The message that tells NODE of one grant has been sent. */
void kr_lease_table_announced(struct kr_lease_table *table, uint32_t node);
/* KINDS are asked back from all nodes although nobody wants them: what they know under them is true no more. */
void kr_lease_table_revoke(struct kr_lease_table *table, uint8_t kinds);
/* What NODE has written and not flushed was refused (or not any more): while that is so its WRITE is in the way of
 * those who ask for WRITE, but not of those who have it, so that it knows when others begin to write. */
void kr_lease_table_refused(struct kr_lease_table *table, uint32_t node, bool refused);
/* The bytes have changed although nodes may have READ: it is asked back from all. */
void kr_lease_table_outdate(struct kr_lease_table *table);
/* Whether nobody but NODE has READ from before the last kr_lease_table_outdate. If not, AWAIT (the caller's memory)
 * waits for that, until `awaited` is called or its link is removed. Later ones are not waited for. */
bool kr_lease_table_await(struct kr_lease_table *table, uint32_t node, struct kr_lease_await *await);
/* Asks NODE to give KINDS back, as far as it holds them and has not been asked. */
void kr_lease_table_take_back(struct kr_lease_table *table, uint32_t node, uint8_t kinds);
/* The node's answer to recall number RECALL: it has given KINDS up. Old numbers are ignored. */
void kr_lease_table_recalled(struct kr_lease_table *table, uint32_t node, uint8_t kinds, uint64_t recall);
/* The node gives kinds back by itself. */
void kr_lease_table_release(struct kr_lease_table *table, uint32_t node, uint8_t kinds);
/* An operation is over. */
void kr_lease_table_end(struct kr_lease_table *table, struct kr_lease_waiter *operation);
/* The node SUCCESSOR takes the place of NODE and holds what it held, as if granted and not announced yet: a recall of
 * it, also one that NODE has not answered, waits for kr_lease_table_announced. SUCCESSOR must not be known yet, and
 * NODE's waiters must have been withdrawn. */
void kr_lease_table_inherit(struct kr_lease_table *table, uint32_t node, uint32_t successor);
/* The node is gone: what it holds is free. Its waiters must have been withdrawn by the caller. */
void kr_lease_table_expire(struct kr_lease_table *table, uint32_t node);

/* What NODE holds; `recalling` kinds are included. */
uint8_t kr_lease_table_held(const struct kr_lease_table *table, uint32_t node);
/* Of these, what it is asked to give up. */
uint8_t kr_lease_table_recalling(const struct kr_lease_table *table, uint32_t node);
/* Whether it holds anything or has a grant to be announced. */
bool kr_lease_table_known(const struct kr_lease_table *table, uint32_t node);
/* Whether any node but EXCEPT (0: none excepted) holds one of KINDS. */
bool kr_lease_table_others_hold(const struct kr_lease_table *table, uint32_t except, uint8_t kinds);

#endif

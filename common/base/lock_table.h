/* Advisory locks of one file, flock and byte ranges: a pure state machine, no clocks, sockets or sessions.
 *
 * The server decides with it who holds what; a node notes with it what it holds (kr_lock_table_note), to claim it again
 * from a server that has restarted.  Rules, as on a local file system:
 *  - byte ranges of one owner split, merge, up- and downgrade each other; shared ones of several owners may overlap;
 *  - flock and byte ranges are independent of each other; an flock's conversion gives the old one up first;
 *  - a waiter is granted as soon as nobody else holds what excludes it; of several, the first to have asked.  A request
 *    does not wait for another one that only waits: shared locks that always overlap can keep an exclusive one out;
 *  - a wait for byte ranges that would close a circle of waiting owners, over all files, is refused.  The search for
 *    one ends after KR_LOCK_STEPS steps: a circle among thousands of waiters and locks that have to do with each other
 *    may stay unseen.
 * Somebody may hold and want very much: an event takes a time logarithmic in the locks for each waiter that it may set
 * free, and linear, with a few nanoseconds each, in the locks and the waiters of the file.
 */
#ifndef KR_COMMON_LOCK_TABLE_H
#define KR_COMMON_LOCK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/lock_tree.h"
#include "common/base/table.h"

enum kr_lock_kind { KR_LOCK_NONE, KR_LOCK_READ, KR_LOCK_WRITE };
#define KR_LOCK_END ((uint64_t)INT64_MAX) /* the last byte that can be locked: "to the end of the file" */
enum { KR_LOCK_STEPS = 1 << 19 };

struct kr_lock_owner {
	uint32_t node;
	bool flock;
	uint64_t id; /* the node's kernel's */
};

struct kr_lock {
	struct kr_link link;
	struct kr_lock_place place;
	struct kr_list blocked; /* waiters that are known to wait for this one, whatever else is in their way */
	struct kr_lock_owner owner;
	uint64_t first, last; /* both included */
	uint8_t kind;         /* enum kr_lock_kind; of a request, NONE unlocks */
	uint32_t pid;         /* for people */
	uintptr_t via;        /* the caller's: of the latest request that made it */
};

struct kr_lock_table;
struct kr_lock_waiter {
	struct kr_link of_table, of_lock;
	struct kr_table_link by_owner;
	struct kr_lock_table *table;
	const struct kr_lock *blocker; /* NULL: to be looked for */
	uint64_t seen;                 /* the latest search for circles that came by */
	struct kr_lock want;
	void *token; /* the caller's */
};

/* All waiters of all files, for circles. */
struct kr_lock_world {
	struct kr_table waiters; /* by owner */
	uint64_t searches;
	bool closed; /* nobody is granted any more by what others give up: the server ends */
};

struct kr_lock_table {
	struct kr_lock_world *world;
	struct kr_list locks;
	struct kr_lock *tree[2]; /* the same, of byte ranges and flock */
	struct kr_list waiting;  /* in order of asking */
	size_t count, waits;     /* of locks, of those */
	bool gave_up;            /* since the waiters were looked at: some may go on */
	/* The waiter has its lock and is no longer the table's. Called from inside the event, in a consistent state; it
	 * may not free the table. */
	void (*grant)(void *context, struct kr_lock_waiter *waiter);
	/* A lock (or piece of one) has come or gone; may be NULL. It only takes note. What replaces another comes
	 * before that goes, so an owner who keeps something of a kind is never seen without; an flock that is converted
	 * does go first. */
	void (*counted)(void *context, const struct kr_lock *lock, int change);
	void *context;
};

void kr_lock_world_init(struct kr_lock_world *world);
/* WORLD and GRANT may be NULL where nobody ever waits. */
void kr_lock_table_init(struct kr_lock_table *table, struct kr_lock_world *world,
	void (*grant)(void *context, struct kr_lock_waiter *waiter), void *context);
/* Frees the locks; there must be no waiters. */
void kr_lock_table_fini(struct kr_lock_table *table);

bool kr_lock_owner_equal(const struct kr_lock_owner *a, const struct kr_lock_owner *b);
/* Whether LOCK, of somebody else, is in the way of WANT. */
bool kr_lock_excludes(const struct kr_lock *lock, const struct kr_lock *want);
/* A lock of somebody else that excludes WANT, the one with the lowest offset; NULL. Borrowed until the next event. */
const struct kr_lock *kr_lock_table_conflict(const struct kr_lock_table *table, const struct kr_lock *want);
/* A lock of OWNER that overlaps, the one with the lowest offset; NULL. */
const struct kr_lock *kr_lock_table_held(
	const struct kr_lock_table *table, const struct kr_lock_owner *owner, uint64_t first, uint64_t last);

/* Locks or unlocks at once: 0; -EAGAIN: somebody holds what excludes it. */
int kr_lock_table_set(struct kr_lock_table *table, const struct kr_lock *want);
/* WAITER (the caller's memory, want and token filled in): 0 it has its lock (grant is not called); -EINPROGRESS it
 * waits; -EDEADLK. */
int kr_lock_table_wait(struct kr_lock_table *table, struct kr_lock_waiter *waiter);
void kr_lock_table_withdraw(struct kr_lock_waiter *waiter);
/* All locks of the node go. Its waiters must have been withdrawn. */
void kr_lock_table_release_node(struct kr_lock_table *table, uint32_t node);
/* Notes what somebody else has decided: never a conflict. */
void kr_lock_table_note(struct kr_lock_table *table, const struct kr_lock *lock);

#endif

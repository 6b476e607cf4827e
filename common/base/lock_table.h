/* Advisory locks of one file, flock and byte ranges: a pure state machine, no clocks, sockets or sessions.
 *
 * The server decides with it which owner holds which lock.  A node records its own locks with it (kr_lock_table_note),
 * to reclaim them from a restarted server.  Rules, as on a local file system:
 * - byte ranges of one owner split, merge, up- and downgrade each other; shared ones of several owners may overlap;
 * - flock and byte ranges are independent of each other; the conversion of an flock gives up the old one first;
 * - the table grants a waiter as soon as no other owner holds a conflicting lock; of several waiters, the first.  A
 *   waiter does not conflict with another waiter, so shared locks that always overlap can keep an exclusive one out;
 * - the table refuses a wait for byte ranges that would close a circle of waiting owners (deadlock), over all files.
 *   The search ends after KR_LOCK_STEPS steps: a circle among thousands of related waiters and locks may stay
 *   undetected.
 *
 * An owner may hold and want very many locks.  So an event takes a time logarithmic in the locks for each waiter that
 * it may grant. It also takes a few nanoseconds for each lock and waiter of the file.
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
	struct kr_list blocked; /* waiters that wait for this lock, whatever else excludes them */
	struct kr_lock_owner owner;
	uint64_t first, last; /* both included */
	uint8_t kind;         /* enum kr_lock_kind; of a request, NONE unlocks */
	uint32_t pid;         /* for people */
	uintptr_t via;        /* the caller's: of the latest request that made the lock */
};

struct kr_lock_table;
struct kr_lock_waiter {
	struct kr_link of_table, of_lock;
	struct kr_table_link by_owner;
	struct kr_lock_table *table;
	const struct kr_lock *blocker; /* NULL: not known yet */
	uint64_t seen;                 /* the latest deadlock search that reached this waiter */
	struct kr_lock want;
	void *token; /* the caller's */
};

/* All waiters of all files, for deadlock detection. */
struct kr_lock_world {
	struct kr_table waiters; /* by owner */
	uint64_t searches;
	bool closed; /* the server ends: locks that are given up go to no waiter */
};

struct kr_lock_table {
	struct kr_lock_world *world;
	struct kr_list locks;
	struct kr_lock *tree[2]; /* the same, of byte ranges and flock */
	struct kr_list waiting;  /* in order of asking */
	size_t count, waits;     /* of locks, of those */
	bool gave_up;            /* since the last look at the waiters: some may go on */
	/* The waiter has its lock and has left the table.  Runs inside the event, in a consistent state; must not free
	 * the table. */
	void (*grant)(void *context, struct kr_lock_waiter *waiter);
	/* A lock (or piece of one) has come or gone; may be NULL.  It must not change the table.  A lock that replaces
	 * another comes before the other goes, so an owner that keeps a lock of a kind is never seen without one.  The
	 * exception is an flock's conversion. */
	void (*counted)(void *context, const struct kr_lock *lock, int change);
	void *context;
};

void kr_lock_world_init(struct kr_lock_world *world);
/* WORLD and GRANT may be NULL in a table without waiters. */
void kr_lock_table_init(struct kr_lock_table *table, struct kr_lock_world *world,
	void (*grant)(void *context, struct kr_lock_waiter *waiter), void *context);
/* Frees the locks; there must be no waiters. */
void kr_lock_table_fini(struct kr_lock_table *table);

bool kr_lock_owner_equal(const struct kr_lock_owner *a, const struct kr_lock_owner *b);
/* Whether LOCK, of another owner, excludes WANT. */
bool kr_lock_excludes(const struct kr_lock *lock, const struct kr_lock *want);
/* The lock of another owner that excludes WANT, the one with the lowest offset; or NULL.  Borrowed until the next
 * event. */
const struct kr_lock *kr_lock_table_conflict(const struct kr_lock_table *table, const struct kr_lock *want);
/* The lock of OWNER that overlaps, the one with the lowest offset; or NULL. */
const struct kr_lock *kr_lock_table_held(
	const struct kr_lock_table *table, const struct kr_lock_owner *owner, uint64_t first, uint64_t last);

/* Locks or unlocks at once.  0, or -EAGAIN: another owner holds a conflicting lock. */
int kr_lock_table_set(struct kr_lock_table *table, const struct kr_lock *want);
/* WAITER is the caller's memory, with want and token filled in.  0: it has its lock (no call of grant); -EINPROGRESS:
 * it waits; -EDEADLK. */
int kr_lock_table_wait(struct kr_lock_table *table, struct kr_lock_waiter *waiter);
void kr_lock_table_withdraw(struct kr_lock_waiter *waiter);
/* Drops all locks of the node, whose waiters the caller has withdrawn before. */
void kr_lock_table_release_node(struct kr_lock_table *table, uint32_t node);
/* Records a lock that another table has granted, without a check for conflicts. */
void kr_lock_table_note(struct kr_lock_table *table, const struct kr_lock *lock);

#endif

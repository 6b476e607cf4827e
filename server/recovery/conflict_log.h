/* Which late bytes are in conflict, and into which conflict file they go.  The server must remember that even if it,
 * the node, or both are killed in between.  So late bytes never go into the original after all, and one conflict file
 * gets all of them.
 *
 * `conflicts` in the state directory is a log (base/line_log.h) of JSON objects: {"node_id", "node", "file", "first",
 * "last", "time"}, "uid" for a node with a user's key, and "target", "made", "original", "place" when they are known.
 * `first` and `last` are sequence numbers, which ascend over the whole life of a node's journal.  An object covers the
 * bytes from the first to the last.  A later line of the same node and file replaces the earlier one.  If that had
 * another target, it is kept for the status alone.
 *
 * The table holds at most KR_CONFLICTS_MAX conflicts.  When it is full, the server drops the oldest one of the owner
 * that has the most.  So no user can push out the conflicts of others.  (A user key has its user as owner; all other
 * nodes share one.)  The server rewrites the log when it opens it, and after KR_CONFLICTS_SPARE more appended lines
 * than the rewritten log had.  Loop thread, unless said otherwise.
 */
#ifndef KR_SERVER_CONFLICT_LOG_H
#define KR_SERVER_CONFLICT_LOG_H

#include <jansson.h>
#include <pthread.h>

#include "common/auth/key.h"
#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"

enum {
	KR_CONFLICTS_MAX = 16384,
	KR_CONFLICTS_SHOWN = 100,
	KR_CONFLICTS_SPARE = 1024 /* when the log is rewritten: see above */
};

/* How many are kept of one owner. */
struct kr_conflict_owner {
	struct kr_link link;
	struct kr_key_owner key; /* kind KR_KEY_USER, or 0: all others */
	size_t count;
};

struct kr_conflict {
	struct kr_table_link link;      /* by node and file: the latest */
	struct kr_table_link made_link; /* by node and target, if that is new; not once it is over */
	struct kr_link order;
	bool over; /* only kept to be shown: another lapse of the same node and file followed */
	uint8_t node_id[16];
	struct kr_key_owner key;         /* of the node */
	struct kr_conflict_owner *owner; /* once it is in the table */
	struct kr_fid file;
	uint64_t first, last; /* the lowest and the highest sequence number of its bytes */
	char *node;
	int64_t time;           /* when it was declared, for people */
	struct kr_fid target;   /* length 0: none yet */
	struct kr_time made;    /* the target's ctime when it got its name; 0: not known */
	char *original, *place; /* paths for people; NULL: not known */
	bool complained;        /* that it cannot be made now */
};

struct kr_conflicts {
	struct kr_table table, made;
	struct kr_list order;  /* oldest first */
	struct kr_list owners; /* struct kr_conflict_owner */
	size_t count;
	int dir;
	pthread_mutex_t lock;  /* of the log: fd, lines */
	int fd;                /* to append; -1: closed */
	size_t lines, counted; /* since it was written anew; of what counted then */
};

/* Reads DIR/conflicts. 0 or -errno with a reason. Blocks. */
int kr_conflicts_open(struct kr_conflicts *conflicts, int dir);
void kr_conflicts_close(struct kr_conflicts *conflicts);
/* The conflict of the node and the file that covers any of the sequence numbers FIRST to LAST, or NULL.  Borrowed. */
struct kr_conflict *kr_conflicts_find(const struct kr_conflicts *conflicts, const uint8_t node_id[16],
	const struct kr_fid *file, uint64_t first, uint64_t last);
/* The conflict that late bytes from FIRST on extend.  NULL: there is none, or it ends before FIRST.  Borrowed. */
struct kr_conflict *kr_conflicts_present(
	const struct kr_conflicts *conflicts, const uint8_t node_id[16], const struct kr_fid *file, uint64_t first);
/* Whether FILE was made for late bytes of the node, and CTIME tells that it is unchanged since. */
bool kr_conflicts_is_new(const struct kr_conflicts *conflicts, const uint8_t node_id[16], const struct kr_fid *file,
	struct kr_time ctime);
/* Takes CONFLICT (heap), in place of what there is of the same node and file. */
void kr_conflicts_put(struct kr_conflicts *conflicts, struct kr_conflict *conflict);
/* KEY: owner of the node's key; NULL: it has none. */
struct kr_conflict *kr_conflict_new(const uint8_t node_id[16], const struct kr_key_owner *key, const char *node,
	const struct kr_fid *file, uint64_t first, uint64_t last);
struct kr_conflict *kr_conflict_copy(const struct kr_conflict *conflict);
void kr_conflict_free(struct kr_conflict *conflict);
/* Appends CONFLICT to the log, durably. Any thread; blocks. 0 or -errno. */
int kr_conflicts_log(struct kr_conflicts *conflicts, const struct kr_conflict *conflict);
/* How many files there are of those that are kept. */
size_t kr_conflicts_files(const struct kr_conflicts *conflicts);
/* The latest ones, for status: of nodes with keys of OWNER, a user, or (NULL) of all. Owned by the caller. */
json_t *kr_conflicts_status(const struct kr_conflicts *conflicts, const struct kr_key_owner *owner);

#endif

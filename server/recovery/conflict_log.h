/* Which late bytes have been declared to be in conflict, and where they went.  The server must remember that
 * when it, or the node, or both are killed in between.  So those bytes never go into the original after all, and one
 * conflict file gets all of them.
 *
 * `conflicts` in the state directory is a log (base/line_log.h) of JSON objects: {"node_id", "node", "file", "first",
 * "last", "time", and when they are known "target", "made", "original", "place"}; of the same node, file and `last` the
 * later line counts.  KR_CONFLICTS_MAX are kept: of too many the oldest of the owner (of the node's key: "uid" of a
 * user's, none: all others) that has the most goes, so that nobody can push out others'. The log is written anew when
 * it is opened, and when it has grown past twice what counts.
 *
 * One of a node and a file covers the bytes from `first` to `last`: sequence numbers ascend over the whole life of a
 * node's journal. Loop thread, unless said otherwise.
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
	KR_CONFLICTS_SPARE = 1024 /* lines that do not count, whatever counts */
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
/* That of the node and the file which covers any of the sequence numbers FIRST to LAST; NULL. Borrowed. */
struct kr_conflict *kr_conflicts_find(const struct kr_conflicts *conflicts, const uint8_t node_id[16],
	const struct kr_fid *file, uint64_t first, uint64_t last);
/* That to which bytes from FIRST on belong that are declared now: one that ends before them is over; NULL. Borrowed. */
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

/* The locks of one class of a file (flock, or byte ranges) by their first byte, so that what excludes a wanted one is
 * found without looking at all: somebody may hold very many.
 *
 * A treap; each lock also tells how far those below it reach and whose they are, all of them and the exclusive ones
 * alone.  Thus parts that end too early, or are all the asker's own, are left out as a whole, and the search takes a
 * time logarithmic in their number. Priorities come from the locks' addresses, which no peer knows: so nobody can
 * choose locks that make the tree a list.
 */
#ifndef KR_COMMON_LOCK_TREE_H
#define KR_COMMON_LOCK_TREE_H

#include <stdbool.h>
#include <stdint.h>

struct kr_lock;

/* Of the locks in a part of the tree. */
struct kr_lock_reach {
	const struct kr_lock *one; /* any of them; NULL: there is none */
	bool several;              /* not all are of that one's owner */
	uint64_t last;             /* the highest byte */
};

struct kr_lock_place {
	struct kr_lock *left, *right;
	struct kr_lock_reach all, exclusive; /* with what is below */
};

/* LOCK's range, kind and owner do not change while it is in. */
void kr_lock_tree_insert(struct kr_lock **root, struct kr_lock *lock);
void kr_lock_tree_remove(struct kr_lock **root, struct kr_lock *lock);
/* The lock of another owner that overlaps WANT and of which one of both is exclusive, with the lowest first byte; NULL.
 */
struct kr_lock *kr_lock_tree_find(struct kr_lock *root, const struct kr_lock *want);

#endif

/* The locks of one class of a file (flock, or byte ranges) by their first byte.  A search for a conflicting lock need
 * not look at all of them: an owner may hold very many.
 *
 * The tree is a treap.  Each lock also tells how far the locks below it reach and which owner they have: for all of
 * them, and for the exclusive ones alone.  So the search skips subtrees that end too early or belong to the asking
 * owner, and takes a time logarithmic in their number.
 * Priorities come from the locks' addresses, which no peer knows: so no peer can choose locks that make the tree a
 * list.
 */
#ifndef KR_COMMON_LOCK_TREE_H
#define KR_COMMON_LOCK_TREE_H

#include <stdbool.h>
#include <stdint.h>

struct kr_lock;

/* Of the locks in a part of the tree. */
struct kr_lock_reach {
	const struct kr_lock *one; /* any of them; NULL: there is none */
	bool several;              /* they have several owners */
	uint64_t last;             /* the highest byte */
};

struct kr_lock_place {
	struct kr_lock *left, *right;
	struct kr_lock_reach all, exclusive; /* of the lock and all below */
};

/* LOCK's range, kind and owner must not change while it is in the tree. */
void kr_lock_tree_insert(struct kr_lock **root, struct kr_lock *lock);
void kr_lock_tree_remove(struct kr_lock **root, struct kr_lock *lock);
/* Finds the lock with the lowest first byte that overlaps WANT, has another owner, and conflicts (one of the two is
 * exclusive); or NULL. */
struct kr_lock *kr_lock_tree_find(struct kr_lock *root, const struct kr_lock *want);

#endif

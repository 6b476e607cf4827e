/* See lock_tree.h. */
#include "common/base/lock_tree.h"

#include "common/base/lock_table.h"
#include "common/base/table.h"
#include "common/base/util.h"

static uint64_t priority(const struct kr_lock *lock)
{
	return kr_hash_u64((uint64_t)(uintptr_t)lock);
}

/* Locks that begin with one byte stand in the order of their addresses. */
static bool before(const struct kr_lock *a, const struct kr_lock *b)
{
	return a->first != b->first ? a->first < b->first : (uintptr_t)a < (uintptr_t)b;
}

static void join_reach(struct kr_lock_reach *reach, const struct kr_lock_reach *other)
{
	if (!other->one)
		return;
	if (reach->one)
		reach->several |= other->several || !kr_lock_owner_equal(&reach->one->owner, &other->one->owner);
	else
		*reach = *other;
	reach->last = KR_MAX(reach->last, other->last);
}

static void sum_up(struct kr_lock *lock)
{
	struct kr_lock_place *place = &lock->place;
	const struct kr_lock *below[] = {place->left, place->right};

	place->all = (struct kr_lock_reach){.one = lock, .last = lock->last};
	place->exclusive = lock->kind == KR_LOCK_WRITE ? place->all : (struct kr_lock_reach){0};
	for (int i = 0; i < 2; i++) {
		if (below[i]) {
			join_reach(&place->all, &below[i]->place.all);
			join_reach(&place->exclusive, &below[i]->place.exclusive);
		}
	}
}

/* Cuts TREE into what stands before LOCK and what stands behind it. */
static void split(
	struct kr_lock *tree, const struct kr_lock *lock, struct kr_lock **ret_before, struct kr_lock **ret_behind)
{
	if (!tree) {
		*ret_before = *ret_behind = NULL;
		return;
	}
	if (before(tree, lock)) {
		split(tree->place.right, lock, &tree->place.right, ret_behind);
		*ret_before = tree;
	} else {
		split(tree->place.left, lock, ret_before, &tree->place.left);
		*ret_behind = tree;
	}
	sum_up(tree);
}

/* All of A stands before all of B. */
static struct kr_lock *join(struct kr_lock *a, struct kr_lock *b)
{
	struct kr_lock *top;

	if (!a || !b)
		return a ? a : b;
	if (priority(a) > priority(b)) {
		top = a;
		top->place.right = join(a->place.right, b);
	} else {
		top = b;
		top->place.left = join(a, b->place.left);
	}
	sum_up(top);
	return top;
}

void kr_lock_tree_insert(struct kr_lock **root, struct kr_lock *lock)
{
	struct kr_lock *tree = *root;

	if (tree && priority(tree) > priority(lock)) {
		kr_lock_tree_insert(before(lock, tree) ? &tree->place.left : &tree->place.right, lock);
		sum_up(tree);
		return;
	}
	split(tree, lock, &lock->place.left, &lock->place.right);
	sum_up(lock);
	*root = lock;
}

void kr_lock_tree_remove(struct kr_lock **root, struct kr_lock *lock)
{
	struct kr_lock *tree = *root;

	if (tree == lock) {
		*root = join(lock->place.left, lock->place.right);
		return;
	}
	kr_lock_tree_remove(before(lock, tree) ? &tree->place.left : &tree->place.right, lock);
	sum_up(tree);
}

struct kr_lock *kr_lock_tree_find(struct kr_lock *root, const struct kr_lock *want)
{
	const struct kr_lock_reach *reach;
	struct kr_lock *found;

	if (!root)
		return NULL;
	reach = want->kind == KR_LOCK_WRITE ? &root->place.all : &root->place.exclusive;
	if (!reach->one || reach->last < want->first ||
		(!reach->several && kr_lock_owner_equal(&reach->one->owner, &want->owner)))
		return NULL;
	found = kr_lock_tree_find(root->place.left, want);
	if (found || root->first > want->last)
		return found;
	if (kr_lock_excludes(root, want))
		return root;
	return kr_lock_tree_find(root->place.right, want);
}

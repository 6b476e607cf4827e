/* See extent_map.h. */
#include "common/base/extent_map.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/util.h"

struct kr_extent_node {
	struct kr_extent extent;
	uint64_t priority; /* a parent's is not lower than its children's */
	struct kr_extent_node *left, *right;
};

static uint64_t extent_end(const struct kr_extent *extent)
{
	return extent->offset + extent->length;
}

void kr_extent_map_init(struct kr_extent_map *map)
{
	*map = (struct kr_extent_map){.random = UINT64_C(0x9e3779b97f4a7c15)};
}

static void free_tree(struct kr_extent_node *node)
{
	while (node) {
		struct kr_extent_node *left = node->left;

		if (left) { /* rotate right: no recursion, whatever the shape */
			node->left = left->right;
			left->right = node;
			node = left;
		} else {
			struct kr_extent_node *right = node->right;

			free(node);
			node = right;
		}
	}
}

void kr_extent_map_fini(struct kr_extent_map *map)
{
	free_tree(map->root);
	kr_extent_map_init(map);
}

/* xorshift: shape, not secrecy. */
static uint64_t next_random(struct kr_extent_map *map)
{
	uint64_t x = map->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return map->random = x;
}

static struct kr_extent_node *new_node(struct kr_extent_map *map)
{
	struct kr_extent_node *node = calloc(1, sizeof(*node));

	if (node)
		node->priority = next_random(map);
	else
		kr_fail(-ENOMEM, "no memory for an extent");
	return node;
}

/* Extents that begin before OFFSET go left, the others right. */
static void split(struct kr_extent_node *node, uint64_t offset, struct kr_extent_node **ret_left,
	struct kr_extent_node **ret_right)
{
	while (node) {
		if (node->extent.offset < offset) {
			*ret_left = node;
			ret_left = &node->right;
			node = node->right;
		} else {
			*ret_right = node;
			ret_right = &node->left;
			node = node->left;
		}
	}
	*ret_left = NULL;
	*ret_right = NULL;
}

/* All of LEFT lies before all of RIGHT. */
static struct kr_extent_node *join(struct kr_extent_node *left, struct kr_extent_node *right)
{
	struct kr_extent_node *root, **place = &root;

	while (left && right) {
		if (left->priority >= right->priority) {
			*place = left;
			place = &left->right;
			left = left->right;
		} else {
			*place = right;
			place = &right->left;
			right = right->left;
		}
	}
	*place = left ? left : right;
	return root;
}

static struct kr_extent_node *last_of(struct kr_extent_node *node)
{
	while (node && node->right)
		node = node->right;
	return node;
}

static void add_node(struct kr_extent_map *map, struct kr_extent_node **tree, struct kr_extent_node *node)
{
	map->count++;
	map->bytes += node->extent.length;
	*tree = join(*tree, node);
}

/* Frees a tree that is no longer in the map, and passes each extent to REMOVED in ascending order. */
static void drop_tree(struct kr_extent_map *map, struct kr_extent_node *node, kr_extent_fn removed, void *context)
{
	if (!node)
		return;
	drop_tree(map, node->left, removed, context);
	map->count--;
	map->bytes -= node->extent.length;
	if (removed)
		removed(context, &node->extent);
	drop_tree(map, node->right, removed, context);
	free(node);
}

static struct kr_extent cut_front(struct kr_extent extent, uint64_t bytes)
{
	extent.offset += bytes;
	extent.position += bytes;
	extent.length -= bytes;
	return extent;
}

/* Ends the last extent of TREE at OFFSET.  *RET_TAIL is the part behind (length 0: none). */
static void cut_last(
	struct kr_extent_map *map, struct kr_extent_node *tree, uint64_t offset, struct kr_extent *ret_tail)
{
	struct kr_extent_node *last = last_of(tree);

	ret_tail->length = 0;
	if (!last || extent_end(&last->extent) <= offset)
		return;
	*ret_tail = cut_front(last->extent, offset - last->extent.offset);
	last->extent.length -= ret_tail->length;
	map->bytes -= ret_tail->length;
}

/* Puts TAIL, in the node *SPARE, before the extents of *RIGHT. */
static void put_tail(struct kr_extent_map *map, const struct kr_extent *tail, struct kr_extent_node **spare,
	struct kr_extent_node **right)
{
	(*spare)->extent = *tail;
	(*spare)->left = (*spare)->right = NULL;
	map->count++;
	map->bytes += tail->length;
	*right = join(*spare, *right);
	*spare = NULL;
}

/* Takes [from, to) out of the map: *RET_LEFT and *RET_RIGHT are the rest.  SPARE: a node for the piece behind a hole in
 * one extent; NULL after its use. */
static void carve(struct kr_extent_map *map, uint64_t from, uint64_t to, struct kr_extent_node **spare,
	struct kr_extent_node **ret_left, struct kr_extent_node **ret_right, kr_extent_fn removed, void *context)
{
	struct kr_extent_node *middle;
	struct kr_extent piece, tail;

	split(map->root, from, ret_left, &middle);
	split(middle, to, &middle, ret_right);
	cut_last(map, *ret_left, from, &piece);
	if (piece.length) { /* one extent began before `from` */
		if (extent_end(&piece) > to) {
			tail = cut_front(piece, to - piece.offset);
			piece.length -= tail.length;
			put_tail(map, &tail, spare, ret_right);
		}
		if (removed)
			removed(context, &piece);
	}
	cut_last(map, middle, to, &tail);
	if (tail.length) /* one extent ends behind `to` */
		put_tail(map, &tail, spare, ret_right);
	drop_tree(map, middle, removed, context);
}

int kr_extent_map_insert(
	struct kr_extent_map *map, const struct kr_extent *extent, kr_extent_fn displaced, void *context)
{
	struct kr_extent_node *node, *spare, *left, *right;

	assert(extent->length > 0 && extent_end(extent) > extent->offset);
	node = new_node(map);
	spare = node ? new_node(map) : NULL;
	if (!spare) {
		free(node);
		return -ENOMEM;
	}
	node->extent = *extent;
	carve(map, extent->offset, extent_end(extent), &spare, &left, &right, displaced, context);
	add_node(map, &left, node);
	map->root = join(left, right);
	free(spare);
	return 0;
}

int kr_extent_map_insert_under(
	struct kr_extent_map *map, const struct kr_extent *extent, kr_extent_fn covered, void *context)
{
	struct kr_extent rest = *extent, piece, other;
	int err = 0;

	while (rest.length > 0 && err == 0) {
		bool found = kr_extent_map_find(map, rest.offset, &other);
		bool inside = found && other.offset <= rest.offset;
		uint64_t until = inside ? extent_end(&other) : found ? other.offset : UINT64_MAX;

		piece = rest;
		if (until < extent_end(&rest))
			piece.length = until - rest.offset;
		if (!inside)
			err = kr_extent_map_insert(map, &piece, NULL, NULL);
		else if (covered)
			covered(context, &piece);
		rest = cut_front(rest, piece.length);
	}
	return err;
}

int kr_extent_map_remove(
	struct kr_extent_map *map, uint64_t offset, uint64_t length, kr_extent_fn removed, void *context)
{
	struct kr_extent_node *spare, *left, *right;
	uint64_t end = length > UINT64_MAX - offset ? UINT64_MAX : offset + length;

	if (length == 0 || map->count == 0)
		return 0;
	spare = new_node(map);
	if (!spare)
		return -ENOMEM;
	carve(map, offset, end, &spare, &left, &right, removed, context);
	map->root = join(left, right);
	free(spare);
	return 0;
}

void kr_extent_map_truncate(struct kr_extent_map *map, uint64_t offset, kr_extent_fn removed, void *context)
{
	struct kr_extent_node *left, *right;
	struct kr_extent tail;

	split(map->root, offset, &left, &right);
	cut_last(map, left, offset, &tail);
	if (tail.length && removed)
		removed(context, &tail);
	drop_tree(map, right, removed, context);
	map->root = left;
}

void kr_extent_map_drop_until(struct kr_extent_map *map, uint64_t seq, kr_extent_fn removed, void *context)
{
	struct kr_extent_node *rest = map->root, *kept = NULL;

	while (rest) { /* the leftmost first, joined at the right end of the kept part */
		struct kr_extent_node **place = &rest, *node;

		while ((*place)->left)
			place = &(*place)->left;
		node = *place;
		*place = node->right;
		node->right = NULL;
		map->count--;
		map->bytes -= node->extent.length;
		if (node->extent.seq > seq) {
			add_node(map, &kept, node);
			continue;
		}
		if (removed)
			removed(context, &node->extent);
		free(node);
	}
	map->root = kept;
}

bool kr_extent_map_find(const struct kr_extent_map *map, uint64_t offset, struct kr_extent *ret_extent)
{
	const struct kr_extent_node *node = map->root, *best = NULL;

	while (node) {
		if (extent_end(&node->extent) > offset) {
			best = node;
			node = node->left;
		} else {
			node = node->right;
		}
	}
	if (best)
		*ret_extent = best->extent;
	return best != NULL;
}

static void visit_tree(const struct kr_extent_node *node, kr_extent_fn visit, void *context)
{
	while (node) {
		visit_tree(node->left, visit, context);
		visit(context, &node->extent);
		node = node->right;
	}
}

void kr_extent_map_for_each(const struct kr_extent_map *map, kr_extent_fn visit, void *context)
{
	visit_tree(map->root, visit, context);
}

uint64_t kr_extent_map_end(const struct kr_extent_map *map)
{
	const struct kr_extent_node *last = last_of(map->root);

	return last ? extent_end(&last->extent) : 0;
}

struct seq {
	uint64_t up_to, highest, lowest;
};

static void take_seq(void *context, const struct kr_extent *extent)
{
	struct seq *seq = context;

	if (extent->seq <= seq->up_to)
		seq->highest = KR_MAX(seq->highest, extent->seq);
	seq->lowest = KR_MIN(seq->lowest, extent->seq);
}

uint64_t kr_extent_map_seq_until(const struct kr_extent_map *map, uint64_t up_to)
{
	struct seq seq = {.up_to = up_to, .lowest = UINT64_MAX};

	if (up_to)
		kr_extent_map_for_each(map, take_seq, &seq);
	return seq.highest;
}

uint64_t kr_extent_map_max_seq(const struct kr_extent_map *map)
{
	return kr_extent_map_seq_until(map, UINT64_MAX);
}

uint64_t kr_extent_map_min_seq(const struct kr_extent_map *map)
{
	struct seq seq = {.lowest = UINT64_MAX};

	kr_extent_map_for_each(map, take_seq, &seq);
	return seq.lowest;
}

static int copy_tree(const struct kr_extent_node *from, struct kr_extent_node **ret_to)
{
	for (; from; from = from->right) {
		struct kr_extent_node *node = malloc(sizeof(*node));

		if (!node) {
			*ret_to = NULL;
			return kr_fail(-ENOMEM, "no memory for an extent");
		}
		*node = *from;
		node->left = node->right = NULL;
		*ret_to = node;
		if (copy_tree(from->left, &node->left) < 0)
			return -ENOMEM;
		ret_to = &node->right;
	}
	*ret_to = NULL;
	return 0;
}

int kr_extent_map_copy(const struct kr_extent_map *from, struct kr_extent_map *to)
{
	assert(kr_extent_map_empty(to));
	if (copy_tree(from->root, &to->root) < 0) {
		kr_extent_map_fini(to);
		return -ENOMEM;
	}
	to->count = from->count;
	to->bytes = from->bytes;
	return 0;
}

void kr_extent_map_move(struct kr_extent_map *from, struct kr_extent_map *to)
{
	assert(kr_extent_map_empty(to));
	*to = *from;
	kr_extent_map_init(from);
}

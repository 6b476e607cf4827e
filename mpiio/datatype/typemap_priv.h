/* The layouts inside typemaps: nodes, normal form, hashing.  For typemap*.c and cursor.c only. */
#ifndef KR_MPIIO_TYPEMAP_PRIV_H
#define KR_MPIIO_TYPEMAP_PRIV_H

#include "mpiio/datatype/typemap.h"

enum kr_typenode_kind { KR_NODE_BYTES, KR_NODE_REPEAT, KR_NODE_LIST };

struct kr_typepart {
	int64_t displacement;
	uint64_t data; /* bytes of the parts before */
	struct kr_typenode *child;
};

/* Invariants of every node, also of one made from a peer's bytes: only bytes(0) is empty; a repeat has >= 2 copies, a
 * list >= 2 parts of which the first lies at 0; all sums and products below fit. */
struct kr_typenode {
	unsigned refs; /* atomic */
	uint8_t kind;
	bool monotonic;
	uint16_t depth; /* of repeats and lists; bytes: 0 */
	uint64_t size;  /* data bytes */
	uint64_t runs;  /* saturates */
	int64_t lo, hi; /* data lies in [lo, hi); monotonic: lo is 0 */
	uint64_t hash[2];
	uint64_t count; /* of copies, of parts */
	int64_t stride;
	struct kr_typenode *child; /* of a repeat */
	struct kr_typepart parts[];
};

/* A node and its place, for a list. */
struct kr_placed {
	int64_t displacement;
	struct kr_typenode *node; /* a reference, or borrowed, as each function says */
};

static inline struct kr_typenode *kr_typenode_get(struct kr_typenode *node)
{
	__atomic_fetch_add(&node->refs, 1, __ATOMIC_RELAXED);
	return node;
}
void kr_typenode_put(struct kr_typenode *node);
static inline bool kr_typenode_equal(const struct kr_typenode *a, const struct kr_typenode *b)
{
	return a == b || (a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1]);
}

/* Each: owned node; 0, -ENOMEM, -EOVERFLOW, -E2BIG.  Borrows the given nodes. */
int kr_typenode_bytes(uint64_t length, struct kr_typenode **ret_node);
/* In normal form. */
int kr_typenode_repeat(uint64_t count, int64_t stride, struct kr_typenode *child, struct kr_typenode **ret_node);
/* In normal form; the nodes may be empty, COUNT 0.  The result's 0 lies at *RET_DISPLACEMENT of the parts' scale. */
int kr_typenode_list(
	const struct kr_placed *parts, size_t count, int64_t *ret_displacement, struct kr_typenode **ret_node);
/* Without normal form: the caller ensures COUNT >= 2, no empty nodes and a first displacement of 0. */
int kr_typenode_repeat_as_is(uint64_t count, int64_t stride, struct kr_typenode *child, struct kr_typenode **ret_node);
int kr_typenode_list_as_is(const struct kr_placed *parts, size_t count, struct kr_typenode **ret_node);

/* Addition and multiplication that fail when a result leaves (-KR_TYPEMAP_LIMIT, KR_TYPEMAP_LIMIT). */
static inline bool kr_typemap_fits(int64_t value)
{
	return value > -KR_TYPEMAP_LIMIT && value < KR_TYPEMAP_LIMIT;
}
static inline bool kr_typemap_add(int64_t a, int64_t b, int64_t *ret_sum)
{
	return !__builtin_add_overflow(a, b, ret_sum) && kr_typemap_fits(*ret_sum);
}
static inline bool kr_typemap_mul(uint64_t count, int64_t stride, int64_t *ret_product)
{
	return !__builtin_mul_overflow(count, stride, ret_product) && kr_typemap_fits(*ret_product);
}

/* Takes the reference to LAYOUT, also on failure. */
int kr_typemap_make(
	int64_t displacement, int64_t lb, int64_t extent, struct kr_typenode *layout, struct kr_typemap **ret_map);

/* A set of nodes in the order of their insertion; equal nodes count once. */
struct kr_typeset {
	const struct kr_typenode **nodes;
	uint32_t *slots; /* 0 = free, else index + 1 */
	size_t count, capacity;
};
/* NODE and all below it, children first.  0 or -ENOMEM; fini in any case. */
int kr_typeset_collect(struct kr_typeset *set, const struct kr_typenode *node);
/* The number of NODE, which is in the set. */
size_t kr_typeset_index(const struct kr_typeset *set, const struct kr_typenode *node);
void kr_typeset_fini(struct kr_typeset *set);

#endif

/* Layout nodes: makes them with every bound checked, hashes them, collects them in sets.  Normal form of lists:
 * typemap_list.c.
 * No locks: nodes never change once made, and their count of references is atomic. */
#include <errno.h>
#include <stdlib.h>

#include "common/base/util.h"
#include "mpiio/datatype/typemap_priv.h"

void kr_typenode_put(struct kr_typenode *node)
{
	if (!node || __atomic_sub_fetch(&node->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	if (node->kind == KR_NODE_REPEAT)
		kr_typenode_put(node->child);
	if (node->kind == KR_NODE_LIST)
		for (uint64_t i = 0; i < node->count; i++)
			kr_typenode_put(node->parts[i].child);
	free(node);
}

static uint64_t rotate(uint64_t value, int bits)
{
	return value << bits | value >> (64 - bits);
}

/* The inner step of MurmurHash3_x64_128 (public domain), with one value in both lanes. */
static void mix(uint64_t hash[2], uint64_t value)
{
	uint64_t k1 = rotate(value * UINT64_C(0x87c37b91114253d5), 31) * UINT64_C(0x4cf5ad432745937f);
	uint64_t k2 = rotate(~value * UINT64_C(0x4cf5ad432745937f), 33) * UINT64_C(0x87c37b91114253d5);
	hash[0] = (rotate(hash[0] ^ k1, 27) + hash[1]) * 5 + 0x52dce729;
	hash[1] = (rotate(hash[1] ^ k2, 31) + hash[0]) * 5 + 0x38495ab5;
}

static void hash_node(struct kr_typenode *node)
{
	node->hash[0] = node->kind + 1;
	node->hash[1] = node->size;
	mix(node->hash, node->count);
	if (node->kind == KR_NODE_REPEAT) {
		mix(node->hash, (uint64_t)node->stride);
		mix(node->hash, node->child->hash[0]);
		mix(node->hash, node->child->hash[1]);
	}
	if (node->kind == KR_NODE_LIST)
		for (uint64_t i = 0; i < node->count; i++) {
			mix(node->hash, (uint64_t)node->parts[i].displacement);
			mix(node->hash, node->parts[i].child->hash[0]);
			mix(node->hash, node->parts[i].child->hash[1]);
		}
}

static int new_node(enum kr_typenode_kind kind, size_t parts, struct kr_typenode **ret_node)
{
	struct kr_typenode *node;
	if (parts > (PTRDIFF_MAX - sizeof(*node)) / sizeof(*node->parts))
		return -ENOMEM;
	node = calloc(1, sizeof(*node) + parts * sizeof(*node->parts));
	if (!node)
		return -ENOMEM;
	node->refs = 1;
	node->kind = (uint8_t)kind;
	*ret_node = node;
	return 0;
}

int kr_typenode_bytes(uint64_t length, struct kr_typenode **ret_node)
{
	struct kr_typenode *node;
	if (length >= (uint64_t)KR_TYPEMAP_LIMIT)
		return -EOVERFLOW;
	int error = new_node(KR_NODE_BYTES, 0, &node);
	if (error < 0)
		return error;
	node->size = length;
	node->hi = (int64_t)length;
	node->runs = length > 0;
	node->monotonic = true;
	hash_node(node);
	*ret_node = node;
	return 0;
}

int kr_typenode_repeat_as_is(uint64_t count, int64_t stride, struct kr_typenode *child, struct kr_typenode **ret_node)
{
	struct kr_typenode *node;
	int64_t size, last, lo, hi;
	if (!kr_typemap_fits(stride) || !kr_typemap_mul(count, (int64_t)child->size, &size) ||
		!kr_typemap_mul(count - 1, stride, &last) || !kr_typemap_add(KR_MIN(last, 0), child->lo, &lo) ||
		!kr_typemap_add(KR_MAX(last, 0), child->hi, &hi))
		return -EOVERFLOW;
	if (child->depth >= KR_TYPEMAP_DEPTH)
		return -E2BIG;
	int error = new_node(KR_NODE_REPEAT, 0, &node);
	if (error < 0)
		return error;
	node->count = count;
	node->stride = stride;
	node->child = kr_typenode_get(child);
	node->size = (uint64_t)size;
	node->lo = lo;
	node->hi = hi;
	if (__builtin_mul_overflow(count, child->runs, &node->runs))
		node->runs = UINT64_MAX;
	node->depth = (uint16_t)(child->depth + 1);
	node->monotonic = child->monotonic && stride >= child->hi;
	hash_node(node);
	*ret_node = node;
	return 0;
}

int kr_typenode_repeat(uint64_t count, int64_t stride, struct kr_typenode *child, struct kr_typenode **ret_node)
{
	int64_t length;
	uint64_t all;
	if (count == 0 || child->size == 0)
		return kr_typenode_bytes(0, ret_node);
	if (count == 1) {
		*ret_node = kr_typenode_get(child);
		return 0;
	}
	if (child->kind == KR_NODE_BYTES && stride == (int64_t)child->size)
		return kr_typemap_mul(count, stride, &length) ? kr_typenode_bytes((uint64_t)length, ret_node) :
								-EOVERFLOW;
	if (child->kind == KR_NODE_REPEAT && kr_typemap_mul(child->count, child->stride, &length) && stride == length) {
		if (__builtin_mul_overflow(count, child->count, &all))
			return -EOVERFLOW;
		return kr_typenode_repeat_as_is(all, child->stride, child->child, ret_node);
	}
	return kr_typenode_repeat_as_is(count, stride, child, ret_node);
}

/* Adds PART, whose displacement is the node's, to the list's sums. */
static int add_part(struct kr_typenode *node, const struct kr_placed *part)
{
	struct kr_typenode *child = part->node;
	int64_t lo, hi, size;
	if (!kr_typemap_fits(part->displacement) || !kr_typemap_add(part->displacement, child->lo, &lo) ||
		!kr_typemap_add(part->displacement, child->hi, &hi) ||
		!kr_typemap_add((int64_t)node->size, (int64_t)child->size, &size))
		return -EOVERFLOW;
	if (child->depth >= KR_TYPEMAP_DEPTH)
		return -E2BIG;
	node->monotonic = node->monotonic && child->monotonic && (node->count == 0 || lo >= node->hi);
	node->lo = node->count == 0 ? lo : KR_MIN(node->lo, lo);
	node->hi = node->count == 0 ? hi : KR_MAX(node->hi, hi);
	node->depth = KR_MAX(node->depth, (uint16_t)(child->depth + 1));
	if (__builtin_add_overflow(node->runs, child->runs, &node->runs))
		node->runs = UINT64_MAX;
	node->parts[node->count++] = (struct kr_typepart){part->displacement, node->size, kr_typenode_get(child)};
	node->size = (uint64_t)size;
	return 0;
}

int kr_typenode_list_as_is(const struct kr_placed *parts, size_t count, struct kr_typenode **ret_node)
{
	struct kr_typenode *node;
	int error = new_node(KR_NODE_LIST, count, &node);
	if (error < 0)
		return error;
	node->monotonic = true;
	for (size_t i = 0; i < count && error == 0; i++)
		error = add_part(node, &parts[i]);
	if (error < 0) {
		kr_typenode_put(node);
		return error;
	}
	hash_node(node);
	*ret_node = node;
	return 0;
}

/* ---- sets ---- */

static size_t find_slot(const struct kr_typeset *set, const struct kr_typenode *node)
{
	for (size_t at = node->hash[0] & (2 * set->capacity - 1);; at = (at + 1) & (2 * set->capacity - 1)) {
		const struct kr_typenode *there = set->slots[at] ? set->nodes[set->slots[at] - 1] : NULL;
		if (!there || kr_typenode_equal(there, node))
			return at;
	}
}

static int grow(struct kr_typeset *set)
{
	size_t capacity = set->capacity ? 2 * set->capacity : 16;
	const struct kr_typenode **nodes = realloc(set->nodes, capacity * sizeof(const struct kr_typenode *));
	if (!nodes)
		return -ENOMEM;
	set->nodes = nodes;
	uint32_t *slots = capacity < UINT32_MAX / 2 ? calloc(2 * capacity, sizeof(*slots)) : NULL;
	if (!slots)
		return -ENOMEM;
	free(set->slots);
	set->slots = slots;
	set->capacity = capacity;
	for (size_t i = 0; i < set->count; i++)
		set->slots[find_slot(set, set->nodes[i])] = (uint32_t)(i + 1);
	return 0;
}

int kr_typeset_collect(struct kr_typeset *set, const struct kr_typenode *node)
{
	int error = 0;
	if (set->capacity && set->slots[find_slot(set, node)])
		return 0;
	if (node->kind == KR_NODE_REPEAT)
		error = kr_typeset_collect(set, node->child);
	for (uint64_t i = 0; node->kind == KR_NODE_LIST && i < node->count && error == 0; i++)
		if (i == 0 || node->parts[i].child != node->parts[i - 1].child)
			error = kr_typeset_collect(set, node->parts[i].child);
	if (error == 0 && set->count == set->capacity)
		error = grow(set);
	if (error < 0)
		return error;
	set->nodes[set->count++] = node;
	set->slots[find_slot(set, node)] = (uint32_t)set->count;
	return 0;
}

size_t kr_typeset_index(const struct kr_typeset *set, const struct kr_typenode *node)
{
	return set->slots[find_slot(set, node)] - 1;
}

void kr_typeset_fini(struct kr_typeset *set)
{
	free(set->nodes);
	free(set->slots);
}

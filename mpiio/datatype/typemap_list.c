/* The normal form of lists. Parts that touch are joined; parts at a constant distance become a repeat; a periodic list
 * becomes a repeat of its period.  Linear in the number of parts. */
#include <errno.h>
#include <stdlib.h>

#include "mpiio/datatype/typemap_priv.h"

/* Lists within lists are dissolved up to this many parts; a longer one may be small only because it is kept together.
 */
enum { SPLICE_MAX = 256, RECENT = 256 };

/* The list under work; owns references.  Equal nodes share one of RECENT nodes, so that a list of a million blocks of
 * few lengths has few nodes. */
struct work {
	struct kr_placed *parts;
	size_t count, capacity;
	struct kr_typenode *recent[RECENT]; /* borrowed from PARTS that stay; cleared between passes */
};

static void release(struct work *work)
{
	for (size_t i = 0; i < work->count; i++)
		kr_typenode_put(work->parts[i].node);
	free(work->parts);
}

/* Takes the reference to NODE. */
static int push(struct work *work, int64_t displacement, struct kr_typenode *node)
{
	struct kr_typenode **recent = &work->recent[node->hash[0] % RECENT];
	if (*recent && *recent != node && kr_typenode_equal(*recent, node)) {
		kr_typenode_put(node);
		node = kr_typenode_get(*recent);
	}
	*recent = node;
	if (work->count == work->capacity) {
		size_t capacity = work->capacity ? 2 * work->capacity : 16;
		struct kr_placed *parts = reallocarray(work->parts, capacity, sizeof(*parts));
		if (!parts) {
			kr_typenode_put(node);
			return -ENOMEM;
		}
		work->parts = parts;
		work->capacity = capacity;
	}
	work->parts[work->count++] = (struct kr_placed){displacement, node};
	return 0;
}

/* Joins bytes to bytes that end where they begin.  The length of a growing run is kept apart, so that joining n parts
 * makes one node, not n. */
struct join {
	int64_t begin;
	uint64_t length;           /* 0: none */
	struct kr_typenode *whole; /* borrowed: the run's only part, if it has just one */
};

static int flush_join(struct work *work, struct join *join)
{
	struct kr_typenode *node;
	int error;
	if (join->length == 0)
		return 0;
	if (join->whole)
		node = kr_typenode_get(join->whole);
	else if ((error = kr_typenode_bytes(join->length, &node)) < 0)
		return error;
	join->length = 0;
	return push(work, join->begin, node);
}

static int take_part(struct work *work, struct join *join, int64_t displacement, struct kr_typenode *node)
{
	int error;
	if (node->size == 0)
		return 0;
	if (!kr_typemap_fits(displacement))
		return -EOVERFLOW;
	if (node->kind == KR_NODE_BYTES && join->length > 0 && displacement == join->begin + (int64_t)join->length) {
		if (join->length + node->size >= (uint64_t)KR_TYPEMAP_LIMIT)
			return -EOVERFLOW;
		join->length += node->size;
		join->whole = NULL;
		return 0;
	}
	error = flush_join(work, join);
	if (error < 0)
		return error;
	if (node->kind == KR_NODE_BYTES) {
		*join = (struct join){displacement, node->size, node};
		return 0;
	}
	return push(work, displacement, kr_typenode_get(node));
}

/* Drops empty parts, dissolves lists, joins parts that touch. */
static int gather(struct work *work, const struct kr_placed *parts, size_t count)
{
	struct join join = {0};
	uint64_t total = 0;
	int error = 0;
	for (size_t i = 0; i < count && total <= SPLICE_MAX; i++)
		total += parts[i].node->kind == KR_NODE_LIST ? parts[i].node->count : 1;
	for (size_t i = 0; i < count && error == 0; i++) {
		struct kr_typenode *node = parts[i].node;
		if (node->kind != KR_NODE_LIST || total > SPLICE_MAX) {
			error = take_part(work, &join, parts[i].displacement, node);
			continue;
		}
		for (uint64_t k = 0; k < node->count && error == 0; k++) {
			int64_t displacement;
			error = kr_typemap_add(parts[i].displacement, node->parts[k].displacement, &displacement) ?
				take_part(work, &join, displacement, node->parts[k].child) :
				-EOVERFLOW;
		}
	}
	return error < 0 ? error : flush_join(work, &join);
}

/* COUNT copies of NODE, STRIDE apart (undefined for one). */
struct series {
	int64_t displacement, stride;
	uint64_t count;
	struct kr_typenode *node; /* borrowed */
};

static struct series as_series(const struct kr_placed *part, bool open)
{
	if (open && part->node->kind == KR_NODE_REPEAT)
		return (struct series){part->displacement, part->node->stride, part->node->count, part->node->child};
	return (struct series){part->displacement, 0, 1, part->node};
}

/* Adds NEXT to SERIES if it continues it; whether it does. */
static bool extend(struct series *series, const struct series *next)
{
	int64_t end, distance;
	if (!kr_typenode_equal(series->node, next->node) ||
		!kr_typemap_add(next->displacement, -series->displacement, &distance))
		return false;
	int64_t stride = series->count > 1 ? series->stride : next->count > 1 ? next->stride : distance;
	if (!kr_typemap_mul(series->count, stride, &end) || end != distance ||
		(next->count > 1 && next->stride != stride) || series->count + next->count < series->count)
		return false;
	series->stride = stride;
	series->count += next->count;
	return true;
}

/* Makes repeats of three or more equal parts at a constant distance.  OPEN: also takes apart parts that are repeats. */
static int find_series(struct work *work, bool open)
{
	struct work old = {.parts = work->parts, .count = work->count};
	int error = 0;
	*work = (struct work){0};
	for (size_t i = 0; i < old.count && error == 0;) {
		struct series series = as_series(&old.parts[i], open), next;
		struct kr_typenode *node;
		size_t end = i + 1;
		while (end < old.count && (next = as_series(&old.parts[end], open), extend(&series, &next)))
			end++;
		if (end == i + 1 || series.count < 3) {
			error = push(work, old.parts[i].displacement, kr_typenode_get(old.parts[i].node));
			i++;
			continue;
		}
		error = kr_typenode_repeat(series.count, series.stride, series.node, &node);
		if (error == 0)
			error = push(work, series.displacement, node);
		i = end;
	}
	release(&old);
	return error;
}

/* Whether part I and the distance to the next one equal part A and the distance to its next. */
static bool same_step(const struct kr_placed *parts, size_t i, size_t a)
{
	return kr_typenode_equal(parts[i].node, parts[a].node) &&
		parts[i + 1].displacement - parts[i].displacement == parts[a + 1].displacement - parts[a].displacement;
}

/* The shortest period of the whole list, COUNT when it has none. It comes from the borders (Knuth, Morris and Pratt) of
 * the list's COUNT - 1 steps; BORDER has room for their lengths. */
static size_t find_period(const struct kr_placed *parts, size_t count, size_t *border)
{
	size_t steps = count - 1, k = 0;
	border[0] = border[1] = 0;
	for (size_t i = 1; i < steps; i++) {
		while (k > 0 && !same_step(parts, i, k))
			k = border[k];
		k += same_step(parts, i, k);
		border[i + 1] = k;
	}
	for (k = border[steps];; k = border[k]) {
		size_t period = steps - k;
		if (count % period == 0 && period < count &&
			kr_typenode_equal(parts[count - 1].node, parts[count - 1 - period].node))
			return period;
		if (k == 0)
			return count;
	}
}

/* Makes a list of COUNT >= 1 parts without series; the first lies at 0. */
static int make_list(const struct kr_placed *parts, size_t count, size_t *border, struct kr_typenode **ret_node)
{
	struct kr_typenode *inner;
	size_t period;
	if (count == 1) {
		*ret_node = kr_typenode_get(parts[0].node);
		return 0;
	}
	period = find_period(parts, count, border);
	if (period == count)
		return kr_typenode_list_as_is(parts, count, ret_node);
	int error = make_list(parts, period, border, &inner);
	if (error == 0) {
		error = kr_typenode_repeat(count / period, parts[period].displacement, inner, ret_node);
		kr_typenode_put(inner);
	}
	return error;
}

static int finish(struct work *work, struct kr_typenode **ret_node)
{
	int64_t first = work->parts[0].displacement;
	size_t *border = reallocarray(NULL, work->count + 1, sizeof(*border));
	int error = border ? 0 : -ENOMEM;
	for (size_t i = 0; i < work->count && error == 0; i++)
		if (!kr_typemap_add(work->parts[i].displacement, -first, &work->parts[i].displacement))
			error = -EOVERFLOW;
	if (error == 0)
		error = make_list(work->parts, work->count, border, ret_node);
	free(border);
	return error;
}

int kr_typenode_list(
	const struct kr_placed *parts, size_t count, int64_t *ret_displacement, struct kr_typenode **ret_node)
{
	struct work work = {0};
	struct kr_typenode *node = NULL;
	int64_t displacement = 0;
	int error = gather(&work, parts, count);
	if (error == 0)
		error = find_series(&work, true);
	if (error == 0)
		error = find_series(&work, false);
	if (error == 0 && work.count > 0)
		displacement = work.parts[0].displacement;
	if (error == 0 && work.count == 0)
		error = kr_typenode_bytes(0, &node);
	else if (error == 0)
		error = finish(&work, &node);
	release(&work);
	if (error < 0)
		return error;
	*ret_displacement = displacement;
	*ret_node = node;
	return 0;
}

/* Random typemaps, each with a model that knows nothing of trees: the offset of every data byte, in data order. */
#ifndef KR_TEST_MPI_RANDOM_MAP_H
#define KR_TEST_MPI_RANDOM_MAP_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "mpiio/datatype/typemap.h"

enum { MODEL_MAX = 3000 };

struct model {
	int64_t offsets[MODEL_MAX];
	size_t count;
	int64_t lb, extent;
};

static inline uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* 0 ... limit - 1 */
static inline uint64_t random_below(uint64_t *state, uint64_t limit)
{
	return (random_next(state) >> 11) % limit;
}

static inline uint64_t random_seed(uint64_t seed)
{
	uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	random_next(&state);
	return state;
}

/* COUNT copies of PART, its extent apart, from DISPLACEMENT. */
static inline bool model_add(struct model *model, const struct model *part, uint64_t count, int64_t displacement)
{
	if (model->count + count * part->count > MODEL_MAX)
		return false;
	for (uint64_t i = 0; i < count; i++)
		for (size_t k = 0; k < part->count; k++)
			model->offsets[model->count++] = displacement + (int64_t)i * part->extent + part->offsets[k];
	return true;
}

struct random_map {
	struct kr_typemap *map;
	struct model model;
};

/* Only non-decreasing offsets without overlap when MONOTONIC. */
static inline void random_map(uint64_t *state, unsigned levels, bool monotonic, struct random_map *ret);

static inline void random_struct(uint64_t *state, unsigned levels, bool monotonic, struct random_map *ret)
{
	size_t count = random_below(state, 6);
	bool same = random_below(state, 2), even = random_below(state, 3) == 0;
	uint64_t gap = random_below(state, 9);
	struct random_map *child = malloc(6 * sizeof(*child));
	struct kr_part parts[6] = {{0}};
	int64_t at = monotonic ? 0 : (int64_t)random_below(state, 40) - 20, lb = 0, ub = 0;
	bool any = false;
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || !same)
			random_map(state, levels - 1, monotonic, &child[i]);
		else
			child[i] = (struct random_map){kr_typemap_get(child[0].map), child[0].model};
	}
	ret->model.count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct model *part = &child[i].model;
		uint64_t copies = even ? 2 : random_below(state, 4);
		int64_t end = (int64_t)copies * part->extent;
		if (!monotonic && !even)
			at = (int64_t)random_below(state, 200) - 100;
		if (monotonic) /* whatever lies before or behind the extent */
			at += part->count ? KR_MAX(0, -part->offsets[0]) : 0;
		parts[i] = (struct kr_part){at, copies, child[i].map};
		if (!model_add(&ret->model, part, copies, at))
			parts[i].count = copies = 0;
		if (copies > 0) {
			int64_t low = at + part->lb + KR_MIN((int64_t)(copies - 1) * part->extent, 0);
			int64_t high = at + part->lb + part->extent + KR_MAX((int64_t)(copies - 1) * part->extent, 0);
			lb = any ? KR_MIN(lb, low) : low;
			ub = any ? KR_MAX(ub, high) : high;
			any = true;
			if (part->count)
				end = KR_MAX(
					end, (int64_t)(copies - 1) * part->extent + part->offsets[part->count - 1] + 1);
		}
		at += end + (int64_t)(even ? gap : random_below(state, 9));
	}
	ret->model.lb = lb;
	ret->model.extent = ub - lb;
	int error = kr_typemap_struct(count, parts, &ret->map);
	assert(error == 0);
	for (size_t i = 0; i < count; i++)
		kr_typemap_put(child[i].map);
	free(child);
}

static inline void random_vector(uint64_t *state, unsigned levels, bool monotonic, struct random_map *ret)
{
	struct random_map *child = malloc(sizeof(*child));
	uint64_t count = random_below(state, 6), block = random_below(state, 4);
	random_map(state, levels - 1, monotonic, child);
	const struct model *part = &child->model;
	int64_t span = part->count ? part->offsets[part->count - 1] + 1 - part->offsets[0] : 0;
	int64_t stride = (int64_t)random_below(state, 60) - 30, block_last;
	if (part->count * count * block > MODEL_MAX)
		count = block = 1;
	block_last = (int64_t)(block ? block - 1 : 0) * part->extent;
	if (monotonic)
		stride = block_last + KR_MAX(span, 0) +
			(int64_t)random_below(state, 3) * (int64_t)random_below(state, 20);
	ret->model.count = 0;
	for (uint64_t i = 0; i < count; i++)
		model_add(&ret->model, part, block, (int64_t)i * stride);
	ret->model.lb = ret->model.extent = 0;
	if (count * block > 0) {
		int64_t last = (int64_t)(count - 1) * stride;
		ret->model.lb = part->lb + KR_MIN(block_last, 0) + KR_MIN(last, 0);
		ret->model.extent = part->lb + part->extent + KR_MAX(block_last, 0) + KR_MAX(last, 0) - ret->model.lb;
	}
	int error = kr_typemap_vector(count, block, stride, child->map, &ret->map);
	assert(error == 0);
	kr_typemap_put(child->map);
	free(child);
}

static inline void random_resized(uint64_t *state, unsigned levels, bool monotonic, struct random_map *ret)
{
	struct random_map *child = malloc(sizeof(*child));
	random_map(state, levels - 1, monotonic, child);
	*ret = *child;
	ret->model.lb = (int64_t)random_below(state, 60) - 30;
	ret->model.extent = (int64_t)random_below(state, 80) - 40;
	if (monotonic)
		ret->model.extent =
			(ret->model.count ? ret->model.offsets[ret->model.count - 1] + 1 - ret->model.offsets[0] : 0) +
			(int64_t)(random_below(state, 2) * random_below(state, 10));
	int error = kr_typemap_resized(child->map, ret->model.lb, ret->model.extent, &ret->map);
	assert(error == 0);
	kr_typemap_put(child->map);
	free(child);
}

/* Makes the extent as large as the data's span, so that copies do not overlap. */
static inline void widen(struct random_map *random)
{
	struct model *model = &random->model;
	struct kr_typemap *map;
	int64_t span = model->count ? model->offsets[model->count - 1] + 1 - model->offsets[0] : 0;
	if (model->extent >= span)
		return;
	model->extent = span;
	int error = kr_typemap_resized(random->map, model->lb, span, &map);
	assert(error == 0);
	kr_typemap_put(random->map);
	random->map = map;
}

static inline void random_map(uint64_t *state, unsigned levels, bool monotonic, struct random_map *ret)
{
	switch (levels ? random_below(state, 7) : 0) {
	case 0: {
		uint64_t length = random_below(state, 9) * random_below(state, 2) + 1;
		if (random_below(state, 20) == 0)
			length = 0;
		int error = kr_typemap_bytes(length, &ret->map);
		assert(error == 0);
		ret->model.count = length;
		ret->model.lb = 0;
		ret->model.extent = (int64_t)length;
		for (uint64_t i = 0; i < length; i++)
			ret->model.offsets[i] = (int64_t)i;
		break;
	}
	case 1:
	case 2:
	case 3:
		random_struct(state, levels, monotonic, ret);
		break;
	case 4:
	case 5:
		random_vector(state, levels, monotonic, ret);
		break;
	default:
		random_resized(state, levels, monotonic, ret);
		break;
	}
	if (monotonic)
		widen(ret);
}

static inline bool model_monotonic(const struct model *model)
{
	for (size_t i = 1; i < model->count; i++)
		if (model->offsets[i] <= model->offsets[i - 1])
			return false;
	return true;
}

/* Where data byte DATA of the endless tiling lies. */
static inline int64_t model_offset(const struct model *model, int64_t displacement, uint64_t data)
{
	return displacement + (int64_t)(data / model->count) * model->extent + model->offsets[data % model->count];
}

#endif

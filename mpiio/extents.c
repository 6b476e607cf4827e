/* Merging the runs of many cursors; see extents.h. */
#include "mpiio/extents.h"

#include <errno.h>
#include <stdlib.h>

#include "common/util.h"

/* The next run of one cursor. */
struct head {
	struct kr_run run;
	uint32_t source;
};

/* Binary heaps of heads; before says who comes first. */
typedef bool (*before_fn)(const struct head *a, const struct head *b);

static bool lower_offset(const struct head *a, const struct head *b)
{
	return a->run.offset < b->run.offset;
}

static bool higher_source(const struct head *a, const struct head *b)
{
	return a->source > b->source;
}

/* Puts HEAD where it belongs, from the free place AT downwards. */
static void sift_down(struct head *heap, size_t count, size_t at, struct head head, before_fn before)
{
	for (size_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &head))
			break;
		heap[at] = heap[child];
	}
	heap[at] = head;
}

static void push(struct head *heap, size_t *count, struct head head, before_fn before)
{
	size_t at = (*count)++;
	for (; at > 0 && before(&head, &heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = head;
}

static struct head pop(struct head *heap, size_t *count, before_fn before)
{
	struct head top = heap[0];
	if (--*count > 0)
		sift_down(heap, *count, 0, heap[*count], before);
	return top;
}

static int64_t end_of(const struct kr_run *run)
{
	return run->offset + (int64_t)run->length;
}

/* Room for one more of SIZE bytes in an array that holds COUNT. */
static int reserve(void **array, size_t count, size_t *capacity, size_t size)
{
	size_t more = *capacity ? 2 * *capacity : 64;
	void *grown;
	if (count < *capacity)
		return 0;
	grown = reallocarray(*array, more, size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*capacity = more;
	return 0;
}

void kr_extents_init(struct kr_extents *extents)
{
	*extents = (struct kr_extents){0};
}

void kr_extents_fini(struct kr_extents *extents)
{
	free(extents->runs);
	kr_extents_init(extents);
}

/* Adds RUN, which begins at or after every run before. */
static int add_run(struct kr_extents *extents, const struct kr_run *run)
{
	struct kr_run *last = extents->count ? &extents->runs[extents->count - 1] : NULL;
	if (last && run->offset <= end_of(last)) {
		int64_t more = end_of(run) - end_of(last);
		extents->overlap = extents->overlap || run->offset < end_of(last);
		if (more > 0) {
			last->length += (uint64_t)more;
			extents->bytes += (uint64_t)more;
		}
		return 0;
	}
	void *runs = extents->runs;
	int error = reserve(&runs, extents->count, &extents->capacity, sizeof(*extents->runs));
	extents->runs = runs;
	if (error < 0)
		return error;
	extents->runs[extents->count++] = *run;
	extents->bytes += run->length;
	return 0;
}

int kr_extents_union(struct kr_extents *extents, struct kr_cursor *const *cursors, size_t count, int64_t limit)
{
	struct head *heap = reallocarray(NULL, count + 1, sizeof(*heap));
	size_t waiting = 0;
	int error = heap ? 0 : -ENOMEM;
	extents->count = 0;
	extents->bytes = 0;
	extents->overlap = false;
	for (size_t i = 0; i < count && error == 0; i++) {
		struct head head = {.source = (uint32_t)i};
		if (kr_cursor_next(cursors[i], limit, &head.run))
			push(heap, &waiting, head, lower_offset);
	}
	while (waiting > 0 && error == 0) {
		struct head head = heap[0];
		error = add_run(extents, &head.run);
		if (kr_cursor_next(cursors[head.source], limit, &head.run))
			sift_down(heap, waiting, 0, head, lower_offset);
		else
			pop(heap, &waiting, lower_offset);
	}
	free(heap);
	return error;
}

void kr_winners_init(struct kr_winners *winners)
{
	*winners = (struct kr_winners){0};
}

void kr_winners_fini(struct kr_winners *winners)
{
	free(winners->pieces);
	kr_winners_init(winners);
}

static int add_piece(struct kr_winners *winners, int64_t begin, int64_t end, uint32_t source)
{
	struct kr_winner *last = winners->count ? &winners->pieces[winners->count - 1] : NULL;
	if (last && last->source == source && end_of(&last->run) == begin) {
		last->run.length += (uint64_t)(end - begin);
		return 0;
	}
	void *pieces = winners->pieces;
	int error = reserve(&pieces, winners->count, &winners->capacity, sizeof(*winners->pieces));
	winners->pieces = pieces;
	if (error < 0)
		return error;
	winners->pieces[winners->count++] = (struct kr_winner){{begin, (uint64_t)(end - begin)}, source};
	return 0;
}

/* A sweep over the window: a source waits with its next run, or is among those whose run covers the place where the sweep
 * is (or ended before it: found out when it comes to the top). */
struct sweep {
	struct kr_cursor *const *cursors;
	int64_t limit, at;
	struct head *waiting, *covering;
	size_t waiting_count, covering_count;
};

/* Brings SOURCE's first run that ends after the sweep's place. */
static void fetch(struct sweep *sweep, uint32_t source)
{
	struct head head = {.source = source};
	while (kr_cursor_next(sweep->cursors[source], sweep->limit, &head.run))
		if (end_of(&head.run) > sweep->at) {
			push(sweep->waiting, &sweep->waiting_count, head, lower_offset);
			return;
		}
}

/* Goes on to the next place that is covered; false when there is none. */
static bool settle(struct sweep *sweep)
{
	for (;;) {
		while (sweep->covering_count > 0 && end_of(&sweep->covering[0].run) <= sweep->at)
			fetch(sweep, pop(sweep->covering, &sweep->covering_count, higher_source).source);
		if (sweep->covering_count == 0 && sweep->waiting_count == 0)
			return false;
		if (sweep->covering_count == 0)
			sweep->at = KR_MAX(sweep->at, sweep->waiting[0].run.offset);
		if (sweep->waiting_count == 0 || sweep->waiting[0].run.offset > sweep->at)
			return true;
		push(sweep->covering, &sweep->covering_count, pop(sweep->waiting, &sweep->waiting_count, lower_offset),
			higher_source);
	}
}

int kr_winners_plan(struct kr_winners *winners, struct kr_cursor *const *cursors, size_t count, int64_t limit)
{
	struct sweep sweep = {.cursors = cursors, .limit = limit, .at = INT64_MIN};
	int error = 0;
	winners->count = 0;
	sweep.waiting = reallocarray(NULL, count + 1, sizeof(*sweep.waiting));
	sweep.covering = reallocarray(NULL, count + 1, sizeof(*sweep.covering));
	if (!sweep.waiting || !sweep.covering)
		error = -ENOMEM;
	for (size_t i = 0; i < count && error == 0; i++)
		fetch(&sweep, (uint32_t)i);
	while (error == 0 && settle(&sweep)) {
		const struct head *top = &sweep.covering[0];
		int64_t end = end_of(&top->run);
		if (sweep.waiting_count > 0)
			end = KR_MIN(end, sweep.waiting[0].run.offset);
		error = add_piece(winners, sweep.at, end, top->source);
		sweep.at = end;
	}
	free(sweep.waiting);
	free(sweep.covering);
	return error;
}

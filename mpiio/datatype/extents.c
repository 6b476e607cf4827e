/* Merging the runs of many cursors; see extents.h. */
#include "mpiio/datatype/extents.h"

#include <errno.h>
#include <stdlib.h>

/* The next run of one cursor. */
struct head {
	struct kr_run run;
	uint32_t source;
};

static bool is_before(const struct head *a, const struct head *b)
{
	return a->run.offset < b->run.offset;
}

/* Sifts HEAD down from the free place AT. */
static void sift_down(struct head *heap, size_t count, size_t at, struct head head)
{
	for (size_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && is_before(&heap[child + 1], &heap[child]))
			child++;
		if (!is_before(&heap[child], &head))
			break;
		heap[at] = heap[child];
	}
	heap[at] = head;
}

static void push(struct head *heap, size_t *count, struct head head)
{
	size_t at = (*count)++;
	for (; at > 0 && is_before(&head, &heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = head;
}

static void pop(struct head *heap, size_t *count)
{
	if (--*count > 0)
		sift_down(heap, *count, 0, heap[*count]);
}

static int64_t end_of(const struct kr_run *run)
{
	return run->offset + (int64_t)run->length;
}

/* Ensures room for one more of SIZE bytes in an array that holds COUNT. */
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
			push(heap, &waiting, head);
	}
	while (waiting > 0 && error == 0) {
		struct head head = heap[0];
		error = add_run(extents, &head.run);
		if (kr_cursor_next(cursors[head.source], limit, &head.run))
			sift_down(heap, waiting, 0, head);
		else
			pop(heap, &waiting);
	}
	free(heap);
	return error;
}

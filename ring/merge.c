/* The next output is always a prefix of the lowest extent: up to the beginning of the other side's.  Where both overlap
 * it is HIGH's extent, and LOW's bytes below are skipped.  So the merge must know the heads of both sides, or that a
 * side has ended. */
#include "ring/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/types.h"

/* Pieces shorter than this are copied together; longer ones go out as they are. */
enum { COPY_BELOW = KR_BLOCK_SIZE / 2 };

struct extent {
	struct kr_link link;
	struct kr_piece piece;
};

void kr_merge_init(struct kr_merge *merge)
{
	memset(merge, 0, sizeof(*merge));
	kr_list_init(&merge->input[KR_MERGE_LOW].queue);
	kr_list_init(&merge->input[KR_MERGE_HIGH].queue);
}

static void drop_head(struct kr_merge_input *input)
{
	struct extent *extent = KR_LIST_ENTRY(input->queue.head.next, struct extent, link);

	kr_list_remove(&extent->link);
	kr_buf_put(extent->piece.buf);
	free(extent);
	input->bytes -= KR_MERGE_COST;
}

void kr_merge_fini(struct kr_merge *merge)
{
	for (int side = 0; side < 2; side++) {
		while (!kr_list_empty(&merge->input[side].queue))
			drop_head(&merge->input[side]);
	}
	if (merge->pending.buf)
		kr_buf_put(merge->pending.buf);
	kr_merge_init(merge);
}

int kr_merge_push(struct kr_merge *merge, enum kr_merge_side side, uint64_t offset, struct kr_buf *buf, size_t start,
	size_t length)
{
	struct kr_merge_input *input = &merge->input[side];
	struct extent *extent;

	if (input->ended)
		return kr_fail(-EBADMSG, "extent after the end of its stream");
	if (length == 0 || length > INT64_MAX || offset > (uint64_t)INT64_MAX - length)
		return kr_fail(-EBADMSG, "extent of %zu bytes at %llu", length, (unsigned long long)offset);
	if (offset < input->next)
		return kr_fail(-EBADMSG, "extent at %llu after one that ends at %llu", (unsigned long long)offset,
			(unsigned long long)input->next);
	if (start > buf->length || length > buf->length - start)
		return kr_fail(-EBADMSG, "extent longer than its data");
	extent = calloc(1, sizeof(*extent));
	if (!extent)
		return kr_fail(-ENOMEM, "no memory for an extent");
	extent->piece = (struct kr_piece){offset, kr_buf_get(buf), start, length};
	kr_list_append(&input->queue, &extent->link);
	input->next = offset + length;
	input->bytes += length + KR_MERGE_COST;
	return 0;
}

void kr_merge_end(struct kr_merge *merge, enum kr_merge_side side)
{
	merge->input[side].ended = true;
}

/* The first extent of a side that has one. */
static struct kr_piece *first(const struct kr_merge_input *input)
{
	return &KR_LIST_ENTRY(input->queue.head.next, struct extent, link)->piece;
}

static struct kr_piece *head(const struct kr_merge_input *input)
{
	return kr_list_empty(&input->queue) ? NULL : first(input);
}

/* Consumes LENGTH bytes of the side's head (output or covered). */
static void consume(struct kr_merge_input *input, size_t length)
{
	struct kr_piece *piece = first(input);

	input->bytes -= length;
	if (length == piece->length) {
		drop_head(input);
		return;
	}
	piece->offset += length;
	piece->start += length;
	piece->length -= length;
}

/* Drops the beginning of LOW's head as far as HIGH covers it. */
static void skip_covered(struct kr_merge *merge)
{
	struct kr_merge_input *low_input = &merge->input[KR_MERGE_LOW];
	const struct kr_piece *high = head(&merge->input[KR_MERGE_HIGH]);
	const struct kr_piece *low;

	while (high && (low = head(low_input)) && low->offset >= high->offset &&
		low->offset < high->offset + high->length)
		consume(low_input, (size_t)KR_MIN(low->length, high->offset + high->length - low->offset));
}

/* Chooses the side of the next bytes and their number.  False: the merge needs more input, or is done. */
static bool choose(struct kr_merge *merge, struct kr_merge_input **ret_input, size_t *ret_length)
{
	const struct kr_piece *low, *high;

	skip_covered(merge);
	low = head(&merge->input[KR_MERGE_LOW]);
	high = head(&merge->input[KR_MERGE_HIGH]);
	if ((!low && !merge->input[KR_MERGE_LOW].ended) || (!high && !merge->input[KR_MERGE_HIGH].ended) ||
		(!low && !high))
		return false;
	if (!low || (high && high->offset < low->offset)) {
		*ret_input = &merge->input[KR_MERGE_HIGH];
		*ret_length = high->length;
		/* HIGH's bytes that cover LOW's must stay until those are skipped: go only up to where LOW begins. */
		if (low && high->offset + high->length > low->offset)
			*ret_length = (size_t)(low->offset - high->offset);
		return true;
	}
	*ret_input = &merge->input[KR_MERGE_LOW];
	*ret_length = low->length;
	if (high && low->offset + low->length > high->offset)
		*ret_length = (size_t)(high->offset - low->offset);
	return true;
}

/* Moves LENGTH bytes of the side's head to the end of the pending piece, which has room. */
static int join(struct kr_merge *merge, struct kr_merge_input *input, size_t length)
{
	struct kr_piece *piece = first(input);
	struct kr_piece *pending = &merge->pending;

	if (!pending->buf && length >= COPY_BELOW) {
		*pending = (struct kr_piece){piece->offset, kr_buf_get(piece->buf), piece->start, length};
		merge->pending_own = false;
		consume(input, length);
		return 0;
	}
	if (!pending->buf) {
		struct kr_buf *buf = kr_buf_new(KR_BLOCK_SIZE);

		if (!buf)
			return kr_fail(-ENOMEM, "no memory for a block");
		*pending = (struct kr_piece){.offset = piece->offset, .buf = buf};
		merge->pending_own = true;
	}
	memcpy(pending->buf->data + pending->length, piece->buf->data + piece->start, length);
	pending->length += length;
	pending->buf->length = pending->length;
	consume(input, length);
	return 0;
}

static int emit(struct kr_merge *merge, struct kr_piece *ret_piece)
{
	*ret_piece = merge->pending;
	merge->pending = (struct kr_piece){0};
	return 1;
}

/* No input is left and none will come. */
static bool drained(const struct kr_merge *merge)
{
	for (int side = 0; side < 2; side++) {
		if (!merge->input[side].ended || !kr_list_empty(&merge->input[side].queue))
			return false;
	}
	return true;
}

int kr_merge_pop(struct kr_merge *merge, struct kr_piece *ret_piece)
{
	struct kr_piece *pending = &merge->pending;
	struct kr_merge_input *input;
	size_t length, room;

	while (choose(merge, &input, &length)) {
		/* The pending piece cannot grow: it is full, in a buffer of another owner, or before a gap. */
		if (pending->buf &&
			(!merge->pending_own || pending->length == KR_BLOCK_SIZE ||
				pending->offset + pending->length != first(input)->offset))
			return emit(merge, ret_piece);
		room = KR_BLOCK_SIZE - pending->length;
		if (join(merge, input, KR_MIN(length, room)) < 0)
			return -ENOMEM;
	}
	/* Wait only while further input may join the piece. */
	if (pending->buf && (!merge->pending_own || pending->length == KR_BLOCK_SIZE || drained(merge)))
		return emit(merge, ret_piece);
	return 0;
}

bool kr_merge_wants(const struct kr_merge *merge, enum kr_merge_side side)
{
	return !merge->input[side].ended && kr_list_empty(&merge->input[side].queue);
}

bool kr_merge_done(const struct kr_merge *merge)
{
	return drained(merge) && merge->pending.buf == NULL;
}

uint64_t kr_merge_queued(const struct kr_merge *merge, enum kr_merge_side side)
{
	return merge->input[side].bytes;
}

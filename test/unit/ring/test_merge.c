/* The merge against a naive model: an array of bytes with an owner each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/types.h"
#include "ring/merge.h"
#include "test/unit/effort.h"

enum { SPACE = 3 * 1024 * 1024, EXTENTS = 4000 };

struct extent {
	uint64_t offset;
	size_t length;
};
struct stream {
	struct extent extents[EXTENTS];
	size_t count, pushed;
};
struct model {
	struct stream streams[2];
	uint8_t bytes[SPACE];
	bool there[SPACE];
	uint64_t position; /* all below has been checked */
	size_t pieces;
};

static uint8_t value(int side, uint64_t offset)
{
	return (uint8_t)(offset * 31 + offset / 251 + (side ? 128 : 7));
}

static void make_stream(struct stream *stream, unsigned *random, size_t longest, size_t widest_gap)
{
	uint64_t at = (uint64_t)rand_r(random) % 1000;

	stream->count = stream->pushed = 0;
	while (stream->count < EXTENTS) {
		size_t length = 1 + (size_t)rand_r(random) % longest;

		if (at + length > SPACE)
			break;
		stream->extents[stream->count++] = (struct extent){at, length};
		at += length + (rand_r(random) % 3 ? (uint64_t)rand_r(random) % (widest_gap + 1) : 0);
	}
}

static void push_next(struct kr_merge *merge, struct model *model, int side)
{
	struct stream *stream = &model->streams[side];
	struct extent *extent = &stream->extents[stream->pushed];
	struct kr_buf *buf;

	if (stream->pushed == stream->count) {
		kr_merge_end(merge, side);
		return;
	}
	stream->pushed++;
	buf = kr_buf_new(extent->length + 3);
	assert_non_null(buf);
	buf->length = extent->length + 3;
	for (size_t i = 0; i < extent->length; i++) {
		uint64_t offset = extent->offset + i;

		buf->data[i + 3] = value(side, offset);
		if (side == KR_MERGE_HIGH || !model->there[offset])
			model->bytes[offset] = value(side, offset);
		model->there[offset] = true;
	}
	assert_int_equal(kr_merge_push(merge, side, extent->offset, buf, 3, extent->length), 0);
	kr_buf_put(buf);
}

static void check_piece(struct model *model, struct kr_piece *piece)
{
	assert_true(piece->length > 0 && piece->length <= KR_BLOCK_SIZE);
	assert_true(piece->offset >= model->position);
	for (uint64_t offset = model->position; offset < piece->offset; offset++)
		assert_false(model->there[offset]);
	for (size_t i = 0; i < piece->length; i++) {
		assert_true(model->there[piece->offset + i]);
		assert_int_equal(piece->buf->data[piece->start + i], model->bytes[piece->offset + i]);
	}
	model->position = piece->offset + piece->length;
	model->pieces++;
	kr_buf_put(piece->buf);
}

static void run(struct model *model, unsigned *random)
{
	struct kr_merge merge;
	struct kr_piece piece;

	kr_merge_init(&merge);
	memset(model->there, 0, sizeof(model->there));
	model->position = model->pieces = 0;
	while (!kr_merge_done(&merge)) {
		int side = rand_r(random) & 1;

		if (rand_r(random) % 4 == 0 || !kr_merge_wants(&merge, side)) {
			while (kr_merge_pop(&merge, &piece) == 1)
				check_piece(model, &piece);
			assert_true(kr_merge_done(&merge) || kr_merge_wants(&merge, 0) || kr_merge_wants(&merge, 1));
		}
		if (!merge.input[side].ended)
			push_next(&merge, model, side);
	}
	for (uint64_t offset = model->position; offset < SPACE; offset++)
		assert_false(model->there[offset]);
	assert_int_equal(kr_merge_queued(&merge, 0) + kr_merge_queued(&merge, 1), 0);
	kr_merge_fini(&merge);
}

static void short_extents_count_for_what_they_take(void **state)
{
	enum { MANY = 10000 };
	struct kr_merge merge;
	struct kr_piece piece;

	(void)state;
	kr_merge_init(&merge);
	for (uint64_t i = 0; i < MANY; i++) {
		struct kr_buf *buf = kr_buf_new(1);

		buf->data[0] = 1;
		buf->length = 1;
		assert_int_equal(kr_merge_push(&merge, KR_MERGE_LOW, 2 * i, buf, 0, 1), 0);
		kr_buf_put(buf);
	}
	assert_true(kr_merge_queued(&merge, KR_MERGE_LOW) >= MANY * (1 + KR_MERGE_COST));
	kr_merge_end(&merge, KR_MERGE_LOW);
	kr_merge_end(&merge, KR_MERGE_HIGH);
	while (kr_merge_pop(&merge, &piece) == 1)
		kr_buf_put(piece.buf);
	assert_int_equal(kr_merge_queued(&merge, KR_MERGE_LOW), 0);
	kr_merge_fini(&merge);
}

static void random_streams_agree_with_a_model(void **state)
{
	static const size_t shapes[][2] = {
		{10, 10}, {5000, 3000}, {300000, 1000}, {4096, 0}, {100, 100000}, {200000, 200000}};
	struct model *model = calloc(1, sizeof(*model));
	unsigned random = 11;

	(void)state;
	assert_non_null(model);
	for (int round = 0; round < KR_EFFORT(72, 36); round++) {
		const size_t *low = shapes[round % 6], *high = shapes[round / 6 % 6];

		make_stream(&model->streams[0], &random, low[0], low[1]);
		make_stream(&model->streams[1], &random, high[0], high[1]);
		if (round % 9 == 8)
			model->streams[round & 1].count = 0;
		run(model, &random);
	}
	free(model);
	assert_int_equal(kr_buf_bytes_in_use(), 0);
}

static void interleaved_records_of_two_nodes_become_whole_blocks(void **state)
{
	struct model *model = calloc(1, sizeof(*model));
	unsigned random = 5;

	(void)state;
	assert_non_null(model);
	for (size_t i = 0; i < 600; i++) {
		model->streams[i & 1].extents[i / 2] = (struct extent){i * 4000, 4000};
		model->streams[i & 1].count++;
	}
	run(model, &random);
	assert_int_equal(model->pieces, (600 * 4000 + KR_BLOCK_SIZE - 1) / KR_BLOCK_SIZE);
	free(model);
}

static void malformed_streams_are_refused(void **state)
{
	struct kr_buf *buf = kr_buf_new(100);
	struct kr_merge merge;

	(void)state;
	assert_non_null(buf);
	buf->length = 100;
	kr_merge_init(&merge);
	assert_int_equal(kr_merge_push(&merge, KR_MERGE_LOW, 1000, buf, 0, 100), 0);
	assert_int_equal(kr_merge_push(&merge, KR_MERGE_LOW, 1099, buf, 0, 10), -EBADMSG);
	assert_int_equal(kr_merge_push(&merge, KR_MERGE_LOW, 0, buf, 0, 10), -EBADMSG);
	assert_int_equal(kr_merge_push(&merge, KR_MERGE_LOW, 2000, buf, 0, 0), -EBADMSG);
	assert_int_equal(kr_merge_push(&merge, KR_MERGE_LOW, 2000, buf, 50, 51), -EBADMSG);
	assert_int_equal(kr_merge_push(&merge, KR_MERGE_LOW, 2000, buf, 101, 1), -EBADMSG);
	assert_int_equal(kr_merge_push(&merge, KR_MERGE_LOW, UINT64_MAX - 5, buf, 0, 10), -EBADMSG);
	assert_int_equal(kr_merge_push(&merge, KR_MERGE_LOW, INT64_MAX - 5, buf, 0, 10), -EBADMSG);
	assert_int_equal(kr_merge_push(&merge, KR_MERGE_LOW, INT64_MAX - 100, buf, 0, 100), 0);
	assert_int_equal(kr_merge_push(&merge, KR_MERGE_LOW, INT64_MAX, buf, 0, 1), -EBADMSG);
	kr_merge_end(&merge, KR_MERGE_HIGH);
	assert_int_equal(kr_merge_push(&merge, KR_MERGE_HIGH, 0, buf, 0, 10), -EBADMSG);
	kr_merge_fini(&merge);
	kr_buf_put(buf);
	assert_int_equal(kr_buf_bytes_in_use(), 0);
}

static void two_empty_streams_are_done_at_once(void **state)
{
	struct kr_merge merge;
	struct kr_piece piece;

	(void)state;
	kr_merge_init(&merge);
	assert_int_equal(kr_merge_pop(&merge, &piece), 0);
	kr_merge_end(&merge, KR_MERGE_LOW);
	assert_false(kr_merge_done(&merge));
	assert_true(kr_merge_wants(&merge, KR_MERGE_HIGH));
	kr_merge_end(&merge, KR_MERGE_HIGH);
	assert_int_equal(kr_merge_pop(&merge, &piece), 0);
	assert_true(kr_merge_done(&merge));
	kr_merge_fini(&merge);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_extents_count_for_what_they_take),
		cmocka_unit_test(random_streams_agree_with_a_model),
		cmocka_unit_test(interleaved_records_of_two_nodes_become_whole_blocks),
		cmocka_unit_test(malformed_streams_are_refused),
		cmocka_unit_test(two_empty_streams_are_done_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

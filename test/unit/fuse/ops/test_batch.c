/* Parsing batches: whatever a program writes to the batch file. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fuse/ops/batch.h"

struct packet {
	struct kr_batch_head head;
	struct kr_batch_extent extents[2];
	char bytes[8];
};

static struct packet good(void)
{
	return (struct packet){.head = {.magic = KR_BATCH_MAGIC, .count = 2, .data = 8},
		.extents = {{.offset = 100, .length = 5}, {.offset = 0, .length = 3}},
		.bytes = "1234567"};
}

static int parse(const void *data, size_t size)
{
	const struct kr_batch_head *head;
	const struct kr_batch_extent *extents;
	const char *bytes;
	int err = kr_batch_parse(data, size, &head, &extents, &bytes);

	if (err == 0) {
		uint64_t total = 0;

		assert_ptr_equal(head, data);
		for (uint32_t i = 0; i < head->count; i++)
			total += extents[i].length;
		assert_ptr_equal(bytes + total, (const char *)data + size);
	}
	return err;
}

static void a_batch_is_its_head_its_extents_and_their_bytes(void **state)
{
	struct packet packet = good();

	(void)state;
	assert_int_equal(parse(&packet, sizeof(packet)), 0);
}

static struct packet good_ask(void)
{
	struct packet packet = good();

	packet.head.magic = KR_BATCH_READ_MAGIC;
	return packet;
}

static void a_batch_to_be_read_has_no_bytes_and_says_how_many(void **state)
{
	const struct kr_batch_head *head;
	const struct kr_batch_extent *extents;
	const char *bytes;
	struct packet packet = good_ask();
	size_t whole = offsetof(struct packet, bytes);

	(void)state;
	for (size_t size = 0; size <= sizeof(packet); size++)
		assert_int_equal(kr_batch_parse(&packet, size, &head, &extents, &bytes), size == whole ? 0 : -EINVAL);
	packet.head.data = 9;
	assert_int_equal(kr_batch_parse(&packet, whole, &head, &extents, &bytes), -EINVAL);
	packet.extents[1].length = 4;
	assert_int_equal(kr_batch_parse(&packet, whole, &head, &extents, &bytes), 0);
	packet.extents[1].length = KR_BATCH_MAX - 4; /* with the other one it is a byte too many */
	packet.head.data = KR_BATCH_MAX + 1;
	assert_int_equal(kr_batch_parse(&packet, whole, &head, &extents, &bytes), -EINVAL);
	packet = good_ask();
	packet.extents[0].length = UINT64_MAX - 2;
	packet.head.data = 0;
	assert_int_equal(kr_batch_parse(&packet, whole, &head, &extents, &bytes), -EINVAL);
}

static void every_cut_and_every_excess_is_einval(void **state)
{
	struct {
		struct packet packet;
		char more[8];
	} longer = {.packet = good()};

	(void)state;
	for (size_t size = 0; size < sizeof(longer); size++)
		assert_int_equal(parse(&longer, size), size == sizeof(struct packet) ? 0 : -EINVAL);
}

static void lengths_and_offsets_that_overflow_are_refused(void **state)
{
	struct packet packet = good();

	(void)state;
	packet.extents[0].length = UINT64_MAX - 2; /* the sum is 0 */
	assert_int_equal(parse(&packet, sizeof(packet)), -EINVAL);
	packet = good();
	packet.extents[0].offset = INT64_MAX - 4;
	assert_int_equal(parse(&packet, sizeof(packet)), -EFBIG);
	packet.extents[0].offset = UINT64_MAX;
	assert_int_equal(parse(&packet, sizeof(packet)), -EFBIG);
	packet = good();
	packet.head.count = UINT32_MAX;
	assert_int_equal(parse(&packet, sizeof(packet)), -EINVAL);
}

static void arbitrary_bytes_are_refused_or_add_up(void **state)
{
	_Alignas(8) unsigned char bytes[256];

	(void)state;
	srand(1);
	for (int round = 0; round < 200000; round++) {
		struct packet packet = good();
		size_t size = (size_t)rand() % sizeof(bytes);

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (unsigned char)rand();
		if (round % 2) {
			memcpy(bytes, &packet, sizeof(packet));
			bytes[rand() % (int)sizeof(packet)] = (unsigned char)rand();
			size = sizeof(packet);
		}
		parse(bytes, size);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_is_its_head_its_extents_and_their_bytes),
		cmocka_unit_test(a_batch_to_be_read_has_no_bytes_and_says_how_many),
		cmocka_unit_test(every_cut_and_every_excess_is_einval),
		cmocka_unit_test(lengths_and_offsets_that_overflow_are_refused),
		cmocka_unit_test(arbitrary_bytes_are_refused_or_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

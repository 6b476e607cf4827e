/* Frame headers and messages: golden bytes, round trips, cuts, random bytes, limits; and the table of statuses.
 *
 * golden/messages.txt is the protocol as bytes.  A change of the format shows there: KR_GOLDEN_UPDATE=1 rewrites it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/fail.h"
#include "common/rpc/msg.h"
#include "test/msg_dump.h"
#include "test/unit/common/rpc/random_msg.h"

static struct random_msg random_state;

static void start(uint64_t seed, bool largest)
{
	random_state.state = seed;
	random_state.largest = largest;
}

/* Calls VISIT with every message of the table, requests and replies. */
static void for_each_message(void (*visit)(uint16_t type, bool reply, const struct kr_layout *layout))
{
	struct kr_layout layout;

	for (uint16_t type = 0; type < UINT16_MAX; type++)
		for (int reply = 0; reply < 2; reply++)
			if (kr_msg_layout(type, reply, &layout))
				visit(type, reply, &layout);
}

static struct kr_writer encode_random(uint16_t type, bool reply, const struct kr_layout *layout)
{
	struct kr_writer w;

	kr_writer_init(&w);
	random_message(&random_state, layout);
	if (kr_msg_encode(type, reply, &random_state.msg, &w) != 0)
		fail_msg("%s", kr_fail_reason());
	return w;
}

/* Decodes a copy of exactly LENGTH bytes, so that AddressSanitizer sees any look beyond them. */
static int decode_copy(uint16_t type, bool reply, const uint8_t *bytes, size_t length, struct kr_writer *ret_again)
{
	uint8_t *copy = malloc(length ? length : 1);
	struct kr_arena arena = {0};
	union kr_any_msg msg;
	struct kr_writer dump;
	int err;

	kr_writer_init(&dump);
	if (length > 0)
		memcpy(copy, bytes, length);
	err = kr_msg_decode(type, reply, copy, length, &msg, &arena);
	if (!err && ret_again)
		assert_int_equal(kr_msg_encode(type, reply, &msg, ret_again), 0);
	if (!err)
		kr_msg_dump(type, reply, &msg, &dump);
	kr_arena_fini(&arena);
	kr_writer_fini(&dump);
	free(copy);
	return err;
}

/* --- golden bytes --- */

static FILE *golden;

static void write_golden(uint16_t type, bool reply, const struct kr_layout *layout)
{
	struct kr_writer w, dump;

	start(0x6b616972616e + type * 2u + reply, false);
	w = encode_random(type, reply, layout);
	kr_writer_init(&dump);
	kr_msg_dump(type, reply, &random_state.msg, &dump);
	fprintf(golden, "%u %.*s\n    ", type, (int)dump.length, (const char *)dump.bytes);
	for (size_t i = 0; i < w.length; i++)
		fprintf(golden, "%02x", w.bytes[i]);
	fprintf(golden, "\n");
	kr_writer_fini(&w);
	kr_writer_fini(&dump);
}

static char *read_whole(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	size_t capacity = 0;

	if (!file)
		fail_msg("%s: no such file (KR_GOLDEN_UPDATE=1 makes it)", path);
	if (getdelim(&text, &capacity, '\0', file) < 0)
		fail_msg("%s is empty", path);
	fclose(file);
	return text;
}

static void compare_lines(char *expected, char *actual)
{
	char *want, *have;

	do {
		want = strsep(&expected, "\n");
		have = strsep(&actual, "\n");
		if (want && have)
			assert_string_equal(have, want);
	} while (want && have);
	assert_true(!want && !have);
}

static void every_message_has_its_golden_bytes(void **state)
{
	static const char path[] = TEST_DIR "/golden/messages.txt";
	bool update = getenv("KR_GOLDEN_UPDATE");
	char *text = NULL, *expected;
	size_t length;

	(void)state;
	golden = update ? fopen(path, "w") : open_memstream(&text, &length);
	assert_non_null(golden);
	for_each_message(write_golden);
	assert_int_equal(fclose(golden), 0);
	if (update)
		return;
	expected = read_whole(path);
	compare_lines(expected, text);
	free(expected);
	free(text);
}

/* --- round trips and limits --- */

static void round_trip(uint16_t type, bool reply, const struct kr_layout *layout)
{
	for (int i = 0; i < 200; i++) {
		struct kr_writer w = encode_random(type, reply, layout), again;

		kr_writer_init(&again);
		assert_int_equal(decode_copy(type, reply, w.bytes, w.length, &again), 0);
		assert_int_equal(again.length, w.length);
		if (w.length > 0)
			assert_memory_equal(again.bytes, w.bytes, w.length);
		kr_writer_fini(&w);
		kr_writer_fini(&again);
	}
}

static void random_values_come_back_the_same(void **state)
{
	(void)state;
	start(1, false);
	for_each_message(round_trip);
}

static void encode_largest(uint16_t type, bool reply, const struct kr_layout *layout)
{
	struct kr_writer w = encode_random(type, reply, layout);

	assert_true(w.length <= layout->fields_max);
	assert_int_equal(decode_copy(type, reply, w.bytes, w.length, NULL), 0);
	kr_writer_fini(&w);
}

static void the_largest_values_fit_their_message(void **state)
{
	(void)state;
	start(2, true);
	for_each_message(encode_largest);
}

static void decoded_values_are_what_was_sent(void **state)
{
	uint32_t groups[] = {7, 8};
	struct kr_rename_request in = {.cred = {1, 2, 2, groups},
					 .parent = {.length = 2, .bytes = {9, 8}},
					 .name = "a b",
					 .new_parent = {.length = 1, .bytes = {7}},
					 .new_name = "c",
					 .flags = 2},
				 out;
	struct kr_arena arena = {0};
	struct kr_writer w, dump;

	(void)state;
	kr_writer_init(&w);
	kr_writer_init(&dump);
	assert_int_equal(kr_msg_encode(KR_MSG_RENAME, false, &in, &w), 0);
	assert_int_equal(kr_msg_decode(KR_MSG_RENAME, false, w.bytes, w.length, &out, &arena), 0);
	assert_int_equal(out.cred.group_count, 2);
	assert_int_equal(out.cred.groups[1], 8);
	assert_true(kr_fid_equal(&out.parent, &in.parent));
	assert_string_equal(out.name, "a b");
	assert_string_equal(out.new_name, "c");
	assert_int_equal(out.flags, 2);
	kr_msg_dump(KR_MSG_RENAME, false, &out, &dump);
	kr_put_u8(&dump, '\0');
	assert_string_equal((const char *)dump.bytes,
		"RENAME cred=1:2+7,8 parent=fid:0908 name=\"a b\" new_parent=fid:07 new_name=\"c\" flags=2");
	kr_arena_fini(&arena);
	kr_writer_fini(&w);
	kr_writer_fini(&dump);
}

static void decode_without_arena(uint16_t type, bool reply, const struct kr_layout *layout)
{
	struct kr_writer w = encode_random(type, reply, layout);
	union kr_any_msg msg;
	bool needs = false;

	for (size_t i = 0; i < layout->count; i++)
		needs = needs || layout->fields[i].kind == KR_FIELD_CRED || layout->fields[i].kind == KR_FIELD_RANGES;
	assert_int_equal(kr_msg_decode(type, reply, w.bytes, w.length, &msg, NULL), needs ? -EBADMSG : 0);
	kr_writer_fini(&w);
}

static void without_an_arena_messages_with_a_cred_or_ranges_are_refused(void **state)
{
	(void)state;
	start(5, false);
	for_each_message(decode_without_arena);
}

static void dumps_keep_keys_secret(void **state)
{
	struct kr_hello_reply hello = {.proto = 1, .ring_key = "a ring key"};
	struct kr_writer dump;

	(void)state;
	kr_writer_init(&dump);
	kr_msg_dump(KR_MSG_HELLO, true, &hello, &dump);
	kr_put_u8(&dump, '\0');
	assert_non_null(strstr((const char *)dump.bytes, " ring_key=(secret) "));
	assert_null(strstr((const char *)dump.bytes, "a ring key"));
	assert_null(strstr((const char *)dump.bytes, "612072696e67")); /* in hexadecimal */
	kr_writer_fini(&dump);
}

/* --- malformed --- */

static void cut_everywhere(uint16_t type, bool reply, const struct kr_layout *layout)
{
	struct kr_writer w = encode_random(type, reply, layout);

	for (size_t length = 0; length < w.length; length++)
		assert_int_equal(decode_copy(type, reply, w.bytes, length, NULL), -EBADMSG);
	kr_put_u8(&w, 0);
	assert_int_equal(decode_copy(type, reply, w.bytes, w.length, NULL), -EBADMSG);
	kr_writer_fini(&w);
}

static void messages_cut_at_any_length_or_too_long_are_refused(void **state)
{
	(void)state;
	start(3, false);
	for_each_message(cut_everywhere);
}

static void decode_noise(uint16_t type, bool reply, const struct kr_layout *layout)
{
	for (int i = 0; i < 300; i++) {
		struct kr_writer w = encode_random(type, reply, layout);

		/* Either all noise, or a good message with some bytes changed. */
		for (uint64_t j = 0; j < (i % 3 == 0 ? w.length : random_u64(&random_state) % 4) && w.length > 0; j++)
			w.bytes[random_u64(&random_state) % w.length] = (uint8_t)random_u64(&random_state);
		decode_copy(type, reply, w.bytes, w.length, NULL);
		kr_writer_fini(&w);
	}
}

static void random_bytes_never_crash(void **state)
{
	(void)state;
	start(4, false);
	for_each_message(decode_noise);
}

static int decode_bytes(uint16_t type, bool reply, const void *bytes, size_t length)
{
	return decode_copy(type, reply, bytes, length, NULL);
}

static void values_outside_the_format_are_refused(void **state)
{
	static const uint8_t getattr_no_fid[] = {0}, getattr_long_fid[154] = {153};
	static const uint8_t nanoseconds[] = {0, 0, 0, 0, 0, 0, 0, 1, 0x3b, 0x9a, 0xca, 0x00};
	static const uint8_t nul_inside[] = {0, 2, 'a', 0, 0, 0, 0, 0}, no_nul[] = {0, 1, 'a', 'b', 0, 0, 0};
	static const uint8_t many_ranges[] = {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
	static const uint8_t wrapping[] = {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1};
	static const uint8_t slash[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, '/', 0};

	(void)state;
	assert_int_equal(decode_bytes(KR_MSG_GETATTR, false, getattr_no_fid, sizeof(getattr_no_fid)), -EBADMSG);
	assert_int_equal(decode_bytes(KR_MSG_GETATTR, false, getattr_long_fid, sizeof(getattr_long_fid)), -EBADMSG);
	assert_int_equal(decode_bytes(KR_MSG_PING, true, nanoseconds, sizeof(nanoseconds)), -EBADMSG);
	assert_int_equal(decode_bytes(KR_MSG_STATUS, false, nul_inside, sizeof(nul_inside)), -EBADMSG);
	assert_int_equal(decode_bytes(KR_MSG_STATUS, false, no_nul, sizeof(no_nul)), -EBADMSG);
	assert_int_equal(decode_bytes(KR_MSG_PULL, false, many_ranges, sizeof(many_ranges)), -EBADMSG);
	assert_int_equal(decode_bytes(KR_MSG_PULL, false, wrapping, sizeof(wrapping)), -EBADMSG);
	assert_int_equal(decode_bytes(KR_MSG_LOOKUP, false, slash, sizeof(slash)), -EBADMSG);
	assert_int_equal(decode_bytes(4000, false, slash, sizeof(slash)), -EBADMSG);
	assert_null(kr_msg_name(4000));
	assert_null(kr_msg_name(0));
	assert_string_equal(kr_msg_name(KR_MSG_PULL), "PULL");
}

static void values_that_do_not_fit_are_not_encoded(void **state)
{
	struct kr_lookup_request lookup = {.parent = {.length = 1}, .name = "a"};
	struct kr_pull_request pull = {.file = {.length = 1}};
	struct kr_range range = {1, INT64_MAX};
	char name[KR_NAME_MAX + 2];
	struct kr_writer w;

	(void)state;
	kr_writer_init(&w);
	assert_int_equal(kr_msg_encode(KR_MSG_LOOKUP, false, &lookup, &w), 0);
	lookup.name = "a/b";
	assert_int_equal(kr_msg_encode(KR_MSG_LOOKUP, false, &lookup, &w), -EINVAL);
	lookup.name = "";
	assert_int_equal(kr_msg_encode(KR_MSG_LOOKUP, false, &lookup, &w), -EINVAL);
	lookup.name = NULL;
	assert_int_equal(kr_msg_encode(KR_MSG_LOOKUP, false, &lookup, &w), -EINVAL);
	memset(name, 'n', sizeof(name));
	name[KR_NAME_MAX + 1] = '\0';
	lookup.name = name;
	assert_int_equal(kr_msg_encode(KR_MSG_LOOKUP, false, &lookup, &w), -EINVAL);
	assert_string_equal(kr_fail_reason(), "LOOKUP: the protocol cannot carry this name");
	lookup.name = name + 1;
	assert_int_equal(kr_msg_encode(KR_MSG_LOOKUP, false, &lookup, &w), 0);
	lookup.cred.group_count = KR_GROUPS_MAX + 1;
	assert_int_equal(kr_msg_encode(KR_MSG_LOOKUP, false, &lookup, &w), -EINVAL);
	pull.blocks = (struct kr_ranges){&range, 1};
	assert_int_equal(kr_msg_encode(KR_MSG_PULL, false, &pull, &w), -EINVAL);
	pull.blocks.count = KR_RANGES_MAX + 1;
	assert_int_equal(kr_msg_encode(KR_MSG_PULL, false, &pull, &w), -EINVAL);
	assert_int_equal(kr_msg_encode(4000, false, &pull, &w), -EINVAL);
	kr_writer_fini(&w);
}

/* --- frame headers --- */

static void a_frame_header_comes_back_the_same(void **state)
{
	static const uint8_t golden_bytes[KR_FRAME_HEADER] = {
		'K', 'R', 'A', 'N', 0, 101, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 16, 0, 2, 0, 0};
	struct kr_frame_header header = {.type = KR_MSG_PULL,
				       .flags = KR_FRAME_REPLY | KR_FRAME_MORE,
				       .id = UINT64_C(0x0102030405060708),
				       .fields_length = 16,
				       .data_length = KR_BLOCK_SIZE},
			       out;
	uint8_t bytes[KR_FRAME_HEADER];

	(void)state;
	kr_frame_header_encode(&header, bytes);
	assert_memory_equal(bytes, golden_bytes, sizeof(bytes));
	assert_int_equal(kr_frame_header_decode(bytes, &out), 0);
	assert_int_equal(out.type, header.type);
	assert_int_equal(out.flags, header.flags);
	assert_true(out.id == header.id);
	assert_int_equal(out.status, 0);
	assert_int_equal(out.fields_length, 16);
	assert_int_equal(out.data_length, KR_BLOCK_SIZE);
}

static void frame_headers_that_make_no_sense_are_refused(void **state)
{
	enum { PROTONOSUPPORT = 43 };
	static const struct {
		struct kr_frame_header header;
		bool good;
	} cases[] = {
		{{.type = KR_MSG_PING}, true},
		{{.type = KR_MSG_PING, .flags = KR_FRAME_RESEND}, true},
		{{.type = KR_MSG_PING, .flags = KR_FRAME_ONEWAY}, true},
		{{.type = KR_MSG_PING, .flags = 16}, false},
		{{.type = KR_MSG_PING, .flags = 0x8000 | KR_FRAME_REPLY}, false},
		{{.type = KR_MSG_PING, .flags = KR_FRAME_MORE}, false},
		{{.type = KR_MSG_PULL, .flags = KR_FRAME_REPLY | KR_FRAME_MORE, .data_length = 1}, true},
		{{.type = KR_MSG_STATUS, .flags = KR_FRAME_REPLY | KR_FRAME_MORE}, true},
		{{.type = KR_MSG_PULL, .flags = KR_FRAME_REPLY | KR_FRAME_MORE, .status = 5}, false},
		{{.type = KR_MSG_EXTENT, .flags = KR_FRAME_CARRIED, .data_length = 1}, true},
		{{.type = KR_MSG_EXTENT, .flags = KR_FRAME_CARRIED}, false},
		{{.type = KR_MSG_EXTENT, .flags = KR_FRAME_CARRIED, .data_length = KR_BLOCK_SIZE + 1}, false},
		{{.type = KR_MSG_PING, .flags = KR_FRAME_CARRIED, .data_length = 1}, false},
		{{.type = KR_MSG_HOP_HELLO, .flags = KR_FRAME_REPLY | KR_FRAME_MORE}, false},
		{{.type = KR_MSG_HOP_VERBS, .flags = KR_FRAME_REPLY | KR_FRAME_MORE}, false},
		{{.type = KR_MSG_PING, .flags = KR_FRAME_REPLY | KR_FRAME_RESEND}, false},
		{{.type = KR_MSG_PING, .flags = KR_FRAME_REPLY | KR_FRAME_ONEWAY}, false},
		{{.type = KR_MSG_PING, .status = 5}, false},
		{{.type = KR_MSG_PING, .flags = KR_FRAME_REPLY, .status = 5}, true},
		{{.type = KR_MSG_PING, .flags = KR_FRAME_REPLY, .status = 5, .fields_length = 1}, false},
		{{.type = KR_MSG_PING, .flags = KR_FRAME_REPLY, .status = PROTONOSUPPORT, .fields_length = 4}, true},
		{{.type = KR_MSG_HELLO, .flags = KR_FRAME_REPLY, .status = PROTONOSUPPORT, .fields_length = 5}, false},
		{{.type = KR_MSG_PULL, .flags = KR_FRAME_REPLY, .status = PROTONOSUPPORT, .data_length = 1}, false},
		{{.type = KR_MSG_PULL, .flags = KR_FRAME_REPLY, .status = 5, .data_length = 1}, false},
		{{.type = KR_MSG_PULL, .flags = KR_FRAME_REPLY, .data_length = KR_BLOCK_SIZE}, true},
		{{.type = KR_MSG_PULL, .flags = KR_FRAME_REPLY, .data_length = KR_BLOCK_SIZE + 1}, false},
		{{.type = KR_MSG_PULL, .data_length = 1}, false},
		{{.type = KR_MSG_PING, .fields_length = 1024}, true},
		{{.type = KR_MSG_PING, .fields_length = 1025}, false},
		{{.type = KR_MSG_PING, .fields_length = UINT32_MAX}, false},
		{{.type = 4000, .fields_length = 65536}, true},
		{{.type = 4000, .fields_length = 65537}, false},
		{{.type = 4000, .data_length = 1}, false},
	};
	struct kr_frame_header out;
	uint8_t bytes[KR_FRAME_HEADER];

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(cases); i++) {
		kr_frame_header_encode(&cases[i].header, bytes);
		assert_int_equal(kr_frame_header_decode(bytes, &out), cases[i].good ? 0 : -EBADMSG);
	}
	kr_frame_header_encode(&cases[0].header, bytes);
	for (size_t i = 0; i < 4; i++) {
		bytes[i] ^= 1;
		assert_int_equal(kr_frame_header_decode(bytes, &out), -EBADMSG);
		bytes[i] ^= 1;
	}
}

/* --- statuses --- */

static void every_status_comes_back_as_its_errno(void **state)
{
	bool used[256] = {false};

	(void)state;
#define KR_STATUS(name, number, value) \
	assert_int_equal(kr_status_from_errno(-(value)), number); \
	assert_int_equal(kr_status_to_errno(number), -(value)); \
	assert_false(used[number]); \
	used[number] = true;
#include "common/rpc/status.def"
#undef KR_STATUS
	assert_int_equal(kr_status_from_errno(0), 0);
	assert_int_equal(kr_status_to_errno(0), 0);
}

static void unknown_statuses_and_errnos_become_eio(void **state)
{
	(void)state;
	assert_int_equal(kr_status_to_errno(9999), -EIO);
	assert_int_equal(kr_status_to_errno(UINT32_MAX), -EIO);
	assert_int_equal(kr_status_from_errno(-EL3HLT), kr_status_from_errno(-EIO));
	assert_int_equal(kr_status_from_errno(EPERM), kr_status_from_errno(-EIO));
	assert_int_equal(kr_status_from_errno(-ENOTSUP), kr_status_from_errno(-EOPNOTSUPP));
	assert_int_equal(kr_status_from_errno(-EWOULDBLOCK), kr_status_from_errno(-EAGAIN));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_has_its_golden_bytes),
		cmocka_unit_test(random_values_come_back_the_same),
		cmocka_unit_test(the_largest_values_fit_their_message),
		cmocka_unit_test(decoded_values_are_what_was_sent),
		cmocka_unit_test(without_an_arena_messages_with_a_cred_or_ranges_are_refused),
		cmocka_unit_test(dumps_keep_keys_secret),
		cmocka_unit_test(messages_cut_at_any_length_or_too_long_are_refused),
		cmocka_unit_test(random_bytes_never_crash),
		cmocka_unit_test(values_outside_the_format_are_refused),
		cmocka_unit_test(values_that_do_not_fit_are_not_encoded),
		cmocka_unit_test(a_frame_header_comes_back_the_same),
		cmocka_unit_test(frame_headers_that_make_no_sense_are_refused),
		cmocka_unit_test(every_status_comes_back_as_its_errno),
		cmocka_unit_test(unknown_statuses_and_errnos_become_eio),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

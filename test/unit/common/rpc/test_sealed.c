/* Sealed connections, with somebody on the way: all that A sends passes through the test's hands before B gets it. */
#include "test/unit/common/rpc/sealed_fixture.h"

/* --- what is right arrives -------------------------------------------------------------------- */

static void frames_arrive(enum kr_security security, enum kr_cipher cipher)
{
	static const size_t lengths[] = {1, 15, 16, 17, 4096, 8192, KR_BLOCK_SIZE};
	uint64_t checksums[7][2];
	size_t i = 0;

	(void)cipher;
	assert_int_equal(kr_conn_security(w.a), security);
	send_lookup("a-name-that-is-seen");
	for (size_t n = 0; n < 7; n++)
		for (size_t pieces = 1; pieces <= 2; pieces++)
			checksums[n][pieces - 1] = send_extent(n, lengths[n], pieces == 1 ? 1 : KR_MIN(lengths[n], 8u));
	assert_int_equal(kr_conn_oneway(w.a, KR_MSG_PING, NULL, NULL, 0), 0); /* neither fields nor data */
	record();
	assert_int_equal(contains("a-name-that-is-seen", 19), security == KR_SECURITY_INTEGRITY);
	/* In pieces that fit no boundary. */
	for (size_t at = 0; at < w.length; at += 1009)
		play(w.bytes + at, KR_MIN(w.length - at, 1009u));
	assert_int_equal(w.count, 1 + 14 + 1);
	assert_string_equal(w.got[i++].name, "a-name-that-is-seen");
	for (size_t n = 0; n < 7; n++) {
		for (size_t pieces = 0; pieces < 2; pieces++, i++) {
			assert_int_equal(w.got[i].number, n);
			assert_int_equal(w.got[i].data_length, lengths[n]);
			assert_int_equal(w.got[i].checksum, checksums[n][pieces]);
		}
	}
	assert_int_equal(w.got[i].type, KR_MSG_PING);
}

static void sealed_frames_arrive_as_they_were_sent(void **state)
{
	(void)state;
	for_all(frames_arrive);
}

static void a_buffer_that_others_use_stays_as_it_is(void **state)
{
	struct kr_extent_request request = {.offset = 0};
	struct kr_buf *buf = kr_buf_new(1000);
	struct kr_slice slice = {buf, 0, 1000};

	(void)state;
	memset(buf->data, 'x', 1000);
	buf->length = 1000;
	seal(KR_SECURITY_PRIVACY, KR_CIPHER_CHACHA20_POLY1305);
	assert_int_equal(kr_conn_oneway(w.a, KR_MSG_EXTENT, &request, &slice, 1), 0);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(buf->data[i], 'x');
	kr_buf_put(buf);
	record();
	assert_false(contains("xxxxxxxxxxxxxxxx", 16));
}

static void held_frames_go_sealed_and_in_order(void **state)
{
	(void)state;
	kr_conn_hold(w.a);
	send_lookup("held-1");
	send_extent(2, 1000, 2);
	expect_silence();
	seal(KR_SECURITY_PRIVACY, KR_CIPHER_CHACHA20_POLY1305);
	kr_conn_release(w.a);
	send_lookup("after-3");
	record();
	assert_false(contains("held-1", 6));
	play(w.bytes, w.length);
	assert_int_equal(w.count, 3);
	assert_string_equal(w.got[0].name, "held-1");
	assert_int_equal(w.got[1].number, 2);
	assert_string_equal(w.got[2].name, "after-3");
}

static void a_close_waits_for_held_frames_and_their_release(void **state)
{
	(void)state;
	kr_conn_hold(w.a);
	send_lookup("held");
	kr_conn_close(w.a, true);
	expect_silence();
	assert_false(w.a_closed);
	kr_conn_release(w.a);
	record();
	play(w.bytes, w.length);
	assert_int_equal(w.count, 1);
}

static void dropping_a_connection_drops_what_it_holds(void **state)
{
	(void)state;
	kr_conn_hold(w.a);
	send_extent(1, 1000, 2);
	kr_conn_close(w.a, false);
	while (!w.a_closed)
		turn();
}

/* --- nothing else does ------------------------------------------------------------------------ */

static void expect_broken(size_t delivered)
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S;

	while (!w.b_closed) {
		turn();
		assert_true(kr_clock_ns() < until_ns);
	}
	assert_int_equal(w.b_err, -EBADMSG);
	assert_non_null(strstr(w.b_reason, "does not carry the seal"));
	assert_int_equal(w.count, delivered);
}

static void change_bytes(enum kr_security security, enum kr_cipher cipher)
{
	for (size_t at = 0, length = 1; at < length; at += 3) {
		again();
		seal(security, cipher);
		send_lookup("one");
		send_extent(2, 100, 1);
		record();
		length = w.length;
		w.bytes[at] ^= (uint8_t)(1 << at % 8);
		play(w.bytes, w.length);
		expect_broken(at < 28 + 16 + 22 + 16 ? 0 : 1); /* the frame of LOOKUP */
	}
}

static void every_changed_byte_ends_the_connection_and_is_not_delivered(void **state)
{
	(void)state;
	for_all(change_bytes);
}

static void play_tricks(enum kr_security security, enum kr_cipher cipher)
{
	size_t first, second;

	/* Repeated. */
	send_lookup("one");
	record();
	play(w.bytes, w.length);
	play(w.bytes, w.length);
	expect_broken(1);
	/* Swapped. */
	again();
	seal(security, cipher);
	send_lookup("one");
	record();
	first = w.length;
	send_lookup("two-2");
	send_lookup("three");
	record();
	second = w.length / 2;
	assert_true(first < second);
	play(w.bytes + second, w.length - second);
	expect_broken(0);
	/* What A sent, sent back to A's like: the other direction's key. */
	again();
	make_keys(security, cipher, 7);
	kr_conn_seal(w.a, &w.keys_a);
	kr_conn_seal(w.b, &w.keys_a);
	send_lookup("one");
	record();
	play(w.bytes, w.length);
	expect_broken(0);
	/* Of another connection. */
	again();
	make_keys(security, cipher, 8);
	kr_conn_seal(w.a, &w.keys_a);
	make_keys(security, cipher, 7);
	kr_conn_seal(w.b, &w.keys_b);
	send_lookup("one");
	record();
	play(w.bytes, w.length);
	expect_broken(0);
	/* Not sealed at all. */
	again();
	make_keys(security, cipher, 7);
	kr_conn_seal(w.b, &w.keys_b);
	send_lookup("one");
	send_lookup("two");
	record();
	play(w.bytes, w.length);
	expect_broken(0);
}

static void repeated_swapped_reflected_and_foreign_frames_end_the_connection(void **state)
{
	(void)state;
	for_all(play_tricks);
}

static void cut(enum kr_security security, enum kr_cipher cipher)
{
	static const size_t parts[] = {1, 28, 29, 43, 44, 60, 200};

	for (size_t i = 0; i < KR_ARRAY_SIZE(parts); i++) {
		again();
		seal(security, cipher);
		send_extent(1, 1000, 1);
		record();
		assert_true(parts[i] < w.length);
		play(w.bytes, parts[i]);
		hang_up();
		assert_int_equal(w.b_err, -ECONNRESET);
		assert_int_equal(w.count, 0);
	}
}

static void a_frame_that_is_cut_is_not_delivered(void **state)
{
	(void)state;
	for_all(cut);
}

static void bytes_that_came_too_early_are_not_believed(void **state)
{
	(void)state;
	send_lookup("in clear");
	record();
	play(w.bytes, 30); /* its header, and some more */
	seal(KR_SECURITY_INTEGRITY, KR_CIPHER_CHACHA20_POLY1305);
	while (!w.b_closed)
		turn();
	assert_int_equal(w.b_err, -EBADMSG);
	assert_int_equal(w.count, 0);
}

static void a_second_handshake_ends_the_connection(void **state)
{
	(void)state;
	seal(KR_SECURITY_INTEGRITY, KR_CIPHER_CHACHA20_POLY1305);
	kr_conn_seal(w.b, &w.keys_b);
	while (!w.b_closed)
		turn();
	assert_int_equal(w.b_err, -EPROTO);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sealed_frames_arrive_as_they_were_sent),
		TEST(a_buffer_that_others_use_stays_as_it_is),
		TEST(held_frames_go_sealed_and_in_order),
		TEST(a_close_waits_for_held_frames_and_their_release),
		TEST(dropping_a_connection_drops_what_it_holds),
		TEST(every_changed_byte_ends_the_connection_and_is_not_delivered),
		TEST(repeated_swapped_reflected_and_foreign_frames_end_the_connection),
		TEST(a_frame_that_is_cut_is_not_delivered),
		TEST(bytes_that_came_too_early_are_not_believed),
		TEST(a_second_handshake_ends_the_connection),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

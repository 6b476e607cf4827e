/* Numbered messages over connections that break at any moment: each is delivered once, in order.  KR_SEED repeats a
 * failed run. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fuse/lend/link.h"

enum { WIRE_MAX = 64, STEPS = 20000 };

/* One end, and what is on its way to it. */
struct end {
	struct kr_lend_link link;
	struct kr_lend_message_request wire[WIRE_MAX];
	unsigned on_wire;
	uint64_t said, heard; /* the ids that its user has sent and got */
};

static uint64_t seed;

static unsigned below(unsigned limit)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33) % limit;
}

static void put(struct end *to, struct kr_lend_link *from, const struct kr_lend_kept *kept)
{
	struct kr_lend_message_request message = kept->message;

	assert_true(to->on_wire < WIRE_MAX);
	message.ack = kr_lend_link_tell(from);
	message.caller = (struct kr_cred){0}; /* the kept one owns it */
	to->wire[to->on_wire++] = message;
}

static void say(struct end *from, struct end *to, bool connected)
{
	static const uint32_t groups[] = {7, 8};
	struct kr_lend_message_request message = {.kind = 1, .id = ++from->said};
	struct kr_buf *data = kr_buf_new(8);

	message.caller = (struct kr_cred){.group_count = below(3), .groups = groups};
	data->length = 8;
	const struct kr_lend_kept *kept = kr_lend_link_add(&from->link, &message, data);

	kr_buf_put(data);
	if (connected)
		put(to, &from->link, kept);
}

static void hear(struct end *end)
{
	struct kr_lend_message_request message = end->wire[0];
	int result;

	memmove(end->wire, end->wire + 1, --end->on_wire * sizeof(end->wire[0]));
	result = kr_lend_link_take(&end->link, &message, 8);
	if (result > 0)
		assert_int_equal(message.id, ++end->heard);
	else
		assert_int_equal(result, 0);
}

/* A new connection: both say what they have seen, and send the rest again. */
static void connect(struct end *a, struct end *b)
{
	struct end *ends[] = {a, b};

	a->on_wire = b->on_wire = 0;
	for (int i = 0; i < 2; i++) {
		struct end *from = ends[i], *to = ends[1 - i];
		const struct kr_lend_kept *kept;

		assert_int_equal(kr_lend_link_acked(&from->link, kr_lend_link_tell(&to->link)), 0);
		KR_LIST_FOR_EACH(kept, &from->link.kept, link)
			put(to, &from->link, kept);
	}
}

static void settle(struct end *a, struct end *b)
{
	while (a->heard < b->said || b->heard < a->said) {
		connect(a, b);
		while (a->on_wire > 0)
			hear(a);
		while (b->on_wire > 0)
			hear(b);
	}
}

static void cuts_lose_nothing_and_repeat_nothing(void **state)
{
	struct end a = {0}, b = {0};
	bool connected = true;

	(void)state;
	kr_lend_link_init(&a.link);
	kr_lend_link_init(&b.link);
	for (int step = 0; step < STEPS; step++) {
		struct end *end = below(2) ? &a : &b, *other = end == &a ? &b : &a;

		if (below(40) == 0) {
			connected = false;
			a.on_wire = b.on_wire = 0;
		} else if (!connected && below(4) == 0) {
			connect(&a, &b);
			connected = true;
		} else if (below(2) && end->link.sent - end->link.acked < WIRE_MAX / 2) {
			say(end, other, connected);
		} else if (end->on_wire > 0) {
			hear(end);
		} else if (connected && kr_lend_link_owes(&end->link)) {
			assert_int_equal(kr_lend_link_acked(&other->link, kr_lend_link_tell(&end->link)), 0);
		}
	}
	settle(&a, &b);
	assert_true(a.heard > STEPS / 20 && b.heard > STEPS / 20);
	kr_lend_link_fini(&a.link);
	kr_lend_link_fini(&b.link);
	assert_int_equal(a.link.kept_bytes, 0);
	assert_int_equal(kr_buf_bytes_in_use(), 0);
}

static void a_gap_and_a_false_acknowledgement_are_refused(void **state)
{
	struct kr_lend_link link;

	(void)state;
	kr_lend_link_init(&link);
	assert_int_equal(kr_lend_link_take(&link, &(struct kr_lend_message_request){.seq = 2}, 0), -EPROTO);
	assert_int_equal(kr_lend_link_take(&link, &(struct kr_lend_message_request){.seq = 1, .ack = 1}, 0), -EPROTO);
	assert_int_equal(kr_lend_link_take(&link, &(struct kr_lend_message_request){.seq = 1}, 0), 1);
	assert_int_equal(kr_lend_link_take(&link, &(struct kr_lend_message_request){.seq = 1}, 0), 0);
	assert_int_equal(kr_lend_link_acked(&link, 1), -EPROTO);
}

static void much_that_is_not_acknowledged_is_owed(void **state)
{
	struct kr_lend_message_request message = {0};
	struct kr_lend_link link;

	(void)state;
	kr_lend_link_init(&link);
	message.seq = 1;
	assert_int_equal(kr_lend_link_take(&link, &message, 100), 1);
	assert_false(kr_lend_link_owes(&link));
	message.seq = 2;
	assert_int_equal(kr_lend_link_take(&link, &message, 8 << 20), 1);
	assert_true(kr_lend_link_owes(&link));
	assert_int_equal(kr_lend_link_tell(&link), 2);
	assert_false(kr_lend_link_owes(&link));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts_lose_nothing_and_repeat_nothing),
		cmocka_unit_test(a_gap_and_a_false_acknowledgement_are_refused),
		cmocka_unit_test(much_that_is_not_acknowledged_is_owed),
	};
	const char *given = getenv("KR_SEED");

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	printf("KR_SEED=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Kept replies: found again, without what may not be said twice, and bounded. */
#include "server/session/reply_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <errno.h>

#include <cmocka.h>

#include "common/rpc/msg.h"

static void a_kept_reply_is_found_with_its_fields(void **state)
{
	struct kr_reply_cache replies;
	struct kr_copy_reply copy = {.copied = 77};
	const struct kr_kept_reply *kept;
	union kr_any_msg msg;
	struct kr_arena arena = {0};

	(void)state;
	kr_reply_cache_init(&replies);
	kr_reply_cache_keep(&replies, 1, 5, KR_MSG_COPY, 0, &copy);
	kr_reply_cache_keep(&replies, 2, 6, KR_MSG_REMOVE, -ENOENT, NULL);
	kept = kr_reply_cache_find(&replies, 5);
	assert_non_null(kept);
	assert_int_equal(kept->type, KR_MSG_COPY);
	assert_int_equal(kr_msg_decode(KR_MSG_COPY, true, kept->fields, kept->length, &msg, &arena), 0);
	assert_int_equal(msg.copy_reply.copied, 77);
	assert_int_equal(kr_reply_cache_find(&replies, 6)->err, -ENOENT);
	assert_null(kr_reply_cache_find(&replies, 7));
	kr_arena_fini(&arena);
	kr_reply_cache_fini(&replies);
}

static void leases_and_data_are_not_granted_again(void **state)
{
	struct kr_reply_cache replies;
	struct kr_open_reply open = {.granted = KR_LEASE_ALL, .has_data = 1, .checksum = 9, .attr = {.size = 3}};
	const struct kr_kept_reply *kept;
	union kr_any_msg msg;
	struct kr_arena arena = {0};

	(void)state;
	kr_reply_cache_init(&replies);
	kr_reply_cache_keep(&replies, 1, 1, KR_MSG_OPEN, 0, &open);
	kept = kr_reply_cache_find(&replies, 1);
	assert_int_equal(kr_msg_decode(KR_MSG_OPEN, true, kept->fields, kept->length, &msg, &arena), 0);
	assert_int_equal(msg.open_reply.granted, 0);
	assert_int_equal(msg.open_reply.has_data, 0);
	assert_int_equal(msg.open_reply.attr.size, 3);
	kr_arena_fini(&arena);
	kr_reply_cache_fini(&replies);
}

static void only_the_latest_replies_are_kept(void **state)
{
	struct kr_reply_cache replies;

	(void)state;
	kr_reply_cache_init(&replies);
	for (uint64_t id = 1; id <= KR_REPLY_CACHE_MAX + 10; id++)
		kr_reply_cache_keep(&replies, id, id, KR_MSG_REMOVE, 0, NULL);
	assert_int_equal(replies.count, KR_REPLY_CACHE_MAX);
	assert_null(kr_reply_cache_find(&replies, 10));
	assert_non_null(kr_reply_cache_find(&replies, 11));
	kr_reply_cache_prune(&replies, KR_REPLY_CACHE_MAX);
	assert_int_equal(replies.count, 11);
	kr_reply_cache_fini(&replies);
	assert_int_equal(replies.count, 0);
	assert_int_equal(replies.bytes, 0);
}

static void an_id_kept_again_replaces_the_former(void **state)
{
	struct kr_reply_cache replies;

	(void)state;
	kr_reply_cache_init(&replies);
	kr_reply_cache_keep(&replies, 1, 5, KR_MSG_REMOVE, -ENOENT, NULL);
	kr_reply_cache_keep(&replies, 2, 5, KR_MSG_REMOVE, 0, NULL);
	assert_int_equal(replies.count, 1);
	assert_int_equal(kr_reply_cache_find(&replies, 5)->err, 0);
	kr_reply_cache_fini(&replies);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_kept_reply_is_found_with_its_fields),
		cmocka_unit_test(leases_and_data_are_not_granted_again),
		cmocka_unit_test(only_the_latest_replies_are_kept),
		cmocka_unit_test(an_id_kept_again_replaces_the_former),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Names that the kernel has on loan (fuse/names/kernel_names.h): when there is a loan, and when INVALIDATE is answered.
 * The attribute cache and the answers are the test's own, and time passes when it says so.
 */
#include "fuse/names/kernel_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/rpc/attr_cache.h"
#include "fuse/base/options.h"
#include "fuse/names/attr_cache.h"
#include "test/unit/moved_clock.h"

static const struct kr_fid dir = {.length = 3, .bytes = "dir"}, below = {.length = 5, .bytes = "below"},
			   file = {.length = 4, .bytes = "file"};

static struct {
	uv_loop_t loop;
	struct kr_mount_options options;
	struct kr_mount mount;
	bool is_public;
	uint64_t answered; /* the latest `id`; 0: none */
	void (*while_lending)(void);
} F;

bool __wrap_kr_attr_cache_is_public(
	struct kr_mount *mount, const struct kr_fid *parent, const char *name, const struct kr_fid *fid);
bool __wrap_kr_attr_cache_is_public(
	struct kr_mount *mount, const struct kr_fid *parent, const char *name, const struct kr_fid *fid)
{
	(void)mount, (void)parent, (void)name, (void)fid;
	if (F.while_lending)
		F.while_lending();
	return F.is_public;
}

void __wrap_kr_rpc_answer(struct kr_rpc *rpc, const struct kr_down *down, int err, const void *msg);
void __wrap_kr_rpc_answer(struct kr_rpc *rpc, const struct kr_down *down, int err, const void *msg)
{
	(void)rpc, (void)msg;
	assert_int_equal(err, 0);
	F.answered = down->id;
}

static int setup(void **state)
{
	(void)state;
	F.options.default_permissions = F.is_public = true;
	F.answered = 0;
	F.while_lending = NULL;
	uv_loop_init(&F.loop);
	stop_clock();
	F.mount = (struct kr_mount){.options = &F.options, .loop = &F.loop, .kernel_names = kr_kernel_names_new()};
	kr_kernel_names_start(&F.mount);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kr_kernel_names_stop(&F.mount);
	uv_run(&F.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&F.loop), 0);
	kr_kernel_names_free(F.mount.kernel_names);
	start_clock();
	return 0;
}

static bool lends_in(const struct kr_fid *parent, const struct kr_fid *fid)
{
	double seconds = kr_kernel_names_lend(&F.mount, parent, "name", fid);

	if (seconds > 0)
		kr_kernel_names_lent(&F.mount, parent);
	return seconds > 0;
}

static bool lends(void)
{
	return lends_in(&dir, &file);
}

static void pass_ms(uint64_t ms)
{
	move_clock(ms);
	uv_update_time(&F.loop);
	uv_run(&F.loop, UV_RUN_NOWAIT);
}

/* INVALIDATE number ID of DIR; 0: one that is not answered. */
static void invalidate(uint64_t id)
{
	kr_kernel_names_answer(&F.mount, kr_attr_cache_bucket(&dir), &(struct kr_down){.type = 1, .id = id});
}

static void names_are_lent_where_directories_are_gone_through(void **state)
{
	(void)state;
	assert_false(lends());
	kr_kernel_names_listed(&F.mount, &dir);
	assert_true(lends());
	F.is_public = false;
	assert_false(lends());
	F.is_public = true;
	F.options.default_permissions = false;
	assert_false(lends());
	F.options.default_permissions = true;
	pass_ms((KR_NAME_LISTED_S + 1) * 1000);
	assert_false(lends());
}

static void the_directories_above_are_gone_through_too(void **state)
{
	(void)state;
	kr_kernel_names_listed(&F.mount, &below);
	assert_true(lends_in(&dir, &below));
	assert_true(lends());
}

static void so_are_those_where_many_names_are_looked_up(void **state)
{
	(void)state;
	for (int i = 0; i < KR_NAME_BURST; i++)
		assert_false(lends());
	assert_true(lends());
	pass_ms(1000);
	assert_false(lends());
}

static void invalidate_is_answered_when_loans_are_over(void **state)
{
	(void)state;
	invalidate(1);
	assert_int_equal(F.answered, 1); /* there were none */
	pass_ms((KR_NAME_QUIET_S + 1) * 1000);
	kr_kernel_names_listed(&F.mount, &dir);
	assert_true(lends());
	pass_ms(KR_NAME_LENT_MS / 2);
	assert_true(lends());
	invalidate(2);
	assert_false(lends());
	pass_ms(KR_NAME_LENT_MS / 2);
	assert_int_equal(F.answered, 1);
	pass_ms(KR_NAME_LENT_MS / 2 + 1);
	assert_int_equal(F.answered, 2);
}

static void invalidate_from_outside(void)
{
	F.while_lending = NULL;
	invalidate(1);
}

/* The thread that lends may be slow: between its look into the attribute cache and its reply, any time may pass. */
static void a_reply_that_is_not_written_yet_is_waited_for(void **state)
{
	(void)state;
	kr_kernel_names_listed(&F.mount, &dir);
	F.while_lending = invalidate_from_outside;
	assert_true(kr_kernel_names_lend(&F.mount, &dir, "name", &file) > 0);
	pass_ms(10 * KR_NAME_LENT_MS);
	assert_int_equal(F.answered, 0);
	kr_kernel_names_lent(&F.mount, &dir);
	pass_ms(KR_NAME_LENT_MS - 1);
	assert_int_equal(F.answered, 0);
	pass_ms(20);
	assert_int_equal(F.answered, 1);
}

static void who_has_delayed_another_node_lends_nothing_for_a_while(void **state)
{
	(void)state;
	kr_kernel_names_listed(&F.mount, &dir);
	assert_true(lends());
	invalidate(1);
	kr_kernel_names_listed(&F.mount, &below);
	assert_false(lends_in(&below, &file));
	pass_ms((KR_NAME_PAUSE_S + 1) * 1000);
	assert_true(lends_in(&below, &file));
	kr_kernel_names_listed(&F.mount, &dir);
	assert_false(lends());
	pass_ms(KR_NAME_QUIET_S * 1000);
	kr_kernel_names_listed(&F.mount, &dir);
	assert_true(lends());
}

/* One loan for all names of a reply: the attribute cache is asked for each of them after it has begun. */
static void a_listing_lends_names_like_a_lookup(void **state)
{
	(void)state;
	assert_true(kr_kernel_names_lend_listed(&F.mount, &dir) > 0);
	invalidate(1);
	pass_ms(10 * KR_NAME_LENT_MS);
	assert_int_equal(F.answered, 0);
	kr_kernel_names_lent(&F.mount, &dir);
	pass_ms(KR_NAME_LENT_MS - 1);
	assert_int_equal(F.answered, 0);
	pass_ms(20);
	assert_int_equal(F.answered, 1);
	assert_false(kr_kernel_names_lend_listed(&F.mount, &dir) > 0); /* the directory changes */
	pass_ms((KR_NAME_QUIET_S + 1) * 1000);
	F.options.default_permissions = false;
	assert_false(kr_kernel_names_lend_listed(&F.mount, &dir) > 0);
}

/* What is not answered: changes by programs on the server, and our own. */
static void others_delay_nothing(void **state)
{
	(void)state;
	kr_kernel_names_listed(&F.mount, &dir);
	assert_true(lends());
	invalidate(0);
	assert_true(lends());
}

static void an_invalidate_of_all_waits_for_all(void **state)
{
	const struct kr_down down = {.type = 1, .id = 7};

	(void)state;
	kr_kernel_names_listed(&F.mount, &dir);
	assert_true(lends());
	kr_kernel_names_answer(&F.mount, KR_ATTR_CACHE_ALL, &down);
	assert_int_equal(F.answered, 0);
	pass_ms(KR_NAME_LENT_MS + 20);
	assert_int_equal(F.answered, 7);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(names_are_lent_where_directories_are_gone_through),
		TEST(the_directories_above_are_gone_through_too),
		TEST(so_are_those_where_many_names_are_looked_up),
		TEST(invalidate_is_answered_when_loans_are_over),
		TEST(a_reply_that_is_not_written_yet_is_waited_for),
		TEST(who_has_delayed_another_node_lends_nothing_for_a_while),
		TEST(a_listing_lends_names_like_a_lookup),
		TEST(others_delay_nothing),
		TEST(an_invalidate_of_all_waits_for_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

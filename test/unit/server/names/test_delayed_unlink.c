/* Small files that have lost their name, and who still opens them a moment later (server/names/delayed_unlink.h). */
#include "test/unit/server/session/server_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "common/base/log.h"
#include "server/names/delayed_unlink.h"

static uint64_t ahead_ns; /* of the export's clock */

uint64_t __real_kr_clock_real_ns(void);
uint64_t __wrap_kr_clock_real_ns(void);
uint64_t __wrap_kr_clock_real_ns(void)
{
	return __real_kr_clock_real_ns() + ahead_ns;
}

/* A file of SIZE bytes that nobody has open; NODE has looked it up. */
static struct kr_fid put(struct fixture *f, struct node *node, const char *name, off_t size)
{
	const union kr_any_msg *reply;
	char path[400];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", f->export_path, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
	assert_int_equal(lookup(node, name, &reply), 0);
	return reply->lookup_reply.file;
}

/* From here on the clock stands still: however slow the machine, nothing ends. */
static void remove_name(struct node *node, const char *name)
{
	if (!stopped_clock_ns)
		stop_clock();
	assert_int_equal(node_call(node, KR_MSG_REMOVE,
				 &(struct kr_remove_request){.parent = node->hello.root, .name = name}, NULL),
		0);
}

static int open_it(struct node *node, const struct kr_fid *fid)
{
	return node_call(node, KR_MSG_OPEN, &(struct kr_open_request){.file = *fid, .flags = KR_OPEN_READ}, NULL);
}

static void close_it(struct node *node, const struct kr_fid *fid)
{
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &(struct kr_close_request){.file = *fid, .count = 1}, NULL), 0);
}

/* Just before it is over. The clock stands still from the removal on. */
static void nearly_over(struct fixture *f, struct node *node)
{
	for (int passed = 0; passed + MOMENT_MS < KR_DELAYED_UNLINK_MS; passed += MOMENT_MS)
		a_moment_later(f, node);
	kr_delayed_unlink_tick(&f->server, kr_clock_ns() + (MOMENT_MS - 1) * KR_NS_PER_MS);
}

static bool nothing_lingers(void *context)
{
	return ((struct fixture *)context)->server.delayed_unlink->count == 0;
}

static void over(struct fixture *f)
{
	start_clock();
	for (int passed = 0; passed < KR_DELAYED_UNLINK_MS; passed += MOMENT_MS)
		pass_a_moment(f);
	assert_true(node_wait_for(&f->loop, nothing_lingers, f));
	assert_true(node_wait_for(&f->loop, the_disk_rests, f));
}

static void who_has_looked_a_name_up_opens_what_it_was(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = put(f, node, "f", 10);

	remove_name(other, "f");
	assert_int_equal(lookup(node, "f", NULL), -ENOENT);
	nearly_over(f, node);
	assert_int_equal(f->server.delayed_unlink->count, 1);
	assert_int_equal(open_it(node, &fid), 0);
	close_it(node, &fid);
}

static void afterwards_it_is_gone(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = put(f, node, "f", 10);

	remove_name(node, "f");
	over(f);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
	assert_int_equal(open_it(node, &fid), -ESTALE);
}

static void who_has_opened_it_meanwhile_keeps_it(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = put(f, node, "f", 10);

	remove_name(node, "f");
	assert_int_equal(open_it(node, &fid), 0);
	over(f);
	assert_int_equal(node_call(node, KR_MSG_GETATTR, &(struct kr_getattr_request){.file = fid}, NULL), 0);
	close_it(node, &fid);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
}

static void a_file_that_is_replaced_lingers_too(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid old = put(f, node, "f", 10);
	struct kr_rename_request msg = {
		.parent = node->hello.root, .name = "new", .new_parent = node->hello.root, .new_name = "f"};

	put(f, node, "new", 20);
	assert_int_equal(node_call(node, KR_MSG_RENAME, &msg, NULL), 0);
	assert_int_equal(f->server.delayed_unlink->count, 1);
	assert_int_equal(open_it(node, &old), 0);
	close_it(node, &old);
}

static void large_ones_and_those_with_another_name_or_an_open_need_none(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid large = put(f, node, "large", KR_DELAYED_UNLINK_SIZE_MAX + 1), named = put(f, node, "named", 10),
		      small = put(f, node, "small", KR_DELAYED_UNLINK_SIZE_MAX);
	struct kr_link_request link = {.file = named, .parent = node->hello.root, .name = "another"};

	assert_int_equal(node_call(node, KR_MSG_LINK, &link, NULL), 0);
	remove_name(node, "large");
	remove_name(node, "named");
	assert_int_equal(f->server.delayed_unlink->count, 0);
	assert_int_equal(open_it(node, &large), -ESTALE);
	remove_name(node, "small");
	assert_int_equal(f->server.delayed_unlink->count, 1);
	assert_int_equal(open_it(node, &small), 0);
}

/* Who has looked it up looks the name up again. */
static void an_old_file_needs_none(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid old = put(f, node, "old", 10);

	ahead_ns = KR_EXPORT_YOUNG_S * KR_NS_PER_S;
	remove_name(node, "old");
	ahead_ns = 0;
	assert_int_equal(f->server.delayed_unlink->count, 0);
	assert_int_equal(open_it(node, &old), -ESTALE);
}

static void of_too_many_the_oldest_ends(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid first = {0}, second = {0}, fid;
	char name[16];

	for (int i = 0; i <= KR_DELAYED_UNLINK_MAX; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		fid = put(f, node, name, 1);
		remove_name(node, name);
		node->answer_count = 0;
		if (i < 2)
			*(i ? &second : &first) = fid;
	}
	assert_int_equal(f->server.delayed_unlink->count, KR_DELAYED_UNLINK_MAX);
	assert_true(node_wait_for(&f->loop, the_disk_rests, f));
	assert_int_equal(open_it(node, &first), -ESTALE);
	assert_int_equal(open_it(node, &second), 0);
}

/* Nothing of it is left for the next server to sweep. */
static void a_server_that_stops_ends_them(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_export_info info;
	struct kr_fid fid = put(f, node, "f", 10);

	remove_name(node, "f");
	start_clock();
	stop_server(f);
	start_server(f);
	kr_export_info(f->server.export, &info);
	assert_int_equal(info.orphans, 0);
	joined(f, 0);
	assert_int_equal(open_it(node, &fid), -ESTALE);
}

static int end(void **state)
{
	if (stopped_clock_ns)
		start_clock();
	return teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, end)
		TEST(who_has_looked_a_name_up_opens_what_it_was),
		TEST(afterwards_it_is_gone),
		TEST(who_has_opened_it_meanwhile_keeps_it),
		TEST(a_file_that_is_replaced_lingers_too),
		TEST(large_ones_and_those_with_another_name_or_an_open_need_none),
		TEST(an_old_file_needs_none),
		TEST(of_too_many_the_oldest_ends),
		TEST(a_server_that_stops_ends_them),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_linger", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Files whose names go: what the server takes for gone, and whom it tells. */
#include "test/unit/server_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "common/log.h"
#include "server/files.h"
#include "server/linger.h"
#include "server/opens.h"

static void close_it(struct node *node, const struct kr_fid *fid)
{
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &(struct kr_close_request){.file = *fid, .count = 1}, NULL), 0);
}

static void remove_it(struct node *node, const char *name)
{
	assert_int_equal(node_call(node, KR_MSG_REMOVE, &(struct kr_remove_request){.parent = node->hello.root, .name = name}, NULL), 0);
}

static void link_it(struct node *node, const struct kr_fid *fid, const char *name)
{
	assert_int_equal(node_call(node, KR_MSG_LINK, &(struct kr_link_request){.file = *fid, .parent = node->hello.root, .name = name}, NULL), 0);
}

static int flush_of(struct node *node, const struct kr_fid *fid)
{
	return node_call(node, KR_MSG_FLUSH, &(struct kr_flush_request){.file = *fid, .flags = 1, .seq = 1, .mtime = {.sec = 5}}, NULL);
}

/* Bytes of nobody's lease are late ones: of a file that is gone they are taken and dropped, but of no other. */
static void a_file_with_another_name_is_not_gone_when_it_is_closed(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *late = joined(f, 1);
	struct kr_fid fid = create(node, "a", 0);

	link_it(node, &fid, "b");
	remove_it(node, "a");
	close_it(node, &fid);
	assert_int_equal(flush_of(late, &fid), -EAGAIN);
	assert_int_equal(node_call(node, KR_MSG_OPEN, &(struct kr_open_request){.file = fid, .flags = KR_OPEN_READ}, NULL), 0);
	remove_it(node, "b");
	assert_int_equal(flush_of(late, &fid), -EAGAIN);
	close_it(node, &fid);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
	assert_int_equal(flush_of(late, &fid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_file_with_another_name_is_not_gone_when_it_is_closed),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server_removed", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

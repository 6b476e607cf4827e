/* RESTORE: who may have an un-created file made anew, and that its node goes on with it. */
#include "test/unit/server/session/server_fixture.h"

static const struct kr_time later = {.sec = INT32_MAX}; /* nothing in the directory has been changed since then */

/* The server's machine loses its power, and with it NAME in the export's root. */
static void lose(struct fixture *f, const char *name)
{
	char path[200];

	stop_server(f);
	snprintf(path, sizeof(path), "%s/%s", f->export_path, name);
	assert_int_equal(remove(path), 0);
	start_server(f);
	for (int i = 0; i < NODES; i++) {
		if (f->nodes[i]->conn)
			assert_true(node_wait_for(&f->loop, node_is_closed, f->nodes[i]));
	}
}

static int restore(struct node *node, const struct kr_fid *fid, const char *name)
{
	const struct kr_restore_request msg = {.file = *fid,
		.parent = node->hello.root,
		.name = name,
		.mode = S_IFREG | 0640,
		.uid = geteuid(),
		.gid = getegid(),
		.made = later};

	return node_call(node, KR_MSG_RESTORE, &msg, NULL);
}

static void its_node_goes_on_with_a_restored_file(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = f->nodes[1];
	struct kr_fid fid = create(node, "f", KR_LEASE_ALL);
	const struct kr_reclaim_request reclaim = {
		.file = fid, .opens = 1, .kinds = KR_LEASE_ALL, .first = 1, .last = 5, .resend = 5};
	struct kr_lookup_request look = {.name = "f"};
	const union kr_any_msg *reply;
	uint64_t id;

	lose(f, "f");
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(restore(node, &fid, "f"), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, &reply), 0);
	assert_int_equal(reply->reclaim_reply.conflict, 0);
	assert_int_equal(reply->reclaim_reply.kinds, KR_LEASE_ALL);
	assert_int_equal(reply->reclaim_reply.attr.mode, S_IFREG | 0640);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	flush_text(node, &fid, 5, "bytes");
	joined(f, 1);
	look.parent = other->hello.root;
	id = node_send(other, KR_MSG_LOOKUP, &look);
	node_reply(node, node_asked(node, KR_MSG_QUERY), &(struct kr_query_reply){0});
	assert_int_equal(node_result(other, id, &reply), 0);
	assert_true(kr_fid_equal(&reply->lookup_reply.file, &fid));
	assert_int_equal(reply->lookup_reply.attr.size, 5);
}

static void a_file_that_is_not_restored_is_gone(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", KR_LEASE_ALL);
	const struct kr_reclaim_request reclaim = {.file = fid, .opens = 1};

	lose(f, "f");
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, NULL), -ESTALE);
}

static void only_an_awaited_node_may_restore_and_only_before_others_are_served(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = f->nodes[1];
	struct kr_fid fid = create(node, "f", KR_LEASE_ALL);

	lose(f, "f");
	assert_int_equal(node_hello(other, false), 0);
	assert_int_equal(restore(other, &fid, "f"), -EPERM);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_int_equal(restore(node, &fid, "f"), -EPERM);
	assert_int_equal(node_call(other, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_int_equal(lookup(other, "f", NULL), -ENOENT);
}

static void a_confined_session_restores_nothing(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", KR_LEASE_ALL);

	f->options.squash = KR_SQUASH_ROOT;
	lose(f, "f");
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(restore(node, &fid, "f"), -EPERM);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(its_node_goes_on_with_a_restored_file),
		TEST(a_file_that_is_not_restored_is_gone),
		TEST(only_an_awaited_node_may_restore_and_only_before_others_are_served),
		TEST(a_confined_session_restores_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

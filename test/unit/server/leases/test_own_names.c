/* What a node's own requests change of names: the server leaves it to the node to forget that, and says what it may
 * note instead. */
#include "test/unit/server/session/server_fixture.h"

#include "common/rpc/attr_cache.h"
#include "server/leases/invalidation.h"

static int set_up(void **state)
{
	int err = setup(state);
	struct fixture *f = *state;

	kr_invalidation_allow(&f->server, true);
	return err;
}

static bool told(const struct node *node, const struct kr_fid *fid)
{
	for (size_t i = 0; i < node->asked_count; i++) {
		if (node->asked[i].type == KR_MSG_INVALIDATE &&
			node->asked[i].msg.invalidate_request.bucket == kr_attr_cache_bucket(fid))
			return true;
	}
	return false;
}

static struct kr_attr dir_attr(struct node *node)
{
	const union kr_any_msg *reply;

	assert_int_equal(
		node_call(node, KR_MSG_GETATTR, &(struct kr_getattr_request){.file = node->hello.root}, &reply), 0);
	return reply->getattr_reply.attr;
}

static void assert_is_dir(struct node *node, const struct kr_attr *said)
{
	struct kr_attr now = dir_attr(node);

	assert_int_equal(said->ino, now.ino);
	assert_int_equal(said->nlink, now.nlink);
	assert_int_equal(kr_time_compare(said->mtime, now.mtime), 0);
	assert_int_equal(kr_time_compare(said->ctime, now.ctime), 0);
}

static void replies_say_what_became_of_the_directory(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	const struct kr_fid root = node->hello.root;
	const union kr_any_msg *reply;
	struct kr_fid file;

	assert_int_equal(node_call(node, KR_MSG_CREATE,
				 &(struct kr_create_request){.parent = root, .name = "f", .mode = 0644}, &reply),
		0);
	file = reply->create_reply.file;
	assert_is_dir(node, &reply->create_reply.dir);
	assert_int_equal(
		node_call(node, KR_MSG_MAKE,
			&(struct kr_make_request){.parent = root, .name = "d", .mode = S_IFDIR | 0755, .target = ""},
			&reply),
		0);
	assert_is_dir(node, &reply->make_reply.dir);
	assert_int_equal(node_call(node, KR_MSG_LINK,
				 &(struct kr_link_request){.file = file, .parent = root, .name = "g"}, &reply),
		0);
	assert_is_dir(node, &reply->link_reply.dir);
	assert_int_equal(node_call(node, KR_MSG_REMOVE,
				 &(struct kr_remove_request){.parent = root, .name = "d", .directory = 1}, &reply),
		0);
	assert_is_dir(node, &reply->remove_reply.dir);
	assert_false(told(node, &root));
}

static void a_node_is_told_of_changes_by_others_alone(void **state)
{
	struct fixture *f = *state;
	struct node *holder = joined(f, 0), *changer = joined(f, 2);
	const struct kr_fid root = holder->hello.root;
	const union kr_any_msg *reply;

	assert_int_equal(lookup(holder, "none", &reply), -ENOENT);
	create(holder, "f", 0);
	assert_false(told(holder, &root));
	move_clock(MOMENT_MS);
	assert_int_equal(lookup(changer, "none", &reply), -ENOENT);
	uint64_t id = node_send(
		changer, KR_MSG_CREATE, &(struct kr_create_request){.parent = root, .name = "g", .mode = 0644});
	node_reply(holder, node_asked(holder, KR_MSG_INVALIDATE), NULL);
	assert_int_equal(node_result(changer, id, NULL), 0);
	assert_false(told(changer, &root));
}

static void what_was_behind_a_removed_name_is_told(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	const struct kr_fid root = node->hello.root;
	struct kr_fid file = create(node, "f", 0);

	assert_int_equal(node_call(node, KR_MSG_LINK,
				 &(struct kr_link_request){.file = file, .parent = root, .name = "g"}, NULL),
		0);
	assert_false(told(node, &file));
	assert_int_equal(
		node_call(node, KR_MSG_REMOVE, &(struct kr_remove_request){.parent = root, .name = "f"}, NULL), 0);
	assert_true(told(node, &file)); /* it has one link less, under whatever names it is known */
	assert_false(told(node, &root));
}

/* The node may have given the request up with the connection: nobody would forget. */
static void an_answer_on_another_connection_is_told(void **state)
{
	struct fixture *f = *state;
	struct node *holder = joined(f, 0), *changer = joined(f, 1);
	const struct kr_fid root = holder->hello.root;
	const union kr_any_msg *reply;
	struct node_asked *asked;

	create(changer, "f", 0);
	assert_int_equal(lookup(holder, "f", &reply), 0);
	node_send(changer, KR_MSG_REMOVE, &(struct kr_remove_request){.parent = root, .name = "f"});
	asked = node_asked(holder, KR_MSG_INVALIDATE);
	node_disconnect(changer);
	resume(changer);
	changer->asked_count = 0;
	assert_int_equal(
		node_call(changer, KR_MSG_READLINK, &(struct kr_readlink_request){.file = root}, NULL), -EINVAL);
	node_reply(holder, asked, NULL);
	node_reply(holder, node_asked(holder, KR_MSG_INVALIDATE), NULL); /* of the file itself */
	for (int i = 0; i < 20 && !told(changer, &root); i++)
		a_moment_later(f, changer);
	assert_true(told(changer, &root));
}

/* There are 64 bits for all nodes. */
static void a_node_does_not_write_at_once_what_another_node_with_its_bit_has_noted(void **state)
{
	struct fixture *f = *state;
	struct node *holder = joined(f, 0), *writer;
	struct kr_open_request open = {.flags = KR_OPEN_WRITE, .want = KR_LEASE_WRITE};
	const union kr_any_msg *reply;
	uint64_t id;

	f->server.sessions->last_node = holder->hello.node + 63;
	writer = joined(f, 1);
	assert_int_equal(writer->hello.node, holder->hello.node + 64);
	open.file = create(writer, "f", 0);
	move_clock(MOMENT_MS);
	assert_int_equal(lookup(holder, "f", NULL), 0);
	assert_int_equal(node_call(writer, KR_MSG_OPEN, &open, &reply), 0);
	assert_int_equal(reply->open_reply.granted, 0);
	id = send_lease(writer, &open.file, KR_LEASE_WRITE);
	node_reply(holder, node_asked(holder, KR_MSG_INVALIDATE), NULL);
	assert_int_equal(node_result(writer, id, NULL), 0);
}

static uint64_t send_remove(struct node *node, const char *name)
{
	return node_send(node, KR_MSG_REMOVE, &(struct kr_remove_request){.parent = node->hello.root, .name = name});
}

/* Moments until the request is answered, while both nodes say that they live. */
static int moments_until(struct fixture *f, struct node *node, uint64_t id, struct node *silent)
{
	int moments = 0;

	while (!is_answered(node, id)) {
		pass_a_moment(f);
		settle(node);
		if (!silent->closed)
			settle(silent);
		assert_true(++moments * MOMENT_MS < 10 * LEASE_MS);
	}
	return moments;
}

/* It is not heard after a lease time, and lost after another. */
static void a_change_ends_when_a_connected_node_does_not_forget(void **state)
{
	struct fixture *f = *state;
	struct node *silent = joined(f, 0), *changer = joined(f, 1);
	struct kr_cancel_request cancel = {0};
	uint64_t id;
	int moments;

	create(changer, "f", 0);
	create(changer, "g", 0);
	assert_int_equal(lookup(silent, "f", NULL), 0);
	cancel.request = send_remove(changer, "f");
	node_asked(silent, KR_MSG_INVALIDATE);
	assert_int_equal(node_call(changer, KR_MSG_CANCEL, &cancel, NULL), 0);
	assert_int_equal(node_result(changer, cancel.request, NULL), -EINTR);
	id = send_remove(changer, "f");
	moments = moments_until(f, changer, id, silent);
	assert_int_equal(node_result(changer, id, NULL), 0);
	assert_true(silent->closed);
	assert_in_range(moments * MOMENT_MS, LEASE_MS * 2, LEASE_MS * 2 + 4 * MOMENT_MS);
	assert_int_equal(node_call(changer, KR_MSG_REMOVE,
				 &(struct kr_remove_request){.parent = changer->hello.root, .name = "g"}, NULL),
		0);
}

static void forget_all(struct node *node)
{
	for (size_t i = 0; i < node->asked_count; i++) {
		struct node_asked *asked = &node->asked[i];

		if (asked->type == KR_MSG_INVALIDATE && !asked->answered && !(asked->flags & KR_FRAME_ONEWAY))
			node_reply(node, asked, NULL);
	}
}

static void two_nodes_that_change_what_the_other_has_noted_do_not_wait_for_each_other(void **state)
{
	struct fixture *f = *state;
	struct node *a = joined(f, 0), *b = joined(f, 1);
	uint64_t of_a, of_b;

	create(a, "f", 0);
	create(a, "g", 0);
	assert_int_equal(lookup(a, "none", NULL), -ENOENT);
	assert_int_equal(lookup(b, "none", NULL), -ENOENT);
	of_a = send_remove(a, "f");
	of_b = send_remove(b, "g");
	node_asked(a, KR_MSG_INVALIDATE);
	node_asked(b, KR_MSG_INVALIDATE);
	for (int i = 0; i < 20 && !(is_answered(a, of_a) && is_answered(b, of_b)); i++) {
		forget_all(a);
		forget_all(b);
		a_moment_later(f, a);
		settle(b);
	}
	assert_int_equal(node_result(a, of_a, NULL), 0);
	assert_int_equal(node_result(b, of_b, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(replies_say_what_became_of_the_directory, set_up, teardown),
		cmocka_unit_test_setup_teardown(a_node_is_told_of_changes_by_others_alone, set_up, teardown),
		cmocka_unit_test_setup_teardown(what_was_behind_a_removed_name_is_told, set_up, teardown),
		cmocka_unit_test_setup_teardown(an_answer_on_another_connection_is_told, set_up, teardown),
		cmocka_unit_test_setup_teardown(
			a_node_does_not_write_at_once_what_another_node_with_its_bit_has_noted, set_up, teardown),
		cmocka_unit_test_setup_teardown(a_change_ends_when_a_connected_node_does_not_forget, set_up, teardown),
		cmocka_unit_test_setup_teardown(
			two_nodes_that_change_what_the_other_has_noted_do_not_wait_for_each_other, set_up, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

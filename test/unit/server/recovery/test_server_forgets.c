/* What the server does not remember to have executed, after a boot or because it was too much, is not what another has
 * done. */
#include "test/unit/server/recovery/former_fixture.h"

#include <fcntl.h>
#include <signal.h>

#include "common/base/log.h"
#include "common/base/util.h"

/* The next instance is of another boot: nothing is remembered. */
static void boot(struct fixture *f, bool noted)
{
	char path[128];

	stop_server(f);
	snprintf(path, sizeof(path), "%s/executed", f->state_path);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/boot", f->state_path);
	if (noted)
		assert_int_equal(kr_write_file(AT_FDCWD, path, "0123456789abcdef0123456789abcdef\n", 33, 0600), 0);
	start_server(f);
}

/* ONE, unless it is back HALFWAY, comes only when the grace period has ended without it. */
static void come_late_after_a_boot(struct fixture *f, struct node *one, struct node *other, bool halfway)
{
	boot(f, false);
	assert_true(node_wait_for(&f->loop, node_is_closed, one) && node_wait_for(&f->loop, node_is_closed, other));
	if (halfway) {
		assert_int_equal(node_hello(one, true), 0);
		node_disconnect(one);
	}
	assert_int_equal(node_hello(other, true), 0);
	assert_int_equal(node_call(other, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	while (f->server.sessions->grace.active || f->server.sessions->count > 1)
		a_moment_later(f, other);
	assert_int_equal(node_hello(one, true), 0);
	assert_int_equal(one->hello.late, 1);
	assert_int_equal(node_call(one, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
}

/* It may be told of a failure of what it has done itself; never of the success of another. */
static void what_others_have_done_is_not_of_a_node_that_is_late_after_a_boot(void **state)
{
	struct fixture *f = *state;
	struct node *one = joined(f, 0), *other = joined(f, 1);
	const struct kr_cred cred = {.uid = getuid(), .gid = getgid()};
	struct kr_make_request make = {.parent = one->hello.root, .mode = S_IFDIR | 0755, .target = "", .cred = cred};
	struct kr_create_request exclusive = {.parent = make.parent, .mode = 0644, .exclusive = 1, .cred = cred};
	struct kr_remove_request remove_it = {.parent = make.parent, .name = "token", .directory = 1};
	struct kr_rename_request move = {
		.parent = make.parent, .name = "job", .new_parent = make.parent, .new_name = "current"};

	for (int halfway = 0; halfway <= 1; halfway++) {
		uint64_t unsent = one->next_id;

		one->next_id += 4;
		make_dir(other, &make, "token");
		make_dir(other, &make, "job");
		make_dir(other, &make, halfway ? "other lock" : "lock");
		exclusive.name = halfway ? "y" : "x";
		assert_int_equal(node_call(other, KR_MSG_CREATE, &exclusive, NULL), 0);
		come_late_after_a_boot(f, one, other, halfway);
		assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove_it, NULL), 0);
		assert_int_equal(node_call(other, KR_MSG_RENAME, &move, NULL), 0);
		assert_int_equal(resend(one, unsent, KR_MSG_MAKE, &make), -EEXIST);
		assert_int_equal(resend(one, unsent + 1, KR_MSG_CREATE, &exclusive), -EEXIST);
		assert_int_equal(resend(one, unsent + 2, KR_MSG_REMOVE, &remove_it), -ENOENT);
		assert_int_equal(resend(one, unsent + 3, KR_MSG_RENAME, &move), -ENOENT);
	}
}

static void what_another_has_done_since_a_boot_is_not_of_a_node_that_is_back_in_time(void **state)
{
	struct fixture *f = *state;
	struct node *one = joined(f, 0), *other = joined(f, 1);
	struct kr_make_request make = {.parent = one->hello.root,
		.mode = S_IFDIR | 0755,
		.target = "",
		.cred = {.uid = getuid(), .gid = getgid()}};
	struct kr_remove_request remove_it = {.parent = make.parent, .name = "token", .directory = 1};
	struct kr_rename_request move = {.parent = make.parent,
					 .name = "job",
					 .new_parent = make.parent,
					 .new_name = "current"},
				 moved = move;
	struct kr_link_request link_it = {.file = create(other, "f", 0), .parent = make.parent, .name = "link"};
	uint64_t unsent = one->next_id, removed, renamed, linked;

	one->next_id += 4;
	make_dir(other, &make, "token");
	make_dir(other, &make, "taken");
	make_dir(other, &make, "job");
	make_dir(other, &make, "gone");
	make_dir(other, &make, "from");
	moved.name = "from";
	moved.new_name = "to";
	remove_it.name = "gone";
	removed = node_send(one, KR_MSG_REMOVE, &remove_it);
	renamed = node_send(one, KR_MSG_RENAME, &moved);
	link_it.name = "linked";
	linked = node_send(one, KR_MSG_LINK, &link_it);
	assert_true(node_result(one, removed, NULL) == 0 && node_result(one, renamed, NULL) == 0 &&
		node_result(one, linked, NULL) == 0);

	boot(f, false);
	rejoin(f, (struct node *[]){one, other}, 2);
	remove_it.name = "token";
	link_it.name = "link";
	assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove_it, NULL), 0);
	assert_int_equal(node_call(other, KR_MSG_RENAME, &move, NULL), 0);
	assert_int_equal(node_call(other, KR_MSG_LINK, &link_it, NULL), 0);
	assert_int_equal(resend(one, unsent, KR_MSG_REMOVE, &remove_it), -ENOENT);
	assert_int_equal(resend(one, unsent + 1, KR_MSG_RENAME, &move), -ENOENT);
	assert_int_equal(resend(one, unsent + 2, KR_MSG_LINK, &link_it), -EEXIST);
	moved.name = "taken"; /* a name that is taken away otherwise is not there either */
	moved.new_name = "token";
	assert_int_equal(node_call(other, KR_MSG_RENAME, &moved, NULL), 0);
	remove_it.name = "taken";
	assert_int_equal(resend(one, unsent + 3, KR_MSG_REMOVE, &remove_it), -ENOENT);
	remove_it.name = "gone";
	moved.name = "from";
	moved.new_name = "to";
	link_it.name = "linked";
	assert_int_equal(resend(one, removed, KR_MSG_REMOVE, &remove_it), 0);
	assert_int_equal(resend(one, renamed, KR_MSG_RENAME, &moved), 0);
	assert_int_equal(resend(one, linked, KR_MSG_LINK, &link_it), 0);
}

/* A node of which nothing is known any more at the next start, where all is remembered. */
static void what_another_has_done_before_a_restart_is_not_of_a_node_that_was_lost_before(void **state)
{
	struct fixture *f = *state;
	struct node *one = joined(f, 0), *other = joined(f, 1);
	struct kr_make_request make = {.parent = one->hello.root, .mode = S_IFDIR | 0755, .target = ""};
	struct kr_remove_request remove_it = {.parent = make.parent, .name = "token", .directory = 1};
	uint64_t unsent = one->next_id++;

	make_dir(other, &make, "token");
	node_disconnect(one);
	while (f->server.sessions->count > 1)
		a_moment_later(f, other);
	assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove_it, NULL), 0);
	restart(f, &other, 1);
	assert_int_equal(node_hello(one, true), 0);
	assert_int_equal(node_call(one, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_int_equal(resend(one, unsent, KR_MSG_REMOVE, &remove_it), -ENOENT);
}

static void what_was_made_before_a_boot_counts_as_done_also_at_its_second_instance(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_make_request make = {.parent = node->hello.root,
		.name = "d",
		.mode = S_IFDIR | 0755,
		.target = "",
		.cred = {.uid = getuid(), .gid = getgid()}};
	uint64_t made = node_send(node, KR_MSG_MAKE, &make);

	assert_int_equal(node_result(node, made, NULL), 0);
	boot(f, true); /* and is ended before any node is back */
	restart(f, &node, 1);
	assert_int_equal(resend(node, made, KR_MSG_MAKE, &make), 0);
}

/* All of it, not only what is asked again first. */
static void what_is_forgotten_of_a_node_that_is_back_in_time_counts_as_done(void **state)
{
	struct fixture *f = *state;
	struct node *one = joined(f, 0), *other = joined(f, 1);
	struct kr_make_request make = {.parent = one->hello.root, .mode = S_IFDIR | 0755, .target = ""};
	struct kr_remove_request remove_it = {.parent = make.parent, .directory = 1};
	static const char *const names[2] = {"a", "b"};
	struct kr_executed_key key;
	uint64_t removed[2];

	for (int i = 0; i < 2; i++) {
		make_dir(other, &make, names[i]);
		remove_it.name = names[i];
		removed[i] = node_send(one, KR_MSG_REMOVE, &remove_it);
		assert_int_equal(node_result(one, removed[i], NULL), 0);
	}
	for (int i = 0; i < KR_EXECUTED_SLOTS; i++)
		begun(f, other, &key);
	restart(f, (struct node *[]){one, other}, 2);
	for (int i = 0; i < 2; i++) {
		remove_it.name = names[i];
		assert_int_equal(resend(one, removed[i], KR_MSG_REMOVE, &remove_it), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(what_others_have_done_is_not_of_a_node_that_is_late_after_a_boot),
		TEST(what_another_has_done_since_a_boot_is_not_of_a_node_that_is_back_in_time),
		TEST(what_another_has_done_before_a_restart_is_not_of_a_node_that_was_lost_before),
		TEST(what_was_made_before_a_boot_counts_as_done_also_at_its_second_instance),
		TEST(what_is_forgotten_of_a_node_that_is_back_in_time_counts_as_done),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server_forgets", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

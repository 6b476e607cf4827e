/* What a former instance of the server has executed is not executed again. */
#include "test/unit/server/recovery/former_fixture.h"

#include <signal.h>
#include <fcntl.h>

#include "common/base/log.h"
#include "common/rpc/attr_cache.h"
#include "common/base/util.h"
#include "server/leases/invalidation.h"

static void exchange(struct node *node, uint64_t id, uint16_t flags, const struct kr_rename_request *msg)
{
	node_answer(node, id)->replies = 0;
	node_send_as(node, id, flags, KR_MSG_RENAME, msg);
}

static void what_was_executed_is_not_executed_again_by_the_next_instance(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_make_request make = {.parent = node->hello.root, .name = "a", .mode = S_IFDIR | 0755, .target = ""};
	struct kr_remove_request remove_c = {.parent = node->hello.root, .name = "c", .directory = 1};
	struct kr_rename_request rename_msg = {
		.parent = node->hello.root, .name = "a", .new_parent = node->hello.root, .new_name = "b", .flags = 2};
	const union kr_any_msg *reply;
	struct kr_fid first;
	uint64_t exchanged, removed;

	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, &reply), 0);
	first = reply->make_reply.file;
	make.name = "b";
	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, NULL), 0);
	make.name = "c";
	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, NULL), 0);
	exchanged = node_send(node, KR_MSG_RENAME, &rename_msg);
	assert_int_equal(node_result(node, exchanged, NULL), 0);
	removed = node_send(node, KR_MSG_REMOVE, &remove_c);
	assert_int_equal(node_result(node, removed, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, NULL), 0); /* as somebody else would */

	restart_server(f);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	exchange(node, exchanged, KR_FRAME_RESEND, &rename_msg);
	assert_int_equal(node_result(node, exchanged, NULL), 0);
	node_answer(node, removed)->replies = 0;
	node_send_as(node, removed, KR_FRAME_RESEND, KR_MSG_REMOVE, &remove_c);
	assert_int_equal(node_result(node, removed, NULL), 0);
	assert_int_equal(lookup(node, "b", &reply), 0);
	assert_true(kr_fid_equal(&reply->lookup_reply.file, &first));
	assert_int_equal(lookup(node, "c", NULL), 0);
}

static void a_truncation_is_not_repeated_by_the_next_instance(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", 0);
	struct kr_setattr_request cut = {.file = fid, .valid = KR_SET_SIZE, .size = 0};
	struct kr_open_request open_msg = {.file = fid, .flags = KR_OPEN_BOTH | KR_OPEN_TRUNC};
	const union kr_any_msg *reply;
	uint64_t cut_id = node_send(node, KR_MSG_SETATTR, &cut), open_id;
	char path[128];
	FILE *file;

	assert_int_equal(node_result(node, cut_id, NULL), 0);
	open_id = node_send(node, KR_MSG_OPEN, &open_msg);
	assert_int_equal(node_result(node, open_id, NULL), 0);
	snprintf(path, sizeof(path), "%s/f", f->export_path);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("later", file);
	fclose(file);

	restart_server(f);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_answer(node, cut_id)->replies = node_answer(node, open_id)->replies = 0;
	node_send_as(node, cut_id, KR_FRAME_RESEND, KR_MSG_SETATTR, &cut);
	assert_int_equal(node_result(node, cut_id, &reply), 0);
	assert_int_equal(reply->setattr_reply.attr.size, 5);
	node_send_as(node, open_id, KR_FRAME_RESEND, KR_MSG_OPEN, &open_msg);
	assert_int_equal(node_result(node, open_id, &reply), 0);
	assert_int_equal(reply->open_reply.attr.size, 5);
}

static void what_an_earlier_instance_executed_counts_as_done(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_make_request make = {.parent = node->hello.root,
		.name = "dir",
		.mode = S_IFDIR | 0755,
		.target = "",
		.cred = {.uid = getuid(), .gid = getgid()}};
	struct kr_remove_request remove_it = {.parent = node->hello.root, .name = "gone", .directory = 1};
	struct kr_rename_request move = {
		.parent = node->hello.root, .name = "dir", .new_parent = node->hello.root, .new_name = "moved"};
	struct kr_create_request exclusive = {
		.parent = node->hello.root, .name = "x", .mode = 0644, .exclusive = 1, .cred = make.cred};
	const union kr_any_msg *reply;
	uint64_t first = node->next_id, id;

	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_CREATE, &exclusive, NULL), 0);
	restart_server(f);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_answer(node, first)->replies = node_answer(node, first + 1)->replies = 0;
	node_send_as(node, first, KR_FRAME_RESEND, KR_MSG_MAKE, &make);
	assert_int_equal(node_result(node, first, NULL), 0);
	node_send_as(node, first + 1, KR_FRAME_RESEND, KR_MSG_CREATE, &exclusive);
	assert_int_equal(node_result(node, first + 1, &reply), 0);
	assert_int_equal(reply->create_reply.created, 1);
	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, NULL), -EEXIST); /* a new one is judged as it is */
	assert_int_equal(node_call(node, KR_MSG_CREATE, &exclusive, NULL), -EEXIST);
	assert_int_equal(node_call(node, KR_MSG_REMOVE, &remove_it, NULL), -ENOENT);
	assert_int_equal(node_call(node, KR_MSG_RENAME, &move, NULL), 0);
	id = node->next_id++; /* not sent before, and not to an earlier session: no excuse */
	node_send_as(node, id, KR_FRAME_RESEND, KR_MSG_RENAME, &move);
	assert_int_equal(node_result(node, id, NULL), -ENOENT);
}

/* As after kill -9: the next instance remembers what this one has now; what its end answers into the void is not in it.
 */
static void restart_as_killed(struct fixture *f, struct node *const *nodes, int count)
{
	uint8_t *executed;
	struct stat file;
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/executed", f->state_path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &file), 0);
	executed = kr_xcalloc(1, (size_t)file.st_size);
	assert_int_equal(pread(fd, executed, (size_t)file.st_size, 0), file.st_size);
	stop_server(f);
	assert_int_equal(pwrite(fd, executed, (size_t)file.st_size, 0), file.st_size);
	start_server(f);
	rejoin(f, nodes, count);
	close(fd);
	free(executed);
}

static void what_others_built_on_before_it_was_answered_is_not_executed_again(void **state)
{
	struct fixture *f = *state;
	struct node *node, *other = f->nodes[1];
	struct kr_rename_request move = {.new_name = "b", .name = "a"};
	struct kr_remove_request remove_it = {.name = "b"};
	struct kr_getattr_request look = {0};
	uint64_t id;

	kr_invalidation_allow(&f->server, true);
	node = joined(f, 0);
	node->forgets = true;
	joined(f, 1);
	look.file = create(node, "a", 0);
	move.parent = move.new_parent = remove_it.parent = node->hello.root;
	assert_int_equal(node_call(other, KR_MSG_GETATTR, &look, NULL),
		0); /* which it notes, and keeps the answer to the move waiting for */
	id = node_send(node, KR_MSG_RENAME, &move);
	node_asked(other, KR_MSG_INVALIDATE);
	assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove_it, NULL), 0);
	assert_false(is_answered(node, id));
	restart_as_killed(f, (struct node *[]){node, other}, 2);
	assert_int_equal(resend(node, id, KR_MSG_RENAME, &move), 0);
}

static void a_cut_that_others_built_on_before_it_was_answered_is_not_made_again(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_setattr_request cut = {.file = create(node, "f", 0), .valid = KR_SET_SIZE};
	char path[128];
	struct stat now;
	uint64_t id;

	snprintf(path, sizeof(path), "%s/f", f->export_path);
	assert_int_equal(truncate(path, 100), 0);
	assert_int_equal(
		node_call(other, KR_MSG_OPEN, &(struct kr_open_request){.file = cut.file, .flags = KR_OPEN_BOTH}, NULL),
		0);
	id = node_send(node, KR_MSG_SETATTR, &cut);
	node_asked(other, KR_MSG_RECALL);       /* it is to hear of the cut, which has been made */
	assert_int_equal(truncate(path, 5), 0); /* as somebody's write would */
	assert_false(is_answered(node, id));
	restart_as_killed(f, (struct node *[]){node, other}, 2);
	assert_int_equal(resend(node, id, KR_MSG_SETATTR, &cut), 0);
	assert_int_equal(stat(path, &now), 0);
	assert_int_equal(now.st_size, 5);
}

/* The answer has the file's attributes, and so waits for a node that writes it. */
static void what_waits_for_attributes_is_not_executed_again(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *writer = joined(f, 1);
	struct kr_link_request name_it = {
		.file = create(writer, "f", KR_LEASE_WRITE), .parent = node->hello.root, .name = "g"};
	struct kr_setattr_request set = {.file = name_it.file, .valid = KR_SET_MODE, .mode = 0600};
	struct kr_remove_request remove_it = {.parent = node->hello.root, .name = "g"};
	char path[128];
	struct stat now;
	uint64_t named, changed;

	snprintf(path, sizeof(path), "%s/f", f->export_path);
	named = node_send(node, KR_MSG_LINK, &name_it);
	node_asked(writer, KR_MSG_QUERY)->answered = true; /* as far as it is concerned */
	changed = node_send(node, KR_MSG_SETATTR, &set);
	node_asked(writer, KR_MSG_QUERY);
	assert_int_equal(node_call(writer, KR_MSG_REMOVE, &remove_it, NULL), 0);
	assert_int_equal(chmod(path, 0640), 0);
	assert_false(is_answered(node, named) || is_answered(node, changed));
	restart_as_killed(f, (struct node *[]){node, writer}, 2);
	assert_int_equal(resend(node, named, KR_MSG_LINK, &name_it), 0);
	assert_int_equal(resend(node, changed, KR_MSG_SETATTR, &set), 0);
	assert_int_equal(lookup(writer, "g", NULL), -ENOENT);
	assert_int_equal(stat(path, &now), 0);
	assert_int_equal(now.st_mode & 07777, 0640);
}

static void what_another_has_made_is_not_taken_for_ones_own(void **state)
{
	struct fixture *f = *state;
	struct node *const nodes[2] = {joined(f, 0), joined(f, 1)};
	struct node *one = nodes[0], *other = nodes[1];
	const struct kr_cred cred = {.uid = getuid(), .gid = getgid()};
	struct kr_make_request make = {
		.parent = one->hello.root, .name = "lock", .mode = S_IFDIR | 0755, .target = "", .cred = cred};
	struct kr_make_request theirs = make, passed_on = make;
	struct kr_create_request exclusive = {
		.parent = one->hello.root, .name = "x", .mode = 0644, .exclusive = 1, .cred = cred};
	struct kr_remove_request remove_it = {
		.parent = one->hello.root, .name = "passed on", .directory = 1, .cred = cred};
	uint64_t unsent = one->next_id, refused, made;

	one->next_id += 3; /* on their way, and never there */
	theirs.name = "theirs";
	passed_on.name = "passed on";
	assert_int_equal(node_call(other, KR_MSG_MAKE, &make, NULL), 0);
	assert_int_equal(node_call(other, KR_MSG_MAKE, &theirs, NULL), 0);
	assert_int_equal(node_call(other, KR_MSG_CREATE, &exclusive, NULL), 0);
	refused = node_send(one, KR_MSG_MAKE, &make);
	assert_int_equal(node_result(one, refused, NULL), -EEXIST);
	made = node_send(one, KR_MSG_MAKE, &passed_on);
	assert_int_equal(node_result(one, made, NULL), 0);
	assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove_it, NULL), 0);
	assert_int_equal(node_call(other, KR_MSG_MAKE, &passed_on, NULL), 0);
	remove_it.name = "theirs";
	assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove_it, NULL), 0);

	restart(f, nodes, 2);
	assert_int_equal(resend(one, unsent, KR_MSG_MAKE, &make), -EEXIST);
	assert_int_equal(resend(one, unsent + 1, KR_MSG_CREATE, &exclusive), -EEXIST);
	assert_int_equal(resend(one, unsent + 2, KR_MSG_REMOVE, &remove_it), -ENOENT);
	assert_int_equal(resend(one, refused, KR_MSG_MAKE, &make), -EEXIST);
	assert_int_equal(resend(one, made, KR_MSG_MAKE, &passed_on), -EEXIST);
}

static void what_another_has_made_meanwhile_is_not_of_a_node_that_was_cut_off(void **state)
{
	struct fixture *f = *state;
	struct node *one = joined(f, 0), *other = joined(f, 1);
	struct kr_make_request make = {.parent = one->hello.root,
		.name = "own",
		.mode = S_IFDIR | 0755,
		.target = "",
		.cred = {.uid = getuid(), .gid = getgid()}};
	uint64_t unsent = one->next_id++, made = node_send(one, KR_MSG_MAKE, &make), again;

	assert_int_equal(node_result(one, made, NULL), 0);
	again = node_send(one, KR_MSG_MAKE, &make);
	assert_int_equal(node_result(one, again, NULL), -EEXIST);
	node_disconnect(one);
	while (f->server.sessions->count > 1)
		a_moment_later(f, other);
	make.name = "lock";
	assert_int_equal(node_call(other, KR_MSG_MAKE, &make, NULL), 0);
	assert_int_equal(node_hello(one, true), 0);
	assert_int_equal(one->hello.late, 1);
	assert_int_equal(node_call(one, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_int_equal(resend(one, unsent, KR_MSG_MAKE, &make), -EEXIST);
	make.name = "own";
	assert_int_equal(resend(one, made, KR_MSG_MAKE, &make), 0);
	assert_int_equal(resend(one, again, KR_MSG_MAKE, &make), -EEXIST);
}

static void what_was_made_and_moved_away_is_not_made_again(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	const struct kr_cred cred = {.uid = getuid(), .gid = getgid()};
	struct kr_make_request make = {
		.parent = node->hello.root, .name = "d", .mode = S_IFDIR | 0755, .target = "", .cred = cred};
	struct kr_create_request exclusive = {
		.parent = node->hello.root, .name = "x", .mode = 0644, .exclusive = 1, .cred = cred};
	uint64_t made = node_send(node, KR_MSG_MAKE, &make), created = node_send(node, KR_MSG_CREATE, &exclusive);

	assert_int_equal(node_result(node, made, NULL), 0);
	assert_int_equal(node_result(node, created, NULL), 0);
	assert_int_equal(rename(in_export(f, "d"), in_export(f, "moved d")), 0);
	assert_int_equal(rename(in_export(f, "x"), in_export(f, "moved x")), 0);
	restart(f, &node, 1);
	assert_int_equal(resend(node, made, KR_MSG_MAKE, &make), -ENOENT);
	assert_int_equal(resend(node, created, KR_MSG_CREATE, &exclusive), -ENOENT);
	assert_int_equal(lookup(node, "d", NULL), -ENOENT);
	assert_int_equal(lookup(node, "x", NULL), -ENOENT);
}

static void extended_attributes_are_set_once(void **state)
{
	struct fixture *f = *state;
	struct node *const nodes[2] = {joined(f, 0), joined(f, 1)};
	struct node *one = nodes[0], *other = nodes[1];
	struct kr_fid fid = create(one, "f", 0);
	struct kr_setxattr_request set = {.file = fid, .name = "user.k", .value = {(const uint8_t *)"a", 1}};
	struct kr_removexattr_request clear = {.file = fid, .name = "user.gone"};
	struct kr_getxattr_request get = {.file = fid, .name = "user.k"}; /* its length */
	const union kr_any_msg *reply;
	uint64_t set_id = node_send(one, KR_MSG_SETXATTR, &set), cleared;

	assert_int_equal(node_result(one, set_id, NULL), 0);
	set.name = "user.gone";
	assert_int_equal(node_call(one, KR_MSG_SETXATTR, &set, NULL), 0);
	cleared = node_send(one, KR_MSG_REMOVEXATTR, &clear);
	assert_int_equal(node_result(one, cleared, NULL), 0);
	set.value = (struct kr_bytes){(const uint8_t *)"later", 5};
	assert_int_equal(node_call(other, KR_MSG_SETXATTR, &set, NULL), 0);
	set.name = "user.k";
	assert_int_equal(node_call(other, KR_MSG_SETXATTR, &set, NULL), 0);

	restart(f, nodes, 2);
	set.value.length = 1;
	assert_int_equal(resend(one, set_id, KR_MSG_SETXATTR, &set), 0);
	assert_int_equal(resend(one, cleared, KR_MSG_REMOVEXATTR, &clear), 0);
	assert_int_equal(node_call(one, KR_MSG_GETXATTR, &get, &reply), 0);
	assert_int_equal(reply->getxattr_reply.length, 5);
	get.name = "user.gone";
	assert_int_equal(node_call(one, KR_MSG_GETXATTR, &get, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(what_was_executed_is_not_executed_again_by_the_next_instance),
		TEST(a_truncation_is_not_repeated_by_the_next_instance),
		TEST(what_an_earlier_instance_executed_counts_as_done),
		TEST(what_others_built_on_before_it_was_answered_is_not_executed_again),
		TEST(a_cut_that_others_built_on_before_it_was_answered_is_not_made_again),
		TEST(what_waits_for_attributes_is_not_executed_again),
		TEST(what_another_has_made_is_not_taken_for_ones_own),
		TEST(what_another_has_made_meanwhile_is_not_of_a_node_that_was_cut_off),
		TEST(what_was_made_and_moved_away_is_not_made_again),
		TEST(extended_attributes_are_set_once),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server_former", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Names that were being changed when kairand was killed: made once, and by whom it is told. */
#include "test/unit/server/recovery/former_fixture.h"

#include <signal.h>

#include "common/base/log.h"

static void who_was_killed_before_its_turn_has_not_made_what_another_has(void **state)
{
	struct fixture *f = *state;
	struct node *const nodes[2] = {joined(f, 0), joined(f, 1)};
	const struct kr_cred cred = {.uid = getuid(), .gid = getgid()};
	struct kr_make_request make = {
		.parent = nodes[0]->hello.root, .mode = S_IFDIR | 0755, .target = "", .cred = cred};
	struct kr_create_request exclusive = {
		.parent = nodes[0]->hello.root, .name = "x", .mode = 0644, .exclusive = 1, .cred = cred};
	struct kr_executed_key key;
	uint64_t waited, behind, raced, created, executed;
	char made[128];

	waited = begun(f, nodes[0], &key);
	behind = begun(f, nodes[0], &key);
	created = begun(f, nodes[0], &key);
	raced = in_turn(f, nodes[0], NULL);
	executed = in_turn(f, nodes[0], NULL);
	make_dir(nodes[1], &make, "lock");
	assert_int_equal(node_call(nodes[1], KR_MSG_CREATE, &exclusive, NULL), 0);
	snprintf(made, sizeof(made), "%s/made", f->export_path);
	assert_int_equal(mkdir(made, 0755), 0); /* as it would have */

	restart(f, nodes, 2);
	make.name = "lock";
	assert_int_equal(resend(nodes[0], waited, KR_MSG_MAKE, &make), -EEXIST);
	assert_int_equal(resend(nodes[0], raced, KR_MSG_MAKE, &make), -EEXIST);
	assert_int_equal(resend(nodes[0], created, KR_MSG_CREATE, &exclusive), -EEXIST);
	make.name = "made";
	assert_int_equal(resend(nodes[0], behind, KR_MSG_MAKE, &make), -EEXIST);
	assert_int_equal(resend(nodes[0], executed, KR_MSG_MAKE, &make), 0);
}

static void who_was_killed_in_its_turn_takes_nothing_from_others(void **state)
{
	struct fixture *f = *state;
	struct node *const nodes[2] = {joined(f, 0), joined(f, 1)};
	struct kr_make_request make = {.parent = nodes[0]->hello.root, .mode = S_IFDIR | 0755, .target = ""};
	struct kr_remove_request remove_it = {.parent = make.parent, .name = "lock", .directory = 1};
	struct kr_rename_request move = {
		.parent = make.parent, .name = "from", .new_parent = make.parent, .new_name = "to"};
	struct kr_rename_request swap = {
		.parent = make.parent, .name = "one", .new_parent = make.parent, .new_name = "other", .flags = 2};
	struct kr_fid lock = make_dir(nodes[1], &make, "lock"), from = make_dir(nodes[1], &make, "from"),
		      one = make_dir(nodes[1], &make, "one");
	uint64_t removed = in_turn(f, nodes[0], &lock), moved = in_turn(f, nodes[0], &from),
		 swapped = in_turn(f, nodes[0], &one), again;
	const union kr_any_msg *reply;

	make_dir(nodes[1], &make, "other");
	assert_int_equal(node_call(nodes[1], KR_MSG_REMOVE, &remove_it, NULL), 0); /* as the first did */
	assert_int_equal(node_call(nodes[1], KR_MSG_RENAME, &move, NULL), 0);
	assert_int_equal(node_call(nodes[1], KR_MSG_RENAME, &swap, NULL), 0);

	restart(f, nodes, 2);
	lock = make_dir(nodes[1], &make, "lock");
	make_dir(nodes[1], &make, "from");
	assert_int_equal(resend(nodes[0], removed, KR_MSG_REMOVE, &remove_it), 0);
	assert_int_equal(resend(nodes[0], moved, KR_MSG_RENAME, &move), 0);
	assert_int_equal(resend(nodes[0], swapped, KR_MSG_RENAME, &swap), 0);
	assert_int_equal(lookup(nodes[1], "lock", NULL), 0);
	assert_int_equal(lookup(nodes[1], "from", NULL), 0);
	assert_int_equal(lookup(nodes[1], "other", &reply), 0);
	assert_true(kr_fid_equal(&reply->lookup_reply.file, &one));

	again = in_turn(f, nodes[0], &lock); /* and was killed before it did what it was about to do */
	restart(f, nodes, 2);
	assert_int_equal(resend(nodes[0], again, KR_MSG_REMOVE, &remove_it), 0);
	assert_int_equal(lookup(nodes[1], "lock", NULL), -ENOENT);
}

static void who_was_killed_in_its_turn_cuts_nothing_of_others(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_create_request anew = {.parent = node->hello.root,
		.name = "f",
		.mode = 0644,
		.flags = KR_OPEN_BOTH | KR_OPEN_TRUNC,
		.cred = {.uid = getuid(), .gid = getgid()}};
	uint64_t id = in_turn(f, node, NULL);
	char path[128];
	struct stat now;

	create(node, "f", 0);
	snprintf(path, sizeof(path), "%s/f", f->export_path);
	assert_int_equal(truncate(path, 5), 0); /* as another's write would, after the restart */
	restart(f, &node, 1);
	assert_int_equal(resend(node, id, KR_MSG_CREATE, &anew), 0);
	assert_int_equal(stat(path, &now), 0);
	assert_int_equal(now.st_size, 5);
}

/* What is done to the export directly here, is done by the killed instance in its last instant. */
static void what_was_killed_in_its_turn_is_told_before_others_take_names_away(void **state)
{
	struct fixture *f = *state;
	struct node *const nodes[2] = {joined(f, 0), joined(f, 1)};
	struct node *one = nodes[0], *other = nodes[1];
	struct kr_make_request make = {.parent = one->hello.root, .mode = S_IFDIR | 0755, .target = ""};
	struct kr_remove_request remove_it = {.parent = make.parent, .name = "token", .directory = 1};
	struct kr_rename_request move = {
		.parent = make.parent, .name = "stays", .new_parent = make.parent, .new_name = "taken"};
	struct kr_rename_request moved = {.parent = make.parent,
					 .name = "from",
					 .new_parent = make.parent,
					 .new_name = "to"},
				 back = moved;
	struct kr_fid token = make_dir(other, &make, "token"), stays = make_dir(other, &make, "stays"),
		      from = make_dir(other, &make, "from");
	uint64_t not_removed, not_moved, was_moved;

	if (!has_handles(f))
		skip();
	not_removed = in_turn_of(f, one,
		(struct kr_intent_change){.kind = KR_INTENT_REMOVE, .name = "token", .before = kr_fid_hash(&token)});
	not_moved = in_turn_of(f, one,
		(struct kr_intent_change){
			.kind = KR_INTENT_RENAME, .name = "stays", .before = kr_fid_hash(&stays), .new_name = "taken"});
	was_moved = in_turn_of(f, one,
		(struct kr_intent_change){
			.kind = KR_INTENT_RENAME, .name = "from", .before = kr_fid_hash(&from), .new_name = "to"});
	assert_int_equal(rename(in_export(f, "from"), in_export(f, "to")), 0);
	restart(f, nodes, 2);

	assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove_it, NULL), 0);
	assert_int_equal(
		resend(one, not_removed, KR_MSG_REMOVE, &remove_it), -ENOENT); /* who has removed it has the token */
	remove_it.name = "stays";
	assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove_it, NULL), 0);
	make_dir(other, &make, "taken");
	assert_int_equal(resend(one, not_moved, KR_MSG_RENAME, &move), -ENOENT);
	back.name = "to";
	back.new_name = "from";
	assert_int_equal(node_call(other, KR_MSG_RENAME, &back, NULL), 0);
	assert_int_equal(resend(one, was_moved, KR_MSG_RENAME, &moved), 0);
	assert_int_equal(lookup(other, "from", NULL), 0);
	assert_int_equal(lookup(other, "to", NULL), -ENOENT);
}

static void what_was_killed_in_its_turn_is_told_before_others_make_the_same(void **state)
{
	struct fixture *f = *state;
	struct node *const nodes[2] = {joined(f, 0), joined(f, 1)};
	struct node *one = nodes[0], *other = nodes[1];
	struct kr_fid fid = create(other, "f", 0);
	struct kr_link_request link_it = {.file = fid, .parent = one->hello.root, .name = "link"}, linked = link_it;
	struct kr_make_request make = {.parent = one->hello.root,
		.name = "made",
		.mode = S_IFDIR | 0755,
		.target = "",
		.cred = {.uid = getuid() + 1}};
	struct kr_remove_request remove_it = {.parent = one->hello.root, .name = "linked"};
	uint64_t not_linked, was_linked, made, moved, not_made;

	if (!has_handles(f))
		skip();
	linked.name = "linked";
	not_linked = in_turn_of(
		f, one, (struct kr_intent_change){.kind = KR_INTENT_LINK, .name = "link", .other = kr_fid_hash(&fid)});
	was_linked = in_turn_of(f, one,
		(struct kr_intent_change){.kind = KR_INTENT_LINK, .name = "linked", .other = kr_fid_hash(&fid)});
	made = in_turn_of(f, one, (struct kr_intent_change){.kind = KR_INTENT_MAKE, .type = S_IFDIR, .name = "made"});
	moved = in_turn_of(f, one, (struct kr_intent_change){.kind = KR_INTENT_MAKE, .type = S_IFDIR, .name = "moved"});
	not_made = in_turn_of(
		f, one, (struct kr_intent_change){.kind = KR_INTENT_MAKE, .type = S_IFDIR, .name = "not made"});
	assert_int_equal(link(in_export(f, "f"), in_export(f, "linked")), 0);
	assert_int_equal(mkdir(in_export(f, "made"), 0755),
		0); /* of another owner than it could be, and so nobody would take it for its own */
	assert_int_equal(mkdir(in_export(f, "moved"), 0755), 0);
	restart(f, nodes, 2);

	assert_int_equal(node_call(other, KR_MSG_LINK, &link_it, NULL), 0);
	assert_int_equal(resend(one, not_linked, KR_MSG_LINK, &link_it), -EEXIST);
	assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove_it, NULL), 0);
	assert_int_equal(resend(one, was_linked, KR_MSG_LINK, &linked), 0);
	assert_int_equal(lookup(other, "linked", NULL), -ENOENT);
	assert_int_equal(resend(one, made, KR_MSG_MAKE, &make), 0);
	assert_int_equal(rename(in_export(f, "moved"), in_export(f, "elsewhere")), 0);
	make.name = "moved";
	assert_int_equal(resend(one, moved, KR_MSG_MAKE, &make), -ENOENT);
	make.name = "not made";
	make.cred.uid = getuid();
	assert_int_equal(mkdir(in_export(f, "not made"), 0755), 0); /* as it would have */
	assert_int_equal(resend(one, not_made, KR_MSG_MAKE, &make), -EEXIST);
}

/* The directory was removed right after, by another thread, in the same instance. */
static void what_was_killed_in_its_turn_is_told_of_a_directory_that_is_gone(void **state)
{
	struct fixture *f = *state;
	struct node *const nodes[2] = {joined(f, 0), joined(f, 1)};
	struct node *one = nodes[0], *other = nodes[1];
	struct kr_make_request make = {.parent = one->hello.root, .mode = S_IFDIR | 0755, .target = ""}, within = make;
	struct kr_fid sub = make_dir(other, &make, "sub"), moved, removed;
	struct kr_rename_request move = {
		.parent = sub, .name = "moved", .new_parent = make.parent, .new_name = "moved"};
	struct kr_remove_request remove_it = {.parent = sub, .name = "removed", .directory = 1};
	uint64_t was_moved, was_removed;

	if (!has_handles(f))
		skip();
	within.parent = sub;
	moved = make_dir(other, &within, "moved");
	removed = make_dir(other, &within, "removed");
	was_moved = in_turn_of(f, one,
		(struct kr_intent_change){.kind = KR_INTENT_RENAME,
			.parent = &sub,
			.name = "moved",
			.before = kr_fid_hash(&moved),
			.new_name = "moved"});
	was_removed = in_turn_of(f, one,
		(struct kr_intent_change){
			.kind = KR_INTENT_REMOVE, .parent = &sub, .name = "removed", .before = kr_fid_hash(&removed)});
	assert_int_equal(rename(in_export(f, "sub/moved"), in_export(f, "moved")), 0);
	assert_int_equal(rmdir(in_export(f, "sub/removed")), 0);
	assert_int_equal(rmdir(in_export(f, "sub")), 0);
	restart(f, nodes, 2);
	assert_int_equal(resend(one, was_moved, KR_MSG_RENAME, &move), 0);
	assert_int_equal(resend(one, was_removed, KR_MSG_REMOVE, &remove_it), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(who_was_killed_before_its_turn_has_not_made_what_another_has),
		TEST(who_was_killed_in_its_turn_takes_nothing_from_others),
		TEST(who_was_killed_in_its_turn_cuts_nothing_of_others),
		TEST(what_was_killed_in_its_turn_is_told_before_others_take_names_away),
		TEST(what_was_killed_in_its_turn_is_told_before_others_make_the_same),
		TEST(what_was_killed_in_its_turn_is_told_of_a_directory_that_is_gone),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server_killed", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The files that are made for late bytes which are in conflict: by what name, where, and for whom. */
#include "test/unit/server/recovery/late_fixture.h"

#include "common/base/log.h"

static int ask(struct node *node, const struct kr_fid *fid, const char *path, const struct kr_conflict_reply **ret)
{
	struct kr_conflict_request msg = {.file = *fid,
		.first = 5,
		.last = 9,
		.path = path,
		.written = {.sec = 1000000000},
		.mode = S_IFREG | 0640};
	const union kr_any_msg *reply;
	int err = node_call(node, KR_MSG_CONFLICT, &msg, &reply);

	*ret = &reply->conflict_reply;
	return err;
}

#define CONFLICT_NAME "f.conflict-node-20010909T014640Z"

static const char *in_export(struct fixture *f, const char *name)
{
	static char paths[4][400]; /* a call may need two */
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", f->export_path, name);
	return path;
}

/* NODE is late on "f", others have changed it. */
static struct kr_fid conflict_at(struct fixture *f, struct node *node, struct node *other)
{
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	overtake(f, node, other, &fid);
	assert_true(in_conflict(node, &fid, just_now()));
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	return fid;
}

static void nobody_gets_a_conflict_file_without_a_conflict(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = conflict_at(f, node, other);
	const struct kr_conflict_reply *made;
	struct kr_conflict_request later = {.file = fid, .first = 10, .last = 12, .path = "f"},
				   odd = {.file = fid, .first = 3, .last = 1, .path = ""};

	assert_int_equal(ask(other, &fid, "f", &made), -EPERM);
	assert_int_equal(node_call(node, KR_MSG_CONFLICT, &later, NULL), -EPERM);
	assert_int_equal(node_call(node, KR_MSG_CONFLICT, &odd, NULL), -EINVAL);
	assert_int_equal(access(in_export(f, CONFLICT_NAME), F_OK), -1);
}

static void a_conflict_file_has_no_date_that_is_still_to_come(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = conflict_at(f, node, other);
	struct kr_conflict_request msg = {
		.file = fid, .first = 5, .last = 9, .path = "f", .written = {.sec = INT64_MAX}};
	const union kr_any_msg *reply;
	const time_t before = time(NULL);
	struct tm utc = {0};
	time_t told;

	assert_int_equal(node_call(node, KR_MSG_CONFLICT, &msg, &reply), 0);
	assert_non_null(strptime(reply->conflict_reply.place, "f.conflict-node-%Y%m%dT%H%M%SZ", &utc));
	told = timegm(&utc);
	assert_true(told >= before && told <= time(NULL));
}

static void a_conflict_file_is_made_once_beside_the_original(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = conflict_at(f, node, other), first;
	const struct kr_conflict_reply *made;
	struct stat stat;

	assert_int_equal(chmod(in_export(f, "f"), 0604), 0);
	assert_int_equal(ask(node, &fid, "f", &made), 0);
	first = made->target;
	assert_int_equal(lstat(in_export(f, CONFLICT_NAME), &stat), 0);
	assert_int_equal(stat.st_mode, S_IFREG | 0604);
	assert_int_equal(stat.st_size, 0);
	assert_int_equal(ask(node, &fid, "f", &made), 0);
	assert_true(kr_fid_equal(&made->target, &first));
	node_disconnect(node);
	stop_server(f);
	start_server(f);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	while (f->server.sessions->grace.active)
		a_moment_later(f, node);
	assert_int_equal(rename(in_export(f, CONFLICT_NAME), in_export(f, "renamed")), 0);
	assert_int_equal(ask(node, &fid, "f", &made), 0);
	assert_true(kr_fid_equal(&made->target, &first));
	assert_int_equal(access(in_export(f, CONFLICT_NAME), F_OK), -1);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
}

static void a_name_that_is_taken_gets_a_number(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = conflict_at(f, node, other);
	const struct kr_conflict_reply *made;

	assert_int_equal(mkdir(in_export(f, CONFLICT_NAME), 0700), 0);
	assert_int_equal(ask(node, &fid, "f", &made), 0);
	assert_int_equal(access(in_export(f, CONFLICT_NAME "-2"), F_OK), 0);
}

static void a_renamed_file_has_its_conflict_file_where_it_is_now(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = conflict_at(f, node, other);
	const struct kr_conflict_reply *made;

	assert_int_equal(mkdir(in_export(f, "a"), 0700), 0);
	assert_int_equal(mkdir(in_export(f, "a/b"), 0700), 0);
	assert_int_equal(rename(in_export(f, "f"), in_export(f, "a/b/new")), 0);
	assert_int_equal(ask(node, &fid, "f", &made), 0);
	assert_int_equal(access(in_export(f, "a/b/new.conflict-node-20010909T014640Z"), F_OK), 0);
}

static void an_unnamed_path_does_not_hide_where_the_file_is(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = conflict_at(f, node, other);
	const struct kr_conflict_reply *made;

	assert_int_equal(ask(node, &fid, "../.././/..", &made), 0);
	assert_int_equal(access(in_export(f, CONFLICT_NAME), F_OK), 0);
}

/* The file is gone: RECLAIM says STALE, and that is a conflict too. */
static struct kr_fid removed(struct fixture *f, struct node *node, struct node *other, const char *path)
{
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	lose(f, node, other);
	if (strcmp(path, "f") != 0)
		assert_int_equal(rename(in_export(f, "f"), in_export(f, path)), 0);
	assert_int_equal(unlink(in_export(f, path)), 0);
	back(node);
	assert_int_equal(node_result(node, send_reclaim(node, &fid, just_now()), NULL), -ESTALE);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	return fid;
}

static void bytes_of_a_removed_file_go_where_it_was(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = removed(f, node, other, "f");
	const struct kr_conflict_reply *made;
	struct stat stat;

	assert_int_equal(ask(node, &fid, "f", &made), 0);
	assert_int_equal(lstat(in_export(f, CONFLICT_NAME), &stat), 0);
	assert_int_equal(stat.st_mode, S_IFREG | 0640); /* as the node knew it */
}

static void bytes_of_a_removed_directory_go_where_the_administrator_finds_them(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	const struct kr_conflict_reply *made;
	struct kr_fid fid;

	assert_int_equal(mkdir(in_export(f, "d"), 0700), 0);
	fid = removed(f, node, other, "d/f");
	assert_int_equal(rmdir(in_export(f, "d")), 0);
	/* Who removed it has not spared the server's own directory. */
	assert_int_equal(rmdir(in_export(f, ".kairan/orphans")), 0);
	assert_int_equal(unlink(in_export(f, ".kairan/server")), 0);
	assert_int_equal(rmdir(in_export(f, ".kairan")), 0);
	assert_int_equal(ask(node, &fid, "d/f", &made), 0);
	assert_int_equal(access(in_export(f, ".kairan/conflicts/" CONFLICT_NAME), F_OK), 0);
}

/* ONE, which holds WRITE of FID, and TWO come back late with bytes of it, when OTHER has changed it. */
static void conflict_of_two(
	struct fixture *f, struct node *one, struct node *two, struct node *other, const struct kr_fid *fid)
{
	assert_int_equal(node_result(two, send_lease(two, fid, KR_LEASE_WRITE), NULL), 0);
	node_disconnect(two);
	lose(f, one, other);
	while (f->server.sessions->lost < 2)
		a_moment_later(f, other);
	cut(other, fid, 7);
	back(one);
	assert_true(in_conflict(one, fid, just_now()));
	back(two);
	assert_true(in_conflict(two, fid, just_now()));
	assert_int_equal(node_call(one, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_int_equal(node_call(two, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
}

/* To find an original may take long, and who asks again and again could keep others waiting. */
static void conflict_files_are_made_for_each_node_in_turn(void **state)
{
	enum { MANY = 50 };
	struct fixture *f = *state;
	struct node *one = joined(f, 0), *two = joined(f, 1), *other = joined(f, 2);
	struct kr_fid fid = create(one, "f", KR_LEASE_WRITE);
	struct kr_conflict_request msg = {.file = fid, .first = 5, .last = 9, .path = "f"};
	uint64_t ids[MANY], id;

	conflict_of_two(f, one, two, other, &fid);
	for (int i = 0; i < MANY; i++)
		ids[i] = node_send(one, KR_MSG_CONFLICT, &msg);
	id = node_send(two, KR_MSG_CONFLICT, &msg);
	assert_int_equal(node_result(two, id, NULL), 0);
	assert_false(is_answered(one, ids[MANY - 1]));
	assert_int_equal(node_result(one, ids[MANY - 1], NULL), 0);
}

static void two_late_nodes_get_a_file_each(void **state)
{
	struct fixture *f = *state;
	struct node *one = joined(f, 0), *two = joined(f, 1), *other = joined(f, 2);
	struct kr_fid fid = create(one, "f", KR_LEASE_WRITE), first;
	const struct kr_conflict_reply *made;

	conflict_of_two(f, one, two, other, &fid);
	assert_int_equal(ask(one, &fid, "f", &made), 0);
	first = made->target;
	assert_int_equal(ask(two, &fid, "f", &made), 0);
	assert_false(kr_fid_equal(&made->target, &first));
	assert_int_equal(access(in_export(f, CONFLICT_NAME "-2"), F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(nobody_gets_a_conflict_file_without_a_conflict),
		TEST(a_conflict_file_has_no_date_that_is_still_to_come),
		TEST(a_conflict_file_is_made_once_beside_the_original),
		TEST(a_name_that_is_taken_gets_a_number),
		TEST(a_renamed_file_has_its_conflict_file_where_it_is_now),
		TEST(an_unnamed_path_does_not_hide_where_the_file_is),
		TEST(bytes_of_a_removed_file_go_where_it_was),
		TEST(bytes_of_a_removed_directory_go_where_the_administrator_finds_them),
		TEST(two_late_nodes_get_a_file_each),
		TEST(conflict_files_are_made_for_each_node_in_turn),
	};

	kr_log_init("test_conflict_files", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Rounds of simulated nodes, and changes that no journal has (cuts), on stable storage at the server: what is answered
 * before, and what if a sync fails.
 */
#include "test/unit/server/flush/data_fixture.h"

#include "server/flush/data_state.h"
#include "server/leases/file_table.h"

static void fsync_answers_when_all_is_synced(void **state)
{
	static const struct kr_range extents[] = {{0, 100}};
	struct node *node = node_start("n1");
	struct kr_fsync_request msg = {.flags = KR_FSYNC_DATA};

	(void)state;
	msg.file = node->file = create_file(node, "file");
	node->extents = extents;
	node->extent_count = 1;
	node->inlined = true;
	node->generation = 1;
	flush_and_wait(node);
	assert_int_equal(node_call(node, KR_MSG_FSYNC, &msg), 0);
	wait_until(node->stable >= node->flush_reply.round);
}

#ifdef KR_FAULTS
/* Runs the test FILTER of this program again, with FAULT in the environment (it is read once per process). */
static int run(const char *filter, const char *fault)
{
	char self[256], command[512];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

	assert_true(length > 0);
	self[length] = 0;
	snprintf(command, sizeof command, "KR_FAULT=%s KR_TEST_FILTER='%s' timeout -s KILL 300 '%s' > /dev/null 2>&1",
		fault, filter, self);
	return system(command);
}

static void run_with_fault(const char *filter, const char *fault)
{
	assert_int_equal(run(filter, fault), 0);
}

/* ... whoever passes POINT is held there until the test says let_go. */
static void run_with_hold(const char *filter, const char *point)
{
	char path[] = "/tmp/kairan-hold-XXXXXX", fault[64];
	int fd = mkstemp(path), status;

	assert_true(fd >= 0);
	dprintf(fd, "%s:hold", point);
	close(fd);
	snprintf(fault, sizeof fault, "@%s", path);
	status = run(filter, fault);
	unlink(path); /* a test that has failed has not let go */
	assert_int_equal(status, 0);
}

static void let_go(void)
{
	assert_int_equal(unlink(getenv("KR_FAULT") + 1), 0);
}
#endif

static void failed_sync_is_told_to_nodes_and_fsync_and_not_forgotten(void **state)
{
#ifdef KR_FAULTS
	static const struct kr_range extents[] = {{0, 100}};
	struct kr_fsync_request msg = {.flags = KR_FSYNC_DATA};
	struct node *node;
	uint64_t lost;

	(void)state;
	if (!getenv("KR_FAULT")) {
		run_with_fault("failed_sync*", "stable.before:eio:1");
		return;
	}
	node = node_start("n1");
	msg.file = node->file = create_file(node, "file");
	node->extents = extents;
	node->extent_count = 1;
	node->inlined = true;
	node->generation = 1;
	flush_and_wait(node);
	lost = node->flush_reply.round;
	assert_int_equal(node_call(node, KR_MSG_FSYNC, &msg), -EIO);
	wait_until(node->unstable == 1);
	assert_int_equal(node_call(node, KR_MSG_FSYNC, &msg), 0);
	assert_true(node->stable < lost);
	flush_and_wait(node);
	assert_int_equal(node_call(node, KR_MSG_FSYNC, &msg), 0);
	wait_until(node->stable >= node->flush_reply.round);
#else
	(void)state;
	skip();
#endif
}

/* A node with 100 bytes in a round that is not synced. */
static struct node *node_with_a_round(void)
{
	static const struct kr_range extents[] = {{0, 100}};
	struct node *node = node_start("n1");

	node->file = create_file(node, "file");
	node->extents = extents;
	node->extent_count = 1;
	node->inlined = true;
	node->generation = 1;
	flush_and_wait(node);
	return node;
}

enum { SET_SIZE = 8, OPEN_TRUNC = 1 | 4 }; /* as in server/export/export.h */
/* The ways to take all bytes away. */
static int cut_by(struct node *node, unsigned way)
{
	struct kr_setattr_request setattr = {.valid = SET_SIZE, .file = node->file};
	struct kr_open_request open = {.file = node->file, .flags = OPEN_TRUNC};
	struct kr_create_request create = {
		.parent = node->root, .name = "file", .mode = S_IFREG | 0644, .flags = OPEN_TRUNC};
	struct kr_fallocate_request punch = {.file = node->file, .mode = 3, .length = 100};

	switch (way) {
	case 0:
		return node_call(node, KR_MSG_SETATTR, &setattr);
	case 1:
		return node_call(node, KR_MSG_OPEN, &open);
	case 2:
		return node_call(node, KR_MSG_CREATE, &create);
	default:
		return node_call(node, KR_MSG_FALLOCATE, &punch);
	}
}
enum { CUTS = 4, PUNCH = 3 };

static uint64_t syncs_of(struct node *node, unsigned way)
{
	uint64_t before = F.server.data->counters.syncs;

	assert_int_equal(cut_by(node, way), 0);
	return F.server.data->counters.syncs - before;
}

static void what_no_journal_has_is_synced_before_it_is_answered(void **state)
{
	struct kr_fsync_request fsync = {0};
	struct kr_copy_request copy = {.length = 1000};
	struct node *node = node_with_a_round();
	uint64_t before;

	(void)state;
	F.server.data->inherited = false; /* there was no instance before, so nobody else has a round */
	F.server.data->raised_ns = 0;
	wait_until(F.server.data->synced.floor.round >= node->flush_reply.round);
	fsync.file = copy.from = node->file;
	for (unsigned way = 0; way < CUTS; way++) {
		flush_and_wait(node);
		assert_int_equal(node_call(node, KR_MSG_FSYNC, &fsync), 0);
		assert_int_equal(syncs_of(node, way), 1);
		if (way != PUNCH)
			assert_int_equal(syncs_of(node, way), 0); /* there is nothing to cut any more */
	}
	copy.to = create_file(node, "copy");
	before = F.server.data->counters.syncs;
	assert_int_equal(node_call(node, KR_MSG_COPY, &copy), 0);
	assert_int_equal(F.server.data->counters.syncs, before + 1);
	copy.from_offset = 100;
	assert_int_equal(node_call(node, KR_MSG_COPY, &copy), 0);
	assert_int_equal(F.server.data->counters.syncs, before + 1); /* nothing was copied */
}

static uint64_t server_size(const char *name)
{
	size_t length;

	free(server_bytes(name, &length));
	return length;
}

static unsigned generation_1(uint64_t offset)
{
	(void)offset;
	return 1;
}

/* Else the node, which has its bytes still, would bring them into what was cut. */
static void what_cannot_be_synced_first_is_not_cut(void **state)
{
#ifdef KR_FAULTS
	const char *way = getenv("KR_TEST_WAY");
	char digit[2] = "0";
	struct node *node;

	(void)state;
	for (; !way && digit[0] < '0' + CUTS; digit[0]++) {
		setenv("KR_TEST_WAY", digit, 1);
		run_with_fault("what_cannot_be_synced_first*", "stable.before:eio:1");
	}
	unsetenv("KR_TEST_WAY");
	if (!way)
		return;
	node = node_with_a_round();
	assert_int_equal(cut_by(node, (unsigned)(way[0] - '0')), -EIO);
	wait_until(node->unstable == 1);
	assert_content("file", 100, generation_1);
	flush_and_wait(node); /* it is brought again, and goes in */
	assert_int_equal(cut_by(node, (unsigned)(way[0] - '0')), 0);
	assert_true(node->stable >= node->flush_reply.round);
	assert_int_equal(server_size("file"), way[0] == '0' + PUNCH ? 100 : 0);
#else
	(void)state;
	skip();
#endif
}

/* The sync had failed before anybody asked for a cut. */
static void what_nodes_are_to_bring_again_is_not_cut_before_they_have(void **state)
{
#ifdef KR_FAULTS
	const char *way = getenv("KR_TEST_WAY");
	struct node *node, *other;
	char digit[2] = "0";

	(void)state;
	for (; !way && digit[0] < '0' + CUTS; digit[0]++) {
		setenv("KR_TEST_WAY", digit, 1);
		run_with_fault("what_nodes_are_to_bring_again*", "stable.before:eio:1");
	}
	unsetenv("KR_TEST_WAY");
	if (!way)
		return;
	other = node_start("n2");
	node = node_with_a_round();
	other->file = node->file;
	node->dirty = true;
	wait_until(node->unstable == 1);
	assert_int_equal(cut_by(other, (unsigned)(way[0] - '0')), -EIO);
	assert_content("file", 100, generation_1);
	flush_and_wait(node);
	node->dirty = false;
	assert_int_equal(cut_by(other, (unsigned)(way[0] - '0')), 0);
	assert_int_equal(server_size("file"), way[0] == '0' + PUNCH ? 100 : 0);
	assert_int_equal(node->queries, 2);
	assert_int_equal(other->queries, 0);
	assert_true(syncs_of(other, (unsigned)(way[0] - '0')) < 3);
	assert_int_equal(node->queries, 2); /* it owes nothing any more */
#else
	(void)state;
	skip();
#endif
}

/* ... which it has when it has sent all it has once more, whatever it has written since. */
static void who_has_sent_all_again_and_goes_on_writing_lets_it_be_cut(void **state)
{
#ifdef KR_FAULTS
	struct node *node;

	(void)state;
	if (!getenv("KR_FAULT")) {
		run_with_fault("who_has_sent_all_again*", "stable.before:eio:1");
		return;
	}
	node = node_with_a_round();
	node->dirty = true;
	wait_until(node->unstable == 1);
	flush_and_wait(node); /* it may have been on its way then */
	assert_int_equal(cut_by(node, 0), -EIO);
	flush_and_wait(node);
	assert_int_equal(cut_by(node, 0), 0);
	assert_int_equal(server_size("file"), 0);
#else
	(void)state;
	skip();
#endif
}

/* It will be late. */
static void what_a_lost_node_was_to_bring_again_is_not_waited_for(void **state)
{
#ifdef KR_FAULTS
	struct kr_setattr_request setattr = {.valid = SET_SIZE};
	struct kr_return_request give_back = {.kinds = KR_LEASE_WRITE};
	struct node *node, *other;

	(void)state;
	if (!getenv("KR_FAULT")) {
		run_with_fault("what_a_lost_node*", "stable.before:eio:1");
		return;
	}
	other = node_start("n2");
	node = node_with_a_round();
	other->file = node->file;
	node->dirty = true;
	wait_until(node->unstable == 1);
	give_back.file = node->file;
	assert_int_equal(node_call(node, KR_MSG_RETURN, &give_back), 0);
	node_die(node);
	node->manual_reclaim = true;
	node_begin(node); /* its next session has what the first had */
	wait_until(node->live);
	assert_int_equal(cut_by(other, 0), -EIO);
	assert_int_equal(node->queries, 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL), 0);
	setattr.file = node->file;
	assert_int_equal(cut_by(other, 0), -EIO);
	node->deaf = true;
	the_answer.done = false;
	node_ask(other, KR_MSG_SETATTR, &setattr, NULL, 0, note_answer);
	wait_until(node->queries == 2);
	kr_session_end(kr_session_find(&F.server, node->session), KR_SESSION_LOST);
	wait_until(the_answer.done);
	assert_int_equal(the_answer.err, 0);
	assert_int_equal(server_size("file"), 0);
	assert_int_equal(cut_by(other, 0), 0);
	assert_int_equal(node->queries, 2);
#else
	(void)state;
	skip();
#endif
}

/* It had not answered to UNSTABLE, and comes back without a journal. */
static void a_node_that_comes_back_with_nothing_owes_nothing(void **state)
{
#ifdef KR_FAULTS
	struct node *node, *other;

	(void)state;
	if (!getenv("KR_FAULT")) {
		run_with_fault("a_node_that_comes_back_with_nothing*", "stable.before:eio:1");
		return;
	}
	other = node_start("n2");
	node = node_with_a_round();
	other->file = node->file;
	node->deaf = true;
	wait_until(node->unstable == 1);
	node_die(node);
	kr_session_end(kr_session_find(&F.server, node->session), KR_SESSION_LOST);
	node->deaf = false;
	node_begin(node);
	wait_until(node->live);
	assert_int_equal(cut_by(other, 0), 0);
	assert_int_equal(node->queries, 1);
#else
	(void)state;
	skip();
#endif
}

/* What the node is to send again it sends to the next instance. */
static void a_server_that_stops_meanwhile_does_not_cut(void **state)
{
#ifdef KR_FAULTS
	struct kr_setattr_request setattr = {.valid = SET_SIZE};
	struct node *node, *other;

	(void)state;
	if (!getenv("KR_FAULT")) {
		run_with_fault("a_server_that_stops*", "stable.before:eio:1");
		return;
	}
	node = node_with_a_round(); /* its session ends before that of the one that cuts */
	other = node_start("n2");
	setattr.file = node->file;
	node->dirty = node->deaf = true;
	wait_until(node->unstable == 1);
	node_ask(other, KR_MSG_SETATTR, &setattr, NULL, 0, note_answer);
	wait_until(node->queries == 1);
	server_stop();
	assert_content("file", 100, generation_1);
	server_start();
#else
	(void)state;
	skip();
#endif
}

static void obstruct_synced(bool obstruct)
{
	char path[96];

	snprintf(path, sizeof path, "%s/synced.new", F.state_path);
	assert_int_equal(obstruct ? mkdir(path, 0700) : rmdir(path), 0);
	if (obstruct)
		F.server.data->synced.rewrite = true;
}

/* Else what another node knows to be applied would come back with its replays after a crash. */
static void what_cannot_be_written_down_as_synced_is_not_cut(void **state)
{
	struct node *other = node_start("n2"), *node = node_with_a_round();

	(void)state;
	other->file = node->file;
	obstruct_synced(true);
	for (unsigned way = 0; way < CUTS; way++) {
		assert_int_not_equal(cut_by(other, way), 0);
		assert_content("file", 100, generation_1);
	}
	obstruct_synced(false);
	assert_int_equal(cut_by(other, 0), 0);
	assert_int_equal(server_size("file"), 0);
}

/* It tries once more, and no more: else it would be at it until it gives up, and with it this program. */
static void a_server_that_stops_does_not_wait_for_room_to_write_down_what_is_synced(void **state)
{
	struct node *node = node_with_a_round(), *other = node_start("n2");

	(void)state;
	other->file = node->file;
	other->extents = node->extents;
	other->extent_count = 1;
	other->inlined = true;
	other->generation = 2;
	flush_and_wait(other);
	obstruct_synced(true);
	server_stop();
	obstruct_synced(false);
	server_start();
}

static void what_was_asked_in_a_session_that_has_ended_is_not_cut(void **state)
{
#ifdef KR_FAULTS
	struct kr_setattr_request setattr = {.valid = SET_SIZE};
	struct kr_fsync_request fsync = {0};
	struct node *node;

	(void)state;
	if (!getenv("KR_FAULT")) {
		run_with_hold("what_was_asked_in_a_session*", "stable.before");
		return;
	}
	node = node_with_a_round();
	fsync.file = setattr.file = node->file;
	node_ask(node, KR_MSG_SETATTR, &setattr, NULL, 0, note_answer);
	wait_until(kr_sfile_find(&F.server, &node->file)->data->stable.running);
	node_die(node);
	node_begin(node); /* a session that takes the place of the first */
	wait_until(node->live);
	assert_true(kr_sfile_find(&F.server, &node->file)->data->stable.running);
	let_go();
	assert_int_equal(node_call(node, KR_MSG_FSYNC, &fsync), 0);
	assert_int_equal(server_size("file"), 100);
#else
	(void)state;
	skip();
#endif
}

static void a_cut_that_may_not_last_is_an_error_and_brings_nothing_back(void **state)
{
#ifdef KR_FAULTS
	const char *way = getenv("KR_TEST_WAY");
	char digit[2] = "0";
	struct kr_sfile *file;
	struct node *node;

	(void)state;
	for (; !way && digit[0] < '0' + CUTS; digit[0]++) {
		setenv("KR_TEST_WAY", digit, 1);
		run_with_fault("a_cut_that_may_not_last*", "stable.before:eio:2");
	}
	unsetenv("KR_TEST_WAY");
	if (!way)
		return;
	node = node_with_a_round();
	file = kr_sfile_get(&F.server, &node->file);
	assert_int_equal(cut_by(node, (unsigned)(way[0] - '0')), -EIO);
	assert_true(node->stable >= node->flush_reply.round); /* it has let go of them */
	assert_int_equal(node->unstable, 0);
	assert_int_equal(server_size("file"), way[0] == '0' + PUNCH ? 100 : 0);
	wait_until(file->opens == 1);                              /* by create_file */
	assert_true(syncs_of(node, (unsigned)(way[0] - '0')) > 0); /* also where there is nothing to cut any more */
	kr_sfile_put(file);
#else
	(void)state;
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fsync_answers_when_all_is_synced),
		TEST(failed_sync_is_told_to_nodes_and_fsync_and_not_forgotten),
		TEST(what_no_journal_has_is_synced_before_it_is_answered),
		TEST(what_cannot_be_synced_first_is_not_cut),
		TEST(what_nodes_are_to_bring_again_is_not_cut_before_they_have),
		TEST(who_has_sent_all_again_and_goes_on_writing_lets_it_be_cut),
		TEST(what_a_lost_node_was_to_bring_again_is_not_waited_for),
		TEST(a_node_that_comes_back_with_nothing_owes_nothing),
		TEST(a_server_that_stops_meanwhile_does_not_cut),
		TEST(what_cannot_be_written_down_as_synced_is_not_cut),
		TEST(a_server_that_stops_does_not_wait_for_room_to_write_down_what_is_synced),
		TEST(what_was_asked_in_a_session_that_has_ended_is_not_cut),
		TEST(a_cut_that_may_not_last_is_an_error_and_brings_nothing_back),
	};

	prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

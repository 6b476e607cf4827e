/* Files whose names go: what the server takes for gone, and whom it tells. */
#include "test/unit/server/session/server_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "common/base/log.h"
#include "server/leases/file_table.h"
#include "server/names/delayed_unlink.h"
#include "server/leases/watch.h"

static void close_it(struct node *node, const struct kr_fid *fid)
{
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &(struct kr_close_request){.file = *fid, .count = 1}, NULL), 0);
}

static void remove_it(struct node *node, const char *name)
{
	assert_int_equal(node_call(node, KR_MSG_REMOVE,
				 &(struct kr_remove_request){.parent = node->hello.root, .name = name}, NULL),
		0);
}

static void link_it(struct node *node, const struct kr_fid *fid, const char *name)
{
	assert_int_equal(
		node_call(node, KR_MSG_LINK,
			&(struct kr_link_request){.file = *fid, .parent = node->hello.root, .name = name}, NULL),
		0);
}

static int flush_of(struct node *node, const struct kr_fid *fid)
{
	return node_call(node, KR_MSG_FLUSH,
		&(struct kr_flush_request){.file = *fid, .flags = 1, .seq = 1, .mtime = {.sec = 5}}, NULL);
}

/* Nobody but the test refers to it. */
static bool let_go(void *context)
{
	return ((struct kr_sfile *)context)->references == 1;
}

/* Bytes of nobody's lease are late ones: of a file that is gone they are taken and dropped, but of no other. */
static void a_file_with_another_name_is_not_gone_when_it_is_closed(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *late = joined(f, 1);
	struct kr_fid fid = create(node, "a", 0);
	struct kr_sfile *file;

	link_it(node, &fid, "b");
	remove_it(node, "a");
	close_it(node, &fid);
	assert_int_equal(flush_of(late, &fid), -EAGAIN);
	assert_int_equal(
		node_call(node, KR_MSG_OPEN, &(struct kr_open_request){.file = fid, .flags = KR_OPEN_READ}, NULL), 0);
	remove_it(node, "b");
	assert_int_equal(flush_of(late, &fid), -EAGAIN);
	file = kr_sfile_ref(kr_sfile_find(&f->server, &fid));
	close_it(node, &fid);
	assert_true(node_wait_for(&f->loop, let_go, file));
	assert_true(file->gone);
	assert_int_equal(flush_of(late, &fid), 0);
	kr_sfile_put(file);
}

/* The link was made while the name was being removed, and answered before that. */
static void a_file_that_got_another_name_while_its_last_one_went_is_not_gone_when_it_is_closed(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *late = joined(f, 1);
	struct kr_fid fid = create(node, "a", 0);
	struct kr_sfile *file = kr_sfile_ref(kr_sfile_find(&f->server, &fid));

	file->orphan = true; /* as the removal leaves it */
	close_it(node, &fid);
	assert_true(node_wait_for(&f->loop, let_go, file));
	assert_int_equal(flush_of(late, &fid), -EAGAIN);
	kr_sfile_put(file);
}

static bool is_gone(void *context)
{
	return ((const struct kr_sfile *)context)->gone;
}

/* A file of SIZE bytes that nobody has open, and of which NODE has READ. */
static struct kr_fid put_read(struct fixture *f, struct node *node, const char *name, off_t size)
{
	const union kr_any_msg *reply;
	struct kr_fid fid;
	char path[400];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", f->export_path, name);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
	assert_int_equal(lookup(node, name, &reply), 0);
	fid = reply->lookup_reply.file;
	assert_int_equal(node_result(node, send_lease(node, &fid, KR_LEASE_READ), NULL), 0);
	return fid;
}

/* The oldest RECALL of NODE, which it answers, is of FID with these KINDS. */
static void expect_recall(struct node *node, const struct kr_fid *fid, uint8_t kinds)
{
	struct node_asked *recall = node_asked(node, KR_MSG_RECALL);

	assert_int_equal(recall->msg.recall_request.kinds, kinds);
	assert_true(kr_fid_equal(&recall->msg.recall_request.file, fid));
	node_reply(node, recall, NULL);
}

static bool is_recalled(struct node *node)
{
	return node_has_unanswered(&(struct node_wait){node, 0, KR_MSG_RECALL});
}

enum { LARGE = KR_DELAYED_UNLINK_SIZE_MAX + 1 };

static void who_has_read_a_file_hears_that_it_is_gone(void **state)
{
	struct fixture *f = *state;
	struct node *node, *reader;
	struct kr_fid fid;

	stop_clock(); /* nobody looks at the files by the way */
	node = joined(f, 0);
	reader = joined(f, 1);
	fid = put_read(f, reader, "f", LARGE);
	assert_int_equal(node_result(node, send_lease(node, &fid, KR_LEASE_READ), NULL), 0);
	remove_it(node, "f"); /* which waits for nobody */
	expect_recall(reader, &fid, KR_LEASE_READ | KR_RECALL_GONE | KR_RECALL_DISCARD);
	expect_recall(node, &fid, KR_LEASE_READ | KR_RECALL_GONE | KR_RECALL_DISCARD);
	start_clock();
}

/* The kernel tells of what others change. */
static bool is_told(struct fixture *f)
{
	json_t *status = kr_watch_status(&f->server);
	bool told = strcmp(json_string_value(json_object_get(status, "mechanism")), "events") == 0;

	json_decref(status);
	return told;
}

static void a_file_is_gone_with_its_last_name(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *reader;
	struct kr_fid fid;

	stop_clock();
	reader = joined(f, 1);
	fid = put_read(f, reader, "a", LARGE);
	link_it(node, &fid, "b");
	settle(reader);
	if (!is_told(f)) { /* its ctime is another now: it could be somebody else who changed it */
		expect_recall(reader, &fid, KR_LEASE_READ);
		assert_int_equal(node_result(reader, send_lease(reader, &fid, KR_LEASE_READ), NULL), 0);
	}
	assert_false(is_recalled(reader));
	remove_it(node, "a");
	settle(reader);
	assert_false(is_recalled(reader));
	remove_it(node, "b");
	expect_recall(reader, &fid, KR_LEASE_READ | KR_RECALL_GONE | KR_RECALL_DISCARD);
	start_clock();
}

static void who_has_a_file_open_hears_that_it_is_gone_when_it_is_closed(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *reader, *idle;
	struct kr_fid fid;

	stop_clock();
	reader = joined(f, 1);
	idle = joined(f, 2);
	fid = put_read(f, reader, "f", LARGE);
	assert_int_equal(node_result(idle, send_lease(idle, &fid, KR_LEASE_READ), NULL), 0);
	assert_int_equal(
		node_call(reader, KR_MSG_OPEN, &(struct kr_open_request){.file = fid, .flags = KR_OPEN_READ}, NULL), 0);
	remove_it(node, "f");
	expect_recall(idle, &fid, KR_LEASE_READ | KR_RECALL_GONE);
	expect_recall(reader, &fid, KR_RECALL_GONE);
	close_it(reader, &fid);
	expect_recall(reader, &fid, KR_LEASE_READ | KR_RECALL_GONE | KR_RECALL_DISCARD);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
	start_clock();
}

static void who_keeps_a_file_open_hears_that_its_last_name_has_gone(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *keeper;
	struct kr_fid fid;

	stop_clock();
	keeper = joined(f, 1);
	fid = put_read(f, keeper, "f", LARGE);
	assert_int_equal(
		node_call(keeper, KR_MSG_OPEN, &(struct kr_open_request){.file = fid, .flags = KR_OPEN_READ}, NULL), 0);
	link_it(node, &fid, "g");
	settle(keeper);
	if (!is_told(f)) {
		expect_recall(keeper, &fid, KR_LEASE_READ);
		assert_int_equal(node_result(keeper, send_lease(keeper, &fid, KR_LEASE_READ), NULL), 0);
	}
	remove_it(node, "f");
	settle(keeper);
	assert_false(is_recalled(keeper));
	remove_it(node, "g");
	expect_recall(keeper, &fid, KR_RECALL_GONE); /* it has READ still: a program may have the file open */
	close_it(keeper, &fid);
	expect_recall(keeper, &fid, KR_LEASE_READ | KR_RECALL_GONE | KR_RECALL_DISCARD);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
	start_clock();
}

static void who_has_read_a_file_hears_that_it_was_removed_in_the_export(void **state)
{
	struct fixture *f = *state;
	struct node *reader;
	struct kr_fid fid;
	char path[400];

	reader = joined(f, 0);
	fid = put_read(f, reader, "f", LARGE);
	snprintf(path, sizeof(path), "%s/f", f->export_path);
	assert_int_equal(unlink(path), 0);
	for (int passed = 0; passed <= KR_WATCH_PERIOD_EVENTS_MS; passed += MOMENT_MS)
		a_moment_later(f, reader);
	expect_recall(reader, &fid, KR_LEASE_READ | KR_RECALL_GONE);
}

/* Its bytes are of use while any node has the file open. */
static void who_has_written_a_removed_file_discards_its_bytes_when_nobody_has_it_open(void **state)
{
	struct fixture *f = *state;
	struct node *node, *reader;
	struct kr_fid fid;
	char path[400];

	stop_clock();
	node = joined(f, 0);
	reader = joined(f, 1);
	fid = create(node, "f", KR_LEASE_WRITE);
	snprintf(path, sizeof(path), "%s/f", f->export_path);
	assert_int_equal(truncate(path, LARGE), 0);
	assert_int_equal(
		node_call(reader, KR_MSG_OPEN, &(struct kr_open_request){.file = fid, .flags = KR_OPEN_READ}, NULL), 0);
	remove_it(reader, "f");
	expect_recall(node, &fid, KR_RECALL_GONE);
	close_it(node, &fid);
	settle(node);
	assert_false(is_recalled(node));
	close_it(reader, &fid);
	expect_recall(node, &fid, KR_LEASE_WRITE | KR_RECALL_GONE | KR_RECALL_DISCARD);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
	assert_int_equal(flush_of(node, &fid), 0); /* it was on its way */
	start_clock();
}

/* So a late node gets the same message as one whose bytes are of no use, and has to know which it is. */
static void a_lease_that_a_removed_file_cannot_have_is_recalled(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *late;
	struct kr_fid fid = create(node, "f", 0);
	struct kr_sfile *file = kr_sfile_ref(kr_sfile_find(&f->server, &fid));

	late = joined(f, 1);
	remove_it(node, "f");
	close_it(node, &fid);
	assert_true(node_wait_for(&f->loop, is_gone, file));
	assert_int_equal(node_result(late, send_lease(late, &fid, KR_LEASE_WRITE), NULL), -ESTALE);
	expect_recall(late, &fid, KR_LEASE_WRITE | KR_RECALL_GONE | KR_RECALL_DISCARD);
	kr_sfile_put(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_file_with_another_name_is_not_gone_when_it_is_closed),
		TEST(a_file_that_got_another_name_while_its_last_one_went_is_not_gone_when_it_is_closed),
		TEST(who_has_read_a_file_hears_that_it_is_gone),
		TEST(a_file_is_gone_with_its_last_name),
		TEST(who_has_a_file_open_hears_that_it_is_gone_when_it_is_closed),
		TEST(who_keeps_a_file_open_hears_that_its_last_name_has_gone),
		TEST(who_has_read_a_file_hears_that_it_was_removed_in_the_export),
		TEST(a_lease_that_a_removed_file_cannot_have_is_recalled),
		TEST(who_has_written_a_removed_file_discards_its_bytes_when_nobody_has_it_open),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server_removed", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

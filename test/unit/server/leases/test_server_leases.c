/* Leases of scripted nodes: recalls, questions, waits. */
#include "test/unit/server/session/server_fixture.h"

#include <signal.h>

#include "common/base/log.h"
#include "server/leases/file_table.h"
#include "server/session/session.h"

static void a_lease_is_recalled_for_another_node(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	uint64_t id = send_lease(reader, &fid, KR_LEASE_READ);
	struct node_asked *recall = node_asked(writer, KR_MSG_RECALL);

	assert_int_equal(recall->msg.recall_request.kinds, KR_LEASE_WRITE);
	assert_true(kr_fid_equal(&recall->msg.recall_request.file, &fid));
	settle(reader);
	assert_false(is_answered(reader, id));
	node_reply(writer, recall, NULL);
	assert_int_equal(node_result(reader, id, NULL), 0);
}

struct wait_for_lease {
	const struct kr_sfile *file;
	uint32_t node;
};

static bool is_held(void *context)
{
	const struct wait_for_lease *wait = context;

	return kr_lease_table_held(&wait->file->leases, wait->node) & KR_LEASE_WRITE;
}

static void a_lease_that_could_not_be_told_is_asked_back(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct wait_for_lease wait = {kr_sfile_find(&f->server, &fid), node->hello.node};
	struct node_asked *recall;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/f", f->export_path);
	assert_int_equal(unlink(path), 0); /* behind the server's back: it cannot tell the attributes any more */
	assert_int_equal(node_result(node, send_lease(node, &fid, KR_LEASE_WRITE), NULL), -ESTALE);
	recall = node_asked(node, KR_MSG_RECALL);
	assert_int_equal(recall->msg.recall_request.kinds, KR_LEASE_WRITE);
	assert_true(is_held(&wait)); /* it may have it since before, and bytes to flush */
	node_reply(node, recall, NULL);
	settle(node);
	assert_false(is_held(&wait));
}

static void an_interrupted_wait_for_a_lease_ends(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	uint64_t id = send_lease(reader, &fid, KR_LEASE_READ);
	struct kr_cancel_request cancel = {.request = id};

	node_asked(writer, KR_MSG_RECALL);
	assert_int_equal(node_call(reader, KR_MSG_CANCEL, &cancel, NULL), 0);
	assert_int_equal(node_result(reader, id, NULL), -EINTR);
	assert_int_equal(node_call(reader, KR_MSG_CANCEL, &cancel, NULL), 0); /* too late is fine */
	node_reply(writer, node_asked(writer, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(writer, send_lease(writer, &fid, KR_LEASE_ALL), NULL), 0);
}

static void a_recall_is_repeated_on_the_next_connection(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	uint64_t id = send_lease(reader, &fid, KR_LEASE_READ);

	node_asked(writer, KR_MSG_RECALL)->answered = true; /* lost with the connection */
	node_disconnect(writer);
	resume(writer);
	assert_true(node_asked(writer, KR_MSG_RECALL)->flags & KR_FRAME_RESEND);
	node_reply(writer, node_asked(writer, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(reader, id, NULL), 0);
}

static void attributes_include_what_another_node_has_not_flushed(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	struct kr_getattr_request getattr = {.file = fid};
	struct kr_lookup_request look = {.parent = reader->hello.root, .name = "f"};
	struct kr_query_reply dirty = {.dirty = 1, .end = 123456, .mtime = {.sec = INT64_C(4000000000), .nsec = 5}};
	struct kr_setattr_request set = {.file = fid, .valid = KR_SET_MTIME, .mtime.sec = INT64_C(4000000000)};
	const union kr_any_msg *reply;
	uint64_t id = node_send(reader, KR_MSG_GETATTR, &getattr);

	node_reply(writer, node_asked(writer, KR_MSG_QUERY), &dirty);
	assert_int_equal(node_result(reader, id, &reply), 0);
	assert_int_equal(reply->getattr_reply.attr.size, 123456);
	assert_int_equal(reply->getattr_reply.attr.blocks, 248); /* not 0: programs take that for one hole */
	assert_int_equal(reply->getattr_reply.attr.mtime.sec, INT64_C(4000000000));
	assert_int_equal(reply->getattr_reply.attr.version, 0);
	id = node_send(reader, KR_MSG_LOOKUP, &look);
	node_reply(writer, node_asked(writer, KR_MSG_QUERY), &dirty);
	assert_int_equal(node_result(reader, id, &reply), 0);
	assert_int_equal(reply->lookup_reply.attr.size, 123456);
	assert_int_equal(node_call(writer, KR_MSG_GETATTR, &getattr, &reply), 0); /* the writer itself is not asked */
	assert_int_equal(reply->getattr_reply.attr.size, 0);
	/* A time that was set by hand, ahead of the clock, is older than what was written since. */
	assert_int_equal(node_call(writer, KR_MSG_SETATTR, &set, NULL), 0);
	dirty.mtime.sec = 5000;
	id = node_send(reader, KR_MSG_GETATTR, &getattr);
	node_reply(writer, node_asked(writer, KR_MSG_QUERY), &dirty);
	assert_int_equal(node_result(reader, id, &reply), 0);
	assert_int_equal(reply->getattr_reply.attr.mtime.sec, 5000);
}

static void a_question_to_a_node_that_dies_is_answered_without_it(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_getattr_request getattr = {.file = create(writer, "f", KR_LEASE_WRITE)};
	struct kr_cancel_request cancel = {0};
	uint64_t id = node_send(reader, KR_MSG_GETATTR, &getattr),
		 canceled = node_send(reader, KR_MSG_GETATTR, &getattr);

	node_asked(writer, KR_MSG_QUERY);
	cancel.request = canceled;
	assert_int_equal(node_call(reader, KR_MSG_CANCEL, &cancel, NULL), 0);
	assert_int_equal(node_result(reader, canceled, NULL), -EINTR);
	node_disconnect(writer);
	while (!is_answered(reader, id))
		a_moment_later(f, reader); /* stays alive meanwhile */
	assert_int_equal(node_result(reader, id, NULL), 0);
}

/* Who asks and withdraws all the time does not flood others with questions. */
static void questions_of_withdrawn_requests_count_until_they_are_answered(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_getattr_request getattr = {.file = create(writer, "f", KR_LEASE_WRITE)};
	struct kr_query_reply nothing = {0};
	struct kr_cancel_request cancel = {.request = node_send(reader, KR_MSG_GETATTR, &getattr)};
	struct kr_session *session = kr_session_find_node_id(&f->server, reader->node_id);
	struct node_asked *query = node_asked(writer, KR_MSG_QUERY);
	size_t before = KR_SESSION_REQUESTS_MAX - 1;

	assert_int_equal(node_call(reader, KR_MSG_CANCEL, &cancel, NULL), 0);
	assert_int_equal(node_result(reader, cancel.request, NULL), -EINTR);
	assert_int_equal(session->callbacks.abandoned_count, 1);
	session->callbacks.abandoned_count += before;
	node_send(reader, KR_MSG_GETATTR, &getattr);
	assert_true(node_wait_for(&f->loop, node_is_closed, reader));
	session->callbacks.abandoned_count -= before;
	resume(reader);
	node_reply(writer, query, &nothing);
	settle(writer);
	assert_int_equal(session->callbacks.abandoned_count, 0);
}

static uint64_t send_fsync(struct node *node, const struct kr_fid *fid, uint8_t flags)
{
	return node_send(node, KR_MSG_FSYNC, &(struct kr_fsync_request){.file = *fid, .flags = flags});
}

/* A mapping's page, of a node that has READ only, goes to the server while READ is recalled from everybody. */
static void fsync_waits_until_others_have_dropped_what_they_read_before(void **state)
{
	struct fixture *f = *state;
	struct node *mapper = joined(f, 0), *reader = joined(f, 1), *writer = joined(f, 2);
	struct kr_fid fid = create(mapper, "f", KR_LEASE_READ);
	struct kr_flush_request flush = {.file = fid, .flags = 1, .seq = 1};
	uint64_t lease, synced, closed, plain, withdrawn;

	assert_int_equal(node_result(reader, send_lease(reader, &fid, KR_LEASE_READ), NULL), 0);
	lease = send_lease(writer, &fid, KR_LEASE_WRITE);
	node_asked(mapper, KR_MSG_RECALL);
	node_asked(reader, KR_MSG_RECALL);
	assert_int_equal(
		node_result(mapper, send_fsync(mapper, &fid, KR_FSYNC_SEEN), NULL), 0); /* nothing has changed yet */
	assert_int_equal(node_call(mapper, KR_MSG_FLUSH, &flush, NULL), 0);
	synced = send_fsync(mapper, &fid, KR_FSYNC_SEEN);
	closed = send_fsync(mapper, &fid, KR_FSYNC_SEEN | KR_FSYNC_APPLIED);
	withdrawn = send_fsync(mapper, &fid, KR_FSYNC_SEEN | KR_FSYNC_APPLIED);
	plain = send_fsync(mapper, &fid, KR_FSYNC_DATA);
	node_reply(mapper, node_asked(mapper, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(mapper, plain, NULL), 0);
	assert_int_equal(node_call(mapper, KR_MSG_CANCEL, &(struct kr_cancel_request){.request = withdrawn}, NULL), 0);
	assert_int_equal(node_result(mapper, withdrawn, NULL), -EINTR);
	a_moment_later(f, mapper);
	assert_false(is_answered(mapper, synced) || is_answered(mapper, closed) || is_answered(writer, lease));
	node_reply(reader, node_asked(reader, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(mapper, synced, NULL), 0);
	assert_int_equal(node_result(mapper, closed, NULL), 0);
	assert_int_equal(node_result(writer, lease, NULL), 0);
}

/* It has READ itself, which does not stand in its way: nobody else asks it back. */
static void who_asks_for_write_drops_what_he_has_read_before_a_mapping_s_page(void **state)
{
	struct fixture *f = *state;
	struct node *mapper = joined(f, 0), *writer = joined(f, 1);
	struct kr_fid fid = create(mapper, "f", KR_LEASE_READ);
	struct kr_flush_request flush = {.file = fid, .flags = 1, .seq = 1};
	struct node_asked *recall;
	uint64_t lease, synced;

	assert_int_equal(node_result(writer, send_lease(writer, &fid, KR_LEASE_READ), NULL), 0);
	lease = send_lease(writer, &fid, KR_LEASE_WRITE);
	recall = node_asked(mapper, KR_MSG_RECALL);
	settle(writer);
	assert_int_equal(writer->asked_count, 0);
	assert_int_equal(node_call(mapper, KR_MSG_FLUSH, &flush, NULL), 0);
	synced = send_fsync(mapper, &fid, KR_FSYNC_SEEN);
	node_reply(mapper, recall, NULL);
	assert_int_equal(node_result(writer, lease, NULL), 0);
	recall = node_asked(writer, KR_MSG_RECALL);
	assert_int_equal(recall->msg.recall_request.kinds, KR_LEASE_READ);
	a_moment_later(f, mapper);
	assert_false(is_answered(mapper, synced));
	node_reply(writer, recall, NULL);
	assert_int_equal(node_result(mapper, synced, NULL), 0);
}

/* One that is silent for too long has lost READ. */
static void fsync_does_not_wait_for_the_dead(void **state)
{
	struct fixture *f = *state;
	struct node *mapper = joined(f, 0), *reader = joined(f, 1), *writer = joined(f, 2);
	struct kr_fid fid = create(mapper, "f", KR_LEASE_READ);
	struct kr_flush_request flush = {.file = fid, .flags = 1, .seq = 1};
	uint64_t synced;

	assert_int_equal(node_result(reader, send_lease(reader, &fid, KR_LEASE_READ), NULL), 0);
	send_lease(writer, &fid, KR_LEASE_WRITE);
	node_asked(mapper, KR_MSG_RECALL);
	assert_int_equal(node_call(mapper, KR_MSG_FLUSH, &flush, NULL), 0);
	synced = send_fsync(mapper, &fid, KR_FSYNC_SEEN);
	node_reply(mapper, node_asked(mapper, KR_MSG_RECALL), NULL);
	node_disconnect(reader);
	for (int ms = 0; ms <= 2 * LEASE_MS && !is_answered(mapper, synced); ms += MOMENT_MS) {
		settle(writer);
		a_moment_later(f, mapper);
	}
	assert_int_equal(node_result(mapper, synced, NULL), 0);
}

static void a_truncation_waits_until_others_have_dropped_their_leases(void **state)
{
	struct fixture *f = *state;
	struct node *reader = joined(f, 0), *cutter = joined(f, 1);
	struct kr_fid fid = create(reader, "f", KR_LEASE_READ);
	struct kr_setattr_request set = {.file = fid, .valid = KR_SET_SIZE, .size = 10};
	const union kr_any_msg *reply;
	uint64_t id = node_send(cutter, KR_MSG_SETATTR, &set), second;

	node_asked(reader, KR_MSG_RECALL);
	second = send_lease(reader, &fid, KR_LEASE_READ); /* waits behind the truncation */
	settle(cutter);
	assert_false(is_answered(cutter, id));
	node_reply(reader, node_asked(reader, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(cutter, id, &reply), 0);
	assert_int_equal(reply->setattr_reply.attr.size, 10);
	assert_int_equal(node_result(reader, second, &reply), 0);
	assert_int_equal(reply->lease_reply.attr.size, 10);
	set.size = 20;
	set.file = create(cutter, "own", KR_LEASE_ALL);
	assert_int_equal(node_call(cutter, KR_MSG_SETATTR, &set, NULL), 0); /* one's own leases do not matter */
	assert_int_equal(cutter->asked_count, 0);
}

static void flush_written_at(struct node *node, const struct kr_fid *fid, int64_t sec)
{
	const struct kr_flush_request flush = {.file = *fid, .flags = 1, .seq = 1, .mtime = {.sec = sec}};

	assert_int_equal(node_call(node, KR_MSG_FLUSH, &flush, NULL), 0);
}

/* It has set the file's time when it was made, not when others have heard of it. */
static void a_cut_that_others_hear_of_does_not_put_back_the_time_of_what_came_after_it(void **state)
{
	struct fixture *f = *state;
	struct node *cutter = joined(f, 0), *late = joined(f, 1), *writer = joined(f, 2);
	struct kr_setattr_request set = {.file = create(cutter, "f", 0), .valid = KR_SET_SIZE, .size = 10};
	const struct kr_open_request open_file = {.file = set.file, .flags = KR_OPEN_BOTH};
	char path[128];
	struct stat now;
	uint64_t id;

	snprintf(path, sizeof(path), "%s/f", f->export_path);
	assert_int_equal(node_call(cutter, KR_MSG_SETATTR, &set, NULL), 0);
	assert_int_equal(node_call(late, KR_MSG_OPEN, &open_file, NULL), 0);
	set.size = 0;
	set.valid |= KR_SET_MTIME;
	set.mtime.sec = 1000;
	id = node_send(cutter, KR_MSG_SETATTR, &set);
	node_asked(late, KR_MSG_RECALL);
	assert_int_equal(node_result(late, send_lease(late, &set.file, KR_LEASE_WRITE), NULL), 0);
	assert_int_equal(node_result(writer, send_lease(writer, &set.file, KR_LEASE_WRITE), NULL), 0);
	flush_written_at(writer, &set.file, 2000);
	assert_false(is_answered(cutter, id));
	node_reply(late, node_asked(late, KR_MSG_RECALL), NULL);
	node_asked(late, KR_MSG_QUERY); /* for the answer */
	flush_written_at(late, &set.file, 1500);
	assert_int_equal(stat(path, &now), 0);
	assert_int_equal(now.st_mtime, 2000);
}

static void copies_in_both_directions_do_not_wait_for_each_other(void **state)
{
	struct fixture *f = *state;
	struct node *a = joined(f, 0), *b = joined(f, 1);
	struct kr_fid one = create(a, "one", 0), two = create(b, "two", 0);
	struct kr_copy_request there = {.from = one, .to = two, .length = 100},
			       back = {.from = two, .to = one, .length = 100};
	uint64_t ids[20];

	for (int i = 0; i < 20; i += 2) {
		ids[i] = node_send(a, KR_MSG_COPY, &there);
		ids[i + 1] = node_send(b, KR_MSG_COPY, &back);
	}
	for (int i = 0; i < 20; i += 2) {
		assert_int_equal(node_result(a, ids[i], NULL), 0);
		assert_int_equal(node_result(b, ids[i + 1], NULL), 0);
	}
}

static void bytes_that_the_node_has_cached_do_not_come_with_an_open(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_open_request open = {.file = create(node, "f", 0), .flags = KR_OPEN_READ, .want = KR_LEASE_READ};
	const union kr_any_msg *reply;
	char path[128];

	snprintf(path, sizeof(path), "%s/f", f->export_path);
	assert_int_equal(truncate(path, 1000), 0);
	assert_int_equal(node_call(node, KR_MSG_OPEN, &open, &reply), 0);
	assert_int_equal(reply->open_reply.granted, KR_LEASE_READ);
	assert_int_equal(reply->open_reply.has_data, 1);
	open.flags |= KR_OPEN_CACHED;
	assert_int_equal(node_call(node, KR_MSG_OPEN, &open, &reply), 0);
	assert_int_equal(reply->open_reply.granted, KR_LEASE_READ);
	assert_int_equal(reply->open_reply.has_data, 0);
	assert_int_equal(reply->open_reply.attr.size, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_lease_is_recalled_for_another_node),
		TEST(a_lease_that_could_not_be_told_is_asked_back),
		TEST(an_interrupted_wait_for_a_lease_ends),
		TEST(a_recall_is_repeated_on_the_next_connection),
		TEST(attributes_include_what_another_node_has_not_flushed),
		TEST(a_question_to_a_node_that_dies_is_answered_without_it),
		TEST(questions_of_withdrawn_requests_count_until_they_are_answered),
		TEST(fsync_waits_until_others_have_dropped_what_they_read_before),
		TEST(who_asks_for_write_drops_what_he_has_read_before_a_mapping_s_page),
		TEST(fsync_does_not_wait_for_the_dead),
		TEST(a_truncation_waits_until_others_have_dropped_their_leases),
		TEST(a_cut_that_others_hear_of_does_not_put_back_the_time_of_what_came_after_it),
		TEST(copies_in_both_directions_do_not_wait_for_each_other),
		TEST(bytes_that_the_node_has_cached_do_not_come_with_an_open),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server_leases", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

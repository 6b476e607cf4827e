/* The ends of sessions, and what becomes of the leases, files and bytes of those who had them. */
#include "test/unit/server/session/server_fixture.h"

#include <signal.h>
#include <stdatomic.h>

#include "common/base/log.h"
#include "server/session/session.h"

/* --- a HELLO that takes long ------------------------------------------------------------------ */

static atomic_int to_hold, held, released; /* walks; they end in the order in which they began */

int __wrap_kr_export_walk(struct kr_export *export, const struct kr_cred *cred, const char *path,
	struct kr_fid *ret_fid, struct kr_attr *ret_attr);
int __real_kr_export_walk(struct kr_export *export, const struct kr_cred *cred, const char *path,
	struct kr_fid *ret_fid, struct kr_attr *ret_attr);

int __wrap_kr_export_walk(struct kr_export *export, const struct kr_cred *cred, const char *path,
	struct kr_fid *ret_fid, struct kr_attr *ret_attr)
{
	if (atomic_load(&to_hold) > 0 && atomic_fetch_sub(&to_hold, 1) > 0) {
		const int number = atomic_fetch_add(&held, 1);

		while (atomic_load(&released) <= number)
			usleep(1000);
	}
	return __real_kr_export_walk(export, cred, path, ret_fid, ret_attr);
}

static bool is_held(void *context)
{
	return atomic_load(&held) == *(const int *)context;
}

/* HELLO on a new connection, COUNT of which are held now. */
static uint64_t send_held_hello(struct fixture *f, struct node *node, int count)
{
	uint64_t id;

	atomic_store(&to_hold, 1);
	id = node_send_hello(node, false);
	assert_true(node_wait_for(&f->loop, is_held, &count));
	return id;
}

static void release_all(struct fixture *f)
{
	atomic_store(&released, atomic_load(&held));
	assert_true(node_wait_for(&f->loop, the_disk_rests, f));
	atomic_store(&held, 0);
	atomic_store(&released, 0);
}

static bool has_session(void *context)
{
	return ((struct fixture *)context)->server.sessions->count == 1;
}

/* --- ends of sessions ------------------------------------------------------------------------- */

static void a_silent_session_is_lost_and_its_leases_are_free(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	uint64_t id = send_lease(reader, &fid, KR_LEASE_READ), old = writer->hello.session;

	node_disconnect(writer);
	while (!is_answered(reader, id))
		a_moment_later(f, reader);
	assert_int_equal(node_result(reader, id, NULL), 0);
	assert_int_equal(f->server.sessions->lost, 1);
	assert_int_equal(node_hello(writer, true), 0);
	assert_int_equal(writer->hello.resumed, 0);
	assert_int_not_equal(writer->hello.session, old);
}

static void a_parked_request_ends_with_its_session(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);

	send_lease(reader, &fid, KR_LEASE_READ);
	node_asked(writer, KR_MSG_RECALL);
	node_disconnect(reader);
	for (int moment = 0; moment < LEASE_MS / MOMENT_MS / 2; moment++)
		a_moment_later(f, writer);
	node_disconnect(writer);
	writer->asked_count = 0;
	resume(writer); /* which may leave the question unanswered anew, and so longer than the reader lives */
	while (f->server.sessions->lost == 0)
		a_moment_later(f, writer);
	assert_non_null(kr_session_find(&f->server, writer->hello.session));
	node_reply(writer, node_asked(writer, KR_MSG_RECALL), NULL);
	assert_int_equal(
		node_result(writer, send_lease(writer, &fid, KR_LEASE_ALL), NULL), 0); /* nobody is in the way */
}

static void a_new_session_replaces_the_one_of_the_same_node(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	memcpy(f->nodes[2]->node_id, node->node_id, 16);
	joined(f, 2);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_result(other, send_lease(other, &fid, KR_LEASE_READ), NULL), 0);
	assert_int_equal(f->server.sessions->count, 2);
}

/* The node has given up the connection of its first HELLO, and gets its answer to the second one before. */
static void a_session_does_not_end_by_an_earlier_hello(void **state)
{
	struct fixture *f = *state;
	struct node *node = f->nodes[0];

	send_held_hello(f, node, 1);
	node_disconnect(node);
	joined(f, 0);
	create(node, "f", KR_LEASE_WRITE);
	release_all(f);
	assert_non_null(kr_session_find(&f->server, node->hello.session));
	settle(node);
	assert_int_equal(f->server.sessions->count, 1);
}

static void an_earlier_hello_does_not_keep_a_later_one_out(void **state)
{
	struct fixture *f = *state;
	struct node *node = f->nodes[0];
	uint64_t later;

	send_held_hello(f, node, 1);
	node_disconnect(node);
	later = send_held_hello(f, node, 2);
	atomic_store(&released, 1);
	assert_true(node_wait_for(&f->loop, has_session, f)); /* of the first */
	release_all(f);
	assert_int_equal(node_result(node, later, NULL), 0);
	assert_int_equal(f->server.sessions->count, 1);
}

/* The bytes that a killed daemon left in its journal are between the kill and the flush nobody else's to read past. */
static void what_a_killed_daemon_may_have_written_is_waited_for(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1), *successor = f->nodes[2];
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_reclaim_request reclaim = {.file = fid, .kinds = KR_LEASE_ALL};
	struct kr_getattr_request getattr = {.file = fid};
	struct kr_query_reply dirty = {.dirty = 1, .end = 77};
	const union kr_any_msg *reply;
	uint64_t read = send_lease(other, &fid, KR_LEASE_READ), stat = node_send(other, KR_MSG_GETATTR, &getattr);

	node_asked(node, KR_MSG_RECALL);
	node_disconnect(node);
	memcpy(successor->node_id, node->node_id, 16);
	assert_int_equal(node_hello(successor, false), 0);
	settle(other);
	assert_int_equal(node_call(successor, KR_MSG_RECLAIM, &reclaim, &reply), 0);
	assert_int_equal(reply->reclaim_reply.kinds, KR_LEASE_ALL);
	assert_false(is_answered(other, read));
	assert_false(is_answered(other, stat));
	assert_int_equal(successor->asked_count, 1); /* its size is not asked before it knows it */
	assert_int_equal(node_call(successor, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_reply(successor, node_asked(successor, KR_MSG_QUERY), &dirty);
	assert_int_equal(node_result(other, stat, &reply), 0);
	assert_int_equal(reply->getattr_reply.attr.size, 77);
	assert_false(is_answered(other, read));
	node_reply(successor, node_asked(successor, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(other, read, NULL), 0);
}

/* A killed daemon of which the server could not tell whether its bytes may go in: the next one does not know that it
 * asked. */
static void who_comes_after_one_with_unjudged_bytes_is_late(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	for (int unjudged = 0; unjudged < 2; unjudged++) {
		kr_session_find_node_id(&f->server, node->node_id)->recovery.unjudged = unjudged;
		node_disconnect(node);
		assert_int_equal(node_hello(node, false), 0);
		assert_int_equal(node->hello.late, unjudged);
		assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
		assert_int_equal(node_result(node, send_lease(node, &fid, KR_LEASE_WRITE), NULL), 0);
	}
}

static void what_an_heir_does_not_need_is_free(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_ALL);
	uint64_t read = send_lease(other, &fid, KR_LEASE_READ);

	memcpy(f->nodes[2]->node_id, node->node_id, 16);
	memcpy(f->nodes[3]->node_id, node->node_id, 16);
	assert_int_equal(node_hello(f->nodes[2], false), 0); /* dies before it has reclaimed anything */
	assert_int_equal(node_hello(f->nodes[3], false), 0);
	settle(other);
	assert_false(is_answered(other, read));
	assert_int_equal(node_call(f->nodes[3], KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_int_equal(node_result(other, read, NULL), 0);
	assert_int_equal(f->nodes[3]->asked_count, 0);
	assert_int_equal(f->server.sessions->count, 2);
}

static void goodbye_ends_a_session_at_once(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	assert_int_equal(node_call(node, KR_MSG_GOODBYE, NULL, NULL), 0);
	assert_int_equal(node_result(other, send_lease(other, &fid, KR_LEASE_READ), NULL), 0);
	assert_int_equal(f->server.sessions->count, 1);
}

static void what_a_node_says_of_its_backlog_stays_with_its_session(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_backlog_request backlog = {.unflushed = 10, .refused = 3};
	const struct kr_session *session;
	uint64_t since_ns;

	joined(f, 1);
	assert_int_equal(node_call(node, KR_MSG_BACKLOG, &backlog, NULL), 0);
	session = kr_session_find(&f->server, node->hello.session);
	assert_int_equal(session->backlog.unflushed, 10);
	assert_int_equal(session->backlog.refused, 3);
	since_ns = session->backlog.since_ns;
	assert_true(since_ns > 0);
	assert_int_equal(kr_session_find(&f->server, f->nodes[1]->hello.session)->backlog.unflushed, 0);
	backlog = (struct kr_backlog_request){.unflushed = UINT64_MAX, .refused = UINT64_MAX};
	assert_int_equal(node_call(node, KR_MSG_BACKLOG, &backlog, NULL), 0);
	assert_int_equal(session->backlog.unflushed, INT64_MAX);
	assert_int_equal(session->backlog.refused, INT64_MAX);
	assert_int_equal(session->backlog.since_ns, since_ns);
	backlog = (struct kr_backlog_request){0};
	assert_int_equal(node_call(node, KR_MSG_BACKLOG, &backlog, NULL), 0);
	assert_int_equal(session->backlog.since_ns, 0);
}

static void an_open_file_outlives_its_name(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", 0);
	struct kr_remove_request remove_file = {.parent = other->hello.root, .name = "f"};
	struct kr_getattr_request getattr = {.file = fid};
	struct kr_close_request close_msg = {.file = fid, .count = 1};
	const union kr_any_msg *reply;

	assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove_file, NULL), 0);
	assert_int_equal(lookup(other, "f", NULL), -ENOENT);
	assert_int_equal(node_call(node, KR_MSG_GETATTR, &getattr, &reply), 0);
	assert_int_equal(reply->getattr_reply.attr.nlink, 0);
	assert_false(no_orphans(f));
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), 0);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
	assert_int_equal(node_call(node, KR_MSG_GETATTR, &getattr, NULL), -ESTALE);
}

static int flush_bytes(struct node *node, const struct kr_fid *fid)
{
	struct kr_range extent = {.offset = 0, .length = 5};
	struct kr_buf *buf = kr_buf_new(5);
	struct kr_slice slice = {.buf = buf, .length = 5};
	struct kr_flush_request flush = {.file = *fid,
		.seq = 1,
		.bytes = 5,
		.flags = 1,
		.mtime = {.sec = 1},
		.checksum = kr_checksum("bytes", 5),
		.extents = {&extent, 1}};
	struct node_answer *answer = &node->answers[node->answer_count++];
	int err;

	memcpy(buf->data, "bytes", 5);
	buf->length = 5;
	*answer = (struct node_answer){.id = 1 << 21};
	assert_int_equal(
		kr_conn_request_as(node->conn, answer->id, 0, KR_MSG_FLUSH, &flush, &slice, 1, node_on_reply, answer),
		0);
	err = node_result(node, answer->id, NULL);
	kr_buf_put(buf);
	return err;
}

static void a_nameless_file_goes_with_its_last_open_and_its_late_bytes_are_dropped(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_remove_request remove_file = {.parent = node->hello.root, .name = "f"};
	struct kr_close_request close_msg = {.file = fid, .count = 1};

	assert_int_equal(node_call(node, KR_MSG_REMOVE, &remove_file, NULL), 0);
	node_reply(node, node_asked(node, KR_MSG_RECALL), NULL); /* it has no name any more */
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), 0);
	node_asked(node, KR_MSG_RECALL);
	assert_true(no_orphans(f));
	assert_int_equal(flush_bytes(node, &fid), 0);
	node_reply(node, node_asked(node, KR_MSG_RECALL), NULL);
}

static void bytes_of_a_removed_file_are_taken_and_dropped(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_remove_request remove_file = {.parent = other->hello.root, .name = "f"};
	struct kr_close_request close_msg = {.file = fid, .count = 1};

	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), 0); /* close=async: the journal has it */
	assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove_file, NULL), 0);
	assert_int_equal(flush_bytes(node, &fid), 0);
}

/* Its node was killed with the file open, and has bytes of it in its journal. */
static void bytes_of_a_nameless_file_that_nobody_reopens_are_dropped(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_remove_request remove_file = {.parent = node->hello.root, .name = "f"};
	struct kr_reclaim_request reclaim = {.file = fid, .kinds = KR_LEASE_WRITE};

	assert_int_equal(node_call(node, KR_MSG_REMOVE, &remove_file, NULL), 0);
	restart_server(f);
	assert_int_equal(node_hello(node, false), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
	assert_int_equal(flush_bytes(node, &fid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_silent_session_is_lost_and_its_leases_are_free),
		TEST(a_parked_request_ends_with_its_session),
		TEST(a_new_session_replaces_the_one_of_the_same_node),
		TEST(a_session_does_not_end_by_an_earlier_hello),
		TEST(an_earlier_hello_does_not_keep_a_later_one_out),
		TEST(what_a_killed_daemon_may_have_written_is_waited_for),
		TEST(who_comes_after_one_with_unjudged_bytes_is_late),
		TEST(what_an_heir_does_not_need_is_free),
		TEST(goodbye_ends_a_session_at_once),
		TEST(what_a_node_says_of_its_backlog_stays_with_its_session),
		TEST(an_open_file_outlives_its_name),
		TEST(a_nameless_file_goes_with_its_last_open_and_its_late_bytes_are_dropped),
		TEST(bytes_of_a_removed_file_are_taken_and_dropped),
		TEST(bytes_of_a_nameless_file_that_nobody_reopens_are_dropped),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server_sessions", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Questions that nobody answers: a node that connects anew as often as it likes holds others up for a bounded time, and
 * a node that works on what it was asked is not disturbed.
 */
#include "test/unit/server/session/neglect_fixture.h"

/* It comes back on a new connection, if the server lets it, and answers nothing. */
static void connect_anew(struct node *node)
{
	node_disconnect(node);
	node->asked_count = node->answer_count = 0;
	node_hello(node, true);
}

static void only_connect_anew(struct node *node, const struct kr_fid *fid)
{
	(void)fid;
	connect_anew(node);
}

/* No tick of the server finds it connected. */
static void look_in(struct node *node, const struct kr_fid *fid)
{
	(void)fid;
	connect_anew(node);
	node_disconnect(node);
}

/* A file of the honest node that has bytes, and that the hostile one has open; the honest one has cut it. */
static uint64_t send_cut(struct fixture *f, struct kr_fid *ret_fid)
{
	struct node *honest = f->nodes[HONEST];
	struct kr_setattr_request set = {.file = create_as(honest, "f", 0, 0), .valid = KR_SET_SIZE, .size = 10};
	const struct kr_open_request open_file = {.file = set.file, .flags = KR_OPEN_READ};
	uint64_t id;

	assert_int_equal(node_call(honest, KR_MSG_SETATTR, &set, NULL), 0);
	assert_int_equal(node_call(f->nodes[HOSTILE], KR_MSG_OPEN, &open_file, NULL), 0);
	set.size = 0;
	id = node_send(honest, KR_MSG_SETATTR, &set);
	assert_int_equal(node_asked(f->nodes[HOSTILE], KR_MSG_RECALL)->msg.recall_request.kinds, 0);
	*ret_fid = set.file;
	return id;
}

static void a_cut_told_to_a_node_that_never_answers_waits_for_its_end(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid;
	uint64_t id = send_cut(f, &fid);

	assert_in_range(wait_beside(f, id, do_nothing, &fid, 3 * MOMENTS), MOMENTS, 2 * MOMENTS + SLACK);
	assert_int_equal(f->server.sessions->lost, 1);
}

static void a_cut_does_not_wait_for_ever_for_one_that_connects_anew(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid;
	uint64_t id = send_cut(f, &fid);

	assert_in_range(wait_beside(f, id, only_connect_anew, &fid, 20 * MOMENTS), 0,
		(KR_SESSION_CALLBACK_LEASES + 1) * MOMENTS + SLACK);
	assert_int_equal(f->server.sessions->lost, 1);
}

static void nor_for_one_that_is_never_there_when_it_is_looked_for(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid;
	uint64_t id = send_cut(f, &fid);

	assert_in_range(
		wait_beside(f, id, look_in, &fid, 20 * MOMENTS), 0, (KR_SESSION_CALLBACK_LEASES + 1) * MOMENTS + SLACK);
}

/* As if there were always another MiB before the question. */
static void take_slowly(struct node *node, const struct kr_fid *fid)
{
	struct fixture *f = KR_CONTAINER_OF(node->loop, struct fixture, loop);
	struct kr_session *session = kr_session_find(&f->server, node->hello.session);

	(void)fid;
	if (session)
		session->callbacks.delivered_ns = kr_clock_ns();
}

static void nor_for_one_that_takes_its_answers_slowly(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid;
	uint64_t id = send_cut(f, &fid);

	assert_in_range(wait_beside(f, id, take_slowly, &fid, 20 * MOMENTS), 0,
		(KR_SESSION_CALLBACK_LEASES + 1) * MOMENTS + SLACK);
}

static void a_lease_is_not_waited_for_for_ever_either(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_READ);

	node_asked(f->nodes[HOSTILE], KR_MSG_RECALL);
	assert_in_range(wait_beside(f, id, only_connect_anew, &fid, 20 * MOMENTS), 0,
		(KR_SESSION_CALLBACK_LEASES + 1) * MOMENTS + SLACK);
}

/* --- who works -------------------------------------------------------------------------------- */

/* Its link breaks all the time, but what it has gets through. */
static void who_flushes_over_many_connections_may_take_its_time(void **state)
{
	struct fixture *f = *state;
	struct node *busy = f->nodes[HOSTILE];
	struct kr_flush_request flush = {.file = create_as(busy, "f", 0, KR_LEASE_WRITE), .flags = 1};
	uint64_t id = send_lease(f->nodes[HONEST], &flush.file, KR_LEASE_READ);

	node_asked(busy, KR_MSG_RECALL);
	for (int moment = 0; moment < 3 * KR_SESSION_CALLBACK_LEASES * MOMENTS; moment++) {
		if (moment % (MOMENTS * 3 / 4) == MOMENTS / 2) {
			connect_anew(busy);
			assert_int_equal(busy->hello.resumed, 1);
			flush.seq++;
			assert_int_equal(node_call(busy, KR_MSG_FLUSH, &flush, NULL), 0);
		}
		a_moment_later(f, f->nodes[HONEST]);
		ping(busy);
	}
	assert_true(is_unanswered(f, id));
	begin_anew(busy, &flush.file);
	for (int moment = 0; moment < MOMENTS * 3 / 4; moment++) {
		a_moment_later(f, f->nodes[HONEST]);
		assert_true(ping(busy));
	}
	node_reply(busy, node_asked(busy, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(f->nodes[HONEST], id, NULL), 0);
	assert_int_equal(f->server.sessions->lost, 0);
}

/* Each time that it has cut the file everybody is asked again for its size. */
static void nor_is_the_size_of_one_that_cuts_it_and_answers_late(void **state)
{
	struct fixture *f = *state;
	struct node *hostile = f->nodes[HOSTILE];
	struct kr_setattr_request set = {.file = create_as(hostile, "f", 0, KR_LEASE_WRITE), .valid = KR_SET_SIZE};
	uint64_t id = node_send(f->nodes[HONEST], KR_MSG_GETATTR, &(struct kr_getattr_request){.file = set.file});
	int moments = 0;

	for (; is_unanswered(f, id) && moments < 20 * MOMENTS; moments++) {
		a_moment_later_both(f);
		if (moments % (MOMENTS * 3 / 4) > 0 || !is_unanswered(f, id))
			continue;
		set.size++;
		assert_int_equal(node_call(hostile, KR_MSG_SETATTR, &set, NULL), 0);
		node_reply(hostile, node_asked(hostile, KR_MSG_QUERY), &(struct kr_query_reply){0});
	}
	assert_in_range(moments, 2 * MOMENTS, (KR_SESSION_CALLBACK_LEASES + 1) * MOMENTS + SLACK);
	assert_int_equal(f->server.sessions->lost, 0);
}

/* It would be waited for, and not asked again. */
static void who_answers_as_if_its_session_had_ended_has_answered(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_READ);
	const struct node_asked *recall = node_asked(f->nodes[HOSTILE], KR_MSG_RECALL);

	kr_conn_reply(f->nodes[HOSTILE]->conn, KR_MSG_RECALL, recall->id, 0, -ENOTCONN, NULL, NULL, 0);
	assert_int_equal(node_result(f->nodes[HONEST], id, NULL), 0);
}

/* --- what is asked for requests of sessions that have ended ----------------------------------- */

enum { CUTS = 40 };

static size_t unanswered_requests(const struct fixture *f)
{
	const struct kr_link *link;
	size_t count = 0;

	for (link = f->server.sessions->unanswered.head.next; link != &f->server.sessions->unanswered.head;
		link = link->next)
		count++;
	return count;
}

static bool all_are_told(void *context)
{
	struct fixture *f = context;

	return f->nodes[HOSTILE]->asked_count >= CUTS && f->server.jobs == 0;
}

/* Who sends requests, ends, and comes back leaves nothing behind at a node that answers nothing. */
static void cuts_of_a_session_that_has_ended_wait_for_nobody(void **state)
{
	struct fixture *f = *state;
	struct node *cutter = joined(f, 2);
	struct kr_setattr_request set = {.file = create_as(cutter, "f", 0, 0), .valid = KR_SET_SIZE, .size = CUTS};
	const struct kr_open_request open_file = {.file = set.file, .flags = KR_OPEN_READ};
	struct kr_session *session = kr_session_find(&f->server, f->nodes[HOSTILE]->hello.session);

	assert_int_equal(node_call(cutter, KR_MSG_SETATTR, &set, NULL), 0);
	assert_int_equal(node_call(f->nodes[HOSTILE], KR_MSG_OPEN, &open_file, NULL), 0);
	while (set.size > 0) {
		set.size--;
		node_send(cutter, KR_MSG_SETATTR, &set);
	}
	assert_true(node_wait_for(&f->loop, all_are_told, f));
	assert_int_equal(unanswered_requests(f), CUTS);
	node_disconnect(cutter);
	assert_int_equal(node_hello(cutter, false), 0);
	assert_true(node_wait_for(&f->loop, the_disk_rests, f));
	assert_int_equal(unanswered_requests(f), 0);
	assert_true(kr_list_empty(&session->callbacks.unanswered));
	node_reply(f->nodes[HOSTILE], node_asked(f->nodes[HOSTILE], KR_MSG_RECALL), NULL); /* too late is fine */
	assert_true(ping(f->nodes[HOSTILE]));
}

static void questions_for_withdrawn_requests_end_with_their_session(void **state)
{
	struct fixture *f = *state;
	struct node *asker = joined(f, 2);
	struct kr_getattr_request getattr = {.file = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE)};
	struct kr_session *session = kr_session_find(&f->server, f->nodes[HOSTILE]->hello.session);
	struct node_asked *query;

	for (int i = 0; i < CUTS; i++) {
		struct kr_cancel_request cancel = {.request = node_send(asker, KR_MSG_GETATTR, &getattr)};

		assert_int_equal(node_call(asker, KR_MSG_CANCEL, &cancel, NULL), 0);
	}
	query = node_asked(f->nodes[HOSTILE], KR_MSG_QUERY);
	assert_int_equal(kr_session_find(&f->server, asker->hello.session)->callbacks.abandoned_count, CUTS);
	assert_int_equal(node_call(asker, KR_MSG_GOODBYE, NULL, NULL), 0);
	assert_true(kr_list_empty(&session->callbacks.unanswered));
	node_reply(f->nodes[HOSTILE], query, &(struct kr_query_reply){0});
	assert_true(ping(f->nodes[HOSTILE]));
}

static struct {
	uint64_t last;
	unsigned count;
} taken;

static void take_in_order(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)conn;
	assert_true(frame->header.id > taken.last);
	taken.last = frame->header.id;
	taken.count++;
}

enum { QUESTIONS = 100000 };

static bool all_are_taken(void *context)
{
	(void)context;
	return taken.count == QUESTIONS;
}

static void questions_do_not_pile_up_before_one_that_takes_nothing(void **state)
{
	static const struct kr_conn_handler taker = {take_in_order, NULL, node_on_closed};
	struct fixture *f = *state;
	struct node *node = f->nodes[HOSTILE];
	struct kr_query_request query = {.file.length = sizeof(query.file.bytes)};
	struct kr_session *session = kr_session_find(&f->server, node->hello.session);

	kr_conn_set_handler(node->conn, &taker);
	kr_conn_pause(node->conn);
	for (int i = 0; i < QUESTIONS; i++) {
		assert_int_not_equal(kr_callback_send(session, KR_MSG_QUERY, &query, NULL, NULL), 0);
		assert_in_range(kr_conn_queued(session->conn), 0, KR_SESSION_QUEUE_MAX + 1024);
	}
	assert_true(session->callbacks.withheld);
	kr_conn_resume(node->conn);
	assert_true(node_wait_for(&f->loop, all_are_taken, f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_two, teardown)
		TEST(a_cut_told_to_a_node_that_never_answers_waits_for_its_end),
		TEST(a_cut_does_not_wait_for_ever_for_one_that_connects_anew),
		TEST(nor_for_one_that_is_never_there_when_it_is_looked_for),
		TEST(nor_for_one_that_takes_its_answers_slowly),
		TEST(a_lease_is_not_waited_for_for_ever_either),
		TEST(nor_is_the_size_of_one_that_cuts_it_and_answers_late),
		TEST(who_flushes_over_many_connections_may_take_its_time),
		TEST(who_answers_as_if_its_session_had_ended_has_answered),
		TEST(cuts_of_a_session_that_has_ended_wait_for_nobody),
		TEST(questions_for_withdrawn_requests_end_with_their_session),
		TEST(questions_do_not_pile_up_before_one_that_takes_nothing),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_neglect", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

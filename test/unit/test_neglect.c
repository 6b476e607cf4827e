/* Questions that nobody answers: a node that connects anew, or begins anew, as often as it likes holds others up for a bounded time, and who
 * works on what it was asked is left in peace.
 */
#include "test/unit/hostile_fixture.h"

#include "server/asks.h"
#include "server/files.h"

enum { MOMENTS = LEASE_MS / MOMENT_MS, /* of a lease time */ SLACK = 4 };

static void a_moment_later_both(struct fixture *f)
{
	pass_a_moment(f);
	assert_true(ping(f->nodes[HONEST]));
	ping(f->nodes[HOSTILE]);
}

static bool is_unanswered(struct fixture *f, uint64_t id)
{
	return !is_answered(f->nodes[HONEST], id);
}

/* It comes back on a new connection, if the server lets it, and answers nothing. */
static void connect_anew(struct node *node)
{
	node_disconnect(node);
	node->asked_count = node->answer_count = 0;
	node_hello(node, true);
}

/* What a daemon does that was killed and started again: it has everything still. */
static void begin_anew(struct node *node, const struct kr_fid *fid)
{
	const struct kr_reclaim_request reclaim = {.file = *fid, .kinds = KR_LEASE_WRITE, .opens = 1};

	node_disconnect(node);
	node->asked_count = node->answer_count = 0;
	if (node_hello(node, false))
		return;
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
}

/* The honest one waits for the answer to ID while the hostile one does WHAT six times in a lease time. How long that takes, in moments. */
static int wait_beside(struct fixture *f, uint64_t id, void (*what)(struct node *node, const struct kr_fid *fid), const struct kr_fid *fid, int most)
{
	int moments = 0;

	for (; is_unanswered(f, id) && moments < most; moments++) {
		if (moments % (MOMENTS / 6) == 0)
			what(f->nodes[HOSTILE], fid);
		a_moment_later_both(f);
	}
	assert_false(is_unanswered(f, id));
	assert_int_equal(node_result(f->nodes[HONEST], id, NULL), 0);
	return moments;
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

static void do_nothing(struct node *node, const struct kr_fid *fid)
{
	(void)node, (void)fid;
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
	assert_int_equal(f->server.sessions_lost, 1);
}

static void a_cut_does_not_wait_for_ever_for_one_that_connects_anew(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid;
	uint64_t id = send_cut(f, &fid);

	assert_in_range(wait_beside(f, id, only_connect_anew, &fid, 20 * MOMENTS), 0, (KR_SESSION_ASK_LEASES + 1) * MOMENTS + SLACK);
	assert_int_equal(f->server.sessions_lost, 1);
}

static void nor_for_one_that_is_never_there_when_it_is_looked_for(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid;
	uint64_t id = send_cut(f, &fid);

	assert_in_range(wait_beside(f, id, look_in, &fid, 20 * MOMENTS), 0, (KR_SESSION_ASK_LEASES + 1) * MOMENTS + SLACK);
}

/* As if there were always another MiB before the question. */
static void take_slowly(struct node *node, const struct kr_fid *fid)
{
	struct fixture *f = KR_CONTAINER_OF(node->loop, struct fixture, loop);
	struct kr_session *session = kr_session_find(&f->server, node->hello.session);

	(void)fid;
	if (session)
		session->patient_ns = kr_clock_ns();
}

static void nor_for_one_that_takes_its_answers_slowly(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid;
	uint64_t id = send_cut(f, &fid);

	assert_in_range(wait_beside(f, id, take_slowly, &fid, 20 * MOMENTS), 0, (KR_SESSION_ASK_LEASES + 1) * MOMENTS + SLACK);
}

static void a_lease_is_not_waited_for_for_ever_either(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_READ);

	node_asked(f->nodes[HOSTILE], KR_MSG_RECALL);
	assert_in_range(wait_beside(f, id, only_connect_anew, &fid, 20 * MOMENTS), 0, (KR_SESSION_ASK_LEASES + 1) * MOMENTS + SLACK);
}

/* Each of its sessions inherits the lease from the one before. */
static void nor_is_one_of_a_node_that_begins_anew(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_READ);

	node_asked(f->nodes[HOSTILE], KR_MSG_RECALL);
	assert_in_range(wait_beside(f, id, begin_anew, &fid, 20 * MOMENTS), 0, (KR_SESSION_CLAIM_LEASES + 1) * MOMENTS + SLACK);
}

static void nor_is_its_file_s_size(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = node_send(f->nodes[HONEST], KR_MSG_GETATTR, &(struct kr_getattr_request){.file = fid});

	node_asked(f->nodes[HOSTILE], KR_MSG_QUERY);
	assert_in_range(wait_beside(f, id, begin_anew, &fid, 20 * MOMENTS), 0, (KR_SESSION_ASK_LEASES + 1) * MOMENTS + SLACK);
}

static void who_inherits_a_lease_and_reclaims_nothing_does_not_keep_it(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_READ);

	node_asked(f->nodes[HOSTILE], KR_MSG_RECALL);
	node_disconnect(f->nodes[HOSTILE]);
	assert_int_equal(node_hello(f->nodes[HOSTILE], false), 0);
	wait_beside(f, id, do_nothing, &fid, (KR_SESSION_CLAIM_LEASES + 1) * MOMENTS + SLACK);
}

static void nor_does_who_begins_to_inherit_again_and_again(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_READ);
	int moments = 0;

	node_asked(f->nodes[HOSTILE], KR_MSG_RECALL);
	for (; is_unanswered(f, id) && moments < 30 * MOMENTS; moments++) {
		if (moments % (MOMENTS / 2) == 0) {
			node_disconnect(f->nodes[HOSTILE]);
			f->nodes[HOSTILE]->asked_count = f->nodes[HOSTILE]->answer_count = 0;
			node_hello(f->nodes[HOSTILE], false);
		}
		a_moment_later(f, f->nodes[HONEST]);
	}
	assert_in_range(moments, 0, (KR_SESSION_CLAIM_LEASES + 1) * MOMENTS + SLACK);
}

/* --- what an heir has not been asked yet ----------------------------------------------------------------------------- */

/* The hostile node has begun anew and not yet said what it still has of FID, whose size the honest one wants to know. */
static struct kr_session *heir_of(struct fixture *f, const struct kr_fid *fid, uint64_t *ret_id)
{
	struct node *node = f->nodes[HOSTILE];
	struct kr_session *session;

	node_disconnect(node);
	node->asked_count = node->answer_count = 0;
	assert_int_equal(node_hello(node, false), 0);
	session = kr_session_find(&f->server, node->hello.session);
	assert_true(session->inheriting);
	if (ret_id)
		*ret_id = node_send(f->nodes[HONEST], KR_MSG_GETATTR, &(struct kr_getattr_request){.file = *fid});
	return session;
}

static void pass_leases(struct fixture *f, int halves)
{
	for (int moment = 0; moment < halves * MOMENTS / 2; moment++) {
		a_moment_later(f, f->nodes[HONEST]);
		assert_true(ping(f->nodes[HOSTILE]));
	}
}

static void recover(struct node *node, const struct kr_fid *fid)
{
	const struct kr_reclaim_request reclaim = {.file = *fid, .kinds = KR_LEASE_WRITE, .opens = 1};

	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, NULL), 0);
	assert_false(node_has_unanswered(&(struct node_wait){node, 0, KR_MSG_QUERY}));
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
}

static void answer_size(struct fixture *f, uint64_t id)
{
	node_reply(f->nodes[HOSTILE], node_asked(f->nodes[HOSTILE], KR_MSG_QUERY), &(struct kr_query_reply){0});
	assert_int_equal(node_result(f->nodes[HONEST], id, NULL), 0);
	assert_int_equal(f->server.sessions_lost, 0);
}

static void who_recovers_for_long_and_is_asked_only_then_has_its_time_to_answer(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id;

	heir_of(f, &fid, &id);
	pass_leases(f, 2 * (KR_SESSION_ASK_LEASES + 2));
	recover(f->nodes[HOSTILE], &fid);
	pass_leases(f, 1);
	answer_size(f, id);
}

static void so_has_who_owed_it_in_a_former_session(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = node_send(f->nodes[HONEST], KR_MSG_GETATTR, &(struct kr_getattr_request){.file = fid});

	node_asked(f->nodes[HOSTILE], KR_MSG_QUERY);
	pass_leases(f, 1);
	heir_of(f, &fid, NULL);
	pass_leases(f, 2 * 3);
	heir_of(f, &fid, NULL); /* killed once more before it got so far */
	pass_leases(f, 2 * 3);
	recover(f->nodes[HOSTILE], &fid);
	pass_leases(f, 1);
	answer_size(f, id);
}

static void but_no_longer_than_anybody_else(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id;

	heir_of(f, &fid, &id);
	pass_leases(f, 2 * 2);
	recover(f->nodes[HOSTILE], &fid);
	assert_in_range(wait_beside(f, id, do_nothing, &fid, 20 * MOMENTS), MOMENTS, 2 * MOMENTS + SLACK);
}

static void answer_stable(struct node *node)
{
	while (node->conn && node_has_unanswered(&(struct node_wait){node, 0, KR_MSG_STABLE}))
		node_reply(node, node_asked(node, KR_MSG_STABLE), NULL);
}

static unsigned turns;

static void begin_to_inherit(struct node *node, const struct kr_fid *fid)
{
	if (node->conn && !node->closed)
		recover(node, fid);
	node_disconnect(node);
	node->asked_count = node->answer_count = 0;
	node_hello(node, false);
}

static void recover_and_begin_anew(struct node *node, const struct kr_fid *fid)
{
	answer_stable(node);
	if (++turns % (3 * 6) == 0) /* three lease times */
		begin_to_inherit(node, fid);
}

/* Each time it is asked only just before it begins anew. */
static void nor_if_it_recovers_for_long_again_and_again(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id;

	heir_of(f, &fid, &id);
	turns = 0;
	wait_beside(f, id, recover_and_begin_anew, &fid, (KR_SESSION_CLAIM_LEASES + 1) * MOMENTS + SLACK);
}

/* As if rounds of other files, which it replays, went in all the time. */
static void replay(struct node *node, const struct kr_fid *fid)
{
	struct fixture *f = KR_CONTAINER_OF(node->loop, struct fixture, loop);
	struct kr_session *session = kr_session_find(&f->server, node->hello.session);

	(void)fid;
	if (session)
		session->replayed_ns = kr_clock_ns();
	answer_stable(node);
}

/* The honest one waits for a lease of an heir that has reclaimed it, and replays. */
static void wait_for_replays(struct fixture *f, uint64_t sleep_ms)
{
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	const struct kr_reclaim_request reclaim = {.file = fid, .kinds = KR_LEASE_WRITE, .opens = 1};
	uint64_t id;

	heir_of(f, &fid, NULL);
	assert_int_equal(node_call(f->nodes[HOSTILE], KR_MSG_RECLAIM, &reclaim, NULL), 0);
	id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_READ);
	node_asked(f->nodes[HOSTILE], KR_MSG_RECALL);
	move_clock(sleep_ms);
	assert_in_range(wait_beside(f, id, replay, &fid, 20 * MOMENTS), (KR_SESSION_CLAIM_LEASES - 1) * MOMENTS,
		(KR_SESSION_CLAIM_LEASES + 2) * MOMENTS + SLACK);
}

static void who_replays_may_take_its_time_but_not_for_ever(void **state)
{
	wait_for_replays(*state, 0);
}

/* Without data, as if it had been cut away since: taken nevertheless. */
static void replay_nothing(struct node *node, const struct kr_fid *fid)
{
	static uint64_t number;

	number++;

	const struct kr_flush_request flush = {.file = *fid, .flags = KR_FLUSH_INLINE | KR_FLUSH_REPLAY, .seq = number,
		.replay_round = (UINT64_C(1) << 40) + number, .replay_order = number};

	node->answer_count = 0;
	if (node->conn && !node->closed)
		node_call(node, KR_MSG_FLUSH, &flush, NULL);
	answer_stable(node);
}

/* It says for ever not what it still holds, so that it is not even asked for it. */
static void nor_for_ever_while_it_has_not_said_what_it_holds(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id;

	heir_of(f, &fid, NULL);
	id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_READ);
	assert_in_range(wait_beside(f, id, replay_nothing, &fid, 30 * MOMENTS), (KR_SESSION_CLAIM_LEASES - 1) * MOMENTS,
		(KR_SESSION_CLAIM_LEASES + 2) * MOMENTS + SLACK);
}

/* ... but as long as nobody waits for that it is left in peace. */
static void who_replays_for_long_what_nobody_waits_for_is_not_lost(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);

	heir_of(f, &fid, NULL);
	for (int moment = 0; moment < (KR_SESSION_CLAIM_LEASES + 3) * MOMENTS; moment++) {
		if (moment % (MOMENTS / 6) == 0)
			replay_nothing(f->nodes[HOSTILE], &fid);
		a_moment_later_both(f);
	}
	assert_int_equal(f->server.sessions_lost, 0);
	recover(f->nodes[HOSTILE], &fid);
}

static void that_the_server_slept_does_not_shorten_it(void **state)
{
	wait_for_replays(*state, KR_SESSION_CLAIM_LEASES * LEASE_MS);
}

/* The lease is gone with the session: nobody waits for it any more. */
static void who_has_inherited_no_lease_owes_none(void **state)
{
	struct fixture *f = *state;
	struct node *node = f->nodes[HOSTILE];
	struct kr_fid fid = create_as(node, "f", 0, KR_LEASE_READ);
	struct kr_sfile *file = kr_sfile_find(&f->server, &fid);
	struct kr_attachment *attachment = kr_attachment_find(file, kr_session_find(&f->server, node->hello.session));
	uint64_t id;

	attachment->cover.refused = true;
	attachment->cover.lost = 1;
	attachment->left_size_ns = kr_clock_ns();
	id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_WRITE);
	node_asked(node, KR_MSG_RECALL);
	node_disconnect(node);
	node->asked_count = node->answer_count = 0;
	assert_int_equal(node_hello(node, false), 0);
	assert_int_equal(node_result(f->nodes[HONEST], id, NULL), 0);
	attachment = kr_attachment_find(file, kr_session_find(&f->server, node->hello.session));
	assert_int_equal(attachment->owed_size_ns, 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	pass_leases(f, 2 * (KR_SESSION_ASK_LEASES + 1));
	assert_int_equal(node_call(f->nodes[HONEST], KR_MSG_RETURN, &(struct kr_return_request){.file = fid, .kinds = KR_LEASE_WRITE}, NULL), 0);
	assert_int_equal(node_result(node, send_lease(node, &fid, KR_LEASE_READ), NULL), 0);
	id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_WRITE);
	node_asked(node, KR_MSG_RECALL);
	pass_leases(f, 1);
	node_reply(node, node_asked(node, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(f->nodes[HONEST], id, NULL), 0);
	assert_int_equal(f->server.sessions_lost, 0);
}

/* --- who works ------------------------------------------------------------------------------------------------------- */

/* Its link breaks all the time, but what it has gets through. */
static void who_flushes_over_many_connections_may_take_its_time(void **state)
{
	struct fixture *f = *state;
	struct node *busy = f->nodes[HOSTILE];
	struct kr_flush_request flush = {.file = create_as(busy, "f", 0, KR_LEASE_WRITE), .flags = 1};
	uint64_t id = send_lease(f->nodes[HONEST], &flush.file, KR_LEASE_READ);

	node_asked(busy, KR_MSG_RECALL);
	for (int moment = 0; moment < 3 * KR_SESSION_ASK_LEASES * MOMENTS; moment++) {
		if (moment % (MOMENTS * 3 / 4) == MOMENTS / 2) {
			connect_anew(busy);
			assert_int_equal(busy->hello.resumed, 1);
			flush.seq++;
			assert_int_equal(node_call(busy, KR_MSG_FLUSH, &flush, NULL), 0);
		}
		a_moment_later(f, f->nodes[HONEST]);
		while (busy->conn && node_has_unanswered(&(struct node_wait){busy, 0, KR_MSG_STABLE}))
			node_reply(busy, node_asked(busy, KR_MSG_STABLE), NULL);
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
	assert_int_equal(f->server.sessions_lost, 0);
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
	assert_in_range(moments, 2 * MOMENTS, (KR_SESSION_ASK_LEASES + 1) * MOMENTS + SLACK);
	assert_int_equal(f->server.sessions_lost, 0);
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

/* --- what is asked for requests of sessions that have ended ---------------------------------------------------------- */

enum { CUTS = 40 };

static size_t unanswered_requests(const struct fixture *f)
{
	const struct kr_link *link;
	size_t count = 0;

	for (link = f->server.unanswered.head.next; link != &f->server.unanswered.head; link = link->next)
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
	assert_true(kr_list_empty(&session->asks));
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
	assert_int_equal(kr_session_find(&f->server, asker->hello.session)->strays, CUTS);
	assert_int_equal(node_call(asker, KR_MSG_GOODBYE, NULL, NULL), 0);
	assert_true(kr_list_empty(&session->asks));
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
		assert_int_not_equal(kr_session_ask(session, KR_MSG_QUERY, &query, NULL, NULL), 0);
		assert_in_range(kr_conn_queued(session->conn), 0, KR_SESSION_QUEUE_MAX + 1024);
	}
	assert_true(session->withheld);
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
		TEST(nor_is_one_of_a_node_that_begins_anew),
		TEST(nor_is_its_file_s_size),
		TEST(nor_is_the_size_of_one_that_cuts_it_and_answers_late),
		TEST(who_inherits_a_lease_and_reclaims_nothing_does_not_keep_it),
		TEST(nor_does_who_begins_to_inherit_again_and_again),
		TEST(who_recovers_for_long_and_is_asked_only_then_has_its_time_to_answer),
		TEST(so_has_who_owed_it_in_a_former_session),
		TEST(but_no_longer_than_anybody_else),
		TEST(nor_if_it_recovers_for_long_again_and_again),
		TEST(who_replays_may_take_its_time_but_not_for_ever),
		TEST(nor_for_ever_while_it_has_not_said_what_it_holds),
		TEST(who_replays_for_long_what_nobody_waits_for_is_not_lost),
		TEST(that_the_server_slept_does_not_shorten_it),
		TEST(who_has_inherited_no_lease_owes_none),
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

/* Heirs: who begins anew has what its last session had, and is not asked for that before it has said what it still
 * holds of it; but others do not wait for ever for one that never says so.
 */
#include "test/unit/server/session/neglect_fixture.h"

/* Each of its sessions inherits the lease from the one before. */
static void the_lease_of_one_that_begins_anew_is_not_waited_for_for_ever(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_READ);

	node_asked(f->nodes[HOSTILE], KR_MSG_RECALL);
	assert_in_range(
		wait_beside(f, id, begin_anew, &fid, 20 * MOMENTS), 0, (KR_SESSION_CLAIM_LEASES + 1) * MOMENTS + SLACK);
}

static void nor_is_its_file_s_size_that_it_knows(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = node_send(f->nodes[HONEST], KR_MSG_GETATTR, &(struct kr_getattr_request){.file = fid});

	node_asked(f->nodes[HOSTILE], KR_MSG_QUERY);
	assert_in_range(wait_beside(f, id, begin_anew, &fid, 20 * MOMENTS), 0,
		(KR_SESSION_CALLBACK_LEASES + 1) * MOMENTS + SLACK);
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

/* --- what an successor has not been asked yet ------------------------------------------------- */

/* The hostile node has begun anew and not yet said what it still has of FID, whose size the honest one wants to know.
 */
static struct kr_session *heir_of(struct fixture *f, const struct kr_fid *fid, uint64_t *ret_id)
{
	struct node *node = f->nodes[HOSTILE];
	struct kr_session *session;

	node_disconnect(node);
	node->asked_count = node->answer_count = 0;
	assert_int_equal(node_hello(node, false), 0);
	session = kr_session_find(&f->server, node->hello.session);
	assert_true(session->recovery.inheriting);
	if (ret_id)
		*ret_id = node_send(f->nodes[HONEST], KR_MSG_GETATTR, &(struct kr_getattr_request){.file = *fid});
	return session;
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
	assert_int_equal(f->server.sessions->lost, 0);
}

static void who_recovers_for_long_and_is_asked_only_then_has_its_time_to_answer(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id;

	heir_of(f, &fid, &id);
	pass_leases(f, 2 * (KR_SESSION_CALLBACK_LEASES + 2));
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
	pass_leases(f, 2 * (KR_SESSION_CALLBACK_LEASES + 1));
	assert_int_equal(node_call(f->nodes[HONEST], KR_MSG_RETURN,
				 &(struct kr_return_request){.file = fid, .kinds = KR_LEASE_WRITE}, NULL),
		0);
	assert_int_equal(node_result(node, send_lease(node, &fid, KR_LEASE_READ), NULL), 0);
	id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_WRITE);
	node_asked(node, KR_MSG_RECALL);
	pass_leases(f, 1);
	node_reply(node, node_asked(node, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(f->nodes[HONEST], id, NULL), 0);
	assert_int_equal(f->server.sessions->lost, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_two, teardown)
		TEST(the_lease_of_one_that_begins_anew_is_not_waited_for_for_ever),
		TEST(nor_is_its_file_s_size_that_it_knows),
		TEST(who_inherits_a_lease_and_reclaims_nothing_does_not_keep_it),
		TEST(nor_does_who_begins_to_inherit_again_and_again),
		TEST(who_recovers_for_long_and_is_asked_only_then_has_its_time_to_answer),
		TEST(so_has_who_owed_it_in_a_former_session),
		TEST(but_no_longer_than_anybody_else),
		TEST(nor_if_it_recovers_for_long_again_and_again),
		TEST(who_has_inherited_no_lease_owes_none),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_heirs", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

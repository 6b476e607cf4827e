/* Late nodes at the server: who waits for what they bring, and whom they wait for. */
#include "test/unit/server/recovery/late_fixture.h"

#include "common/base/log.h"
#include "server/leases/file_table.h"
#include "server/session/session.h"

/* Also of one that held WRITE before: what it has written since is not known before it is here. */
static void late_bytes_wait_for_what_others_have_written_but_not_flushed(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	const union kr_any_msg *reply;
	struct node_asked *recall;
	struct kr_sfile *file;
	uint64_t id;

	lose(f, node, other);
	assert_int_equal(node_result(other, send_lease(other, &fid, KR_LEASE_WRITE), NULL), 0);
	back(node);
	id = send_reclaim(node, &fid, just_now());
	recall = node_asked(other, KR_MSG_RECALL);
	settle(node);
	assert_false(is_answered(node, id));
	file = kr_sfile_find(&f->server, &fid); /* its flush */
	kr_sfile_changing(file);
	kr_sfile_changed(file);
	node_reply(other, recall, NULL);
	assert_int_equal(node_result(node, id, &reply), 0);
	assert_true(reply->reclaim_reply.conflict);
}

static void a_reader_in_between_is_no_conflict_and_gives_its_lease_up(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	const union kr_any_msg *reply;
	uint64_t id;

	lose(f, node, other);
	assert_int_equal(node_result(other, send_lease(other, &fid, KR_LEASE_READ), NULL), 0);
	back(node);
	id = send_reclaim(node, &fid, never);
	node_reply(other, node_asked(other, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(node, id, &reply), 0);
	assert_false(reply->reclaim_reply.conflict);
	assert_int_equal(reply->reclaim_reply.kinds, KR_LEASE_ALL);
}

/* What others write after the judgement comes after the late bytes. */
static void who_wants_to_write_waits_for_the_late_bytes(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	uint64_t id;

	lose(f, node, other);
	back(node);
	assert_false(in_conflict(node, &fid, never));
	id = send_lease(other, &fid, KR_LEASE_WRITE);
	settle(other);
	assert_false(is_answered(other, id));
	node_reply(node, node_asked(node, KR_MSG_RECALL), NULL); /* it has flushed */
	assert_int_equal(node_result(other, id, NULL), 0);
}

/* Killed before it has flushed, and started anew within the lease time. */
static void who_wants_to_write_waits_for_late_bytes_of_a_daemon_that_is_started_anew(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	uint64_t id;

	lose(f, node, other);
	back(node);
	assert_false(in_conflict(node, &fid, never));
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_disconnect(node);
	assert_int_equal(node_hello(node, false), 0);
	assert_int_equal(node->hello.late, 0);
	assert_false(in_conflict(node, &fid, never));
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	id = send_lease(other, &fid, KR_LEASE_WRITE);
	settle(other);
	assert_false(is_answered(other, id));
	node_reply(node, node_asked(node, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(other, id, NULL), 0);
}

/* Each has bytes of both files, and gets one of them first: neither can flush before its other RECLAIM is answered. */
static void two_late_nodes_do_not_wait_for_each_other(void **state)
{
	struct fixture *f = *state;
	struct node *one = joined(f, 0), *two = joined(f, 1), *other = joined(f, 2);
	struct kr_fid a = create(one, "a", KR_LEASE_WRITE), b = create(two, "b", KR_LEASE_WRITE);
	const union kr_any_msg *reply;

	node_disconnect(two);
	lose(f, one, other);
	while (f->server.sessions->lost < 2)
		a_moment_later(f, other);
	back(one);
	back(two);
	assert_false(in_conflict(one, &a, never));
	assert_false(in_conflict(two, &b, never));
	assert_int_equal(node_result(one, send_reclaim(one, &b, never), &reply), 0);
	assert_true(reply->reclaim_reply.conflict);
	assert_int_equal(node_result(two, send_reclaim(two, &a, never), &reply), 0);
	assert_true(reply->reclaim_reply.conflict);
}

/* The same while others must be waited for first: whoever asked first for a file gets it, and the other is not let
 * wait. */
static void late_nodes_that_wait_for_others_do_not_wait_for_each_other(void **state)
{
	struct fixture *f = *state;
	struct node *one = joined(f, 0), *two = joined(f, 1), *other = joined(f, 2);
	struct kr_fid a = create(one, "a", KR_LEASE_WRITE), b = create(two, "b", KR_LEASE_WRITE);
	const union kr_any_msg *reply;
	uint64_t one_a, one_b, two_a, two_b;

	node_disconnect(two);
	lose(f, one, other);
	while (f->server.sessions->lost < 2)
		a_moment_later(f, other);
	assert_int_equal(node_result(other, send_lease(other, &a, KR_LEASE_WRITE), NULL), 0);
	assert_int_equal(node_result(other, send_lease(other, &b, KR_LEASE_WRITE), NULL), 0);
	back(one);
	back(two);
	one_a = send_reclaim(one, &a, just_now());
	settle(one);
	two_b = send_reclaim(two, &b, just_now());
	settle(two);
	one_b = send_reclaim(one, &b, just_now());
	two_a = send_reclaim(two, &a, just_now());
	settle(one);
	settle(two);
	node_reply(other, node_asked(other, KR_MSG_RECALL), NULL);
	node_reply(other, node_asked(other, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(one, one_a, &reply), 0);
	assert_int_equal(reply->reclaim_reply.kinds, KR_LEASE_ALL);
	assert_int_equal(node_result(two, two_b, &reply), 0);
	assert_int_equal(reply->reclaim_reply.kinds, KR_LEASE_ALL);
	assert_int_equal(node_result(one, one_b, &reply), 0);
	assert_true(reply->reclaim_reply.conflict);
	assert_int_equal(node_result(two, two_a, &reply), 0);
	assert_true(reply->reclaim_reply.conflict);
}

/* LATE has reclaimed "a" and waits for what BUSY flushes of "b"; somebody else wants "a". */
static void begin_to_wait(struct fixture *f, struct node *late, struct node *busy, struct kr_fid *ret_b)
{
	struct kr_fid a = create(late, "a", KR_LEASE_WRITE);

	*ret_b = create(late, "b", KR_LEASE_WRITE);
	lose(f, late, busy);
	assert_int_equal(node_result(busy, send_lease(busy, ret_b, KR_LEASE_WRITE), NULL), 0);
	back(late);
	assert_false(in_conflict(late, &a, never));
	send_reclaim(late, ret_b, just_now());
	send_lease(busy, &a, KR_LEASE_READ);
	node_asked(late, KR_MSG_RECALL);
	node_asked(busy, KR_MSG_RECALL);
}

/* Flushes FID again and again until LEASES lease times have passed or LATE is heard no more; both say that they live.
 */
static void flush_for(
	struct fixture *f, struct node *busy, struct node *late, const struct kr_fid *fid, unsigned leases)
{
	struct kr_flush_request flush = {.file = *fid, .flags = 1};

	for (unsigned moment = 0; !late->closed && moment < leases * (LEASE_MS / MOMENT_MS); moment++) {
		if (moment % 4 == 0) {
			flush.seq++;
			assert_int_equal(node_call(busy, KR_MSG_FLUSH, &flush, NULL), 0);
			if (late->conn) /* its end may have come just now */
				node_send_as(late, 1000 + flush.seq, 0, KR_MSG_PING, NULL);
		}
		a_moment_later(f, busy);
	}
}

static void a_late_node_may_leave_recalls_unanswered_while_its_reclaims_are(void **state)
{
	struct fixture *f = *state;
	struct node *late = joined(f, 0), *busy = joined(f, 1);
	struct kr_fid b;

	begin_to_wait(f, late, busy, &b);
	flush_for(f, busy, late, &b, 4);
	assert_false(late->closed);
	assert_non_null(kr_session_find(&f->server, late->hello.session));
}

static void nobody_can_reclaim_for_ever(void **state)
{
	struct fixture *f = *state;
	struct node *late = joined(f, 0), *busy = joined(f, 1);
	struct kr_fid b;

	begin_to_wait(f, late, busy, &b);
	flush_for(f, busy, late, &b, KR_SESSION_CLAIM_LEASES + 2);
	assert_true(late->closed);
}

static bool a_job_runs(void *context)
{
	return ((struct fixture *)context)->server.jobs > 0;
}

/* The grace period ends for a node while its file is being looked at: others may write from then on, so they are asked
 * first. */
static void a_node_that_is_made_late_while_its_reclaim_runs_has_the_file_alone_when_it_is_judged(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	const struct kr_reclaim_request held = {.file = fid, .kinds = KR_LEASE_WRITE};
	uint64_t id;

	restart_server(f);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_hello(other, true), 0);
	assert_int_equal(node_call(other, KR_MSG_RECLAIM, &held, NULL), 0);
	assert_true(node_wait_for(&f->loop, the_disk_rests, f));
	id = send_reclaim(node, &fid, just_now());
	assert_true(node_wait_for(&f->loop, a_job_runs, f));
	kr_session_find(&f->server, node->hello.session)->recovery.lapse =
		(struct kr_lapse){.kind = KR_LAPSE_KNOWN, .epoch = f->server.files->epoch};
	settle(other);
	assert_false(is_answered(node, id));
	assert_int_equal(node_call(other, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	f->server.sessions->grace.ends_ns = f->server.sessions->grace.latest_ns = 1;
	node_asked(other, KR_MSG_RECALL);
	assert_false(is_answered(node, id));
	node_reply(other, node_asked(other, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(node, id, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(late_bytes_wait_for_what_others_have_written_but_not_flushed),
		TEST(a_reader_in_between_is_no_conflict_and_gives_its_lease_up),
		TEST(who_wants_to_write_waits_for_the_late_bytes),
		TEST(who_wants_to_write_waits_for_late_bytes_of_a_daemon_that_is_started_anew),
		TEST(two_late_nodes_do_not_wait_for_each_other),
		TEST(late_nodes_that_wait_for_others_do_not_wait_for_each_other),
		TEST(a_late_node_may_leave_recalls_unanswered_while_its_reclaims_are),
		TEST(nobody_can_reclaim_for_ever),
		TEST(a_node_that_is_made_late_while_its_reclaim_runs_has_the_file_alone_when_it_is_judged),
	};

	kr_log_init("test_late_waits", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

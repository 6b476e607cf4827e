/* Late nodes at the server: who is late, and what of it is in conflict.  Who waits for whom: test_late_waits.c. */
#include "test/unit/server/recovery/late_fixture.h"

#include "common/base/log.h"
#include "server/base/state_priv.h"

static void late_bytes_of_an_untouched_file_are_welcome(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE), elsewhere = create(other, "g", 0);

	overtake(f, node, other, &elsewhere);
	assert_false(in_conflict(node, &fid, never));
}

static void late_bytes_of_a_file_that_another_changed_are_in_conflict(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	overtake(f, node, other, &fid);
	assert_true(in_conflict(node, &fid, just_now()));
	assert_true(in_conflict(node, &fid, just_now()));
}

static void a_conflict_stays_one_when_node_and_server_begin_anew(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	overtake(f, node, other, &fid);
	assert_true(in_conflict(node, &fid, just_now()));
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_disconnect(node);
	assert_int_equal(node_hello(node, false), 0);
	assert_true(in_conflict(node, &fid, just_now()));
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	restart_server(f);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.late, 0);
	assert_true(in_conflict(node, &fid, just_now()));
}

static void a_node_lost_again_before_it_has_reclaimed_is_late_since_the_first_time(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	overtake(f, node, other, &fid);
	lose(f, node, other);
	back(node);
	assert_true(in_conflict(node, &fid, just_now()));
}

/* The state directory's disk is full. */
static int fill_log(struct fixture *f)
{
	int saved = dup(f->server.recovery->conflicts.fd);
	KR_AUTO_FD int full = open("/dev/full", O_WRONLY);

	assert_true(saved >= 0 && full >= 0 && dup2(full, f->server.recovery->conflicts.fd) >= 0);
	return saved;
}

static void empty_log(struct fixture *f, int saved)
{
	assert_true(dup2(saved, f->server.recovery->conflicts.fd) >= 0);
	close(saved);
}

/* Else the next instance of the server would know nothing of it, and the node has seen the new times. */
static void who_is_told_of_a_conflict_can_count_on_it(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_reclaim_request reclaim = {.file = fid, .opens = 1, .first = 5, .last = 9, .since = just_now()};
	int saved;

	overtake(f, node, other, &fid);
	saved = fill_log(f);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, NULL), -EIO);
	assert_int_equal(f->server.recovery->conflicts.count, 0);
	empty_log(f, saved);
	assert_true(in_conflict(node, &fid, just_now()));
}

/* It is killed, or its server is, before the disk has room again: neither makes its bytes welcome. */
static void who_cannot_be_told_of_a_conflict_stays_late(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_time since = just_now();
	int saved;

	lose(f, node, other);
	cut(other, &fid, 7);
	back(node);
	saved = fill_log(f);
	assert_int_equal(node_result(node, send_reclaim(node, &fid, since), NULL), -EIO);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_disconnect(node);
	assert_int_equal(node_hello(node, false), 0); /* as a new daemon does, within the lease time */
	assert_int_equal(node->hello.late, 1);
	assert_int_equal(node_result(node, send_reclaim(node, &fid, since), NULL), -EIO);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	empty_log(f, saved);
	assert_true(in_conflict(node, &fid, since)); /* it asks again */
	restart_server(f);
	joined(f, 1);
	back(node);
	assert_true(in_conflict(node, &fid, since));
}

/* However long its session lives, it is not recorded as one that has its leases. */
static void who_cannot_be_told_of_a_conflict_is_late_at_the_next_server(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_time since = just_now();
	int saved;

	lose(f, node, other);
	cut(other, &fid, 7);
	back(node);
	saved = fill_log(f);
	assert_int_equal(node_result(node, send_reclaim(node, &fid, since), NULL), -EIO);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	for (int i = 0; i < 4; i++) {
		settle(node);
		a_moment_later(f, other);
	}
	empty_log(f, saved);
	restart_server(f);
	joined(f, 1);
	back(node);
	assert_true(in_conflict(node, &fid, since));
}

static void after_a_restart_the_time_decides_of_a_node_lost_before(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE), second = create(node, "g", KR_LEASE_WRITE);

	lose(f, node, other);
	node_disconnect(other);
	stop_server(f);
	start_server(f);
	back(node);
	assert_int_equal(node_hello(other, true), 0);
	assert_int_equal(node_call(other, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_false(in_conflict(node, &fid, just_now()));
	assert_true(in_conflict(node, &second, always));
}

/* Others' changes are of before what was written earlier. */
static void after_a_restart_a_clock_that_was_set_back_decides_nothing(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE), second = create(node, "g", KR_LEASE_WRITE);
	struct kr_time ahead = just_now();

	lose(f, node, other);
	cut(other, &fid, 7);
	node_disconnect(other);
	stop_server(f);
	start_server(f);
	back(node);
	assert_int_equal(node_hello(other, true), 0);
	assert_int_equal(node_call(other, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	ahead.sec += 3600;
	assert_true(in_conflict(node, &fid, ahead));
	ahead = just_now();
	ahead.sec += 1; /* as wrong as a node may be about our clock */
	assert_false(in_conflict(node, &second, ahead));
}

static void who_reclaims_in_the_grace_period_is_not_late(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	restart_server(f);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.late, 0);
	assert_false(in_conflict(node, &fid, never));
}

static bool grace_is_over(void *fixture)
{
	return !((const struct fixture *)fixture)->server.sessions->grace.active;
}

/* Killed after it has reclaimed, and started anew: its leases are kept for it, so its bytes need no judgement.  (One
 * that found its own round of before still running would take that for another node's change.) */
static void who_begins_anew_after_it_has_reclaimed_is_not_late_when_the_grace_period_ends(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	restart_server(f);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_hello(other, true), 0);
	assert_false(in_conflict(node, &fid, never));
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_disconnect(node);
	assert_int_equal(node_hello(node, false), 0);
	assert_int_equal(node->hello.late, 0);
	assert_int_equal(node_call(other, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_true(node_wait_for(&f->loop, grace_is_over, f));
	assert_int_equal(kr_session_find(&f->server, node->hello.session)->recovery.lapse.kind, KR_LAPSE_NONE);
	assert_false(in_conflict(node, &fid, never));
}

static void who_is_not_awaited_gets_nothing_before_the_grace_period_is_over(void **state)
{
	struct fixture *f = *state;
	struct node *awaited = joined(f, 0), *late = joined(f, 1);
	struct kr_fid fid = create(awaited, "f", KR_LEASE_READ);
	uint64_t id;

	lose(f, late, awaited);
	restart_server(f);
	back(late);
	id = send_reclaim(late, &fid, just_now());
	settle(late);
	assert_false(is_answered(late, id));
	assert_true(f->server.sessions->grace.active);
	assert_int_equal(node_hello(awaited, true), 0);
	assert_int_equal(node_call(awaited, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_int_equal(node_result(late, id, NULL), 0);
	assert_false(f->server.sessions->grace.active);
}

/* Nobody writes while the disk is slow: a record is being removed, and HELLO has come. */
static bool hello_has_come(void *context)
{
	struct fixture *f = context;
	const struct kr_list *changes = &f->server.state->changes;

	return kr_session_find_node_id(&f->server, f->nodes[0]->node_id) || changes->head.next->next != &changes->head;
}

/* When its record is gone others go on, and get what it had. */
static void who_comes_back_while_it_is_being_forgotten_is_late(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_setattr_request msg = {.file = fid, .valid = KR_SET_SIZE, .size = 7};
	const uint8_t nobody[16] = {0};
	const union kr_any_msg *reply;
	uint64_t id, hello;

	restart_server(f);
	assert_int_equal(node_hello(other, true), 0);
	assert_int_equal(node_call(other, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	id = node_send(other, KR_MSG_SETATTR, &msg);
	settle(other);
	f->server.state->changing = true; /* the disk is slow */
	while (!f->server.sessions->forgetting)
		a_moment_later(f, other);
	hello = node_send_hello(node, true);
	assert_true(node_wait_for(&f->loop, hello_has_come, f));
	f->server.state->changing = false;
	kr_state_forget_node(&f->server, nobody, NULL, NULL);
	assert_int_equal(node_result(other, id, NULL), 0);
	assert_int_equal(node_result(node, hello, &reply), 0);
	assert_false(f->server.sessions->grace.active);
	assert_true(in_conflict(node, &fid, just_now()));
	assert_int_equal(reply->hello_reply.late, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(late_bytes_of_an_untouched_file_are_welcome),
		TEST(late_bytes_of_a_file_that_another_changed_are_in_conflict),
		TEST(a_conflict_stays_one_when_node_and_server_begin_anew),
		TEST(a_node_lost_again_before_it_has_reclaimed_is_late_since_the_first_time),
		TEST(who_is_told_of_a_conflict_can_count_on_it),
		TEST(who_cannot_be_told_of_a_conflict_stays_late),
		TEST(who_cannot_be_told_of_a_conflict_is_late_at_the_next_server),
		TEST(after_a_restart_the_time_decides_of_a_node_lost_before),
		TEST(after_a_restart_a_clock_that_was_set_back_decides_nothing),
		TEST(who_reclaims_in_the_grace_period_is_not_late),
		TEST(who_begins_anew_after_it_has_reclaimed_is_not_late_when_the_grace_period_ends),
		TEST(who_is_not_awaited_gets_nothing_before_the_grace_period_is_over),
		TEST(who_comes_back_while_it_is_being_forgotten_is_late),
	};

	kr_log_init("test_late", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

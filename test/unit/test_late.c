/* Late nodes at the server: who is late, and what of it is in conflict. */
#include "test/unit/late_fixture.h"

#include "common/log.h"
#include "server/data_priv.h"

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
	stop_server(f);
	start_server(f);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
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

static uint8_t conflict_of(struct node *node, const struct kr_reclaim_request *reclaim)
{
	const union kr_any_msg *reply;

	assert_int_equal(node_call(node, KR_MSG_RECLAIM, reclaim, &reply), 0);
	return reply->reclaim_reply.conflict;
}

/* What was applied before the lapse, and is to be replayed after a crash of the server's machine, is not what was declared. */
static void replays_of_before_are_not_in_conflict_with_the_late_bytes(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_reclaim_request replays = {.file = fid, .replay_first = 3, .replay_last = 4, .oldest = UINT64_MAX - 1,
		.newest = UINT64_MAX}, both = replays, joint = replays;

	both.first = 5;
	both.last = 9;
	joint.replay_last = 5; /* declared with the others, and killed before that was written down here */
	overtake(f, node, other, &fid);
	assert_true(in_conflict(node, &fid, just_now()));
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	stop_server(f);
	start_server(f);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_hello(node, false), 0);
	assert_int_equal(node->hello.late, 0);
	replays.since = both.since = joint.since = just_now(); /* nobody has changed it since */
	assert_int_equal(conflict_of(node, &replays), 0);
	assert_int_equal(conflict_of(node, &both), KR_CONFLICT_DIRTY);
	assert_int_equal(conflict_of(node, &joint), KR_CONFLICT_REPLAYS);
}

static void note_done(void *context, int err)
{
	assert_int_equal(err, 0);
	*(bool *)context = true;
}

static bool is_true(void *flag)
{
	return *(bool *)flag;
}

/* Lets the server know that FID is synced up to ROUND, all but the rounds up to LOST. */
static void note_synced(struct fixture *f, const struct kr_fid *fid, uint64_t lost, uint64_t round)
{
	struct kr_synced *synced = &f->server.data->synced;
	bool done = false;

	synced->lost = lost;
	kr_synced_note(synced, fid, round, note_done, &done);
	assert_true(node_wait_for(&f->loop, is_true, &done));
}

static void late_replays_of_what_is_synced_are_no_conflict(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	uint64_t last = f->server.data->last_round + 1000;
	struct kr_reclaim_request reclaim = {.file = fid, .replay_first = 3, .replay_last = 4, .oldest = last - 9, .newest = last - 1,
		.since = just_now()};

	overtake(f, node, other, &fid);
	note_synced(f, &fid, last - 100, last);
	assert_int_equal(conflict_of(node, &reclaim), 0);
	reclaim.newest = last + 1;
	assert_int_equal(conflict_of(node, &reclaim), KR_CONFLICT_REPLAYS);
}

/* Of a node that is not late at all: it was awaited, but others have been told meanwhile that later rounds are synced. */
static void replays_that_others_have_overtaken_are_judged(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	uint64_t last = f->server.data->last_round * 10;
	struct kr_reclaim_request reclaim = {.file = fid, .kinds = KR_LEASE_WRITE, .first = 5, .last = 9, .replay_first = 3,
		.replay_last = 4, .oldest = last - 9, .newest = last - 9, .since = just_now()};
	const union kr_any_msg *reply;

	stop_server(f);
	start_server(f);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.late, 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, &reply), 0);
	assert_int_equal(reply->reclaim_reply.conflict, 0);
	note_synced(f, &fid, last - 5, last);
	assert_int_equal(conflict_of(node, &reclaim), 0); /* nobody has changed it since */
	reclaim.since = never;
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, &reply), 0);
	assert_int_equal(reply->reclaim_reply.conflict, KR_CONFLICT_REPLAYS);
	assert_int_equal(reply->reclaim_reply.kinds, KR_LEASE_WRITE); /* what it has not flushed may go in */
}

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

/* Nobody had a lease of the file any more when the server lost its power. */
static void who_wants_to_write_waits_for_late_replays(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", 0);
	struct kr_reclaim_request reclaim = {.file = fid, .opens = 1, .replay_first = 3, .replay_last = 4, .oldest = UINT64_MAX - 1,
		.newest = UINT64_MAX};
	const union kr_any_msg *reply;
	uint64_t id;

	lose(f, node, other);
	back(node);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, &reply), 0);
	assert_int_equal(reply->reclaim_reply.conflict, 0);
	id = send_lease(other, &fid, KR_LEASE_WRITE);
	settle(other);
	assert_false(is_answered(other, id));
	node_reply(node, node_asked(node, KR_MSG_RECALL), NULL); /* it has replayed */
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
	while (f->server.sessions_lost < 2)
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

/* The same while others must be waited for first: whoever asked first for a file gets it, and the other is not let wait. */
static void late_nodes_that_wait_for_others_do_not_wait_for_each_other(void **state)
{
	struct fixture *f = *state;
	struct node *one = joined(f, 0), *two = joined(f, 1), *other = joined(f, 2);
	struct kr_fid a = create(one, "a", KR_LEASE_WRITE), b = create(two, "b", KR_LEASE_WRITE);
	const union kr_any_msg *reply;
	uint64_t one_a, one_b, two_a, two_b;

	node_disconnect(two);
	lose(f, one, other);
	while (f->server.sessions_lost < 2)
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

static void answer_stable(struct node *node)
{
	for (size_t i = 0; node->conn && i < node->asked_count; i++) {
		if (node->asked[i].type == KR_MSG_STABLE && !node->asked[i].answered)
			node_reply(node, &node->asked[i], NULL);
	}
}

/* Flushes FID again and again until LEASES lease times have passed or LATE is heard no more; both say that they live. */
static void flush_for(struct fixture *f, struct node *busy, struct node *late, const struct kr_fid *fid, unsigned leases)
{
	struct kr_flush_request flush = {.file = *fid, .flags = 1};

	for (unsigned moment = 0; !late->closed && moment < leases * (LEASE_MS / MOMENT_MS); moment++) {
		if (moment % 4 == 0) {
			flush.seq++;
			assert_int_equal(node_call(busy, KR_MSG_FLUSH, &flush, NULL), 0);
			if (late->conn) /* its end may have come just now */
				node_send_as(late, 1000 + flush.seq, 0, KR_MSG_PING, NULL);
		}
		answer_stable(busy);
		answer_stable(late);
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

/* Else the next instance of the server would know nothing of it, and the node has seen the new times. */
static void who_is_told_of_a_conflict_can_count_on_it(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_reclaim_request reclaim = {.file = fid, .opens = 1, .first = 5, .last = 9, .since = just_now()};
	int full = open("/dev/full", O_WRONLY), log;

	overtake(f, node, other, &fid);
	log = dup(f->server.conflicts.fd);
	assert_int_equal(dup2(full, f->server.conflicts.fd), f->server.conflicts.fd);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, NULL), -EIO);
	assert_int_equal(f->server.conflicts.count, 0);
	assert_int_equal(dup2(log, f->server.conflicts.fd), f->server.conflicts.fd);
	assert_true(in_conflict(node, &fid, just_now()));
	close(log);
	close(full);
}

/* The state directory's disk is full. */
static int fill_log(struct fixture *f)
{
	int saved = dup(f->server.conflicts.fd);
	KR_AUTO_FD int full = open("/dev/full", O_WRONLY);

	assert_true(saved >= 0 && full >= 0 && dup2(full, f->server.conflicts.fd) >= 0);
	return saved;
}

static void empty_log(struct fixture *f, int saved)
{
	assert_true(dup2(saved, f->server.conflicts.fd) >= 0);
	close(saved);
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
	stop_server(f);
	start_server(f);
	assert_true(node_wait_for(&f->loop, node_is_closed, node) && node_wait_for(&f->loop, node_is_closed, other));
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
	stop_server(f);
	start_server(f);
	assert_true(node_wait_for(&f->loop, node_is_closed, node) && node_wait_for(&f->loop, node_is_closed, other));
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

	stop_server(f);
	start_server(f);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.late, 0);
	assert_false(in_conflict(node, &fid, never));
}

static void who_is_not_awaited_gets_nothing_before_the_grace_period_is_over(void **state)
{
	struct fixture *f = *state;
	struct node *awaited = joined(f, 0), *late = joined(f, 1);
	struct kr_fid fid = create(awaited, "f", KR_LEASE_READ);
	uint64_t id;

	lose(f, late, awaited);
	stop_server(f);
	start_server(f);
	assert_true(node_wait_for(&f->loop, node_is_closed, awaited));
	back(late);
	id = send_reclaim(late, &fid, just_now());
	settle(late);
	assert_false(is_answered(late, id));
	assert_true(f->server.grace.active);
	assert_int_equal(node_hello(awaited, true), 0);
	assert_int_equal(node_call(awaited, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_int_equal(node_result(late, id, NULL), 0);
	assert_false(f->server.grace.active);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(late_bytes_of_an_untouched_file_are_welcome),
		TEST(late_bytes_of_a_file_that_another_changed_are_in_conflict),
		TEST(a_conflict_stays_one_when_node_and_server_begin_anew),
		TEST(a_node_lost_again_before_it_has_reclaimed_is_late_since_the_first_time),
		TEST(replays_of_before_are_not_in_conflict_with_the_late_bytes),
		TEST(late_replays_of_what_is_synced_are_no_conflict),
		TEST(replays_that_others_have_overtaken_are_judged),
		TEST(late_bytes_wait_for_what_others_have_written_but_not_flushed),
		TEST(a_reader_in_between_is_no_conflict_and_gives_its_lease_up),
		TEST(who_wants_to_write_waits_for_the_late_bytes),
		TEST(who_wants_to_write_waits_for_late_replays),
		TEST(who_wants_to_write_waits_for_late_bytes_of_a_daemon_that_is_started_anew),
		TEST(two_late_nodes_do_not_wait_for_each_other),
		TEST(late_nodes_that_wait_for_others_do_not_wait_for_each_other),
		TEST(a_late_node_may_leave_recalls_unanswered_while_its_reclaims_are),
		TEST(nobody_can_reclaim_for_ever),
		TEST(who_is_told_of_a_conflict_can_count_on_it),
		TEST(who_cannot_be_told_of_a_conflict_stays_late),
		TEST(who_cannot_be_told_of_a_conflict_is_late_at_the_next_server),
		TEST(after_a_restart_the_time_decides_of_a_node_lost_before),
		TEST(after_a_restart_a_clock_that_was_set_back_decides_nothing),
		TEST(who_reclaims_in_the_grace_period_is_not_late),
		TEST(who_is_not_awaited_gets_nothing_before_the_grace_period_is_over),
	};

	kr_log_init("test_late", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

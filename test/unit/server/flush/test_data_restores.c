/* What nodes send again when a sync has failed at the server: in which order it goes in, and who is waited for. The
 * syncs themselves: test_data_syncs.c. */
#include "test/unit/server/flush/data_fixture.h"

#include "server/flush/data_state.h"
#include "server/leases/file_table.h"

static const struct kr_range five = {0, 120}, seven = {50, 100};

static struct kr_stable *stable_of(const struct node *node)
{
	return &kr_sfile_find(&F.server, &node->file)->data->stable;
}

static struct node *start(const char *name, const struct kr_fid *fid)
{
	struct node *node = node_start(name);

	node->file = fid ? *fid : create_file(node, "file");
	node->inlined = true;
	return node;
}

static uint64_t write_as(struct node *node, unsigned generation, const struct kr_range *extent)
{
	node->generation = generation;
	node->extents = extent;
	node->extent_count = 1;
	flush_and_wait(node);
	assert_int_equal(node->flush_err, 0);
	return node->flush_reply.round;
}

static void fail_sync(const struct node *node)
{
	struct kr_sfile *file = kr_sfile_get(&F.server, &node->file);

	kr_stable_lost(file, -EIO);
	kr_sfile_put(file);
}

static void give_back(struct node *node)
{
	struct kr_return_request msg = {.file = node->file, .kinds = KR_LEASE_WRITE};

	assert_int_equal(node_call(node, KR_MSG_RETURN, &msg), 0);
}

/* A has written five, and then B seven, and both are lost. Neither has answered. */
static void lose_both(struct node *a, struct node *b, uint64_t ret_rounds[2])
{
	do { /* as long as a sync gets in between */
		ret_rounds[0] = write_as(a, 5, &five);
		ret_rounds[1] = write_as(b, 7, &seven);
		give_back(a);
		give_back(b);
	} while (stable_of(a)->owner_count != 2);
	a->deaf = b->deaf = true;
	fail_sync(a);
	wait_until(a->unstable == 1 && b->unstable == 1);
}

static void answer_unstable(struct node *node, bool resent)
{
	struct kr_unstable_reply reply = {.resent = resent};

	kr_conn_reply(node->control, KR_MSG_UNSTABLE, node->unstable_id, 0, 0, &reply, NULL, 0);
}

static void send_again(struct node *node, uint64_t round, const struct kr_range *extent, unsigned generation)
{
	node->flushed = false;
	send_replay(node, round, extent, generation);
	answer_unstable(node, true);
}

static unsigned by_round(uint64_t offset)
{
	return offset < 20 ? 9 : offset >= 50 && offset < 150 ? 7 : 5;
}

static unsigned seven_over_five(uint64_t offset)
{
	return offset >= 50 && offset < 150 ? 7 : 5;
}

/* The later is here first; who has written since waits for both, and comes last. */
static void what_is_lost_goes_in_again_by_round_and_before_the_rest(void **state)
{
	static const struct kr_range first = {0, 20};
	struct node *a = start("a", NULL), *b = start("b", &a->file), *c = start("c", &a->file);
	uint64_t rounds[2];

	(void)state;
	lose_both(a, b, rounds);
	assert_true(a->lost >= rounds[1]);
	send_again(b, rounds[1], &seven, 7);
	c->generation = 9;
	c->extents = &first;
	c->extent_count = 1;
	node_flush(c);
	wait_until(!kr_stable_may_restore(kr_sfile_find(&F.server, &b->file), b->number)); /* it has answered */
	node_call(c, KR_MSG_GETATTR, &(struct kr_getattr_request){.file = a->file});
	assert_false(b->flushed || c->flushed);
	send_again(a, rounds[0], &five, 5);
	wait_until(a->flushed && b->flushed && c->flushed);
	assert_int_equal(a->flush_err, 0);
	assert_int_equal(b->flush_err, 0);
	assert_int_equal(c->flush_err, 0);
	assert_true(a->flush_reply.round < b->flush_reply.round && b->flush_reply.round < c->flush_reply.round);
	assert_content("file", 150, by_round);
	wait_until(a->stable >= a->flush_reply.round && b->stable >= b->flush_reply.round);
	assert_int_equal(kr_sfile_find(&F.server, &a->file)->changing, 0);
}

/* What comes after the wait is as anything else that comes without a lease. */
static void who_does_not_answer_is_not_waited_for_for_ever(void **state)
{
	struct node *a = start("a", NULL), *b = start("b", &a->file);
	uint64_t rounds[2];

	(void)state;
	lose_both(a, b, rounds);
	send_again(b, rounds[1], &seven, 7);
	wait_until(!kr_stable_may_restore(kr_sfile_find(&F.server, &b->file), b->number));
	kr_stable_tick(F.server.data, stable_of(a)->asked_until_ns - 1);
	assert_true(kr_stable_restores(kr_sfile_find(&F.server, &a->file)));
	kr_stable_tick(F.server.data, stable_of(a)->asked_until_ns);
	wait_until(b->flushed);
	assert_int_equal(b->flush_err, 0);
	send_again(a, rounds[0], &five, 5);
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, -EAGAIN);
	assert_true(kr_applied_owes(&F.server.data->applied, &a->file, a->node_id));
}

static void who_is_lost_is_not_waited_for_and_its_replays_are_dropped(void **state)
{
	struct node *a = start("a", NULL), *b = start("b", &a->file);
	struct kr_session *session;
	uint64_t rounds[2];

	(void)state;
	lose_both(a, b, rounds);
	send_again(b, rounds[1], &seven, 7);
	a->flushed = false;
	send_replay(a, rounds[0], &five, 5); /* others may still come, it has not answered */
	wait_until(
		!kr_stable_may_restore(kr_sfile_find(&F.server, &b->file), b->number) && F.server.data->replays == 2);
	assert_false(b->flushed);
	session = kr_session_find(&F.server, a->session);
	node_die(a);
	kr_session_end(session, KR_SESSION_LOST);
	wait_until(b->flushed);
	assert_int_equal(b->flush_err, 0);
	assert_int_equal(F.server.data->replays, 0);
	assert_int_equal(kr_sfile_find(&F.server, &a->file)->changing, 0);
	assert_true(kr_applied_find(&F.server.data->applied, &a->file, a->node_id)->unstable_err !=
		0); /* it is told when it is back */
}

/* It had the file no more, and reclaims nothing of it; by the answer to FSYNC it would let go of what is lost. */
static void who_is_not_told_of_what_is_lost_is_told_when_it_syncs(void **state)
{
	struct node *a = start("a", NULL), *b = start("b", &a->file);
	struct kr_fsync_request fsync_file = {.file = a->file};
	uint64_t rounds[2];

	(void)state;
	lose_both(a, b, rounds);
	assert_int_equal(node_call(a, KR_MSG_FSYNC, &fsync_file), 0); /* it is being told */
	assert_int_equal(a->unstable, 1);
	node_die(a);
	kr_session_end(kr_session_find(&F.server, a->session), KR_SESSION_LOST);
	a->deaf = false;
	node_begin(a);
	wait_until(a->live);
	assert_int_equal(node_call(a, KR_MSG_FSYNC, &fsync_file), -EIO);
	assert_int_equal(a->unstable, 2);
	wait_until(!kr_applied_find(&F.server.data->applied, &a->file, a->node_id)->unstable_err);
	assert_int_equal(node_call(a, KR_MSG_FSYNC, &fsync_file), 0);
	assert_int_equal(a->unstable, 2);
}

/* A sync fails again while the first of them is being written: it goes in once more, before the second. */
static void a_replay_that_a_failed_sync_may_have_lost_goes_in_once_more_in_its_turn(void **state)
{
	struct node *a = start("a", NULL), *b = start("b", &a->file), *c = start("c", &a->file);
	struct kr_sfile *file;
	uint64_t rounds[2];

	(void)state;
	lose_both(a, b, rounds);
	file = kr_sfile_get(&F.server, &a->file);
	kr_stable_owe(file, c->node_id, rounds[1]); /* it has nothing, and does not say so */
	c->deaf = true;
	fail_sync(a);
	wait_until(c->unstable == 1);
	send_again(b, rounds[1], &seven, 7);
	send_again(a, rounds[0], &five, 5);
	wait_until(!kr_stable_may_restore(file, a->number) && !kr_stable_may_restore(file, b->number));
	kr_stable_tick(F.server.data, UINT64_MAX);
	assert_int_equal(file->data->rounds.state, KR_ROUND_INLINE);
	fail_sync(a);
	assert_true(file->changing > 0 && file->data->restoring); /* B's bytes, which were there before, may not be */
	wait_until(a->flushed && b->flushed);
	assert_int_equal(file->changing, 0);
	assert_int_equal(a->flush_err, 0);
	assert_int_equal(b->flush_err, 0);
	assert_int_equal(file->data->rounds.aborted, 1);
	assert_true(a->flush_reply.round < b->flush_reply.round);
	assert_content("file", 150, seven_over_five);
	kr_sfile_put(file);
}

/* Readers may have seen the file without it. */
static void who_reads_drops_what_it_has_read_and_who_cuts_need_not_ask_who_has_sent_all(void **state)
{
	struct node *a = start("a", NULL), *b = start("b", &a->file), *c = start("c", &a->file);
	struct kr_setattr_request setattr = {.valid = 8, .file = a->file};
	struct kr_lease_request lease = {.file = a->file, .kinds = KR_LEASE_READ};
	uint64_t rounds[2];

	(void)state;
	lose_both(a, b, rounds);
	assert_int_equal(node_call(c, KR_MSG_LEASE, &lease), 0);
	send_again(a, rounds[0], &five, 5);
	answer_unstable(b, false); /* it will come as bytes not flushed */
	wait_until(a->flushed && c->recalls > 0);
	assert_int_equal(a->flush_err, 0);
	a->dirty = b->dirty = true; /* A has written more */
	a->deaf = b->deaf = false;
	assert_int_equal(node_call(c, KR_MSG_SETATTR, &setattr), -EIO);
	assert_int_equal(a->queries, 0);
	assert_int_equal(b->queries, 1);
	b->dirty = false;
	assert_int_equal(node_call(c, KR_MSG_SETATTR, &setattr), 0);
}

/* ... and who does not ask first, because it is no node that reads, hears of it. */
static void what_is_copied_meanwhile_is_not_taken_for_what_was_there(void **state)
{
	struct node *a = start("a", NULL);
	struct kr_copy_request copy = {.from = a->file, .length = 100};
	struct kr_sfile *file;

	(void)state;
	write_as(a, 5, &five);
	copy.to = create_file(a, "copy");
	file = kr_sfile_get(&F.server, &a->file);
	file->data->restoring = true;
	assert_int_equal(node_call(a, KR_MSG_COPY, &copy), -EIO);
	file->data->restoring = false;
	assert_int_equal(node_call(a, KR_MSG_COPY, &copy), 0);
	kr_sfile_put(file);
}

/* No fault of who has it running. */
static void a_round_that_a_failed_sync_may_have_lost_goes_in_once_more(void **state)
{
	struct node *a = start("a", NULL);
	struct kr_sfile *file = kr_sfile_get(&F.server, &a->file);

	(void)state;
	a->generation = 5;
	a->extents = &five;
	a->extent_count = 1;
	node_flush(a);
	wait_until(file->data->rounds.state == KR_ROUND_INLINE || a->flushed);
	if (!a->flushed)
		fail_sync(a);
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, 0);
	assert_int_equal(a->unstable, 0);
	wait_until(a->stable >= a->flush_reply.round);
	kr_sfile_put(file);
}

/* Its bytes are being written, and it is answered; nobody else is to come. */
static void whose_last_replay_runs_and_is_lost_does_not_leave_the_file_changing(void **state)
{
	struct node *a = start("a", NULL), *c = start("c", &a->file);
	struct kr_session *session;
	struct kr_sfile *file;
	uint64_t round;

	(void)state;
	round = write_as(a, 5, &five);
	file = kr_sfile_get(&F.server, &a->file);
	kr_stable_owe(file, a->node_id, round); /* a sync may have come in between */
	kr_stable_owe(file, c->node_id, round);
	a->deaf = c->deaf = true;
	fail_sync(a);
	wait_until(a->unstable == 1 && c->unstable == 1);
	send_again(a, round, &five, 5);
	wait_until(!kr_stable_may_restore(file, a->number));
	kr_stable_tick(F.server.data, UINT64_MAX);
	assert_int_equal(file->data->rounds.state, KR_ROUND_INLINE);
	session = kr_session_find(&F.server, a->session);
	node_die(a);
	kr_session_end(session, KR_SESSION_LOST);
	wait_until(file->data->rounds.state == KR_ROUND_IDLE);
	assert_false(file->data->restoring);
	assert_int_equal(file->changing, 0);
	kr_sfile_put(file);
}

static int64_t mtime_of(const char *name)
{
	struct stat st;
	char path[160];

	snprintf(path, sizeof path, "%s/%s", F.export_path, name);
	assert_int_equal(stat(path, &st), 0);
	return st.st_mtime;
}

static void set_mtime(struct node *node, int64_t seconds)
{
	struct kr_setattr_request setattr = {
		.valid = 1 << 5 /* MTIME */, .file = node->file, .mtime = {.sec = seconds}};

	assert_int_equal(node_call(node, KR_MSG_SETATTR, &setattr), 0);
}

/* As `cp -p` does, after the last byte. */
static void what_goes_in_again_keeps_the_time_that_was_set_since(void **state)
{
	struct node *a = start("a", NULL);
	struct kr_sfile *file;
	uint64_t round;

	(void)state;
	round = write_as(a, 5, &five);
	set_mtime(a, 1000);
	file = kr_sfile_get(&F.server, &a->file);
	a->deaf = true;
	for (unsigned i = 1; i <= 3; i++) {
		kr_stable_owe(file, a->node_id, round);
		fail_sync(a);
		wait_until(a->unstable == i);
		if (i == 2) /* no memory for it: it is streamed */
			F.server.data->replay_bytes += KR_DATA_REPLAY_BYTES;
		send_again(a, round, &five, 5);
		wait_until(!kr_stable_may_restore(file, a->number));
		if (i == 2)
			F.server.data->replay_bytes -= KR_DATA_REPLAY_BYTES;
		if (i == 3) {
			assert_int_equal(file->data->rounds.state, KR_ROUND_INLINE);
			kr_data_mtime_set(file, (struct kr_time){.sec = 2000});
		}
		wait_until(a->flushed);
		assert_int_equal(a->flush_err, 0);
		assert_int_equal(mtime_of("file"), i == 3 ? 2000 : 1000);
		round = a->flush_reply.round;
	}
	assert_int_equal(F.server.data->counters.chained_rounds, 1);
	write_as(a, 6, &five);
	assert_int_equal(mtime_of("file"), a->mtime.sec);
	kr_sfile_put(file);
}

static void a_round_that_goes_in_once_more_keeps_the_time_that_was_set_meanwhile(void **state)
{
	struct node *a = start("a", NULL);
	struct kr_sfile *file = kr_sfile_get(&F.server, &a->file);

	(void)state;
	a->generation = 5;
	a->extents = &five;
	a->extent_count = 1;
	node_flush(a);
	wait_until(file->data->rounds.state == KR_ROUND_INLINE);
	kr_data_mtime_set(file, (struct kr_time){.sec = 1000});
	fail_sync(a);
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, 0);
	assert_int_equal(file->data->rounds.aborted, 1);
	assert_int_equal(mtime_of("file"), 1000);
	write_as(a, 6, &five);
	assert_int_equal(mtime_of("file"), a->mtime.sec);
	kr_sfile_put(file);
}

/* ... but for what there is no room for: that counts as its own. */
static void who_waits_for_what_is_lost_is_not_counted_as_long_as_there_is_room(void **state)
{
	static const struct kr_range first = {0, 20}, second = {20, 10};
	struct node *a = start("a", NULL), *b = start("b", &a->file), *c = start("c", &a->file),
		    *d = start("d", &a->file);
	struct kr_data *data = F.server.data;
	struct kr_sfile *file;
	uint64_t rounds[2];

	(void)state;
	lose_both(a, b, rounds);
	file = kr_sfile_get(&F.server, &a->file);
	c->generation = d->generation = 9;
	c->extents = &first;
	d->extents = &second;
	c->extent_count = d->extent_count = 1;
	node_flush(c);
	wait_until(kr_rounds_asked_by(&file->data->rounds, c->number));
	assert_int_equal(data->replay_bytes, 20);
	assert_int_equal(kr_session_find(&F.server, c->session)->flow.running, 0);
	data->replay_bytes += KR_DATA_REPLAY_BYTES - 20;
	node_flush(d);
	wait_until(kr_rounds_asked_by(&file->data->rounds, d->number));
	assert_int_equal(data->replay_bytes, KR_DATA_REPLAY_BYTES);
	assert_int_equal(kr_session_find(&F.server, d->session)->flow.running, 1);
	data->replay_bytes -= KR_DATA_REPLAY_BYTES - 20;
	answer_unstable(a, false);
	answer_unstable(b, false);
	wait_until(c->flushed && d->flushed);
	assert_int_equal(c->flush_err, 0);
	assert_int_equal(d->flush_err, 0);
	assert_int_equal(data->replay_bytes, 0);
	assert_int_equal(kr_session_find(&F.server, d->session)->flow.running, 0);
	kr_sfile_put(file);
}

/* It may write, but what it says has been lost would go before what others write. */
static void what_nobody_has_lost_is_not_taken_as_a_replay(void **state)
{
	struct node *a = start("a", NULL);
	uint64_t round = write_as(a, 5, &five);

	(void)state;
	a->flushed = false;
	send_replay(a, round + 1000, &five, 5);
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, -EAGAIN);
	assert_int_equal(F.server.data->replays, 0);
}

/* Whatever it was refused for, others' rounds may have gone in since. */
static void what_may_be_replayed_and_was_refused_is_asked_for_before_it_comes_again(void **state)
{
	struct node *a = start("a", NULL);
	struct kr_reclaim_request reclaim = {.file = a->file,
		.kinds = KR_LEASE_WRITE,
		.replay_first = 1,
		.replay_last = 5,
		.oldest = UINT64_MAX / 2,
		.newest = UINT64_MAX / 2,
		.since = {.sec = (int64_t)(kr_clock_real_ns() / KR_NS_PER_S) + 1}};
	struct kr_flush_request msg = {
		.file = a->file, .flags = 2, .seq = 5, .bytes = 120, .replay_round = UINT64_MAX / 2, .replay_order = 5};
	static const int errors[] = {-EAGAIN, -EIO, -EINTR, -ECANCELED};

	(void)state;
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, 0);
	a->generation = 5;
	a->extents = &five;
	a->extent_count = 1;
	for (size_t i = 0; i < KR_ARRAY_SIZE(errors); i++) {
		a->round_err = errors[i];
		assert_int_equal(node_call(a, KR_MSG_FLUSH, &msg), errors[i]);
		a->round_err = 0;
		assert_int_equal(node_call(a, KR_MSG_FLUSH, &msg), -EAGAIN);
		assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	}
	assert_int_equal(node_call(a, KR_MSG_FLUSH, &msg), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_lost_goes_in_again_by_round_and_before_the_rest),
		TEST(who_does_not_answer_is_not_waited_for_for_ever),
		TEST(who_is_lost_is_not_waited_for_and_its_replays_are_dropped),
		TEST(who_is_not_told_of_what_is_lost_is_told_when_it_syncs),
		TEST(whose_last_replay_runs_and_is_lost_does_not_leave_the_file_changing),
		TEST(a_replay_that_a_failed_sync_may_have_lost_goes_in_once_more_in_its_turn),
		TEST(what_is_copied_meanwhile_is_not_taken_for_what_was_there),
		TEST(a_round_that_a_failed_sync_may_have_lost_goes_in_once_more),
		TEST(what_goes_in_again_keeps_the_time_that_was_set_since),
		TEST(a_round_that_goes_in_once_more_keeps_the_time_that_was_set_meanwhile),
		TEST(who_waits_for_what_is_lost_is_not_counted_as_long_as_there_is_room),
		TEST(what_nobody_has_lost_is_not_taken_as_a_replay),
		TEST(what_may_be_replayed_and_was_refused_is_asked_for_before_it_comes_again),
		TEST(who_reads_drops_what_it_has_read_and_who_cuts_need_not_ask_who_has_sent_all),
	};

	prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

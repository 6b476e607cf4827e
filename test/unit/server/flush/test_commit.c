/* Commit on share at the server, as simulated nodes see it: what waits until bytes are committed, what a failed sync
 * means, and that RESEND changes nothing that is there.  The syncs are the test's own (below).
 */
#include "test/unit/server/flush/data_fixture.h"

#include <stdatomic.h>

#include "server/export/export.h"
#include "server/flush/data_state.h"
#include "server/leases/file_table.h"

enum { SET_MODE = 1, SET_SIZE = 8, OPEN_TRUNC = 1 | 4 }; /* as in server/export/export.h */

static const struct kr_range hundred = {0, 100};

/* --- syncs that fail, or wait ----------------------------------------------------------------- */

static atomic_int fail_syncs; /* so many fail, but for those of directories, which come when they like */
static atomic_int held;       /* syncs wait meanwhile */
static atomic_int held_syncs; /* so many do */
static atomic_int rewritten;  /* writes since */
static atomic_int of_filesystem;

static bool is_directory(struct kr_export *export, const struct kr_fid *fid)
{
	struct kr_attr attr;

	return kr_export_getattr(export, fid, &attr) == 0 && S_ISDIR(attr.mode);
}

int __real_kr_export_fsync(struct kr_export *export, const struct kr_fid *fid, bool data_only);
int __wrap_kr_export_fsync(struct kr_export *export, const struct kr_fid *fid, bool data_only);
int __wrap_kr_export_fsync(struct kr_export *export, const struct kr_fid *fid, bool data_only)
{
	atomic_fetch_add(&held_syncs, 1);
	while (atomic_load(&held))
		usleep(1000);
	atomic_fetch_sub(&held_syncs, 1);
	if (!is_directory(export, fid) && atomic_load(&fail_syncs) > 0 && atomic_fetch_sub(&fail_syncs, 1) > 0)
		return -EIO;
	return __real_kr_export_fsync(export, fid, data_only);
}

int __real_kr_export_pwritev(
	struct kr_export *export, const struct kr_fid *fid, const struct kr_write_piece *pieces, size_t count);
int __wrap_kr_export_pwritev(
	struct kr_export *export, const struct kr_fid *fid, const struct kr_write_piece *pieces, size_t count);
int __wrap_kr_export_pwritev(
	struct kr_export *export, const struct kr_fid *fid, const struct kr_write_piece *pieces, size_t count)
{
	atomic_fetch_add(&rewritten, 1);
	return __real_kr_export_pwritev(export, fid, pieces, count);
}

int __real_syncfs(int fd);
int __wrap_syncfs(int fd);
int __wrap_syncfs(int fd)
{
	atomic_fetch_add(&of_filesystem, 1);
	return __real_syncfs(fd);
}

static void hold_syncs(bool hold)
{
	atomic_store(&held, hold);
}

static int setup_syncs(void **state)
{
	atomic_store(&fail_syncs, 0);
	hold_syncs(false);
	return setup(state);
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* A node; FILE NULL: it makes "file". */
static struct node *begin(const char *name, const struct kr_fid *file)
{
	struct node *node = node_start(name);

	node->file = file ? *file : create_file(node, "file");
	node->extents = &hundred;
	node->extent_count = 1;
	node->inlined = true;
	return node;
}

/* A node with 100 bytes in a round of "file". */
static struct node *writer(const char *name)
{
	struct node *node = begin(name, NULL);

	node->generation = 5;
	flush_and_wait(node);
	assert_int_equal(node->flush_err, 0);
	return node;
}

/* The same; it has not said that it knows its bytes to be durable. */
static struct node *uncommitted_writer(const char *name)
{
	struct node *node = begin(name, NULL);

	node->keeps_stable = true;
	node->generation = 5;
	flush_and_wait(node);
	wait_until(node->stable >= node->flush_reply.round);
	return node;
}

static void answer_stable(struct node *node)
{
	node->keeps_stable = false;
	kr_conn_reply(node->control, KR_MSG_STABLE, node->stable_id, 0, 0, NULL, NULL, 0);
}

static void answer_unstable(struct node *node)
{
	node->deaf = false;
	kr_conn_reply(node->control, KR_MSG_UNSTABLE, node->unstable_id, 0, 0, NULL, NULL, 0);
}

static struct {
	bool done;
	int err;
} later; /* the answer to what waits */

static void later_answered(struct node *node, int err, const void *reply)
{
	(void)node, (void)reply;
	later.done = true;
	later.err = err;
}

/* Sends a request that is to wait. */
static void ask_later(struct node *node, uint16_t type, const void *msg)
{
	later.done = false;
	node_ask(node, type, msg, NULL, 0, later_answered);
	node_call(node, KR_MSG_PING, NULL); /* behind it */
	for (int i = 0; i < 20; i++)
		uv_run(&F.loop, UV_RUN_NOWAIT);
}

static void give_back(struct node *node)
{
	struct kr_return_request msg = {.file = node->file, .kinds = KR_LEASE_ALL};

	assert_int_equal(node_call(node, KR_MSG_RETURN, &msg), 0);
}

static int fsync_of(struct node *node)
{
	struct kr_fsync_request msg = {.file = node->file, .flags = KR_FSYNC_DATA};

	return node_call(node, KR_MSG_FSYNC, &msg);
}

static int lease(struct node *node, uint8_t kinds)
{
	struct kr_lease_request msg = {.file = node->file, .kinds = kinds};

	return node_call(node, KR_MSG_LEASE, &msg);
}

static struct kr_commit *commit_of(const struct node *node)
{
	return &kr_sfile_find(&F.server, &node->file)->data->commit;
}

static void lose_session(struct node *node)
{
	struct kr_session *session = kr_session_find(&F.server, node->session);

	node_die(node);
	kr_session_end(session, KR_SESSION_LOST);
}

/* --- what waits ------------------------------------------------------------------------------- */

static void fsync_answers_when_all_is_synced(void **state)
{
	struct node *node = writer("n1");

	(void)state;
	assert_int_equal(fsync_of(node), 0);
	assert_true(node->stable >= node->flush_reply.round);
}

static void what_others_wait_for_goes_on_when_the_writer_has_answered_stable(void **state)
{
	struct node *a = uncommitted_writer("a"), *b = begin("b", &a->file);
	struct kr_lease_request read = {.file = a->file, .kinds = KR_LEASE_READ};
	struct kr_open_request open = {.file = a->file};
	struct kr_create_request create = {.parent = b->root, .name = "file", .mode = S_IFREG | 0644};
	struct kr_setattr_request setattr = {.valid = SET_MODE, .mode = 0600, .file = a->file};
	struct kr_seek_request seek = {.file = a->file, .whence = 3};
	const struct {
		uint16_t type;
		const void *msg;
	} waiting[] = {{KR_MSG_LEASE, &read}, {KR_MSG_OPEN, &open}, {KR_MSG_CREATE, &create},
		{KR_MSG_SETATTR, &setattr}, {KR_MSG_SEEK, &seek}};

	(void)state;
	give_back(a);
	for (size_t i = 0; i < KR_ARRAY_SIZE(waiting); i++) {
		ask_later(b, waiting[i].type, waiting[i].msg);
		assert_false(later.done);
		answer_stable(a);
		wait_until(later.done);
		assert_int_equal(later.err, 0);
		give_back(b);
		a->keeps_stable = true;
		flush_and_wait(a);
		wait_until(a->stable >= a->flush_reply.round);
		give_back(a);
	}
	answer_stable(a);
}

static void the_writer_itself_and_other_writers_wait_for_nothing(void **state)
{
	struct node *a = uncommitted_writer("a"), *b = begin("b", &a->file);
	struct kr_open_request open = {.file = a->file, .flags = 2, .want = KR_LEASE_ALL};
	struct kr_setattr_request setattr = {.valid = SET_MODE, .mode = 0600, .file = a->file};

	(void)state;
	assert_int_equal(node_call(a, KR_MSG_OPEN, &open), 0);
	assert_int_equal(the_answer.reply.open_reply.granted, KR_LEASE_ALL);
	assert_int_equal(node_call(a, KR_MSG_SETATTR, &setattr), 0);
	give_back(a);
	assert_int_equal(lease(b, KR_LEASE_WRITE), 0);
	give_back(b);
	answer_stable(a);
}

static void a_node_reads_its_own_bytes_among_those_of_others_when_both_are_committed(void **state)
{
	struct node *a = uncommitted_writer("a"), *b = begin("b", &a->file);
	struct kr_lease_request read = {.file = a->file, .kinds = KR_LEASE_READ};

	(void)state;
	b->keeps_stable = true;
	b->generation = 5;
	flush_and_wait(b);
	wait_until(b->stable >= b->flush_reply.round);
	give_back(a);
	give_back(b);
	answer_stable(b);
	ask_later(a, KR_MSG_LEASE, &read);
	assert_false(later.done);
	answer_stable(a);
	wait_until(later.done);
	assert_int_equal(later.err, 0);
}

/* One that flushes all the time would keep the others out for ever. */
static void open_waits_only_for_what_was_applied_before(void **state)
{
	struct node *a = uncommitted_writer("a"), *b = begin("b", &a->file);
	struct kr_open_request open = {.file = a->file};
	uint64_t first = a->stable_id;

	(void)state;
	ask_later(b, KR_MSG_OPEN, &open);
	a->generation = 6;
	flush_and_wait(a);
	wait_until(a->stable >= a->flush_reply.round);
	assert_false(later.done);
	kr_conn_reply(a->control, KR_MSG_STABLE, first, 0, 0, NULL, NULL, 0);
	wait_until(later.done);
	assert_int_equal(later.err, 0);
	answer_stable(a);
}

static void a_cut_waits_for_the_callers_own_bytes_and_is_synced_before_it_is_answered(void **state)
{
	struct node *a = uncommitted_writer("a");
	struct kr_setattr_request setattr = {.valid = SET_SIZE, .file = a->file};
	struct kr_open_request open = {.file = a->file, .flags = OPEN_TRUNC};
	struct kr_create_request create = {
		.parent = a->root, .name = "file", .mode = S_IFREG | 0644, .flags = OPEN_TRUNC};
	struct kr_fallocate_request punch = {.file = a->file, .mode = 3, .length = 100};
	const struct {
		uint16_t type;
		const void *msg;
	} cuts[] = {
		{KR_MSG_SETATTR, &setattr}, {KR_MSG_OPEN, &open}, {KR_MSG_CREATE, &create}, {KR_MSG_FALLOCATE, &punch}};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(cuts); i++) {
		uint64_t before;

		ask_later(a, cuts[i].type, cuts[i].msg);
		assert_false(later.done);
		before = F.server.data->counters.syncs;
		answer_stable(a);
		wait_until(later.done);
		assert_int_equal(later.err, 0);
		assert_int_equal(F.server.data->counters.syncs, before + 1);
		if (cuts[i].type != KR_MSG_FALLOCATE) { /* nothing is left to cut */
			assert_int_equal(node_call(a, cuts[i].type, cuts[i].msg), 0);
			assert_int_equal(F.server.data->counters.syncs, before + 1);
		}
		a->keeps_stable = true;
		flush_and_wait(a);
		wait_until(a->stable >= a->flush_reply.round);
	}
	answer_stable(a);
}

static void a_lock_passes_when_all_files_of_its_last_owner_are_committed(void **state)
{
	struct node *a = uncommitted_writer("a"), *b = begin("b", &a->file);
	struct kr_open_request open = {.flags = 2};
	struct kr_lock_request lock = {.owner = 1, .kind = 2, .last = 9};

	(void)state;
	open.file = lock.file = create_file(a, "lock");
	assert_int_equal(node_call(b, KR_MSG_OPEN, &open), 0);
	assert_int_equal(node_call(a, KR_MSG_LOCK, &lock), 0);
	lock.kind = 0;
	assert_int_equal(node_call(a, KR_MSG_LOCK, &lock), 0);
	lock.kind = 2;
	assert_int_equal(node_call(a, KR_MSG_LOCK, &lock), 0); /* it is its own */
	lock.kind = 0;
	assert_int_equal(node_call(a, KR_MSG_LOCK, &lock), 0);
	lock.kind = 2;
	ask_later(b, KR_MSG_LOCK, &lock);
	assert_false(later.done);
	answer_stable(a);
	wait_until(later.done);
	assert_int_equal(later.err, 0);
}

/* It ends with the session, whose bytes are nobody's then. */
static void a_lost_lock_passes_when_what_its_owner_wrote_is_durable(void **state)
{
	struct node *a = begin("a", NULL), *b = begin("b", &a->file);
	struct kr_open_request open = {.flags = 2};
	struct kr_lock_request lock = {.owner = 1, .kind = 2, .last = 9, .wait = 1};

	(void)state;
	open.file = lock.file = create_file(a, "lock");
	assert_int_equal(node_call(b, KR_MSG_OPEN, &open), 0);
	assert_int_equal(node_call(a, KR_MSG_LOCK, &lock), 0);
	hold_syncs(true);
	a->generation = 5;
	flush_and_wait(a);
	ask_later(b, KR_MSG_LOCK, &lock);
	lose_session(a);
	node_call(b, KR_MSG_PING, NULL);
	assert_false(later.done);
	hold_syncs(false);
	wait_until(later.done);
	assert_int_equal(later.err, 0);
}

static void with_commit_never_nobody_waits(void **state)
{
	struct node *a = uncommitted_writer("a"), *b = begin("b", &a->file);
	struct kr_open_request open = {.file = a->file, .want = KR_LEASE_READ};

	(void)state;
	answer_stable(a);
	wait_until(kr_list_empty(&commit_of(a)->writers));
	F.options.commit = KR_COMMIT_NEVER;
	a->keeps_stable = true;
	flush_and_wait(a);
	wait_until(a->stable >= a->flush_reply.round);
	give_back(a);
	assert_int_equal(node_call(b, KR_MSG_OPEN, &open), 0);
	assert_int_equal(the_answer.reply.open_reply.granted, KR_LEASE_READ);
	answer_stable(a);
}

/* Here no time passes by itself. */
static void a_sync_begins_when_somebody_waits_for_the_file(void **state)
{
	struct node *a = writer("a"), *b = begin("b", &a->file);
	struct kr_lease_request read = {.file = a->file, .kinds = KR_LEASE_READ};
	struct kr_open_request open = {.file = a->file};
	struct kr_setattr_request setattr = {.valid = SET_MODE, .mode = 0600, .file = a->file};
	struct kr_fsync_request fsync = {.file = a->file, .flags = KR_FSYNC_DATA};
	const struct {
		struct node *node;
		uint16_t type;
		const void *msg;
	} waiting[] = {{b, KR_MSG_LEASE, &read}, {b, KR_MSG_OPEN, &open}, {b, KR_MSG_SETATTR, &setattr},
		{a, KR_MSG_FSYNC, &fsync}};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(waiting); i++) {
		flush_and_wait(a);
		uv_timer_stop(&F.server.data->syncs.later_timer);
		give_back(a);
		assert_int_equal(node_call(waiting[i].node, waiting[i].type, waiting[i].msg), 0);
		give_back(b);
	}
	flush_and_wait(a);
	wait_until(kr_list_empty(&commit_of(a)->writers));
}

static void many_files_are_synced_together(void **state)
{
	enum { FILES = 40 };
	struct node *node = node_start("n1");
	struct kr_fid files[FILES];
	int before;

	(void)state;
	node->extents = &hundred;
	node->extent_count = 1;
	node->inlined = true;
	node->generation = 1;
	for (size_t i = 0; i < FILES; i++) {
		char name[16];

		snprintf(name, sizeof name, "f%zu", i);
		files[i] = create_file(node, name);
	}
	before = atomic_load(&of_filesystem);
	hold_syncs(true);
	for (size_t i = 0; i < FILES; i++) {
		node->file = files[i];
		flush_and_wait(node);
	}
	hold_syncs(false);
	wait_until(kr_commit_idle(F.server.data));
	for (size_t i = 0; i < FILES; i++) {
		node->file = files[i];
		wait_until(kr_list_empty(&commit_of(node)->writers));
	}
	if (F.server.data->syncs.may_syncfs) {
		assert_true(atomic_load(&of_filesystem) > before);
		assert_true(F.server.data->counters.syncs < FILES);
	}
}

/* --- failed syncs ----------------------------------------------------------------------------- */

static void a_failed_sync_is_told_to_nodes_and_fsync_until_the_bytes_have_come_again(void **state)
{
	struct node *a = begin("a", NULL), *b = begin("b", &a->file);
	struct kr_lease_request read = {.file = a->file, .kinds = KR_LEASE_READ};
	uint64_t lost;

	(void)state;
	hold_syncs(true);
	a->generation = 5;
	flush_and_wait(a);
	lost = a->flush_reply.round;
	atomic_store(&fail_syncs, 1);
	hold_syncs(false);
	wait_until(a->unstable == 1);
	assert_int_equal(a->lost, lost);
	assert_int_equal(fsync_of(a), -EIO);
	give_back(a);
	ask_later(b, KR_MSG_LEASE, &read);
	assert_false(later.done);
	a->bare = a->resend = true; /* it needs no lease for that */
	flush_and_wait(a);
	assert_int_equal(a->flush_err, 0);
	wait_until(later.done);
	assert_int_equal(later.err, 0);
	assert_true(a->stable > lost);
	assert_int_equal(a->unstable, 1);
	assert_int_equal(fsync_of(a), 0);
	assert_int_equal(F.server.data->syncs.failed_log.files.count, 0);
}

static void who_waits_for_the_sync_gets_its_error(void **state)
{
	struct node *a = begin("a", NULL);

	(void)state;
	hold_syncs(true);
	a->generation = 5;
	flush_and_wait(a);
	atomic_store(&fail_syncs, 2);
	hold_syncs(false);
	assert_int_equal(fsync_of(a), -EIO);
	flush_and_wait(a);
	atomic_store(&fail_syncs, 0);
	wait_until(a->unstable >= 1);
	flush_and_wait(a);
	wait_until(kr_list_empty(&commit_of(a)->writers));
}

/* It was cut before the node knew. */
static void a_flush_on_its_way_does_not_bring_what_was_lost(void **state)
{
	struct node *a = begin("a", NULL);

	(void)state;
	a->deaf = true;
	hold_syncs(true);
	a->generation = 5;
	flush_and_wait(a);
	atomic_store(&fail_syncs, 1);
	hold_syncs(false);
	wait_until(a->unstable == 1);
	a->generation = 6;
	flush_and_wait(a);
	assert_int_equal(a->flush_err, 0);
	assert_int_equal(fsync_of(a), -EIO);
	assert_int_equal(kr_commit_applied_seq(kr_sfile_find(&F.server, &a->file), a->node_id), 0);
	answer_unstable(a);
	flush_and_wait(a);
	assert_int_equal(fsync_of(a), 0);
	assert_int_equal(kr_commit_applied_seq(kr_sfile_find(&F.server, &a->file), a->node_id), 6);
	wait_until(kr_list_empty(&commit_of(a)->writers));
}

/* A job that ends starts those that wait. */
static void go_on_applying(void)
{
	struct node *other = node_start("other");

	F.server.data->applies.limit = KR_DATA_APPLIES;
	other->file = create_file(other, "other");
	other->extents = &hundred;
	other->extent_count = 1;
	other->inlined = true;
	other->generation = 1;
	flush_and_wait(other);
}

/* NODE comes back after a loss of power; its journal has bytes of its file up to SEQ.  Whether they are in conflict. */
static bool loses_power_and_all_after(struct node *node, uint64_t seq)
{
	const struct kr_reclaim_request reclaim = {.file = node->file,
		.first = seq,
		.last = seq,
		.resend = seq,
		.kinds = KR_LEASE_WRITE,
		.since.sec = kr_clock_real_s()};

	node_die(node);
	node->manual_reclaim = true;
	node->hello_flags = KR_HELLO_POWER_LOST;
	node_begin(node);
	wait_until(node->live);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.durable_seq, 0);
	return the_answer.reply.reclaim_reply.conflict;
}

/* The server does not count on what a sync lost that failed during the round; but the file has these bytes. */
static void an_old_journal_goes_over_nothing_that_its_node_has_flushed(void **state)
{
	struct node *a = begin("a", NULL);
	struct kr_fsync_request fsync = {.file = a->file};

	(void)state;
	hold_syncs(true);
	ask_later(a, KR_MSG_FSYNC, &fsync);
	F.server.data->applies.limit = 0;
	a->generation = 5;
	node_flush(a);
	wait_until(kr_sfile_find(&F.server, &a->file)->data->rounds.state == KR_ROUND_INLINE);
	atomic_store(&fail_syncs, 1);
	hold_syncs(false);
	wait_until(later.done);
	go_on_applying();
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, 0);
	assert_true(loses_power_and_all_after(a, 3));
}

static void a_round_that_runs_when_a_sync_fails_counts_as_lost(void **state)
{
	struct node *a = begin("a", NULL), *b = begin("b", &a->file);

	(void)state;
	hold_syncs(true);
	a->generation = b->generation = 5;
	flush_and_wait(a);
	F.server.data->applies.limit = 0;
	node_flush(b);
	wait_until(kr_sfile_find(&F.server, &b->file)->data->rounds.state == KR_ROUND_INLINE);
	atomic_store(&fail_syncs, 1);
	hold_syncs(false);
	wait_until(a->unstable == 1);
	assert_int_equal(b->unstable, 0);
	go_on_applying();
	wait_until(b->flushed && b->unstable == 1);
	assert_int_equal(b->flush_err, 0);
	assert_int_equal(b->lost, b->flush_reply.round);
	flush_and_wait(a);
	flush_and_wait(b);
	wait_until(kr_list_empty(&commit_of(a)->writers));
}

static void refused_bytes_are_owed_no_more(void **state)
{
	struct node *a = begin("a", NULL), *b = begin("b", &a->file);

	(void)state;
	hold_syncs(true);
	a->generation = 5;
	flush_and_wait(a);
	atomic_store(&fail_syncs, 1);
	hold_syncs(false);
	wait_until(a->unstable == 1);
	a->inlined = false;
	a->round_err = -ENOSPC;
	flush_and_wait(a);
	assert_int_equal(a->flush_err, -ENOSPC);
	give_back(a);
	assert_int_equal(lease(b, KR_LEASE_READ), 0);
}

/* Nobody else has them. */
static void bytes_of_a_lost_session_are_written_again_until_a_sync_succeeds(void **state)
{
	struct node *a = begin("a", NULL), *b = begin("b", &a->file);
	struct kr_lease_request read = {.file = a->file, .kinds = KR_LEASE_READ};

	(void)state;
	hold_syncs(true);
	a->generation = 5;
	flush_and_wait(a);
	atomic_store(&fail_syncs, 1000);
	lose_session(a);
	atomic_store(&rewritten, 0);
	hold_syncs(false);
	wait_until(F.server.data->counters.sync_errors >= 2);
	ask_later(b, KR_MSG_LEASE, &read);
	assert_false(later.done);
	atomic_store(&fail_syncs, 0);
	wait_until(later.done); /* by the next repetition */
	assert_int_equal(later.err, 0);
	assert_int_equal(atomic_load(&rewritten), F.server.data->counters.sync_errors); /* each sync but the first */
	assert_int_equal(F.server.data->syncs.failed_log.files.count, 0);
}

static void the_next_instance_repairs_what_a_failed_sync_may_have_lost(void **state)
{
	struct kr_fid file;
	struct node *a = begin("a", NULL), *b;
	struct kr_lease_request read = {.kinds = KR_LEASE_READ};

	(void)state;
	file = read.file = a->file;
	atomic_store(&fail_syncs, 1000);
	a->generation = 5;
	flush_and_wait(a);
	wait_until(a->unstable == 1);
	server_stop();
	atomic_store(&rewritten, 0);
	server_start();
	assert_false(kr_commit_recovered(F.server.data));
	b = begin("b", &file);
	wait_until(kr_commit_recovered(F.server.data));
	ask_later(b, KR_MSG_LEASE, &read);
	assert_false(later.done);
	atomic_store(&fail_syncs, 0);
	kr_session_end(kr_session_find_node_id(&F.server, b->node_id), KR_SESSION_LOST);
	node_die(b);
	wait_until(F.server.data->syncs.failed_log.files.count == 0);
	assert_true(atomic_load(&rewritten) >= 1);
	wait_until(!kr_failed_syncs_busy(&F.server.data->syncs.failed_log));
	server_stop();
	server_start();
	assert_true(kr_commit_recovered(F.server.data));
}

static void a_cut_that_may_not_last_is_an_error_and_nobody_reads_before_it_is_repaired(void **state)
{
	struct node *a = writer("a"), *b = begin("b", &a->file);
	struct kr_setattr_request setattr = {.valid = SET_SIZE, .file = a->file};
	struct kr_lease_request read = {.file = a->file, .kinds = KR_LEASE_READ};

	(void)state;
	wait_until(kr_list_empty(&commit_of(a)->writers));
	atomic_store(&fail_syncs, 1000);
	assert_int_equal(node_call(a, KR_MSG_SETATTR, &setattr), -EIO);
	assert_int_equal(a->unstable, 0);
	give_back(a);
	ask_later(b, KR_MSG_LEASE, &read);
	assert_false(later.done);
	atomic_store(&fail_syncs, 0);
	wait_until(later.done);
	assert_int_equal(later.err, 0);
	assert_int_equal(node_call(a, KR_MSG_SETATTR, &setattr), 0);
}

/* Else its bytes would stay in the journal, and its end would wait for them. */
static void the_writer_of_a_removed_file_hears_that_it_need_not_keep_its_bytes(void **state)
{
	struct node *a = begin("a", NULL);
	struct kr_close_request close = {.file = a->file, .count = 1};
	struct kr_remove_request removal = {.parent = a->root, .name = "file"};

	(void)state;
	for (int removed_first = 0; removed_first < 2; removed_first++) {
		if (removed_first)
			a->file = create_file(a, "file");
		close.file = a->file;
		hold_syncs(true);
		if (removed_first)
			assert_int_equal(node_call(a, KR_MSG_REMOVE, &removal), 0);
		a->generation = 5;
		flush_and_wait(a);
		assert_int_equal(node_call(a, KR_MSG_CLOSE, &close), 0);
		if (!removed_first)
			assert_int_equal(node_call(a, KR_MSG_REMOVE, &removal), 0);
		hold_syncs(false);
		wait_until(a->stable >= a->flush_reply.round);
		give_back(a);
		flush_and_wait(a);
		assert_int_equal(a->flush_err, 0);
		wait_until(a->stable >= a->flush_reply.round);
	}
}

static void fsync_of_a_file_that_is_gone_is_stale(void **state)
{
	struct node *a = writer("a");
	struct kr_close_request close = {.file = a->file, .count = 1};
	struct kr_remove_request removal = {.parent = a->root, .name = "file"};
	struct kr_fallocate_request punch = {.file = a->file, .mode = 3, .length = 100};

	(void)state;
	assert_int_equal(node_call(a, KR_MSG_REMOVE, &removal), 0);
	assert_int_equal(node_call(a, KR_MSG_CLOSE, &close), 0);
	give_back(a);
	wait_until(kr_sfile_find(&F.server, &a->file)->gone);
	assert_int_equal(fsync_of(a), -ESTALE);
	assert_int_equal(node_call(a, KR_MSG_FALLOCATE, &punch), -ESTALE);
	assert_int_equal(F.server.data->syncs.failed_log.files.count, 0);
}

/* --- sessions --------------------------------------------------------------------------------- */

static void what_a_successor_may_send_again_is_uncommitted_until_its_reclaim(void **state)
{
	struct node *a = uncommitted_writer("a"), *b = begin("b", &a->file);
	struct kr_reclaim_request reclaim = {
		.file = a->file, .first = 5, .last = 5, .resend = 5, .kinds = KR_LEASE_WRITE};
	struct kr_lease_request read = {.file = a->file, .kinds = KR_LEASE_READ};

	(void)state;
	give_back(a);
	for (int reclaims = 0; reclaims < 2; reclaims++) {
		node_die(a);
		a->manual_reclaim = true;
		a->keeps_stable = false;
		node_begin(a);
		wait_until(a->live);
		ask_later(b, KR_MSG_LEASE, &read);
		assert_false(later.done);
		if (reclaims) {
			assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
			assert_int_equal(the_answer.reply.reclaim_reply.durable_seq, 5); /* it need not send them */
		}
		assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
		wait_until(later.done || a->recalls > 0);
		give_back(a);
		wait_until(later.done);
		assert_int_equal(later.err, 0);
		give_back(b);
		a->keeps_stable = true; /* it dies before it hears */
		flush_and_wait(a);
		give_back(a);
	}
}

/* --- RESEND ----------------------------------------------------------------------------------- */

static void resent_bytes_that_are_there_change_nothing(void **state)
{
	struct node *a = writer("a");
	struct kr_sfile *file = kr_sfile_get(&F.server, &a->file);
	struct kr_setattr_request setattr = {.valid = 32 /* MTIME */, .file = a->file, .mtime.sec = 77};
	uint64_t epoch;

	(void)state;
	assert_int_equal(node_call(a, KR_MSG_SETATTR, &setattr), 0);
	epoch = file->changed_epoch;
	a->resend = true;
	for (int chained = 0; chained < 2; chained++) {
		a->inlined = !chained;
		flush_and_wait(a);
		assert_int_equal(a->flush_err, 0);
		assert_int_equal(a->flush_reply.attr.mtime.sec, 77);
		assert_int_equal(file->changed_epoch, epoch);
	}
	a->generation = 6;
	flush_and_wait(a);
	assert_int_equal(a->flush_reply.attr.mtime.sec, a->mtime.sec);
	assert_true(file->changed_epoch > epoch);
	kr_sfile_put(file);
}

static void an_empty_flush_ends_what_is_owed_and_changes_nothing(void **state)
{
	struct node *a = begin("a", NULL);
	struct kr_setattr_request setattr = {.valid = 32 /* MTIME */, .file = a->file, .mtime.sec = 77};

	(void)state;
	hold_syncs(true);
	a->generation = 5;
	flush_and_wait(a);
	assert_int_equal(node_call(a, KR_MSG_SETATTR, &setattr), 0);
	atomic_store(&fail_syncs, 1);
	hold_syncs(false);
	wait_until(a->unstable == 1);
	give_back(a);
	a->bare = a->resend = true;
	a->extent_count = 0;
	flush_and_wait(a);
	assert_int_equal(a->flush_err, 0);
	assert_int_equal(a->flush_reply.attr.mtime.sec, 77);
	assert_int_equal(a->flush_reply.attr.size, 100);
	assert_int_equal(fsync_of(a), 0);
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_syncs, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fsync_answers_when_all_is_synced),
		TEST(what_others_wait_for_goes_on_when_the_writer_has_answered_stable),
		TEST(the_writer_itself_and_other_writers_wait_for_nothing),
		TEST(a_node_reads_its_own_bytes_among_those_of_others_when_both_are_committed),
		TEST(open_waits_only_for_what_was_applied_before),
		TEST(a_cut_waits_for_the_callers_own_bytes_and_is_synced_before_it_is_answered),
		TEST(a_lock_passes_when_all_files_of_its_last_owner_are_committed),
		TEST(a_lost_lock_passes_when_what_its_owner_wrote_is_durable),
		TEST(with_commit_never_nobody_waits),
		TEST(a_sync_begins_when_somebody_waits_for_the_file),
		TEST(many_files_are_synced_together),
		TEST(a_failed_sync_is_told_to_nodes_and_fsync_until_the_bytes_have_come_again),
		TEST(who_waits_for_the_sync_gets_its_error),
		TEST(a_flush_on_its_way_does_not_bring_what_was_lost),
		TEST(an_old_journal_goes_over_nothing_that_its_node_has_flushed),
		TEST(a_round_that_runs_when_a_sync_fails_counts_as_lost),
		TEST(refused_bytes_are_owed_no_more),
		TEST(bytes_of_a_lost_session_are_written_again_until_a_sync_succeeds),
		TEST(the_next_instance_repairs_what_a_failed_sync_may_have_lost),
		TEST(a_cut_that_may_not_last_is_an_error_and_nobody_reads_before_it_is_repaired),
		TEST(fsync_of_a_file_that_is_gone_is_stale),
		TEST(the_writer_of_a_removed_file_hears_that_it_need_not_keep_its_bytes),
		TEST(what_a_successor_may_send_again_is_uncommitted_until_its_reclaim),
		TEST(resent_bytes_that_are_there_change_nothing),
		TEST(an_empty_flush_ends_what_is_owed_and_changes_nothing),
	};

	prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

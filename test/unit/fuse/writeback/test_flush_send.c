/* What answers of the server make of what a failed sync has lost, while it is on its way again; rpc, journal and the
 * flusher around it are simulated. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/file/file_priv.h"
#include "fuse/writeback/flush_priv.h"

enum {
	LOST = 3,
	LAST = LOST + 1,
	CALLS = 8
}; /* rounds 1 to LOST; the number of a write is that of its round, or LAST */

static struct {
	struct kr_flusher flusher;
	struct kr_session_facts facts;
	struct {
		kr_rpc_fn answer;
		void *context;
	} calls[CALLS];
	unsigned called, abandoned, noted, unjudged, unclaimed, failed, gone_in;
} fake;

uint64_t kr_rpc_call(struct kr_rpc *rpc, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count,
	unsigned flags, kr_rpc_fn callback, void *context)
{
	(void)rpc, (void)type, (void)msg, (void)slices, (void)count, (void)flags;
	fake.calls[fake.called].answer = callback;
	fake.calls[fake.called].context = context;
	return ++fake.called;
}
void kr_rpc_cancel(struct kr_rpc *rpc, uint64_t id)
{
	(void)rpc;
	fake.abandoned++;
	fake.calls[id - 1].answer(fake.calls[id - 1].context, -EINTR, NULL, NULL);
	fake.calls[id - 1].answer = NULL;
}
const struct kr_session_facts *kr_session_facts(const struct kr_session *session)
{
	(void)session;
	return &fake.facts;
}
void kr_chain_abort(struct kr_chain *chain)
{
	assert_null(chain);
}

int kr_journal_read_verified(struct kr_journal *journal, uint64_t position, void *data, size_t length)
{
	(void)journal, (void)position;
	memset(data, 1, length);
	return 0;
}
void kr_journal_hold(struct kr_journal *journal, const struct kr_extent *extent)
{
	(void)journal, (void)extent;
}
void kr_journal_release(void *journal, const struct kr_extent *extent)
{
	(void)journal, (void)extent;
}
void kr_journal_note_applied(struct kr_journal *journal, struct kr_journal_file *file, struct kr_applied *applied,
	uint64_t round, const uint8_t boot_id[16])
{
	(void)journal, (void)file;
	fake.noted++;
	applied->lost = false;
	applied->round = round;
	if (boot_id)
		memcpy(applied->boot_id, boot_id, 16);
}
void kr_journal_void_applied(struct kr_journal *journal, struct kr_applied *applied)
{
	(void)journal, (void)applied;
}
void kr_journal_unapply(struct kr_journal *journal, struct kr_applied *applied)
{
	(void)journal;
	applied->round = applied->order;
	memset(applied->boot_id, 0, 16);
}
void kr_journal_lose_applied(struct kr_journal *journal, struct kr_applied *applied)
{
	(void)journal;
	applied->lost = true;
}

struct kr_file *kr_file_get(struct kr_file *file)
{
	return file;
}
void kr_file_put(struct kr_file *file)
{
	(void)file;
}
void kr_file_step(struct kr_file *file)
{
	(void)file;
}
void kr_file_refresh(struct kr_file *file)
{
	(void)file;
}
void kr_file_redirtied(struct kr_file *file, struct kr_time mtime, int err)
{
	(void)file, (void)mtime, (void)err;
}
void kr_file_flush_failed(struct kr_file *file, int err)
{
	(void)file, (void)err;
	fake.failed++;
}
void kr_file_flush_untaken(struct kr_file *file)
{
	(void)file;
}
void kr_file_flushed(
	struct kr_file *file, uint64_t seq, const struct kr_flush_reply *reply, const struct kr_extent_map *sent)
{
	(void)file, (void)seq, (void)reply, (void)sent;
}

struct kr_applied *kr_flush_add_applied(
	struct kr_file *file, struct kr_extent_map *extents, uint64_t seq, uint64_t round)
{
	struct kr_applied *applied = kr_xcalloc(1, sizeof(*applied));

	applied->up_to = seq;
	kr_extent_map_init(&applied->extents);
	kr_extent_map_move(extents, &applied->extents);
	kr_list_append(&file->flush->applied, &applied->link);
	kr_journal_note_applied(NULL, NULL, applied, round, NULL);
	return applied;
}
void kr_flush_release_map(struct kr_file *file, struct kr_extent_map *map)
{
	(void)file;
	kr_extent_map_fini(map);
	kr_extent_map_init(map);
}
void kr_flush_dirtied(struct kr_file *file)
{
	(void)file;
}
void kr_flush_orphan(struct kr_file *file, int err)
{
	(void)err;
	file->flush->orphaned = true;
}
void kr_flush_settle(struct kr_file *file)
{
	(void)file;
}
void kr_flush_stable(struct kr_file *file, uint64_t round)
{
	(void)file, (void)round;
}
void kr_flush_step(struct kr_file *file)
{
	kr_flush_settle_unstable(file);
}
bool kr_flush_is_current_boot(const struct kr_file *file, const struct kr_applied *applied)
{
	(void)file;
	return !applied->lost && memcmp(applied->boot_id, fake.facts.boot_id, 16) == 0;
}
static bool is_on_its_way(const struct kr_file *file, const struct kr_applied *applied)
{
	const struct kr_flush_send *send;

	KR_LIST_FOR_EACH(send, &file->flush->sends, link)
		if (send->replay == applied)
			return true;
	return false;
}
void kr_flush_replay_file(struct kr_file *file, unsigned flags)
{
	struct kr_applied *applied;

	KR_LIST_FOR_EACH(applied, &file->flush->applied, link)
		if (!kr_flush_is_current_boot(file, applied) && !is_on_its_way(file, applied))
			assert_int_equal(kr_flush_send_replay(file, applied, flags), 0);
}
void kr_unjudged_unclaimed(struct kr_file *file, int err)
{
	(void)file;
	assert_int_equal(err, -EIO);
	fake.unclaimed++;
}
void kr_unjudged_gone_in(struct kr_file *file)
{
	(void)file;
	fake.gone_in++;
}
void kr_unjudged_begin(struct kr_file *file, int err)
{
	(void)file, (void)err;
	fake.unjudged++;
}

struct fixture {
	struct kr_mount mount;
	struct kr_file file;
	struct kr_flush flush;
};

static void insert(struct kr_extent_map *map, uint64_t seq)
{
	const struct kr_extent extent = {.offset = seq, .length = 1, .position = 100 * seq, .seq = seq};

	assert_int_equal(kr_extent_map_insert(map, &extent, NULL, NULL), 0);
}

/* Rounds 1 to LOST, each of the byte of its number; the byte LAST is dirty. */
static int setup(void **state)
{
	static struct fixture f;

	memset(&fake, 0, sizeof(fake));
	f = (struct fixture){
		.file = {.mount = &f.mount, .flush = &f.flush}, .flush.file = &f.file, .mount.flusher = &fake.flusher};
	pthread_mutex_init(&f.file.lock, NULL);
	kr_extent_map_init(&f.file.dirty);
	kr_list_init(&f.file.flush->applied);
	kr_list_init(&f.file.flush->sends);
	for (uint64_t round = 1; round <= LOST; round++) {
		struct kr_applied *applied = kr_xcalloc(1, sizeof(*applied));

		applied->round = applied->order = applied->up_to = round;
		kr_extent_map_init(&applied->extents);
		insert(&applied->extents, round);
		kr_list_append(&f.file.flush->applied, &applied->link);
	}
	insert(&f.file.dirty, LAST);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct kr_link *link;

	assert_true(kr_list_empty(&f->file.flush->sends));
	while ((link = kr_list_pop(&f->file.flush->applied))) {
		struct kr_applied *applied = KR_LIST_ENTRY(link, struct kr_applied, link);

		kr_extent_map_fini(&applied->extents);
		free(applied);
	}
	kr_extent_map_fini(&f->file.dirty);
	return 0;
}

/* Rounds 1 to LOST are. */
static void lose(struct fixture *f)
{
	const struct kr_unstable_request request = {.last = LOST, .error = kr_status_from_errno(-EIO)};

	kr_flush_unstable(&f->file, &request);
}

static void server_answers(unsigned call, int err, uint64_t round)
{
	const struct kr_flush_reply reply = {.round = round};

	if (fake.calls[call].answer)
		fake.calls[call].answer(fake.calls[call].context, err, err ? NULL : &reply, NULL);
}

static void assert_all_dirty(const struct fixture *f)
{
	assert_int_equal(f->file.dirty.count, LAST);
	assert_true(kr_list_empty(&f->file.flush->applied));
	assert_int_equal(fake.unjudged, 0);
	assert_false(f->file.flush->keeps_replays || f->file.flush->orphaned);
}

/* An ordinary flush brings it all, or says that it is refused. */
static void what_is_refused_one_after_the_other_is_dirty_again(void **state)
{
	struct fixture *f = *state;

	lose(f);
	assert_int_equal(fake.called, LOST);
	for (unsigned i = 0; i < LOST; i++)
		server_answers(i, -ENOSPC, 0);
	assert_all_dirty(f);
	assert_int_equal(fake.abandoned, 0);
}

/* It may be from before the node was away: others may have changed the file since. */
static void what_a_late_node_cannot_send_in_its_turn_is_asked_for(void **state)
{
	struct fixture *f = *state;

	kr_flush_claimed(&f->file, (struct kr_time){.sec = 1});
	lose(f);
	server_answers(0, -EAGAIN, 0);
	assert_int_equal(fake.unclaimed, 0);
	fake.facts.late = true;
	for (unsigned i = 1; i < LOST; i++)
		server_answers(i, -EAGAIN, 0);
	assert_int_equal(fake.unclaimed, LOST - 1);
	assert_all_dirty(f);
}

/* Every node is late when it mounts; what it has sent since is as any other's. */
static void what_was_sent_since_the_claims_is_not_asked_for(void **state)
{
	struct fixture *f = *state;

	fake.facts.late = true;
	lose(f);
	for (unsigned i = 0; i < LOST; i++)
		server_answers(i, -EAGAIN, 0);
	assert_int_equal(fake.unclaimed, 0);
	assert_all_dirty(f);
}

/* It has gone in where it was, in this session. */
static void what_was_taken_in_its_turn_once_is_not_asked_for(void **state)
{
	struct fixture *f = *state;
	const struct kr_unstable_request again = {.round = LOST, .last = 2 * LOST, .error = kr_status_from_errno(-EIO)};

	fake.facts.late = true;
	kr_flush_claimed(&f->file, (struct kr_time){.sec = 1});
	lose(f);
	for (unsigned i = 0; i < LOST; i++)
		server_answers(i, 0, LOST + 1 + i);
	kr_flush_unstable(&f->file, &again);
	for (unsigned i = 0; i < LOST; i++)
		server_answers(LOST + i, -EAGAIN, 0);
	assert_int_equal(fake.unclaimed, 0);
	assert_all_dirty(f);
}

/* Its record would count for the older ones, which are nowhere else any more. */
static void what_is_taken_after_one_that_was_refused_is_not_noted(void **state)
{
	struct fixture *f = *state;

	lose(f);
	server_answers(0, -ENOSPC, 0);
	server_answers(1, 0, LOST + 1);
	server_answers(2, 0, LOST + 2);
	assert_int_equal(fake.noted, 0);
	assert_all_dirty(f);
}

static void a_flush_that_is_taken_over_what_will_be_dirty_is_not_noted(void **state)
{
	struct fixture *f = *state;

	fake.flusher.recovering = true; /* nothing goes in order */
	assert_int_equal(kr_flush_send_dirty(&f->file), 0);
	lose(f);
	assert_true(f->file.flush->unstable);
	server_answers(0, 0, LOST + 1);
	assert_int_equal(fake.noted, 0);
	assert_int_equal(fake.failed, 0);
	assert_all_dirty(f);
}

static void what_is_taken_in_its_turn_is_noted(void **state)
{
	struct fixture *f = *state;

	lose(f);
	for (unsigned i = 0; i < LOST; i++)
		server_answers(i, 0, LOST + 1 + i);
	assert_int_equal(fake.noted, LOST);
	assert_int_equal(f->file.dirty.count, 1);
	assert_false(kr_flush_has_lost(&f->file));
}

/* Its turn is over: what comes after it in the order goes in, and it is judged. */
static void what_a_loss_of_power_has_taken_is_judged_when_it_is_refused(void **state)
{
	struct fixture *f = *state;

	fake.facts.boot_id[0] = 1;
	kr_flush_replay_file(&f->file, 0);
	server_answers(0, -ENOSPC, 0);
	assert_int_equal(fake.unjudged, 1);
	assert_int_equal(fake.abandoned, LOST - 1);
	assert_true(f->file.flush->keeps_replays);
}

/* They may be in already. */
static void those_on_their_way_are_heard_before_one_that_was_not_taken_is_judged(void **state)
{
	struct fixture *f = *state;

	fake.facts.boot_id[0] = 1;
	kr_flush_replay_file(&f->file, 0);
	server_answers(1, -EAGAIN, 0);
	assert_int_equal(fake.abandoned, 0);
	assert_true(f->file.flush->keeps_replays);
	for (unsigned i = 0; i < LOST; i++) {
		if (i != 1)
			server_answers(i, 0, LOST + 1 + i);
	}
	assert_int_equal(fake.noted, 1); /* what comes after the one that was not taken goes in after it once more */
	assert_int_equal(fake.unjudged, 0);
}

/* A new boot of the server: the first round has gone in again as NEXT, and a sync loses it while the others are on
 * their way. */
static void lose_the_first(struct fixture *f)
{
	const struct kr_unstable_request request = {
		.round = LOST, .last = LOST + 1, .error = kr_status_from_errno(-EIO)};

	fake.facts.boot_id[0] = 1;
	kr_flush_replay_file(&f->file, 0);
	server_answers(0, 0, LOST + 1);
	assert_false(kr_flush_unstable(&f->file, &request));
	assert_int_equal(fake.called, LOST + 1); /* it is on its way, too */
}

static void assert_all_replays(const struct fixture *f)
{
	const struct kr_applied *applied;
	uint64_t round = 0;

	KR_LIST_FOR_EACH(applied, &f->file.flush->applied, link) {
		assert_int_equal(applied->round, ++round);
		assert_false(applied->lost || kr_flush_is_current_boot(&f->file, applied));
	}
	assert_int_equal(round, LOST);
	assert_int_equal(f->file.dirty.count, 1);
}

/* Dirty it would go in after them. */
static void what_was_lost_before_a_replay_that_is_refused_is_judged_with_it(void **state)
{
	struct fixture *f = *state;

	lose_the_first(f);
	server_answers(1, -ENOSPC, 0);
	assert_int_equal(fake.unjudged, 1);
	assert_int_equal(fake.abandoned, 2);
	assert_all_replays(f);
}

/* The server has not waited for it. */
static void what_goes_in_before_an_older_round_is_not_noted(void **state)
{
	struct fixture *f = *state;

	lose_the_first(f);
	fake.noted = 0;
	server_answers(1, 0, LOST + 2);
	server_answers(2, 0, LOST + 3);
	server_answers(LOST, -EAGAIN, 0);
	assert_int_equal(fake.noted, 0);
	assert_int_equal(fake.failed + fake.unjudged, 0);
	assert_all_replays(f);
	assert_true(f->file.flush->keeps_replays); /* asked for before they are sent again */
}

static void what_goes_in_in_its_turn_is_noted(void **state)
{
	struct fixture *f = *state;

	lose_the_first(f);
	fake.noted = 0;
	server_answers(LOST, 0, LOST + 2);
	server_answers(1, 0, LOST + 3);
	server_answers(2, 0, LOST + 4);
	assert_int_equal(fake.noted, LOST);
	assert_int_equal(fake.gone_in, 1 + LOST);
	assert_false(f->file.flush->keeps_replays);
}

/* Its answer comes on another connection, behind UNSTABLE. */
static void an_answer_to_a_replay_that_a_failed_sync_has_taken_is_not_noted(void **state)
{
	struct fixture *f = *state;
	const struct kr_unstable_request request = {
		.round = LOST, .last = LOST + 1, .error = kr_status_from_errno(-EIO)};

	fake.facts.boot_id[0] = 1;
	kr_flush_replay_file(&f->file, 0);
	kr_flush_unstable(&f->file, &request);
	for (unsigned i = 0; i < LOST; i++)
		server_answers(i, 0, LOST + 1 + i);
	assert_int_equal(fake.noted, 0);
	assert_all_replays(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_refused_one_after_the_other_is_dirty_again),
		TEST(what_a_late_node_cannot_send_in_its_turn_is_asked_for),
		TEST(what_was_sent_since_the_claims_is_not_asked_for),
		TEST(what_was_taken_in_its_turn_once_is_not_asked_for),
		TEST(what_is_taken_after_one_that_was_refused_is_not_noted),
		TEST(a_flush_that_is_taken_over_what_will_be_dirty_is_not_noted),
		TEST(what_is_taken_in_its_turn_is_noted),
		TEST(what_a_loss_of_power_has_taken_is_judged_when_it_is_refused),
		TEST(those_on_their_way_are_heard_before_one_that_was_not_taken_is_judged),
		TEST(what_was_lost_before_a_replay_that_is_refused_is_judged_with_it),
		TEST(what_goes_in_before_an_older_round_is_not_noted),
		TEST(what_goes_in_in_its_turn_is_noted),
		TEST(an_answer_to_a_replay_that_a_failed_sync_has_taken_is_not_noted),
	};

	kr_log_init("test_flush_send", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

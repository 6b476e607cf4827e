/* What a node does when it is told that a sync has failed at the server; its journal and the flusher around it are
 * simulated. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "fuse/file/file_priv.h"
#include "fuse/writeback/flush_priv.h"

enum { ROUNDS = 4 };

static struct {
	struct kr_flusher flusher;
	struct kr_session_facts facts;
	uint64_t voided[2 * ROUNDS]; /* rounds, as their records died */
	uint64_t unapplied[2 * ROUNDS];
	unsigned voids, unapplies, replays, stepped;
	int told;
	unsigned unclaimed;
	bool held_first;
	bool breaks; /* what is to be sent again cannot be read */
} fake;

void kr_journal_void_applied(struct kr_journal *journal, struct kr_applied *applied)
{
	(void)journal;
	if (applied->mark)
		fake.voided[fake.voids++] = applied->round;
	applied->mark = 0;
}
void kr_journal_lose_applied(struct kr_journal *journal, struct kr_applied *applied)
{
	kr_journal_void_applied(journal, applied);
	applied->lost = true;
}
void kr_journal_unapply(struct kr_journal *journal, struct kr_applied *applied)
{
	(void)journal;
	fake.unapplied[fake.unapplies++] = applied->round;
	applied->round = applied->order;
	memset(applied->boot_id, 0, 16);
	applied->lost = false;
}
void kr_journal_release(void *journal, const struct kr_extent *extent)
{
	(void)journal, (void)extent;
}
void kr_file_redirtied(struct kr_file *file, struct kr_time mtime, int err)
{
	(void)file, (void)mtime;
	fake.told = err ? err : fake.told;
}
void kr_flush_dirtied(struct kr_file *file)
{
	(void)file;
}
bool kr_flush_is_current_boot(const struct kr_file *file, const struct kr_applied *applied)
{
	(void)file;
	return !applied->lost && memcmp(applied->boot_id, fake.facts.boot_id, 16) == 0;
}
void kr_flush_replay_file(struct kr_file *file, unsigned flags)
{
	(void)flags;
	fake.replays++;
	file->flush->orphaned |= fake.breaks;
}
void kr_flush_step(struct kr_file *file)
{
	fake.stepped++;
	kr_flush_settle_unstable(file);
}
const struct kr_session_facts *kr_session_facts(const struct kr_session *session)
{
	(void)session;
	return &fake.facts;
}
void kr_unjudged_unclaimed(struct kr_file *file, int err)
{
	assert_int_equal(err, file->flush->keeps_replays ? 0 : -EIO);
	fake.unclaimed++;
	fake.held_first = file->flush->unstable; /* nothing of it can have been sent yet */
}

struct fixture {
	struct kr_mount mount;
	struct kr_file file;
	struct kr_flush flush;
	struct kr_flush_send send;
};

/* Rounds 1 to ROUNDS, each of the byte of its number, and of the first one. */
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
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		struct kr_applied *applied = kr_xcalloc(1, sizeof(*applied));
		struct kr_extent first = {.length = 1, .position = 100 * round, .seq = round};
		struct kr_extent own = {.offset = round, .length = 1, .position = 100 * round + 1, .seq = round};

		applied->round = applied->up_to = applied->mark = round;
		kr_extent_map_init(&applied->extents);
		assert_int_equal(kr_extent_map_insert(&applied->extents, &first, NULL, NULL), 0);
		assert_int_equal(kr_extent_map_insert(&applied->extents, &own, NULL, NULL), 0);
		kr_list_append(&f.file.flush->applied, &applied->link);
	}
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct kr_link *link;

	while ((link = kr_list_pop(&f->file.flush->applied))) {
		struct kr_applied *applied = KR_LIST_ENTRY(link, struct kr_applied, link);

		kr_extent_map_fini(&applied->extents);
		free(applied);
	}
	kr_extent_map_fini(&f->file.dirty);
	return 0;
}

static bool tell(struct fixture *f, uint64_t good, uint64_t last)
{
	struct kr_unstable_request request = {.round = good, .last = last, .error = kr_status_from_errno(-EIO)};

	return kr_flush_unstable(&f->file, &request);
}

static struct kr_applied *applied_in(struct fixture *f, uint64_t round)
{
	struct kr_applied *applied;

	KR_LIST_FOR_EACH(applied, &f->file.flush->applied, link)
		if (applied->round == round)
			return applied;
	return NULL;
}

/* Killed between any two steps a start finds the latest dirty, and none dirty below one that is not. */
static void what_is_lost_is_sent_again_and_its_records_die_before_the_latest_first(void **state)
{
	struct fixture *f = *state;

	assert_true(tell(f, 1, 4));
	assert_int_equal(fake.voids, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(fake.voided[i], 4 - i);
	assert_int_equal(fake.replays, 1);
	assert_int_equal(fake.told, -EIO);
	assert_true(kr_flush_has_lost(&f->file));
	assert_false(applied_in(f, 1)->lost);
	assert_true(applied_in(f, 2)->lost && applied_in(f, 4)->lost);
	assert_true(kr_extent_map_empty(&f->file.dirty));
	assert_true(f->file.flush->lost_round == 4);
}

/* It has been handled on another connection, and they are in again. */
static void what_was_heard_before_does_nothing(void **state)
{
	struct fixture *f = *state;

	tell(f, 1, 4);
	for (uint64_t round = 2; round <= 4; round++) {
		struct kr_applied *applied = applied_in(f, round);

		applied->lost = false;
		applied->round += 10;
	}
	fake.told = 0;
	tell(f, 1, 4);
	assert_int_equal(fake.told, 0);
	assert_int_equal(fake.replays, 1);
	assert_false(kr_flush_has_lost(&f->file));
}

static void what_is_on_its_way_already_is_not_all(void **state)
{
	struct fixture *f = *state;

	tell(f, 3, 4);
	f->send.replay = applied_in(f, 4);
	kr_list_append(&f->file.flush->sends, &f->send.link);
	assert_false(tell(f, 1, 4));
	assert_true(applied_in(f, 2)->lost && applied_in(f, 3)->lost);
	assert_int_equal(fake.replays, 2);
}

static void what_cannot_be_read_is_not_sent(void **state)
{
	struct fixture *f = *state;

	fake.breaks = true;
	assert_false(tell(f, 1, 4));
	assert_false(tell(f, 1, 4)); /* on another connection */
	kr_flush_forgo_order(&f->file);
	f->file.flush->unstable = false;
	assert_true(tell(f, 4, 4)); /* nothing was to be sent */
}

static void assert_dirty_from(struct fixture *f, uint64_t round)
{
	assert_int_equal(f->file.dirty.count, 1 + ROUNDS - round + 1);
	assert_int_equal(kr_extent_map_max_seq(&f->file.dirty), ROUNDS);
	assert_null(applied_in(f, ROUNDS));
	assert_non_null(applied_in(f, round - 1));
	assert_false(kr_flush_has_lost(&f->file));
}

static void where_it_cannot_go_in_order_it_is_dirty_again(void **state)
{
	struct fixture *f = *state;

	fake.flusher.recovering = true;
	assert_false(tell(f, 1, 4));
	assert_int_equal(fake.replays, 0);
	assert_int_equal(fake.told, -EIO);
	assert_int_equal(fake.unclaimed, 0);
	assert_dirty_from(f, 2);
}

/* What it claims, or has asked about, was without this; others may have changed the file since. */
static void what_a_late_node_had_sent_before_its_claims_it_asks_for(void **state)
{
	struct fixture *f = *state;

	fake.facts.late = true;
	applied_in(f, 3)->mtime.sec = 7;
	kr_flush_claimed(&f->file, (struct kr_time){.sec = 5});
	assert_int_equal(f->file.flush->claimed_since.sec, 7);
	applied_in(f, 4)->before_claims = false; /* sent since */
	assert_true(tell(f, 2, 4));              /* it serves: these go in again in the order of rounds */
	assert_int_equal(fake.unclaimed, 0);
	applied_in(f, 3)->lost = applied_in(f, 4)->lost = false;
	fake.flusher.recovering = true;
	assert_false(tell(f, 3, 4));
	assert_int_equal(fake.unclaimed, 0);
	assert_false(tell(f, 2, 3));
	assert_int_equal(fake.unclaimed, 1);
	fake.flusher.recovering = false;
	assert_false(tell(f, 0, 1)); /* round 2 is there: it serves, and these cannot go in order */
	assert_int_equal(fake.unclaimed, 2);
	assert_true(fake.held_first);
	assert_true(kr_list_empty(&f->file.flush->applied));
}

/* The server has not waited: a round that is later than the loss is there, and its record would count for those before
 * it. */
static void what_the_server_has_not_waited_for_is_dirty_again_with_all_that_came_after_it(void **state)
{
	struct fixture *f = *state;

	assert_false(tell(f, 1, 3));
	assert_dirty_from(f, 2);
}

/* One was refused; what was applied since, or is on its way still, comes after it. */
static void what_was_not_taken_in_its_turn_is_dirty_again_with_all_that_came_after_it(void **state)
{
	struct fixture *f = *state;

	assert_true(tell(f, 1, 4));
	applied_in(f, 4)->lost = false; /* it has gone in */
	f->send.replay = applied_in(f, 3);
	kr_list_append(&f->file.flush->sends, &f->send.link);
	fake.told = 0;
	kr_flush_forgo_order(&f->file);
	kr_flush_settle_unstable(&f->file);
	assert_true(kr_extent_map_empty(&f->file.dirty)); /* something is in flight */
	assert_true(f->file.flush->unstable && f->file.flush->unstable_after == 1);
	kr_list_remove(&f->send.link);
	kr_flush_settle_unstable(&f->file);
	assert_dirty_from(f, 2);
	assert_int_equal(fake.told, 0); /* once */
}

/* The server does not tell of it again, and what is in flight may take long. */
static void a_start_finds_dirty_what_will_be(void **state)
{
	struct fixture *f = *state;

	kr_list_append(&f->file.flush->sends, &f->send.link);
	assert_false(tell(f, 1, 3)); /* not as replays, since round 4 is there */
	assert_true(kr_extent_map_empty(&f->file.dirty));
	assert_int_equal(fake.voids, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(fake.voided[i], 4 - i);
	kr_list_remove(&f->send.link);
	kr_flush_settle_unstable(&f->file);
	assert_dirty_from(f, 2);
	assert_int_equal(fake.voids, 3);
}

/* After a loss of the server's power it goes with all else that is to be replayed. */
static void what_another_boot_has_lost_stays_in_order(void **state)
{
	struct fixture *f = *state;

	assert_true(tell(f, 1, 4));
	fake.facts.boot_id[0] = 1;
	kr_flush_forgo_order(&f->file);
	kr_flush_settle_unstable(&f->file);
	assert_true(kr_extent_map_empty(&f->file.dirty));
	assert_non_null(applied_in(f, 2));
}

/* A new boot: the former one's rounds go in again, and the first COUNT of them have. */
static void boot_anew(struct fixture *f, uint64_t count)
{
	struct kr_applied *applied;

	fake.facts.boot_id[0] = 1;
	KR_LIST_FOR_EACH(applied, &f->file.flush->applied, link) {
		applied->order = applied->round;
		if (applied->round > count)
			continue;
		applied->round += 10;
		applied->boot_id[0] = 1;
	}
}

static void assert_all_replays(struct fixture *f)
{
	struct kr_applied *applied;
	uint64_t round = 0;

	KR_LIST_FOR_EACH(applied, &f->file.flush->applied, link) {
		assert_int_equal(applied->round, ++round);
		assert_false(applied->lost || kr_flush_is_current_boot(&f->file, applied));
	}
	assert_int_equal(round, ROUNDS);
	assert_true(kr_extent_map_empty(&f->file.dirty));
	assert_false(f->file.flush->unstable);
}

/* Dirty they would go in after those that a former boot has lost, which are newer. */
static void what_is_lost_while_newer_rounds_are_replayed_goes_before_them(void **state)
{
	struct fixture *f = *state;

	boot_anew(f, 2);
	f->send.replay = applied_in(f, 3);
	kr_list_append(&f->file.flush->sends, &f->send.link);
	assert_false(tell(f, 10, 12));
	assert_int_equal(fake.unapplies, 2);
	assert_true(fake.unapplied[0] == 12 && fake.unapplied[1] == 11);
	assert_int_equal(fake.voids, 0);
	assert_int_equal(fake.told, -EIO);
	assert_int_equal(fake.replays, 1); /* before UNSTABLE is answered */
	assert_all_replays(f);
	kr_list_remove(&f->send.link);
	kr_flush_settle_unstable(&f->file);
	assert_all_replays(f);
	assert_int_equal(fake.unclaimed, 0);
}

/* One was refused, and all that is to be replayed is being judged. */
static void what_is_lost_while_newer_rounds_are_judged_waits_with_them(void **state)
{
	struct fixture *f = *state;

	boot_anew(f, 2);
	f->file.flush->orphaned = f->file.flush->unjudged = f->file.flush->keeps_replays = true;
	assert_false(tell(f, 10, 12));
	assert_all_replays(f);
	assert_true(f->file.flush->keeps_replays);
}

/* The server, not its machine, is started anew: the session is lost. */
static void what_is_lost_waits_with_newer_rounds_over_the_end_of_a_session(void **state)
{
	struct fixture *f = *state;

	boot_anew(f, 2);
	tell(f, 10, 12);
	kr_flush_forgo_order(&f->file);
	kr_flush_settle_unstable(&f->file);
	assert_all_replays(f);
	assert_int_equal(fake.unapplies, 2);
}

/* What a sync has lost before, and was on its way again, when it comes to that. */
static void what_can_go_in_its_turn_no_more_is_not_dirty_over_newer_rounds(void **state)
{
	struct fixture *f = *state;

	boot_anew(f, 2);
	applied_in(f, 12)->lost = true;
	kr_flush_forgo_order(&f->file);
	kr_flush_settle_unstable(&f->file);
	assert_int_equal(fake.unapplies, 1);
	assert_non_null(applied_in(f, 11));
	assert_false(kr_flush_is_current_boot(&f->file, applied_in(f, 2)));
	assert_true(kr_extent_map_empty(&f->file.dirty));
}

/* The claims were made without it. */
static void what_a_new_session_loses_before_newer_rounds_is_asked_for_with_them(void **state)
{
	struct fixture *f = *state;

	boot_anew(f, 2);
	fake.flusher.recovering = true;
	assert_false(tell(f, 10, 12));
	assert_all_replays(f);
	assert_int_equal(fake.unclaimed, 1);
	assert_true(f->file.flush->keeps_replays);
	assert_int_equal(fake.replays, 0);
}

/* It is there in this boot, and what has been synced is as well. */
static void what_was_synced_before_the_loss_stays(void **state)
{
	struct fixture *f = *state;

	boot_anew(f, 3);
	assert_false(tell(f, 11, 13));
	assert_int_equal(fake.unapplies, 2);
	assert_true(kr_flush_is_current_boot(&f->file, applied_in(f, 11)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_lost_is_sent_again_and_its_records_die_before_the_latest_first),
		TEST(what_was_heard_before_does_nothing),
		TEST(what_is_on_its_way_already_is_not_all),
		TEST(what_cannot_be_read_is_not_sent),
		TEST(where_it_cannot_go_in_order_it_is_dirty_again),
		TEST(what_a_late_node_had_sent_before_its_claims_it_asks_for),
		TEST(what_the_server_has_not_waited_for_is_dirty_again_with_all_that_came_after_it),
		TEST(what_was_not_taken_in_its_turn_is_dirty_again_with_all_that_came_after_it),
		TEST(a_start_finds_dirty_what_will_be),
		TEST(what_another_boot_has_lost_stays_in_order),
		TEST(what_is_lost_while_newer_rounds_are_replayed_goes_before_them),
		TEST(what_is_lost_while_newer_rounds_are_judged_waits_with_them),
		TEST(what_is_lost_waits_with_newer_rounds_over_the_end_of_a_session),
		TEST(what_can_go_in_its_turn_no_more_is_not_dirty_over_newer_rounds),
		TEST(what_a_new_session_loses_before_newer_rounds_is_asked_for_with_them),
		TEST(what_was_synced_before_the_loss_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Which names are uncommitted, who waits for them, and when syncs begin. */
#include "server/names/name_commits.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 3, NAMES = 3, WAITERS = 8 };

static const char *const names[NAMES] = {"a", "b", "c"};

/* A directory whose disk the test plays. A waiter records when it goes on. */
struct fixture {
	struct kr_name_commits commits;
	struct kr_fid dir;
	int syncing; /* syncs that have begun and not ended */
	int syncs;
	struct kr_name_waiter waiters[WAITERS];
	bool gone_on[WAITERS];
	int errs[WAITERS];
};

static struct fixture *the;

static void on_sync(void *context, const struct kr_fid *dir)
{
	struct fixture *f = context;

	assert_true(kr_fid_equal(dir, &f->dir));
	assert_int_equal(f->syncing, 0);
	f->syncing++;
	f->syncs++;
}

static void on_go_on(struct kr_name_waiter *waiter, int err)
{
	size_t i = (size_t)(waiter - the->waiters);

	assert_false(the->gone_on[i]);
	the->gone_on[i] = true;
	the->errs[i] = err;
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->dir.length = 8;
	for (int i = 0; i < WAITERS; i++)
		kr_link_init(&f->waiters[i].link);
	kr_name_commits_init(&f->commits, on_sync, f);
	*state = the = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < WAITERS; i++)
		kr_name_commits_withdraw(&f->commits, &f->waiters[i]);
	kr_name_commits_fini(&f->commits);
	free(f);
	return 0;
}

static struct kr_name_run *begin(struct fixture *f, const char *name, uint32_t node)
{
	return kr_name_commits_begin(&f->commits, &f->dir, name, node);
}

static void change(struct fixture *f, const char *name, uint32_t node)
{
	kr_name_commits_end(&f->commits, begin(f, name, node), true);
}

static void synced(struct fixture *f, int err)
{
	assert_int_equal(f->syncing, 1);
	f->syncing = 0;
	kr_name_commits_synced(&f->commits, &f->dir, err);
}

/* Whether waiter I has nothing to wait for. */
static bool see(struct fixture *f, const char *name, uint32_t node, int i)
{
	f->waiters[i] = (struct kr_name_waiter){.go_on = on_go_on};
	kr_link_init(&f->waiters[i].link);
	f->gone_on[i] = false;
	return kr_name_commits_wait(&f->commits, &f->dir, name, node, &f->waiters[i]);
}

static void the_node_that_changed_a_name_does_not_wait(void **state)
{
	struct fixture *f = *state;

	change(f, "a", 1);
	assert_true(see(f, "a", 1, 0));
	assert_true(see(f, NULL, 1, 0));
	assert_true(see(f, "b", 2, 0));
	assert_int_equal(f->syncs, 0);
}

static void another_node_waits_for_a_sync(void **state)
{
	struct fixture *f = *state;

	change(f, "a", 1);
	assert_false(see(f, "a", 2, 0));
	assert_false(see(f, NULL, 3, 1));
	assert_false(f->gone_on[0]);
	synced(f, 0);
	assert_true(f->gone_on[0]);
	assert_true(f->gone_on[1]);
	assert_true(see(f, "a", 2, 0));
	assert_int_equal(f->syncs, 1);
	assert_int_equal(f->commits.names.count, 0);
}

static void a_name_that_two_nodes_changed_is_waited_for_by_both(void **state)
{
	struct fixture *f = *state;

	change(f, "a", 1);
	change(f, "a", 2);
	assert_false(see(f, "a", 1, 0));
	assert_false(see(f, "a", 2, 1));
	synced(f, 0);
	assert_true(f->gone_on[0] && f->gone_on[1]);
}

static void a_change_that_runs_is_waited_for(void **state)
{
	struct fixture *f = *state;
	struct kr_name_run *run;

	run = begin(f, "a", 1);
	assert_false(see(f, "a", 2, 0));
	assert_int_equal(f->syncs, 0); /* it would not cover the change */
	change(f, "b", 1);
	synced(f, 0);
	assert_false(f->gone_on[0]);
	assert_int_equal(f->syncs, 1);
	kr_name_commits_end(&f->commits, run, true);
	synced(f, 0);
	assert_true(f->gone_on[0]);
}

static void a_change_that_changed_nothing_is_forgotten(void **state)
{
	struct fixture *f = *state;

	kr_name_commits_end(&f->commits, begin(f, "a", 1), false);
	assert_true(see(f, "a", 2, 0));
	change(f, "a", 1);
	kr_name_commits_end(&f->commits, begin(f, "a", 1), false);
	assert_false(see(f, "a", 2, 0)); /* but not the one before it */
	synced(f, 0);
}

static void a_change_that_fails_is_waited_for_no_more(void **state)
{
	struct fixture *f = *state;
	struct kr_name_run *run = begin(f, "a", 1);

	assert_false(see(f, "a", 2, 0));
	kr_name_commits_end(&f->commits, run, false);
	assert_true(f->gone_on[0]);
	assert_int_equal(f->errs[0], 0);
	assert_int_equal(f->syncs, 0);
	assert_int_equal(f->commits.dirs.count, 0);
}

static void changes_that_come_later_hold_nobody_up(void **state)
{
	struct fixture *f = *state;
	struct kr_name_run *run;

	change(f, "a", 1);
	assert_false(see(f, NULL, 2, 0));
	change(f, "a", 1);
	change(f, "b", 1);
	run = begin(f, "c", 1);
	synced(f, 0);
	assert_true(f->gone_on[0]);
	kr_name_commits_end(&f->commits, run, true);
	assert_false(see(f, "a", 2, 0)); /* its second change is not in that sync */
	synced(f, 0);
	assert_true(f->gone_on[0]);
}

static void changes_that_overlap_for_ever_hold_nobody_up(void **state)
{
	struct fixture *f = *state;
	struct kr_name_run *run = begin(f, "a", 1), *next;

	assert_false(see(f, "a", 2, 0));
	next = begin(f, "a", 1);
	kr_name_commits_end(&f->commits, run, true);
	synced(f, 0); /* `next` still runs */
	assert_true(f->gone_on[0]);
	kr_name_commits_end(&f->commits, next, true);
}

static void a_failed_sync_commits_nothing(void **state)
{
	struct fixture *f = *state;

	change(f, "a", 1);
	assert_false(see(f, "a", 2, 0));
	synced(f, -EIO);
	assert_true(f->gone_on[0]);
	assert_int_equal(f->errs[0], -EIO);
	assert_false(see(f, "a", 2, 0));
	synced(f, 0);
	assert_int_equal(f->errs[0], 0);
}

static void a_waiter_that_withdraws_is_not_called(void **state)
{
	struct fixture *f = *state;

	change(f, "a", 1);
	assert_false(see(f, "a", 2, 0));
	kr_name_commits_withdraw(&f->commits, &f->waiters[0]);
	synced(f, 0);
	assert_false(f->gone_on[0]);
	assert_int_equal(f->commits.dirs.count, 0);
}

static void old_changes_are_synced_though_nobody_waits(void **state)
{
	struct fixture *f = *state;

	change(f, "a", 1);
	kr_name_commits_tick(&f->commits);
	assert_int_equal(f->syncs, 0);
	kr_name_commits_tick(&f->commits);
	synced(f, 0);
	assert_int_equal(f->commits.names.count, 0);
	kr_name_commits_tick(&f->commits);
	assert_int_equal(f->syncs, 1);
}

/* --- at random: what is on the disk is played ----------------------------------------------------- */

struct world {
	struct fixture *f;
	uint64_t done[NAMES], taken[NAMES], durable[NAMES]; /* changes of each name: ended; in the sync; on the disk */
	uint32_t by[NAMES];                                 /* who made the last ended one ... */
	uint32_t running[NAMES];                            /* ... and makes one now; 0: nobody */
	struct kr_name_run *runs[NAMES];
	bool mixed[NAMES];                              /* not all since the last sync were made by one node */
	uint64_t saw[WAITERS][NAMES];                   /* what a waiter must find on the disk ... */
	uint64_t begun[NAMES], saw_run[WAITERS][NAMES]; /* ... and the change that ran then, if that has an effect */
	bool waits[WAITERS];
};

static void check_gone_on(struct world *w)
{
	for (int i = 0; i < WAITERS; i++) {
		if (!w->waits[i] || !w->f->gone_on[i])
			continue;
		w->waits[i] = false;
		for (int n = 0; n < NAMES && !w->f->errs[i]; n++)
			assert_true(w->durable[n] >= w->saw[i][n]);
	}
}

static void play_sync(struct world *w, bool fails)
{
	if (!w->f->syncing)
		return;
	for (int n = 0; n < NAMES && !fails; n++)
		w->durable[n] = w->taken[n];
	synced(w->f, fails ? -EIO : 0);
}

static void begin_at_random(struct world *w, int n)
{
	if (w->running[n])
		return;
	w->running[n] = 1 + (uint32_t)rand() % NODES;
	w->begun[n]++;
	w->runs[n] = begin(w->f, names[n], w->running[n]);
}

static void end_at_random(struct world *w, int n)
{
	if (!w->running[n])
		return;
	if (rand() % 4 == 0) { /* it has failed */
		w->running[n] = 0;
		kr_name_commits_end(&w->f->commits, w->runs[n], false);
		return;
	}
	w->mixed[n] = w->done[n] > w->durable[n] && (w->mixed[n] || w->by[n] != w->running[n]);
	w->by[n] = w->running[n];
	w->running[n] = 0;
	w->done[n]++;
	for (int i = 0; i < WAITERS; i++) {
		if (w->waits[i] && w->saw_run[i][n] == w->begun[n])
			w->saw[i][n] = w->done[n];
	}
	kr_name_commits_end(&w->f->commits, w->runs[n], true);
}

/* NODE has seen name N, or all (N is NAMES): of names that others have changed, what ended before, and what runs, must
 * be on the disk when it goes on. */
static void see_at_random(struct world *w, int i, int n, uint32_t node)
{
	bool any = false;

	if (w->waits[i])
		return;
	for (int k = 0; k < NAMES; k++) {
		bool foreign = (w->done[k] > w->durable[k] && (w->mixed[k] || w->by[k] != node)) ||
			(w->running[k] && w->running[k] != node);

		foreign &= n == NAMES || k == n;
		w->saw[i][k] = foreign ? w->done[k] : 0;
		w->saw_run[i][k] = foreign && w->running[k] ? w->begun[k] : 0;
		any |= foreign;
	}
	w->waits[i] = !see(w->f, n == NAMES ? NULL : names[n], node, i);
	assert_true(w->waits[i] || !any);
}

static void take(struct world *w, int syncs)
{
	if (w->f->syncs != syncs)
		memcpy(w->taken, w->done, sizeof(w->taken));
}

static void whoever_goes_on_finds_what_it_saw_on_the_disk(void **state)
{
	struct world w = {.f = *state};
	unsigned seed = getenv("RANDOM_SEED") ? (unsigned)atoi(getenv("RANDOM_SEED")) : 1;

	print_message("RANDOM_SEED=%u\n", seed);
	srand(seed);
	for (int step = 0; step < 200000; step++) {
		int n = rand() % NAMES, before = w.f->syncs;

		switch (rand() % 6) {
		case 0:
			begin_at_random(&w, n);
			break;
		case 1:
		case 2:
			end_at_random(&w, n);
			break;
		case 3:
			see_at_random(&w, rand() % WAITERS, rand() % (NAMES + 1), 1 + (uint32_t)rand() % NODES);
			break;
		case 4:
			play_sync(&w, rand() % 8 == 0);
			break;
		default:
			if (rand() % 10 == 0)
				kr_name_commits_tick(&w.f->commits);
		}
		take(&w, before);
		check_gone_on(&w);
	}
	for (int n = 0; n < NAMES; n++) {
		int before = w.f->syncs;

		end_at_random(&w, n);
		take(&w, before);
	}
	while (w.f->syncing) {
		int before = w.f->syncs;

		play_sync(&w, false);
		take(&w, before);
		check_gone_on(&w);
	}
	for (int i = 0; i < WAITERS; i++)
		assert_false(w.waits[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
		TEST(the_node_that_changed_a_name_does_not_wait),
		TEST(another_node_waits_for_a_sync),
		TEST(a_name_that_two_nodes_changed_is_waited_for_by_both),
		TEST(a_change_that_runs_is_waited_for),
		TEST(a_change_that_changed_nothing_is_forgotten),
		TEST(a_change_that_fails_is_waited_for_no_more),
		TEST(changes_that_come_later_hold_nobody_up),
		TEST(changes_that_overlap_for_ever_hold_nobody_up),
		TEST(a_failed_sync_commits_nothing),
		TEST(a_waiter_that_withdraws_is_not_called),
		TEST(old_changes_are_synced_though_nobody_waits),
		TEST(whoever_goes_on_finds_what_it_saw_on_the_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

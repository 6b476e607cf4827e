/* The node's event loop and the tasks that are posted to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "common/base/util.h"
#include "fuse/base/turns.h"
#include "fuse/base/loop.h"

enum { LINKS = 1000 };

static struct world {
	struct kr_loop *loop;
	struct kr_task task;
	uv_timer_t timer;
	atomic_uint runs, ticks;
} world;

static void nothing(void *context)
{
	(void)context;
}

/* All that was posted has run when a later task has. */
static void settle(void)
{
	kr_loop_run(world.loop, nothing, NULL);
}

static void count_run(struct kr_task *task)
{
	(void)task;
	world.runs++;
}

static void run_and_post_again(struct kr_task *task)
{
	if (++world.runs < LINKS)
		kr_loop_post(world.loop, task);
}

static void on_tick(uv_timer_t *timer)
{
	world.ticks++;
	kr_loop_post(world.loop, &world.task);
	uv_close((uv_handle_t *)timer, NULL);
}

static void start_timer(void *context)
{
	(void)context;
	uv_timer_init(kr_loop_uv(world.loop), &world.timer);
	uv_timer_start(&world.timer, on_tick, 1, 0);
}

static int setup(void **state)
{
	(void)state;
	world = (struct world){.task.fn = count_run};
	return kr_loop_new(&world.loop);
}

static int teardown(void **state)
{
	(void)state;
	kr_loop_free(world.loop);
	return 0;
}

static void await_runs(unsigned count)
{
	const uint64_t until_ns = kr_clock_ns() + 10 * KR_NS_PER_S;

	while (world.runs < count && kr_clock_ns() < until_ns)
		settle();
	assert_int_equal(world.runs, count);
}

static void a_task_that_another_thread_posts_runs(void **state)
{
	(void)state;
	kr_loop_post(world.loop, &world.task);
	settle();
	assert_int_equal(world.runs, 1);
}

static void a_task_may_post_itself_again(void **state)
{
	(void)state;
	world.task.fn = run_and_post_again;
	kr_loop_post(world.loop, &world.task);
	await_runs(LINKS);
}

/* Nothing else happens in the loop then. */
static void tasks_that_post_each_other_need_no_other_event(void **state)
{
	const uint64_t until_ns = kr_clock_ns() + 10 * KR_NS_PER_S;

	(void)state;
	world.task.fn = run_and_post_again;
	kr_loop_post(world.loop, &world.task);
	while (world.runs < LINKS && kr_clock_ns() < until_ns)
		;
	assert_int_equal(world.runs, LINKS);
}

static void a_task_that_a_timer_posts_runs(void **state)
{
	const uint64_t until_ns = kr_clock_ns() + 10 * KR_NS_PER_S;

	(void)state;
	kr_loop_run(world.loop, start_timer, NULL);
	while (world.runs < 1 && kr_clock_ns() < until_ns)
		;
	assert_int_equal(world.ticks, 1);
	assert_int_equal(world.runs, 1);
}

static void tasks_that_are_queued_run_before_the_end(void **state)
{
	(void)state;
	world.task.fn = run_and_post_again;
	kr_loop_post(world.loop, &world.task);
	kr_loop_free(world.loop);
	assert_int_equal(world.runs, LINKS);
	assert_int_equal(kr_loop_new(&world.loop), 0);
}

/* --- threads that help -------------------------------------------------------------------------- */

enum { HELPERS = 4, ROUNDS = 2000 };

static _Thread_local bool is_helper;
static _Atomic bool helped;

static void note_helper(struct kr_task *task)
{
	(void)task;
	helped = is_helper;
	world.runs++;
}

static void *be_helper(void *context)
{
	void (*help)(void) = context;

	is_helper = true;
	kr_loop_will_help();
	help();
	return NULL;
}

static void have_helper(void (*help)(void))
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, be_helper, (void *)help), 0);
	pthread_join(thread, NULL);
}

static void post_and_help(void)
{
	kr_loop_post(world.loop, &world.task);
	kr_loop_help(world.loop);
}

static void post_until_helped(void)
{
	const uint64_t until_ns = kr_clock_ns() + 10 * KR_NS_PER_S;

	while (!helped && kr_clock_ns() < until_ns) /* kr-loop may have the turn just then */
		post_and_help();
}

static void who_helps_runs_what_it_has_posted(void **state)
{
	(void)state;
	if (uv_version() < (1 << 16 | 44 << 8))
		skip(); /* kr-loop has the turn for ever (fuse/base/turns.h) */
	helped = false;
	world.task.fn = note_helper;
	have_helper(post_until_helped);
	assert_true(helped);
}

static void start_timer_task(struct kr_task *task)
{
	task->fn = count_run;
	start_timer(NULL);
}

/* Nothing else wakes kr-loop. */
static void a_timer_that_a_helper_has_started_fires(void **state)
{
	const uint64_t until_ns = kr_clock_ns() + 10 * KR_NS_PER_S;

	(void)state;
	world.task.fn = start_timer_task;
	have_helper(post_and_help);
	while (world.runs < 1 && kr_clock_ns() < until_ns)
		;
	assert_int_equal(world.ticks, 1);
}

static struct kr_task others;

/* Another thread's task does not wait for the helper. */
static void post_and_wait_for_another(void)
{
	const uint64_t until_ns = kr_clock_ns() + 10 * KR_NS_PER_S;

	kr_loop_post(world.loop, &world.task);
	helped = true;
	while (world.runs < 2 && kr_clock_ns() < until_ns)
		;
}

static void a_post_beside_that_of_a_helper_wakes(void **state)
{
	pthread_t thread;

	(void)state;
	helped = false;
	others = (struct kr_task){.fn = count_run};
	assert_int_equal(pthread_create(&thread, NULL, be_helper, (void *)post_and_wait_for_another), 0);
	while (!helped)
		;
	kr_loop_post(world.loop, &others);
	pthread_join(thread, NULL);
	assert_int_equal(world.runs, 2);
}

static _Atomic bool returned;

static void post_again_until_returned(struct kr_task *task)
{
	world.runs++;
	if (!returned)
		kr_loop_post(world.loop, task);
}

static void help_and_return(void)
{
	post_and_help();
	returned = true;
}

/* A program may wait for the helper's next request. */
static void a_loop_that_always_has_something_to_do_keeps_no_helper(void **state)
{
	(void)state;
	returned = false;
	world.task.fn = post_again_until_returned;
	alarm(60);
	have_helper(help_and_return);
	alarm(0);
	settle();
}

enum { TURN = 128 }; /* of loop.c */

static _Atomic bool all_posted;

static void wait_for_posts(struct kr_task *task)
{
	(void)task;
	while (!all_posted)
		;
	world.runs++;
}

/* The loop thread finds just as many tasks as it takes at a time. */
static void a_post_after_a_full_turn_wakes(void **state)
{
	const uint64_t until_ns = kr_clock_ns() + 10 * KR_NS_PER_S;
	struct kr_task tasks[TURN];

	(void)state;
	all_posted = false;
	for (unsigned i = 0; i < TURN; i++) {
		tasks[i] = (struct kr_task){.fn = i == 0 ? wait_for_posts : count_run};
		kr_loop_post(world.loop, &tasks[i]);
	}
	all_posted = true;
	while (world.runs < TURN)
		;
	usleep(10000); /* kr-loop waits for events */
	kr_loop_post(world.loop, &world.task);
	while (world.runs < TURN + 1 && kr_clock_ns() < until_ns)
		;
	assert_int_equal(world.runs, TURN + 1);
}

static unsigned counted; /* by the loop thread, whoever that is */

static void count_in_loop(struct kr_task *task)
{
	(void)task;
	assert_true(kr_loop_here(world.loop));
	counted++;
}

static void post_counted(void)
{
	struct kr_task tasks[8];

	for (unsigned i = 0; i < ROUNDS; i++) {
		for (unsigned j = 0; j < KR_ARRAY_SIZE(tasks); j++) {
			tasks[j] = (struct kr_task){.fn = count_in_loop};
			kr_loop_post(world.loop, &tasks[j]);
		}
		kr_loop_help(world.loop);
		kr_loop_run(world.loop, nothing, NULL);
	}
}

static void only_one_thread_at_a_time_is_the_loop_thread(void **state)
{
	pthread_t threads[HELPERS];

	(void)state;
	counted = 0;
	for (unsigned i = 0; i < HELPERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, be_helper, (void *)post_counted), 0);
	for (unsigned i = 0; i < HELPERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(counted, HELPERS * ROUNDS * 8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* --- the turn ----------------------------------------------------------------------------------- */

struct taker {
	struct kr_turns *turns;
	bool had_it;
};

static void *take_once(void *context)
{
	struct taker *taker = context;

	kr_turns_take(taker->turns);
	taker->had_it = true;
	kr_turns_leave(taker->turns);
	return NULL;
}

/* Nothing but the tickets tells that the other thread waits already. */
static bool is_wanted(struct kr_turns *turns)
{
	KR_SCOPED_LOCK(&turns->lock);

	return turns->taken - turns->left > 1;
}

static void who_waits_for_the_turn_comes_before_who_takes_it_again(void **state)
{
	struct kr_turns turns;
	struct taker taker = {.turns = &turns};
	pthread_t thread;
	uv_loop_t loop;

	(void)state;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(kr_turns_init(&turns, &loop), 0);
	kr_turns_take(&turns);
	assert_false(is_wanted(&turns));
	assert_int_equal(pthread_create(&thread, NULL, take_once, &taker), 0);
	while (!is_wanted(&turns))
		sched_yield();
	assert_false(kr_turns_try(&turns));
	kr_turns_leave(&turns);
	kr_turns_take(&turns);
	assert_true(taker.had_it);
	pthread_join(thread, NULL);
	kr_turns_close(&turns);
	uv_run(&loop, UV_RUN_DEFAULT);
	kr_turns_leave(&turns);
	kr_turns_fini(&turns);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_task_that_another_thread_posts_runs),
		TEST(a_task_may_post_itself_again),
		TEST(tasks_that_post_each_other_need_no_other_event),
		TEST(a_task_that_a_timer_posts_runs),
		TEST(tasks_that_are_queued_run_before_the_end),
		TEST(who_helps_runs_what_it_has_posted),
		TEST(a_timer_that_a_helper_has_started_fires),
		TEST(a_post_beside_that_of_a_helper_wakes),
		TEST(a_loop_that_always_has_something_to_do_keeps_no_helper),
		TEST(a_post_after_a_full_turn_wakes),
		TEST(only_one_thread_at_a_time_is_the_loop_thread),
		cmocka_unit_test(who_waits_for_the_turn_comes_before_who_takes_it_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The node's event loop and the tasks that are posted to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/util.h"
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_task_that_another_thread_posts_runs),
		TEST(a_task_may_post_itself_again),
		TEST(tasks_that_post_each_other_need_no_other_event),
		TEST(a_task_that_a_timer_posts_runs),
		TEST(tasks_that_are_queued_run_before_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Brief jobs: in the loop thread, and with another one when they are long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"
#include "server/base/brief.h"

struct job {
	struct kr_brief brief;
	pthread_t ran_in, done_in;
};

static struct world {
	uv_loop_t loop;
	uv_timer_t timer;
	struct job jobs[KR_BRIEFS_WAITING + 2];
	int gate[2]; /* a job that waits reads from it */
	pthread_t of_timer;
	_Atomic bool waits;
	unsigned ticks, dones;
} world;

static void run(struct kr_brief *brief)
{
	KR_CONTAINER_OF(brief, struct job, brief)->ran_in = pthread_self();
}

static void wait_at_gate(struct kr_brief *brief)
{
	char byte;

	world.waits = true;
	assert_int_equal(read(world.gate[0], &byte, 1), 1);
	run(brief);
}

static void open_gate(void)
{
	assert_int_equal(write(world.gate[1], "", 1), 1);
}

static void done(struct kr_brief *brief)
{
	KR_CONTAINER_OF(brief, struct job, brief)->done_in = pthread_self();
	world.dones++;
}

static void start(unsigned job, void (*work)(struct kr_brief *))
{
	world.of_timer = pthread_self();
	kr_brief_start(&world.loop, &world.jobs[job].brief, false, work, done);
}

static bool ran_in_loop_thread(unsigned job)
{
	return pthread_equal(world.jobs[job].ran_in, world.of_timer);
}

static void finish(void)
{
	uv_close((uv_handle_t *)&world.timer, NULL);
}

static int setup(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	assert_int_equal(pipe(world.gate), 0);
	assert_int_equal(uv_loop_init(&world.loop), 0);
	uv_timer_init(&world.loop, &world.timer);
	alarm(60); /* a loop that stands still */
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	alarm(0);
	close(world.gate[0]);
	close(world.gate[1]);
	return uv_loop_close(&world.loop);
}

static void serve(uv_timer_cb on_timer)
{
	uv_timer_start(&world.timer, on_timer, 1, 1);
	kr_brief_serve(&world.loop);
}

static void start_many(uv_timer_t *timer)
{
	(void)timer;
	for (unsigned i = 0; i < KR_ARRAY_SIZE(world.jobs); i++)
		start(i, run);
	finish();
}

static void brief_jobs_need_no_other_thread(void **state)
{
	(void)state;
	serve(start_many);
	assert_true(ran_in_loop_thread(0));
	assert_true(pthread_equal(world.jobs[0].done_in, world.of_timer));
}

static void the_pool_has_what_is_too_many(void **state)
{
	(void)state;
	serve(start_many);
	for (unsigned i = 0; i < KR_ARRAY_SIZE(world.jobs); i++)
		assert_int_equal(ran_in_loop_thread(i), i < KR_BRIEFS_WAITING);
	assert_int_equal(world.dones, KR_ARRAY_SIZE(world.jobs));
}

static void outside_of_serve_the_pool_has_all(void **state)
{
	(void)state;
	start(0, run);
	finish();
	uv_run(&world.loop, UV_RUN_DEFAULT);
	assert_int_equal(world.dones, 1);
	assert_false(ran_in_loop_thread(0));
}

/* The first job waits for the loop. */
static void start_long(uv_timer_t *timer)
{
	(void)timer;
	switch (world.ticks++) {
	case 0:
		start(0, wait_at_gate);
		start(1, run);
		break;
	case 1:
		assert_true(world.waits);
		start(2, run);
		open_gate();
		break;
	default:
		if (world.dones == 3)
			start(3, run);
		else if (world.dones == 4)
			finish();
	}
}

static void the_loop_goes_on_while_a_job_is_long(void **state)
{
	(void)state;
	serve(start_long);
	assert_int_equal(world.dones, 4);
}

static void meanwhile_the_pool_has_all_and_then_no_more(void **state)
{
	(void)state;
	serve(start_long);
	assert_false(pthread_equal(world.jobs[1].ran_in, world.jobs[1].done_in));
	assert_false(pthread_equal(world.jobs[2].ran_in, world.jobs[2].done_in));
	assert_true(pthread_equal(world.jobs[3].ran_in, world.jobs[3].done_in));
}

/* The loop has nothing else left. */
static void start_last(uv_timer_t *timer)
{
	(void)timer;
	if (world.ticks++ == 0) {
		start(0, wait_at_gate);
	} else {
		open_gate();
		finish();
	}
}

static void the_loop_does_not_end_before_a_long_job(void **state)
{
	(void)state;
	serve(start_last);
	assert_int_equal(world.dones, 1);
}

static void a_process_may_serve_again(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		world.ticks = world.dones = 0;
		world.waits = false;
		if (i)
			uv_timer_init(&world.loop, &world.timer);
		serve(i % 2 ? start_last : start_long);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(brief_jobs_need_no_other_thread),
		TEST(the_pool_has_what_is_too_many),
		TEST(outside_of_serve_the_pool_has_all),
		TEST(the_loop_goes_on_while_a_job_is_long),
		TEST(meanwhile_the_pool_has_all_and_then_no_more),
		TEST(the_loop_does_not_end_before_a_long_job),
		TEST(a_process_may_serve_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

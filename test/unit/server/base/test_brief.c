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
#include "server/base/blocked.h"
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
	unsigned ticks, dones, in_loop;
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

enum { TRIES = 1000 };

/* Where the machine has much else to do, a job may lose its processor for so long that the pool has the next ones. */
static void start_until_in_loop_thread(uv_timer_t *timer)
{
	(void)timer;
	if (world.dones < world.ticks)
		return;
	world.in_loop =
		world.ticks > 0 && ran_in_loop_thread(0) && pthread_equal(world.jobs[0].done_in, world.of_timer);
	if (world.in_loop || world.ticks++ == TRIES)
		finish();
	else
		start(0, run);
}

static void brief_jobs_need_no_other_thread(void **state)
{
	(void)state;
	serve(start_until_in_loop_thread);
	assert_true(world.in_loop);
}

static void the_pool_has_what_is_too_many(void **state)
{
	(void)state;
	serve(start_many);
	assert_true(ran_in_loop_thread(0)); /* and the second, unless the first took long */
	for (unsigned i = KR_BRIEFS_WAITING; i < KR_ARRAY_SIZE(world.jobs); i++)
		assert_false(ran_in_loop_thread(i));
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

/* The first job waits for the loop.  The last is started again until the pool has not all jobs any more. */
static void start_long(uv_timer_t *timer)
{
	(void)timer;
	if (world.ticks > 0 && world.dones < world.ticks)
		return;
	switch (world.ticks++) {
	case 0:
		start(0, wait_at_gate);
		start(1, run);
		break;
	case 1:
		start(2, run);
		break;
	case 2:
		assert_true(world.waits);
		open_gate();
		break;
	case 3:
		start(3, run);
		break;
	default:
		if (pthread_equal(world.jobs[3].ran_in, world.jobs[3].done_in)) {
			finish();
			return;
		}
		world.dones = 3;
		world.ticks = 4;
		start(3, run);
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

enum { CHAIN = 100 };

static unsigned steps;

static void count_step(uv_check_t *check)
{
	(void)check;
	steps++;
}

static void start_next(struct kr_brief *brief)
{
	if (++world.dones < CHAIN)
		kr_brief_start(&world.loop, brief, false, run, start_next);
	else
		finish();
}

static void nothing(uv_timer_t *timer)
{
	(void)timer;
}

static void start_chain(uv_timer_t *timer)
{
	uv_timer_stop(timer);
	uv_timer_start(timer, nothing, 600000, 0); /* the loop has something to wait for */
	steps = 0;
	kr_brief_start(&world.loop, &world.jobs[0].brief, false, run, start_next);
}

/* As where requests for one file wait for each other. */
static void the_loop_goes_on_while_jobs_start_jobs(void **state)
{
	uv_check_t check;

	(void)state;
	uv_check_init(&world.loop, &check);
	uv_check_start(&check, count_step);
	uv_unref((uv_handle_t *)&check);
	serve(start_chain);
	assert_int_equal(world.dones, CHAIN);
	assert_true(steps >= CHAIN);
	uv_close((uv_handle_t *)&check, NULL);
	uv_run(&world.loop, UV_RUN_DEFAULT);
}

static void take_long(struct kr_brief *brief)
{
	usleep(1000);
	run(brief);
}

static void count_those_in_loop(struct kr_brief *brief)
{
	struct job *job = KR_CONTAINER_OF(brief, struct job, brief);

	world.in_loop += pthread_equal(job->ran_in, pthread_self()) != 0;
	if (++world.dones < CHAIN)
		kr_brief_start(&world.loop, brief, false, take_long, count_those_in_loop);
	else
		finish();
}

static void start_long_chain(uv_timer_t *timer)
{
	uv_timer_stop(timer);
	kr_brief_start(&world.loop, &world.jobs[0].brief, false, take_long, count_those_in_loop);
}

/* As on a slow disk. */
static void where_jobs_take_long_the_pool_has_most(void **state)
{
	(void)state;
	serve(start_long_chain);
	assert_true(world.in_loop > 0);
	assert_true(world.in_loop < CHAIN / 2);
}

enum { LONG_MS = 50, LATER_MS = 40 };

static uint64_t started_ns;

static void work_long(struct kr_brief *brief)
{
	usleep(LONG_MS * 1000);
	run(brief);
}

static void finish_later(uv_timer_t *timer)
{
	(void)timer;
	world.ticks++;
	finish();
}

static void start_timer(struct kr_brief *brief)
{
	done(brief);
	started_ns = kr_clock_ns();
	uv_timer_start(&world.timer, finish_later, LATER_MS, 0);
}

static void start_one(uv_timer_t *timer)
{
	uv_timer_stop(timer);
	kr_brief_start(&world.loop, &world.jobs[0].brief, false, work_long, start_timer);
}

static void a_timer_that_a_job_starts_is_not_early(void **state)
{
	(void)state;
	serve(start_one);
	assert_true(kr_clock_ns() - started_ns >= (LATER_MS - 2) * KR_NS_PER_MS); /* libuv's are whole */
}

static atomic_uint beats;
static unsigned seen; /* while the second job ran */

static void wait_for_beats(struct kr_brief *brief)
{
	beats = 0;
	wait_at_gate(brief);
	seen = beats;
}

/* The first thread has come back from its job, which is not done yet, when the other begins one. */
static void cross(uv_timer_t *timer)
{
	(void)timer;
	if (world.ticks++ == 0) {
		start(0, wait_at_gate);
		return;
	}
	open_gate();
	usleep(200000); /* the pool has all jobs no more */
	start(1, wait_for_beats);
	finish();
}

static void on_beat(uv_timer_t *timer)
{
	(void)timer;
	beats++;
}

static void *open_gate_late(void *context)
{
	(void)context;
	usleep(500000);
	open_gate();
	return NULL;
}

static void the_loop_does_not_end_before_jobs_that_cross(void **state)
{
	pthread_t opener;
	uv_timer_t beat;

	(void)state;
	uv_timer_init(&world.loop, &beat);
	uv_timer_start(&beat, on_beat, 1, 1);
	uv_unref((uv_handle_t *)&beat);
	assert_int_equal(pthread_create(&opener, NULL, open_gate_late, NULL), 0);
	serve(cross);
	pthread_join(opener, NULL);
	assert_int_equal(world.dones, 2);
	assert_true(seen >= 10);
	uv_close((uv_handle_t *)&beat, NULL);
	uv_run(&world.loop, UV_RUN_DEFAULT);
}

static void stay_busy(uv_idle_t *busy)
{
	(void)busy;
}

/* As while one session sends more than the server can do. */
static void a_loop_that_always_has_something_to_do_does_jobs(void **state)
{
	uv_idle_t busy;

	(void)state;
	uv_idle_init(&world.loop, &busy);
	uv_idle_start(&busy, stay_busy);
	uv_unref((uv_handle_t *)&busy);
	serve(start_long);
	assert_int_equal(world.dones, 4);
	assert_true(pthread_equal(world.jobs[3].ran_in, world.jobs[3].done_in));
	uv_close((uv_handle_t *)&busy, NULL);
	uv_run(&world.loop, UV_RUN_DEFAULT);
}

/* --- what jobs in the pool wait for ------------------------------------------------------------ */

static void block(struct kr_brief *brief)
{
	usleep(500000);
	run(brief);
}

static void block_unawaited(struct kr_brief *brief)
{
	kr_blocked_unawaited();
	block(brief);
}

static void work_hard(struct kr_brief *brief)
{
	const uint64_t until_ns = kr_clock_ns() + 50000000;

	while (kr_clock_ns() < until_ns)
		;
	run(brief);
}

/* How long jobs have blocked, of two at the same time. */
static uint64_t blocked_by(void (*work)(struct kr_brief *))
{
	const uint64_t before_ns = kr_blocked_ns();

	for (unsigned i = 0; i < 2; i++)
		kr_brief_start(&world.loop, &world.jobs[i].brief, true, work, done);
	finish();
	uv_run(&world.loop, UV_RUN_DEFAULT);
	return kr_blocked_ns() - before_ns;
}

static void time_in_which_jobs_block_counts_once(void **state)
{
	uint64_t began_ns = kr_clock_ns(), blocked_ns = blocked_by(block);

	(void)state;
	assert_true(blocked_ns > 0 && blocked_ns <= kr_clock_ns() - began_ns);
}

static void jobs_that_nobody_waits_for_do_not_count(void **state)
{
	(void)state;
	assert_int_equal(blocked_by(block_unawaited), 0);
}

static void a_job_that_works_does_not_block(void **state)
{
	(void)state;
	assert_true(blocked_by(work_hard) < 40000000); /* whatever else the machine has to do */
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
		TEST(the_loop_goes_on_while_jobs_start_jobs),
		TEST(a_timer_that_a_job_starts_is_not_early),
		TEST(a_loop_that_always_has_something_to_do_does_jobs),
		TEST(the_loop_does_not_end_before_jobs_that_cross),
		TEST(where_jobs_take_long_the_pool_has_most),
		TEST(a_process_may_serve_again),
		TEST(time_in_which_jobs_block_counts_once),
		TEST(jobs_that_nobody_waits_for_do_not_count),
		TEST(a_job_that_works_does_not_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

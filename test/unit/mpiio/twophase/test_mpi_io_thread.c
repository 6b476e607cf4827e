/* The thread of an aggregator: jobs run one at a time, in order, and all of them before its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "mpiio/twophase/io_thread.h"

struct counted {
	struct kr_io_job job; /* first */
	int *turn, ran_as;
};

static int take_turn(struct kr_io_job *job)
{
	struct counted *counted = (struct counted *)job;

	counted->ran_as = (*counted->turn)++;
	return -counted->ran_as;
}

static void jobs_run_in_order_and_tell_their_result(void **context)
{
	struct kr_io_thread io;
	struct counted jobs[50];
	int turn = 0;

	(void)context;
	kr_io_thread_init(&io, "test");
	for (int i = 0; i < 50; i++) {
		jobs[i] = (struct counted){.job.run = take_turn, .turn = &turn};
		kr_io_submit(&io, &jobs[i].job);
	}
	for (int i = 0; i < 50; i++) {
		assert_true(kr_io_wait(&io, &jobs[i].job, 60 * KR_NS_PER_S));
		assert_int_equal(jobs[i].ran_as, i);
		assert_int_equal(jobs[i].job.result, -i);
		assert_true(jobs[i].job.end_ns >= jobs[i].job.begin_ns);
	}
	kr_io_thread_fini(&io);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static int wait_at_gate(struct kr_io_job *job)
{
	(void)job;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return 0;
}

static void waiting_has_an_end(void **context)
{
	struct kr_io_thread io;
	struct kr_io_job job = {.run = wait_at_gate};

	(void)context;
	kr_io_thread_init(&io, "test");
	pthread_mutex_lock(&gate);
	kr_io_submit(&io, &job);
	assert_false(kr_io_wait(&io, &job, 1000000));
	pthread_mutex_unlock(&gate);
	assert_true(kr_io_wait(&io, &job, 60 * KR_NS_PER_S));
	kr_io_thread_fini(&io);
}

static int finished_count;

static void free_it(struct kr_io_job *job)
{
	__atomic_add_fetch(&finished_count, 1, __ATOMIC_RELAXED);
	free(job);
}

static void a_job_may_free_itself_and_drain_waits_for_it(void **context)
{
	struct kr_io_thread io;

	(void)context;
	kr_io_thread_init(&io, "test");
	for (int i = 0; i < 20; i++) {
		struct kr_io_job *job = calloc(1, sizeof(*job));

		job->run = wait_at_gate;
		job->finished = free_it;
		kr_io_submit(&io, job);
	}
	kr_io_drain(&io);
	assert_int_equal(__atomic_load_n(&finished_count, __ATOMIC_RELAXED), 20);
	kr_io_thread_fini(&io);
}

static void what_is_queued_runs_before_the_end(void **context)
{
	struct kr_io_thread io;
	struct counted jobs[10];
	int turn = 0;

	(void)context;
	kr_io_thread_init(&io, "test");
	for (int i = 0; i < 10; i++) {
		jobs[i] = (struct counted){.job.run = take_turn, .turn = &turn};
		kr_io_submit(&io, &jobs[i].job);
	}
	kr_io_thread_fini(&io);
	assert_int_equal(turn, 10);
}

static void an_unused_thread_ends(void **context)
{
	struct kr_io_thread io;

	(void)context;
	kr_io_thread_init(&io, "test");
	kr_io_drain(&io);
	kr_io_thread_fini(&io);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs_run_in_order_and_tell_their_result),
		cmocka_unit_test(waiting_has_an_end),
		cmocka_unit_test(a_job_may_free_itself_and_drain_waits_for_it),
		cmocka_unit_test(what_is_queued_runs_before_the_end),
		cmocka_unit_test(an_unused_thread_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

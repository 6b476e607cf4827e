#include "common/rpc/thread_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <uv.h>

#include "common/base/fail.h"
#include "common/base/util.h"

enum {
	THREADS = 4,
	THREADS_MAX = 1024, /* libuv's default and limit */
	MORE = 2            /* the kernel may count threads for a moment that have been joined */
};

static void *wait_for_all(void *all_made)
{
	pthread_mutex_lock(all_made);
	pthread_mutex_unlock(all_made);
	return NULL;
}

int kr_thread_pool_check(void)
{
	const char *size = getenv("UV_THREADPOOL_SIZE");
	const unsigned long wanted = size ? strtoul(size, NULL, 10) : THREADS;
	const unsigned count = (unsigned)KR_MIN(KR_MAX(wanted, 1UL), (unsigned long)THREADS_MAX) + MORE;
	pthread_mutex_t all_made = PTHREAD_MUTEX_INITIALIZER;
	pthread_t *threads = kr_xcalloc(count, sizeof(*threads));
	unsigned made = 0;
	int err = 0;

	pthread_mutex_lock(&all_made);
	while (made < count && (err = -pthread_create(&threads[made], NULL, wait_for_all, &all_made)) == 0)
		made++;
	pthread_mutex_unlock(&all_made);
	for (unsigned i = 0; i < made; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	return err < 0 ?
		kr_fail_errno(err,
			"cannot start %u threads (is a limit of processes or memory reached? see ulimit -u, and "
			"pids.max of the cgroup, and ulimit -v)",
			count) :
		0;
}

static void nothing(uv_work_t *work)
{
	(void)work;
}

static void over(uv_work_t *work, int status)
{
	(void)work, (void)status;
}

int kr_thread_pool_start(void)
{
	int err = kr_thread_pool_check();
	uv_work_t first;
	uv_loop_t loop;

	if (err < 0)
		return err;
	uv_loop_init(&loop);
	uv_queue_work(&loop, &first, nothing, over);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	return 0;
}

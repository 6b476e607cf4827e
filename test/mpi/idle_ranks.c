/* Preloaded into the cases' MPI programs.  A rank that waits for another one polls without end: MPICH's in
 * ucp_worker_progress, Open MPI's with sched_yield in between.  There are more ranks than processors, and other cases
 * beside them; so here they sleep a little between polls that brought nothing. */
#include <dlfcn.h>
#include <sched.h>
#include <time.h>

/* So many polls that bring nothing are a rank's own steps; who has polled more often waits. */
#define BUSY_POLLS 100

unsigned ucp_worker_progress(void *worker); /* UCX's, without its headers */

static void sleep_a_little(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 20 * 1000}, NULL);
}

int sched_yield(void)
{
	sleep_a_little();
	return 0;
}

unsigned ucp_worker_progress(void *worker)
{
	static unsigned (*progress)(void *);
	static _Thread_local unsigned idle;
	unsigned events;

	if (!progress)
		*(void **)&progress = dlsym(RTLD_NEXT, "ucp_worker_progress");
	events = progress(worker);
	idle = events ? 0 : idle + 1;
	if (idle > BUSY_POLLS)
		sleep_a_little();
	return events;
}

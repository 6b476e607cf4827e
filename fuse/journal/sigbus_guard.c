/* See sigbus_guard.h. */
#include "fuse/journal/sigbus_guard.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

#include "common/base/fail.h"

static _Thread_local sigjmp_buf *volatile way_out;

static void on_sigbus(int number, siginfo_t *info, void *context)
{
	(void)info, (void)context;
	if (way_out)
		siglongjmp(*way_out, 1);
	signal(number, SIG_DFL); /* the faulting instruction runs again */
}

void kr_sigbus_guard_install(void)
{
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};

	sigaction(SIGBUS, &action, NULL);
}

/* The jump has left the handler, under which the signal was blocked; saving the mask at each call would cost a system
 * call. */
static void unblock_sigbus(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

int kr_sigbus_guard(void (*body)(void *context), void *context)
{
	sigjmp_buf jump;

	if (sigsetjmp(jump, 0)) {
		way_out = NULL;
		unblock_sigbus();
		return kr_fail(-EIO, "the journal's index cannot be written: its disk is broken");
	}
	way_out = &jump;
	body(context);
	way_out = NULL;
	return 0;
}

/* What a program that waits for us has been signalled.
 *
 * The kernel tells of any signal that comes to a thread in a request (FUSE_INTERRUPT), once, and not which.  On a local
 * disk only what ends the program ends a wait: SIGCHLD, timers, profilers and runtimes (Go's SIGURG) are never seen by
 * stat, open, chmod, read... as EINTR, for which no program is written.  So it is looked up what is pending: the thread
 * cannot take it before it has our answer.
 */
#ifndef KR_FUSE_SIGNALS_H
#define KR_FUSE_SIGNALS_H

#include <sys/types.h>

/* How long a wait goes on after a KR_SIGNALS_END. */
enum { KR_SIGNALS_GRACE_MS = 2000 };

enum kr_signals {
	KR_SIGNALS_OTHER,  /* nothing that is meant to end what it does */
	KR_SIGNALS_END,    /* SIGINT, SIGTERM, SIGHUP or SIGQUIT, and it has a handler; or nobody knows what */
	KR_SIGNALS_DEADLY, /* it will not see our answer */
};

/* Any thread: by the text of a /proc/PID/status. */
enum kr_signals kr_signals_parse(const char *status);
/* Any thread; some 20 us: of a thread, by the number that it has here. 0 or one that is not seen here: KR_SIGNALS_END.
 */
enum kr_signals kr_signals_pending(pid_t thread);

#endif

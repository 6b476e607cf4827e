/* The pending signals of a program that waits for an answer.
 *
 * The kernel reports any signal of a waiting thread (FUSE_INTERRUPT), once, and not which one.  On a local disk only a
 * signal that ends the program ends a wait.  SIGCHLD, timers, profilers and runtimes (Go's SIGURG) never make stat,
 * open, chmod, read... fail with EINTR, and no program is written for that.  So the node looks up which signals are
 * pending: the thread cannot take them before it has its answer.
 */
#ifndef KR_FUSE_SIGNALS_H
#define KR_FUSE_SIGNALS_H

#include <sys/types.h>

/* How long a wait goes on after a KR_SIGNALS_END. */
enum { KR_SIGNALS_GRACE_MS = 2000 };

enum kr_signals {
	KR_SIGNALS_OTHER,  /* no signal that is meant to end the program's work */
	KR_SIGNALS_END,    /* SIGINT, SIGTERM, SIGHUP or SIGQUIT with a handler; or not known which signal */
	KR_SIGNALS_DEADLY, /* the program will not see the answer */
};

/* Any thread: by the text of a /proc/PID/status. */
enum kr_signals kr_signals_parse(const char *status);
/* Any thread; takes some 20 us.  THREAD is the thread's number in this process namespace.  For 0, and for a thread that
 * is not visible here: KR_SIGNALS_END. */
enum kr_signals kr_signals_pending(pid_t thread);

#endif

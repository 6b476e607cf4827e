/* The inside of serve.c (signals, the end of a mount) and serve_make.c (its beginning). */
#ifndef KR_FUSE_SERVE_PRIV_H
#define KR_FUSE_SERVE_PRIV_H

#include <jansson.h>
#include <pthread.h>

#include "fuse/journal/journal.h"
#include "fuse/base/mount.h"
#include "fuse/session/session.h"

struct kr_drain;
struct kr_kernel;

enum { KR_SERVE_SIGNALS = 3 };

struct kr_serve {
	struct kr_mount mount;
	struct kr_session_hooks hooks;
	struct kr_kernel *kernel; /* NULL: only the journal is replayed */
	bool replay_only;
	json_t *before; /* then: what the journal held */
	struct kr_recovery recovery;

	/* Loop thread. */
	uv_signal_t signals[KR_SERVE_SIGNALS];
	uv_timer_t ops_tick;
	struct kr_drain *drain;

	/* What the loop tells the main thread. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool said_hello, live, drained, finished; /* guarded by lock */
	_Atomic bool interrupted;                 /* by a signal before it was live */
	int hello_err;
	char hello_reason[512];
};

/* What runs in the loop thread while the main thread waits for it. */
struct kr_step {
	struct kr_serve *serve;
	int err;
	char reason[512];
	json_t *status;
};

/* --- serve.c --- */
/* The loop says, and the main thread waits for, one of the flags. */
void kr_serve_tell(struct kr_serve *serve, bool *flag);
void kr_serve_wait(struct kr_serve *serve, const bool *flag);
/* Runs FN (a struct kr_step is its context) in the loop thread; its error and reason become ours. */
int kr_serve_in_loop(struct kr_serve *serve, void (*fn)(void *context));
/* At the end of such a function: the reason of its error goes over to the other thread. */
void kr_step_keep_reason(struct kr_step *step);
/* What is not on the server, as JSON; owned by the caller. */
json_t *kr_serve_look(struct kr_serve *serve);
/* Loop thread. */
void kr_serve_watch_signals(struct kr_serve *serve);
/* A replay is over: nothing more can be brought. Loop thread. */
void kr_serve_refused(struct kr_mount *mount);

/* --- serve_make.c --- */
/* All parts; 0, or the error of the first that could not be made (kr_serve's unmaking takes the others down). */
int kr_serve_make(struct kr_serve *serve);

#endif

/* An event loop that threads run by turns.
 *
 * libuv's loop belongs to one thread.  Another thread has to wake that one for each piece of work, and wait for it.
 * If the work is shorter than that, the other thread had better do it itself.  So nobody owns this loop: the thread
 * that has the turn runs its callbacks.  Nobody has the turn while the loop waits for events.  Elsewhere "the loop
 * thread" is the thread that has the turn.
 *
 * Invariants:
 *   1. Only the holder of the turn touches the loop, its handles, and what belongs to the loop thread.
 *   2. The holder runs the loop until it has to wait (uv_backend_timeout), and passes the turn on only then.  So
 *      nothing is left to be written, closed or registered with the kernel, and the thread in kr_turns_wait
 *      misses no event.
 *   3. That thread waits until the loop's next timer at most.  A holder that leaves an earlier timer behind wakes
 *      it.
 *
 * The thread in kr_turns_wait polls the loop's descriptor, and then the loop polls the others.  Some descriptors
 * forget an event at the first poll, as /proc/self/mountinfo does.  Such a loop cannot watch these.
 *
 * Before libuv 1.44 uv_backend_timeout does not tell of descriptors to be registered.  There one thread has the turn
 * for ever. */
#ifndef KR_FUSE_TURNS_H
#define KR_FUSE_TURNS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

struct kr_turns {
	uv_loop_t *loop;
	bool shared;
	pthread_mutex_t lock; /* guards the next three */
	pthread_cond_t changed;
	uint64_t taken, left; /* tickets: threads get the turn in the order in which they asked */
	_Atomic pthread_t holder;
	uint64_t waits_until_ns; /* guarded by the turn: when the thread in kr_turns_wait comes back at the latest */
	uv_async_t wake;
};

/* LOOP is borrowed; no thread runs it yet.  Adds one handle, which does not keep the loop alive. */
int kr_turns_init(struct kr_turns *turns, uv_loop_t *loop);
/* With the turn: closes that handle.  No kr_turns_wake any more. */
void kr_turns_close(struct kr_turns *turns);
/* After the loop's end. */
void kr_turns_fini(struct kr_turns *turns);

/* Waits for the turn.  Threads get it in the order in which they asked. */
void kr_turns_take(struct kr_turns *turns);
/* Takes the turn if no thread has it. */
bool kr_turns_try(struct kr_turns *turns);
/* With the turn: runs the callbacks that are due.  Returns whether there are more before the loop has to wait. */
bool kr_turns_step(struct kr_turns *turns);
/* With the turn: runs callbacks until the loop has to wait. */
void kr_turns_run(struct kr_turns *turns);
/* With the turn, after kr_turns_run. */
void kr_turns_pass(struct kr_turns *turns);
/* With the turn, while no thread is in kr_turns_wait, or before kr_turns_wake.  The thread that takes it next calls
 * kr_turns_run. */
void kr_turns_leave(struct kr_turns *turns);
/* With the turn, after kr_turns_run: lets go of it, waits for an event, for a timer or for kr_turns_wake, and takes it
 * again.  One thread at a time.  False: the loop has ended, and the caller has let go. */
bool kr_turns_wait(struct kr_turns *turns);
/* Any thread. */
void kr_turns_wake(struct kr_turns *turns);
/* Whether the caller has the turn. */
bool kr_turns_mine(const struct kr_turns *turns);
/* Whether the caller has it, and will be in kr_turns_run before the loop waits again. */
bool kr_turns_covers(const struct kr_turns *turns);

#endif

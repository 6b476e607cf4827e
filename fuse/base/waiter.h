/* What waits in a list for something that a lower room brings about.  Loop thread only.
 *
 * Each waiter that is woken looks at what it needs anew and may wait again: so no wake-up is lost.
 */
#ifndef KR_FUSE_WAITER_H
#define KR_FUSE_WAITER_H

#include "common/base/list.h"

/* Lies in what waits; zeroed but for `wake`. */
struct kr_waiter {
	struct kr_link link;
	void (*wake)(struct kr_waiter *waiter); /* has been taken off its list before */
};

/* Puts WAITER at the end of LIST, off the list that it may be in.  It stays there until it is woken or leaves. */
void kr_waiter_wait(struct kr_waiter *waiter, struct kr_list *list);
void kr_waiter_leave(struct kr_waiter *waiter);
/* Wakes all waiters of LIST, each once, also one that waits again. */
void kr_waiters_wake(struct kr_list *list);

#endif

/* Waiters in a list, for an event that a lower room brings about.  Loop thread only.
 *
 * Each woken waiter checks its preconditions anew and may wait again, so no wake-up is lost.
 */
#ifndef KR_FUSE_WAITER_H
#define KR_FUSE_WAITER_H

#include "common/base/list.h"

/* Embedded in the struct that waits; zeroed but for `wake`. */
struct kr_waiter {
	struct kr_link link;
	void (*wake)(struct kr_waiter *waiter); /* runs after the waiter was taken off its list */
};

/* Puts WAITER at the end of LIST, off the list that it may be in.  It stays there until it is woken or leaves. */
static inline void kr_waiter_wait(struct kr_waiter *waiter, struct kr_list *list)
{
	kr_list_remove(&waiter->link);
	kr_list_append(list, &waiter->link);
}

/* Wakes all waiters of LIST, each once, also one that waits again. */
static inline void kr_waiters_wake(struct kr_list *list)
{
	struct kr_list woken;
	struct kr_waiter *waiter;

	kr_list_init(&woken);
	kr_list_move(list, &woken);
	while ((waiter = KR_LIST_POP(&woken, struct kr_waiter, link)))
		waiter->wake(waiter);
}

#endif

/* See waiter.h. */
#include "fuse/base/waiter.h"

void kr_waiter_wait(struct kr_waiter *waiter, struct kr_list *list)
{
	kr_list_remove(&waiter->link);
	kr_list_append(list, &waiter->link);
}

void kr_waiter_leave(struct kr_waiter *waiter)
{
	kr_list_remove(&waiter->link);
}

void kr_waiters_wake(struct kr_list *list)
{
	struct kr_list woken;
	struct kr_link *link;

	kr_list_init(&woken);
	while ((link = kr_list_pop(list)))
		kr_list_append(&woken, link);
	while ((link = kr_list_pop(&woken))) {
		struct kr_waiter *waiter = KR_LIST_ENTRY(link, struct kr_waiter, link);

		waiter->wake(waiter);
	}
}

/* An intrusive doubly linked list: the link lies inside the element.  Not thread-safe; the owner's lock guards it. */
#ifndef KR_COMMON_LIST_H
#define KR_COMMON_LIST_H

#include "common/base/util.h"

struct kr_link {
	struct kr_link *next, *prev;
};
struct kr_list {
	struct kr_link head;
};

static inline void kr_list_init(struct kr_list *list)
{
	list->head.next = list->head.prev = &list->head;
}
static inline void kr_link_init(struct kr_link *link)
{
	link->next = link->prev = link;
}
static inline bool kr_link_linked(const struct kr_link *link)
{
	return link->next != NULL && link->next != link;
}
static inline bool kr_list_empty(const struct kr_list *list)
{
	return list->head.next == &list->head;
}
static inline void kr_list_insert_before(struct kr_link *position, struct kr_link *link)
{
	link->next = position;
	link->prev = position->prev;
	position->prev->next = link;
	position->prev = link;
}
static inline void kr_list_append(struct kr_list *list, struct kr_link *link)
{
	kr_list_insert_before(&list->head, link);
}
static inline void kr_list_prepend(struct kr_list *list, struct kr_link *link)
{
	kr_list_insert_before(list->head.next, link);
}
/* Safe on a zeroed, an initialised and a linked link; leaves it initialised. */
static inline void kr_list_remove(struct kr_link *link)
{
	if (link->next) {
		link->next->prev = link->prev;
		link->prev->next = link->next;
	}
	kr_link_init(link);
}
/* First element's link removed and returned; NULL when empty. */
static inline struct kr_link *kr_list_pop(struct kr_list *list)
{
	struct kr_link *link = list->head.next;

	if (link == &list->head)
		return NULL;
	kr_list_remove(link);
	return link;
}
/* Appends all links of FROM to TO, in their order; FROM is empty then. */
static inline void kr_list_move(struct kr_list *from, struct kr_list *to)
{
	struct kr_link *link;

	while ((link = kr_list_pop(from)))
		kr_list_append(to, link);
}

#define KR_LIST_ENTRY(pointer, type, member) KR_CONTAINER_OF(pointer, type, member)
#define KR_LIST_FOR_EACH(item, list, member) \
	for (item = KR_LIST_ENTRY((list)->head.next, __typeof__(*item), member); &item->member != &(list)->head; \
		item = KR_LIST_ENTRY(item->member.next, __typeof__(*item), member))
/* The body may remove ITEM. */
#define KR_LIST_FOR_EACH_SAFE(item, after, list, member) \
	for (item = KR_LIST_ENTRY((list)->head.next, __typeof__(*item), member), \
	    after = KR_LIST_ENTRY(item->member.next, __typeof__(*item), member); \
		&item->member != &(list)->head; \
		item = after, after = KR_LIST_ENTRY(item->member.next, __typeof__(*item), member))

/* The first element of LIST, removed from it; NULL: LIST is empty. */
#define KR_LIST_POP(list, type, member) \
	({ \
		struct kr_link *popped_link = kr_list_pop(list); \
		popped_link ? KR_LIST_ENTRY(popped_link, type, member) : NULL; \
	})
/* The first element of LIST for which MATCHES is true, an expression of ITEM; NULL: there is none. */
#define KR_LIST_FIND(type, item, list, member, matches) \
	({ \
		type *item; \
		KR_LIST_FOR_EACH(item, list, member) \
			if (matches) \
				break; \
		&item->member != &(list)->head ? item : NULL; \
	})

#endif

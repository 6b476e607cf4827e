/* Those who hold the kinds of a file's lease, or ask for them, in sum: enough to know whether anybody of them excludes somebody, in
 * one step however many they are.  Pure; for lease_turns.c.
 */
#ifndef KR_SERVER_CROWD_H
#define KR_SERVER_CROWD_H

#include "server/leases/lease_table.h"

/* Those of one kind. */
struct kr_crowd {
	uint32_t node;  /* one of them; 0: none, or an operation of nobody's */
	bool any, several, operation; /* operation: there is one of that node's */
};
struct kr_crowds {
	struct kr_crowd read, write;
};

/* NODE holds KINDS, or asks for them; OPERATION: one of the server's for it (0: for nobody). */
void kr_crowds_add(struct kr_crowds *crowds, uint32_t node, uint8_t kinds, bool operation);
/* Whether WAITER cannot have what it asks beside them. */
bool kr_crowds_exclude(const struct kr_crowds *crowds, const struct kr_lease_waiter *waiter);

#endif

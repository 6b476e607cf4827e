/* Those who hold the kinds of a file's lease, or ask for them, in sum: enough to know whether anybody of them excludes
 * somebody, in one step however many they are.  Pure; for lease_queue.c.
 */
#ifndef KR_SERVER_LEASE_SUMS_H
#define KR_SERVER_LEASE_SUMS_H

#include "server/leases/lease_table.h"

/* Those of one kind. */
struct kr_lease_sum {
	uint32_t node;                /* one of them; 0: none, or an operation of nobody's */
	bool any, several, operation; /* operation: there is one of that node's */
};
struct kr_lease_sums {
	struct kr_lease_sum read, write;
};

/* NODE holds KINDS, or asks for them; OPERATION: one of the server's for it (0: for nobody). */
void kr_lease_sums_add(struct kr_lease_sums *sums, uint32_t node, uint8_t kinds, bool operation);
/* Whether WAITER cannot have what it asks beside them. */
bool kr_lease_sums_exclude(const struct kr_lease_sums *sums, const struct kr_lease_waiter *waiter);

#endif

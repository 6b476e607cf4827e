/* Whose turn it is at the leases of one file: who of those that wait can have what it wants, and what has to be asked
 * back for the first of them (the rules are in lease_table.h).  PURE: looks at the table and changes nothing.
 *
 * Many may hold and many wait (also because somebody means harm): each call takes one walk over the holders and the
 * waiters, since who excludes whom is told by sums (lease_sums.h).
 */
#ifndef KR_SERVER_LEASE_QUEUE_H
#define KR_SERVER_LEASE_QUEUE_H

#include "server/leases/lease_table.h"

/* NULL: it holds nothing, and no grant is to be announced to it. */
struct kr_lease_holder *kr_lease_queue_holder(const struct kr_lease_table *table, uint32_t node);
/* The first that can be granted now; NULL: nobody. */
struct kr_lease_waiter *kr_lease_queue_next(const struct kr_lease_table *table);
/* What NODE can have of KINDS now, behind all that wait. */
uint8_t kr_lease_queue_free(const struct kr_lease_table *table, uint32_t node, uint8_t kinds);
/* One who has *RET_KINDS, which the first of those that wait need and which have not been asked back yet; NULL: nobody.
 */
struct kr_lease_holder *kr_lease_queue_recall(const struct kr_lease_table *table, uint8_t *ret_kinds);

#endif

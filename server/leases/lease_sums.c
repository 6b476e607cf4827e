/* See lease_sums.h. */
#include "server/leases/lease_sums.h"

static void add(struct kr_lease_sum *sum, uint32_t node, bool operation)
{
	sum->several |= (sum->any && sum->node != node) || node == 0;
	sum->operation |= operation;
	sum->node = node;
	sum->any = true;
}

void kr_lease_sums_add(struct kr_lease_sums *sums, uint32_t node, uint8_t kinds, bool operation)
{
	if (kinds & KR_LEASE_READ)
		add(&sums->read, node, operation);
	if (kinds & KR_LEASE_WRITE)
		add(&sums->write, node, operation);
}

/* An operation and the node it acts for do not exclude each other, two operations always may. */
static bool excludes(const struct kr_lease_sum *sum, const struct kr_lease_waiter *waiter)
{
	bool same = sum->node == waiter->node && waiter->node != 0 && !(sum->operation && waiter->operation);

	return sum->any && (sum->several || !same);
}

bool kr_lease_sums_exclude(const struct kr_lease_sums *sums, const struct kr_lease_waiter *waiter)
{
	return ((waiter->kinds & KR_LEASE_READ) && excludes(&sums->write, waiter)) ||
		((waiter->kinds & KR_LEASE_WRITE) && excludes(&sums->read, waiter));
}

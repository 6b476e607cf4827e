/* See crowd.h. */
#include "server/leases/crowd.h"

static void add(struct kr_crowd *crowd, uint32_t node, bool operation)
{
	crowd->several |= (crowd->any && crowd->node != node) || node == 0;
	crowd->operation |= operation;
	crowd->node = node;
	crowd->any = true;
}

void kr_crowds_add(struct kr_crowds *crowds, uint32_t node, uint8_t kinds, bool operation)
{
	if (kinds & KR_LEASE_READ)
		add(&crowds->read, node, operation);
	if (kinds & KR_LEASE_WRITE)
		add(&crowds->write, node, operation);
}

/* An operation and the node it acts for do not exclude each other, two operations always may. */
static bool excludes(const struct kr_crowd *crowd, const struct kr_lease_waiter *waiter)
{
	bool same = crowd->node == waiter->node && waiter->node != 0 && !(crowd->operation && waiter->operation);

	return crowd->any && (crowd->several || !same);
}

bool kr_crowds_exclude(const struct kr_crowds *crowds, const struct kr_lease_waiter *waiter)
{
	return ((waiter->kinds & KR_LEASE_READ) && excludes(&crowds->write, waiter)) ||
		((waiter->kinds & KR_LEASE_WRITE) && excludes(&crowds->read, waiter));
}

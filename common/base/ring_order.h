/* The order of a ring's nodes, which the server and the MPI-IO layer both need. */
#ifndef KR_COMMON_RING_ORDER_H
#define KR_COMMON_RING_ORDER_H

#include <stdint.h>
#include <string.h>

/* Compares two nodes: by their host names in natural order ("n2" before "n10"), then by their node numbers. */
static inline int kr_ring_order(const char *name_a, uint32_t node_a, const char *name_b, uint32_t node_b)
{
	int order = strverscmp(name_a, name_b);

	if (order != 0)
		return order;
	return node_a < node_b ? -1 : node_a > node_b;
}

#endif

/* See ring_order.h. */
#include "mpiio/schedule/ring_order.h"

#include <stdlib.h>
#include <string.h>

#include "mpiio/schedule/topology.h"

static int compare(const void *a, const void *b)
{
	return strverscmp(((const struct kr_ring_place *)a)->node, ((const struct kr_ring_place *)b)->node);
}

void kr_ring_place_init(struct kr_ring_place *place, const struct kr_mount_info *info)
{
	*place = (struct kr_ring_place){0};
	if (!info)
		return;
	memcpy(place->node, info->node, sizeof(place->node) - 1);
	memcpy(place->ring, info->ring, sizeof(place->ring) - 1);
}

uint32_t kr_ring_position(struct kr_ring_place *all, uint32_t count, const struct kr_ring_place *own)
{
	uint32_t before = 0;

	for (uint32_t i = 0; i < count; i++)
		if (all[i].node[0] == '\0' || strcmp(all[i].ring, own->ring) != 0)
			return KR_NO_RING;
	qsort(all, count, sizeof(*all), compare);
	for (uint32_t i = 0; compare(&all[i], own) != 0; i++) /* each name is counted where it ends */
		before += compare(&all[i], &all[i + 1]) != 0;
	return before;
}

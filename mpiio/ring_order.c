#include "mpiio/ring_order.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "mpiio/topology.h"

struct names {
	char node[KR_MOUNT_INFO_NAME], ring[KR_MOUNT_INFO_NAME];
};

static int compare(const void *a, const void *b)
{
	return strncmp(((const struct names *)a)->node, ((const struct names *)b)->node, KR_MOUNT_INFO_NAME);
}

/* How many different names are before OWN's. */
static uint32_t position_of(struct names *all, int ranks, const struct names *own)
{
	uint32_t before = 0;

	for (int i = 0; i < ranks; i++)
		if (all[i].node[0] == '\0' || strncmp(all[i].ring, own->ring, KR_MOUNT_INFO_NAME) != 0)
			return KR_NO_RING;
	qsort(all, (size_t)ranks, sizeof(*all), compare);
	for (int i = 0; compare(&all[i], own) != 0; i++)
		before += compare(&all[i], &all[i + 1]) != 0;
	return before;
}

uint32_t kr_ring_position(MPI_Comm comm, const struct kr_mount_info *info)
{
	struct names own = {0};
	int ranks, mine = info != NULL, everybody = 0;
	KR_AUTO_FREE struct names *all = NULL;

	PMPI_Comm_size(comm, &ranks);
	PMPI_Allreduce(&mine, &everybody, 1, MPI_INT, MPI_MIN, comm);
	if (!everybody)
		return KR_NO_RING;
	memcpy(own.node, info->node, sizeof(own.node));
	memcpy(own.ring, info->ring, sizeof(own.ring));
	all = kr_xcalloc((size_t)ranks, sizeof(*all));
	if (PMPI_Allgather(&own, sizeof(own), MPI_BYTE, all, sizeof(own), MPI_BYTE, comm) != MPI_SUCCESS)
		return KR_NO_RING;
	return position_of(all, ranks, &own);
}

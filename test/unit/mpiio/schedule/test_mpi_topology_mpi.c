/* The topology that several processes on this machine gather; started by mpirun. Exit code: 0 when this rank saw no
 * mistake. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpiio/schedule/topology_mpi.h"

static int mistakes;

static void expect(int line, bool holds)
{
	if (holds)
		return;
	fprintf(stderr, "line %d: not so\n", line);
	mistakes++;
}
#define EXPECT(condition) expect(__LINE__, condition)

int main(int argc, char **argv)
{
	struct kr_topology *topology;
	int ranks, rank;
	uint32_t node;
	MPI_Init(&argc, &argv);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	EXPECT(kr_topology_of_comm(MPI_COMM_WORLD, 7, &topology) == 0);
	EXPECT(topology->ranks == (uint32_t)ranks && topology->nodes == 1 &&
		topology->local[ranks - 1] == (uint32_t)ranks - 1);
	kr_topology_free(topology);

	/* Three pretended nodes, dealt out in turn, the ring the other way round. */
	node = (uint32_t)(rank % 3);
	setenv("KAIRAN_MPIIO_NODE", node == 0 ? "red" : node == 1 ? "green" : "blue", 1);
	EXPECT(kr_topology_of_comm(MPI_COMM_WORLD, 2 - node, &topology) == 0);
	EXPECT(topology->nodes == 3);
	for (uint32_t i = 0; i < (uint32_t)ranks; i++)
		EXPECT(topology->node[i] == 2 - i % 3 && topology->local[i] == i / 3);
	EXPECT(strcmp(topology->node_name[0], "blue") == 0 && strcmp(topology->node_name[2], "red") == 0);
	kr_topology_free(topology);

	/* Only rank 1 pretends; the others are where they are. */
	if (rank != 1)
		unsetenv("KAIRAN_MPIIO_NODE");
	EXPECT(kr_topology_of_comm(MPI_COMM_WORLD, KR_NO_RING, &topology) == 0);
	EXPECT(topology->nodes == 2 && topology->node[0] == 0 && topology->node[1] == 1 && topology->node[2] == 0);
	kr_topology_free(topology);
	MPI_Finalize();
	return mistakes > 0;
}

/* Gathers the topology; see topology_mpi.h.  A failure on one rank is a failure on all: the ranks agree before each
 * collective step. */
#include "mpiio/schedule/topology_mpi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A rank's report.  NAME_LENGTH counts the NUL; 0: the node's first rank has the name. */
struct report {
	uint32_t node, ring, name_length;
};

struct gather {
	MPI_Comm comm;
	int ranks, rank;
	char name[MPI_MAX_PROCESSOR_NAME + 1];
	struct report *reports; /* of each rank */
	int *lengths, *starts;
	char *text;         /* all names; may be NULL while there are none */
	const char **names; /* of each rank's node */
	struct kr_place *places;
};

/* The worst ERROR of all ranks. */
static int agree(MPI_Comm comm, int error)
{
	int worst;
	return PMPI_Allreduce(&error, &worst, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS ? worst : -EIO;
}

/* Ranks that share memory: MINE->node is the lowest rank among them, which also reports the name. */
static int find_node(struct gather *g, struct report *mine)
{
	MPI_Comm local;
	int first = g->rank, local_rank = 0, length = 0, failed;
	if (PMPI_Comm_split_type(g->comm, MPI_COMM_TYPE_SHARED, g->rank, MPI_INFO_NULL, &local) != MPI_SUCCESS)
		return -EIO;
	failed = PMPI_Comm_rank(local, &local_rank) != MPI_SUCCESS ||
		PMPI_Bcast(&first, 1, MPI_INT, 0, local) != MPI_SUCCESS ||
		PMPI_Get_processor_name(g->name, &length) != MPI_SUCCESS;
	PMPI_Comm_free(&local);
	if (failed)
		return -EIO;
	mine->node = (uint32_t)first;
	mine->name_length = local_rank == 0 ? (uint32_t)strlen(g->name) + 1 : 0;
	return 0;
}

/* Groups nodes by pretended names, if any rank has one (the other ranks report their real name).  False: no rank has
 * one. */
static bool pretend(struct gather *g, struct report *mine)
{
	const char *name = getenv("KAIRAN_MPIIO_NODE");
	bool mine_is_set = name && *name;
	int length;
	if (agree(g->comm, mine_is_set ? -1 : 0) == 0)
		return false;
	if (mine_is_set)
		strncpy(g->name, name, sizeof g->name - 1);
	else
		PMPI_Get_processor_name(g->name, &length);
	mine->node = KR_NO_RANK;
	mine->name_length = (uint32_t)strlen(g->name) + 1;
	return true;
}

static int tell(struct gather *g, const struct report *mine)
{
	int total = 0;
	if (PMPI_Allgather(mine, sizeof *mine, MPI_BYTE, g->reports, sizeof *mine, MPI_BYTE, g->comm) != MPI_SUCCESS)
		return -EIO;
	for (int i = 0; i < g->ranks; i++) {
		g->lengths[i] = (int)g->reports[i].name_length;
		g->starts[i] = total;
		total += g->lengths[i];
	}
	g->text = malloc((size_t)total + 1);
	int error = agree(g->comm, g->text ? 0 : -ENOMEM);
	if (error < 0)
		return error;
	return PMPI_Allgatherv(g->name, g->lengths[g->rank], MPI_CHAR, g->text, g->lengths, g->starts, MPI_CHAR,
		       g->comm) == MPI_SUCCESS ?
		0 :
		-EIO;
}

/* The lowest rank with the same name as RANK. */
static uint32_t first_of_name(const struct gather *g, int rank)
{
	int first = 0;
	while (g->lengths[first] != g->lengths[rank] ||
		strcmp(g->text + g->starts[first], g->text + g->starts[rank]) != 0)
		first++;
	return (uint32_t)first;
}

static int conclude(struct gather *g, struct kr_topology **ret_topology)
{
	for (int i = 0; i < g->ranks; i++) {
		uint32_t node = g->reports[i].node == KR_NO_RANK ? first_of_name(g, i) : g->reports[i].node;
		g->places[i] = (struct kr_place){node, g->reports[i].ring};
		g->names[i] = g->text + g->starts[node];
	}
	return kr_topology_new((uint32_t)g->ranks, g->places, g->names, ret_topology);
}

static int gather(struct gather *g, uint32_t ring, struct kr_topology **ret_topology)
{
	size_t ranks = (size_t)g->ranks;
	struct report mine = {.ring = ring};
	struct kr_topology *topology = NULL;
	g->reports = calloc(ranks, sizeof(*g->reports));
	g->lengths = calloc(ranks, sizeof(*g->lengths));
	g->starts = calloc(ranks, sizeof(*g->starts));
	g->names = calloc(ranks, sizeof(char *));
	g->places = calloc(ranks, sizeof(*g->places));
	int error = agree(g->comm, g->reports && g->lengths && g->starts && g->names && g->places ? 0 : -ENOMEM);
	if (error == 0 && !pretend(g, &mine))
		error = agree(g->comm, find_node(g, &mine));
	if (error == 0)
		error = tell(g, &mine);
	if (error < 0)
		return error;
	error = conclude(g, &topology);
	int worst = agree(g->comm, error);
	if (worst < 0) {
		kr_topology_free(topology);
		return worst;
	}
	*ret_topology = topology;
	return 0;
}

int kr_topology_of_comm(MPI_Comm comm, uint32_t ring, struct kr_topology **ret_topology)
{
	struct gather g = {.comm = comm};
	int error = -EIO;
	if (PMPI_Comm_size(comm, &g.ranks) == MPI_SUCCESS && PMPI_Comm_rank(comm, &g.rank) == MPI_SUCCESS)
		error = gather(&g, ring, ret_topology);
	free(g.reports);
	free(g.lengths);
	free(g.starts);
	free(g.text);
	free(g.names);
	free(g.places);
	return error;
}

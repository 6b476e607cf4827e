/* Gathers the topology of a communicator: ranks that share memory are one node.  Compiled once per MPI library. */
#ifndef KR_MPIIO_TOPOLOGY_MPI_H
#define KR_MPIIO_TOPOLOGY_MPI_H

#include <mpi.h>

#include "mpiio/schedule/topology.h"

/* Collective over COMM.  RING is this node's position in the mount's ring, or KR_NO_RING.  KAIRAN_MPIIO_NODE in the
 * environment is a rank's pretended node name (set on all ranks or on none): it groups ranks instead, for tests on one
 * machine.  Owned; the same result on all ranks: 0, -ENOMEM or -EIO (an MPI call failed). */
int kr_topology_of_comm(MPI_Comm comm, uint32_t ring, struct kr_topology **ret_topology);

#endif

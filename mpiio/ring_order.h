/* The order of the nodes in the mount's ring, from their names. */
#ifndef KR_MPIIO_RING_ORDER_H
#define KR_MPIIO_RING_ORDER_H

#include <mpi.h>
#include <stdint.h>

#include "common/kairan_ioctl.h"

/* Collective over COMM.  INFO is this rank's mount, or NULL.  The position of this node's name among all nodes' names, or
 * KR_NO_RING (topology.h) when some rank is on no kairan mount or not all are in one ring. */
uint32_t kr_ring_position(MPI_Comm comm, const struct kr_mount_info *info);

#endif

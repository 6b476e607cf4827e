/* The operations of a mount of a server's export, and what the kernel is told of them (INIT). */
#ifndef KR_FUSE_OPERATIONS_H
#define KR_FUSE_OPERATIONS_H

#include "fuse/daemon/kernel.h"

extern const struct kr_kernel_side kr_cluster_operations;

#endif

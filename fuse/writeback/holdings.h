/* HOLDS: the server asks how much of a file this node has, for WHERE of some node (msgs.def).  Loop thread. */
#ifndef KR_FUSE_HOLDINGS_H
#define KR_FUSE_HOLDINGS_H

#include "fuse/base/mount.h"

/* Registers HOLDS; before the rpc starts. */
void kr_holdings_init(struct kr_mount *mount);

#endif

/* What nodes hold of a file (`nodes` of WHERE's reply, msgs.def), as the text of extended attributes.  PURE. */
#ifndef KR_FUSE_HOLDERS_H
#define KR_FUSE_HOLDERS_H

#include <stdint.h>

#include "common/rpc/msg.h"

/* "n1=1052672 n2=131072": for each node the bytes of a file of SIZE that it need not fetch, cached or unflushed, the
 * largest first; "" where no node has any.  A blank or '=' in a node's name becomes '_'.  Owned; NULL: NODES cannot be
 * decoded. */
char *kr_holders_text(const struct kr_bytes *nodes, uint64_t size);
/* {"size": SIZE, "nodes": [{"node": "n1", "bytes": 1052672, "cached": 1048576, "unflushed": 4096}, ...]} in the same
 * order.  Owned; NULL likewise. */
char *kr_holders_json(const struct kr_bytes *nodes, uint64_t size);

#endif

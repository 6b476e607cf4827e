/* kairan status --check: whether a mount or a server needs attention.  Pure: from the JSON of its daemon. */
#ifndef KR_TOOLS_HEALTH_H
#define KR_TOOLS_HEALTH_H

#include <jansson.h>
#include <stdbool.h>

/* A healthy mount is connected and not fenced, has no refused or late bytes, and its journal is intact and accepts
 * writes (waiting at journal_max is normal).  A healthy server has its export, all its nodes are connected, no bytes
 * are refused, and no request waits for long.  Conflict files count for neither, because they stay until the
 * administrator removes them. */
bool kr_status_is_healthy(const json_t *status);

#endif

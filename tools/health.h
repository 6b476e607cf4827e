/* kairan status --check: whether somebody should look at a mount or a server. Pure: of the JSON that its daemon tells.
 */
#ifndef KR_TOOLS_HEALTH_H
#define KR_TOOLS_HEALTH_H

#include <jansson.h>
#include <stdbool.h>

/* STATUS of a mount: it is connected and serves, nothing was refused or is late, and its journal is whole and takes
 * what is written (but at journal_max, where waiting is meant).  Of a server: the export is there, all its nodes are
 * connected, nothing was refused, and no request waits for long.  What lasts for ever once it was, conflict files,
 * counts for neither. */
bool kr_status_is_well(const json_t *status);

#endif

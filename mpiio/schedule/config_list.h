/* ROMIO's cb_config_list: which nodes' ranks may be aggregators, and how many.
 *
 *   list  = entry {"," entry}        entry = host [":" count]        host = name | "*"        count = number | "*"
 * Spaces around the signs are allowed.  No count means 1.  The first entry that matches a node counts.  Pure.
 */
#ifndef KR_MPIIO_CONFIG_LIST_H
#define KR_MPIIO_CONFIG_LIST_H

#include <stdint.h>

/* What LIST says of the node NAME (NULL: only "*" matches); names match whole, or NAME up to its first dot.  0 when no
 * entry matches, UINT32_MAX for "*".  -EINVAL when LIST is malformed. */
int kr_config_list_match(const char *list, const char *name, uint32_t *ret_count);

#endif

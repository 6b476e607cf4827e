/* Which caller may make other nodes give up their leases.  Before a truncation or a change of times recalls leases,
 * the server checks whether the caller may make that change.  Else a user who knows a file's identity could disturb
 * its users.
 */
#ifndef KR_SERVER_RECALL_PERMISSION_H
#define KR_SERVER_RECALL_PERMISSION_H

#include "server/leases/file_table.h"
#include "server/session/request.h"

/* Goes on with NEXT at once if no other node holds a lease that excludes KINDS.  Else only if CRED may write to FILE
 * or, with OWNER, owns FILE.  CRED lives as long as the request.  Else answers the request. */
void kr_recall_permission_check(struct kr_request *request, struct kr_sfile *file, uint8_t kinds,
	const struct kr_cred *cred, bool owner, void (*next)(struct kr_request *request));

#endif

/* Who may make others give up their leases: before a truncation or a change of times recalls what other nodes hold, it
 * is found out whether the caller may do it at all.  Else anybody with a file's identity could disturb those who use
 * it.
 */
#ifndef KR_SERVER_RECALL_PERMISSION_H
#define KR_SERVER_RECALL_PERMISSION_H

#include "server/leases/file_table.h"
#include "server/session/request.h"

/* Goes on with NEXT, at once if no other node holds anything that is in the way of KINDS, or if CRED (which lives as
 * long as the request) may write to FILE, or, with OWNER, owns it. Else the request is answered. */
void kr_recall_permission_check(struct kr_request *request, struct kr_sfile *file, uint8_t kinds,
	const struct kr_cred *cred, bool owner, void (*next)(struct kr_request *request));

#endif

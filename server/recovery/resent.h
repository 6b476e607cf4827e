/* Requests that a former instance of the server (or a lost session) may have executed already, without its answer
 * having reached the node (request_cache.h).  Then "exists already" and "is not there" can mean success, unless another
 * request is remembered to have done it; what is there must look like what the request would have made, and be recent.
 * Within one session this is not needed: replies are kept (reply_cache.h).
 */
#ifndef KR_SERVER_RESENT_H
#define KR_SERVER_RESENT_H

#include "server/export/export.h"
#include "server/base/fid.h"
#include "server/recovery/request_cache.h"
#include "server/session/request.h"
#include "server/base/server.h"

/* Whether FID with ATTR is what REQUEST made.  Where that is not remembered: whether it can be, because it is of TYPE
 * (S_IF*), UID's, and changed at most twice the lease time ago (by the clock that gave it its ctime). Any thread. */
static inline bool kr_resent_is_ours(const struct kr_request *request, const struct kr_fid *fid,
	const struct kr_attr *attr, uint32_t type, uint32_t uid)
{
	int64_t now_sec = (int64_t)(kr_clock_real_ns() / KR_NS_PER_S);
	int64_t horizon_sec = request->server->lease_ms / 1000 * 2 + 1;

	if (request->made)
		return kr_fid_hash(fid) == request->made;
	if (kr_request_cache_made_by_other(request, fid))
		return false;
	return request->maybe_done && (attr->mode & 0170000) == type && attr->uid == uid &&
		attr->ctime.sec >= now_sec - horizon_sec;
}

/* Looks for what REQUEST made then, which must not be made again: others may have moved it away. -ENOENT: nothing has
 * the name; -EEXIST: another has. Any thread. */
static inline int kr_resent_look(const struct kr_request *request, const struct kr_cred *cred,
	const struct kr_fid *parent, const char *name, struct kr_fid *ret_fid, struct kr_attr *ret_attr)
{
	int err = kr_export_lookup(request->server->export, cred, parent, name, ret_fid, ret_attr);

	return err || kr_fid_hash(ret_fid) == request->made ? err : -EEXIST;
}

#endif

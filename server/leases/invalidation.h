/* Invalidation of attribute caches: between the pure table (invalidation_table.h) and requests.  Loop thread.
 *
 * Every request that changes something passes twice.  Before its handler runs, all other nodes that cache one of its
 * buckets have answered an INVALIDATE.  Before its reply, the server sends its own node an INVALIDATE, in order with
 * the reply.  A node that knows which names it has changed needs none.
 *
 * A handler may find out later that the request changes more: the file behind a removed name.  Then it calls
 * kr_invalidation_also.
 *
 * Changes of data, and those by programs on the server's machine, notify all nodes without a wait.  A node that
 * changes data holds WRITE, under which no other node caches attributes of the file.
 *
 * A node that does not answer delays others until its session ends (callbacks.h).  By its own clock it is fenced before
 * that, and answers nothing from its cache.
 */
#ifndef KR_SERVER_INVALIDATION_H
#define KR_SERVER_INVALIDATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/list.h"

struct kr_fid;
struct kr_request;
struct kr_server;

void kr_invalidation_init(struct kr_server *server);
void kr_invalidation_fini(struct kr_server *server);
/* Whether the kernel reports the changes that local programs make: without reports no node may cache attributes. */
void kr_invalidation_allow(struct kr_server *server, bool allow);

/* For the handler of TYPE, after kr_server_on.  CHANGES names, by kr_invalidation_change, what a request is about to
 * change.  GRANTS returns the flags of the reply's frame: what the node may cache of the reply (ERR; the message, or
 * NULL).  Either may be NULL. */
void kr_invalidation_on(struct kr_server *server, uint16_t type, void (*changes)(struct kr_request *request),
	uint16_t (*grants)(struct kr_request *request, int err, const void *reply));
/* Where FIELD, a fid of a request's message, lies in union kr_any_msg. */
#define KR_FID_OFFSET(field) \
	(_Generic(((union kr_any_msg *)0)->field, struct kr_fid : offsetof(union kr_any_msg, field)))
/* After kr_server_on, too: each request of TYPE changes the fid at FID_OFFSET (KR_FID_OFFSET).  At most two calls for a
 * TYPE. */
void kr_invalidation_changes(struct kr_server *server, uint16_t type, size_t fid_offset);
/* From CHANGES: the request changes FID; other nodes that may cache FID get an INVALIDATE. */
void kr_invalidation_change(struct kr_request *request, const struct kr_fid *fid);
/* From GRANTS: KR_FRAME_CACHEABLE if the node may cache the reply as that of FID, else 0.  For attributes:
 * kr_attrs_grant. */
uint16_t kr_invalidation_grant(struct kr_request *request, const struct kr_fid *fid);

/* The same for FID while the request runs.  After that nothing can withdraw the request, and the wait outlasts its
 * session.  A repetition waits for the request (request_cache.h), and its answer must hold for all nodes. */
void kr_invalidation_also(
	struct kr_request *request, const struct kr_fid *fid, void (*next)(struct kr_request *request));

/* Around a change of FID by no request, or by more than one node's. */
void kr_invalidation_change_begins(struct kr_server *server, const struct kr_fid *fid);
void kr_invalidation_change_ends(struct kr_server *server, const struct kr_fid *fid);
/* Anything may have changed. */
void kr_invalidation_all_changed(struct kr_server *server);
/* Whether any node but NODE may cache attributes of FID: then NODE cannot get WRITE at once. */
bool kr_invalidation_others_cache(struct kr_server *server, const struct kr_fid *fid, uint32_t node);
/* For STATUS; owned by the caller. */
json_t *kr_invalidation_status(const struct kr_server *server);

#endif

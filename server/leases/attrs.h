/* Attributes of files, exact while other nodes write them. */
#ifndef KR_SERVER_ATTRS_H
#define KR_SERVER_ATTRS_H

#include "common/base/types.h"

struct kr_request;
struct kr_server;

/* Finds the attributes of FID.  FN gets the request back, with request->err and ATTR, never from inside this call.
 * ATTR is borrowed during the call, NULL on an error.  QUERY_WRITERS: first asks other nodes that may hold unflushed
 * bytes.
 *
 * No change of the file has ended between the moment of ATTR and FN.  So an answer that FN sends does not overtake that
 * of a FLUSH, unless the file changes without a pause for four lease times.  The request's state, reply and message
 * stay as they are. */
void kr_attrs_get(struct kr_request *request, const struct kr_fid *fid, bool query_writers,
	void (*fn)(struct kr_request *request, const struct kr_attr *attr));
/* A job that started at server->files->epoch == EPOCH has read attributes of FID.  Whether they may lack later
 * changes, or what other nodes than NODE have not flushed: then kr_attrs_get is needed. */
bool kr_attrs_doubtful(struct kr_server *server, const struct kr_fid *fid, uint32_t node, uint64_t epoch);

/* For kr_invalidation_on: KR_FRAME_CACHEABLE_ATTR if the node may cache the attributes of FID that the reply holds.
 * 0: not now, for example while another node holds WRITE. */
uint16_t kr_attrs_grant(struct kr_request *request, const struct kr_fid *fid);

void kr_attrs_register(struct kr_server *server);

#endif

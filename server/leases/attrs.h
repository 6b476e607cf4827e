/* Attributes as P1 wants them, and SETATTR. */
#ifndef KR_SERVER_ATTRS_H
#define KR_SERVER_ATTRS_H

#include "common/base/types.h"

struct kr_request;
struct kr_server;
struct kr_sfile;

/* Finds FID's attributes; FN gets the request back, with request->err and ATTR (borrowed during the call, NULL on an
 * error), never from inside this call.  ASK_HOLDERS: other nodes that may hold unflushed bytes are asked first.  No
 * change of the file has ended between the moment of ATTR and FN, so an answer sent by FN never overtakes a FLUSH's.
 * The request's state, reply and message are left alone. */
void kr_attrs_get(struct kr_request *request, const struct kr_fid *fid, bool ask_holders,
	void (*fn)(struct kr_request *request, const struct kr_attr *attr));
/* Whether attributes of FID got by a job that was started at server->files->epoch == EPOCH may lack what has happened since,
 * or what other nodes than NODE have not flushed: then kr_attrs_get is needed. */
bool kr_attrs_doubtful(struct kr_server *server, const struct kr_fid *fid, uint32_t node, uint64_t epoch);

/* For kr_invalidation_on: KR_FRAME_CACHEABLE_ATTR if the node may cache the attributes in the reply as those of FID.  Not
 * while another node writes the file: that changes them without a message.  0: not now. */
uint16_t kr_attrs_grant(struct kr_request *request, const struct kr_fid *fid);

void kr_attrs_register(struct kr_server *server);

#endif

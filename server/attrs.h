/* Attributes as P1 wants them, and the operations that change them. */
#ifndef KR_SERVER_ATTRS_H
#define KR_SERVER_ATTRS_H

#include "common/types.h"

struct kr_request;
struct kr_server;

/* Finds FID's attributes, for the node of REQUEST: nodes with unflushed bytes are asked first, then the export.  FN gets
 * the request back, parked until then (withdrawable), with request->err and ATTR (borrowed during the call). */
void kr_attrs_get(struct kr_request *request, const struct kr_fid *fid,
	void (*fn)(struct kr_request *request, const struct kr_attr *attr));

void kr_attrs_register(struct kr_server *server);

#endif

/* What both sides say when they speak no common version of the protocol.  Any thread. */
#ifndef KR_COMMON_PROTO_H
#define KR_COMMON_PROTO_H

#include <stddef.h>
#include <stdint.h>

/* Fails with -EPROTONOSUPPORT and says what to do.  OTHER: the version that the peer speaks. */
int kr_proto_differs(uint32_t other);
/* Whether a client's range has this program's version.  FIELDS: of HELLO, AUTH or AUTH_MUNGE, of any version (ALL
 * VERSIONS in msgs.def).  0, -EPROTONOSUPPORT, or -EPROTO: there is no range, or it makes no sense. */
int kr_proto_check(const uint8_t *fields, size_t length);

#endif

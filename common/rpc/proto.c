#include "common/rpc/proto.h"

#include <errno.h>

#include "common/base/fail.h"
#include "common/rpc/msg.h"

int kr_proto_differs(uint32_t other)
{
	if (other == KR_PROTO_VERSION)
		return kr_fail(-EPROTONOSUPPORT,
			"it speaks protocol %u as kairan " KR_VERSION
			" here, but one of the two lacks a feature that the other needs (install the same kairan on "
			"both)",
			other);
	return kr_fail(-EPROTONOSUPPORT, "it speaks protocol %u, and kairan " KR_VERSION " here protocol %d (%s)",
		other, KR_PROTO_VERSION,
		other > KR_PROTO_VERSION ? "upgrade kairan here, or install this version there" :
					   "upgrade kairan there, or install its version here");
}

int kr_proto_check(const uint8_t *fields, size_t length)
{
	struct kr_reader r;
	uint32_t min, max;

	kr_reader_init(&r, fields, length);
	min = kr_take_u32(&r);
	max = kr_take_u32(&r);
	if (r.failed || min > max)
		return kr_fail(-EPROTO, "its range of protocols makes no sense");
	if (min <= KR_PROTO_VERSION && KR_PROTO_VERSION <= max)
		return 0;
	return kr_proto_differs(min > KR_PROTO_VERSION ? min : max);
}

/* The border between errno and the wire's own error numbers (status.def).  Any thread. */
#include <errno.h>

#include "common/rpc/msg.h"

uint32_t kr_status_from_errno(int err)
{
	switch (err) {
	case 0:
		return 0;
#define KR_STATUS(name, number, errno_value) \
	case -(errno_value): \
		return number;
#include "common/rpc/status.def"
#undef KR_STATUS
	default:
		return kr_status_from_errno(-EIO);
	}
}

int kr_status_to_errno(uint32_t status)
{
	switch (status) {
	case 0:
		return 0;
#define KR_STATUS(name, number, errno_value) \
	case number: \
		return -(errno_value);
#include "common/rpc/status.def"
#undef KR_STATUS
	default:
		return -EIO;
	}
}

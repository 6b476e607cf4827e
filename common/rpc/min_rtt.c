/* See min_rtt.h. */
#include "common/rpc/min_rtt.h"

#include <linux/tcp.h>
#include <sys/socket.h>

#include <netinet/in.h>

uint64_t kr_min_rtt_us(int fd)
{
	struct tcp_info info = {0};
	socklen_t size = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 || info.tcpi_min_rtt == UINT32_MAX)
		return 0;
	return info.tcpi_min_rtt;
}

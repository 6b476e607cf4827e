/* See round_trip.h. */
#include "common/rpc/round_trip.h"

#include <linux/tcp.h>
#include <sys/socket.h>

#include <netinet/in.h>

struct kr_round_trip kr_round_trip_of(int fd)
{
	struct tcp_info info = {0};
	socklen_t size = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 || info.tcpi_min_rtt == UINT32_MAX)
		return (struct kr_round_trip){0};
	return (struct kr_round_trip){.shortest_us = info.tcpi_min_rtt, .lately_us = info.tcpi_rtt};
}

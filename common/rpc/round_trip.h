/* Round trips of a TCP connection, as the kernel measures them.  A file of its own: the C library's struct tcp_info
 * lacks the shortest one, and its header and the kernel's exclude each other. */
#ifndef KR_COMMON_ROUND_TRIP_H
#define KR_COMMON_ROUND_TRIP_H

#include <stdint.h>

struct kr_round_trip {
	uint64_t shortest_us; /* in the last minutes */
	uint64_t lately_us;   /* smoothed */
};

/* Of socket FD; zeros: not known, or no TCP. */
struct kr_round_trip kr_round_trip_of(int fd);

#endif

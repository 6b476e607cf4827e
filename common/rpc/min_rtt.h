/* The shortest round trip of a TCP connection.  A file of its own: the C library's struct tcp_info lacks it, and its
 * header and the kernel's exclude each other. */
#ifndef KR_COMMON_MIN_RTT_H
#define KR_COMMON_MIN_RTT_H

#include <stdint.h>

/* Of socket FD, in the last minutes, in microseconds; 0: not known, or no TCP. */
uint64_t kr_min_rtt_us(int fd);

#endif

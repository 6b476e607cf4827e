/* How far the server's clock is ahead of the node's, from requests and replies.  Pure. */
#ifndef KR_FUSE_SERVER_CLOCK_H
#define KR_FUSE_SERVER_CLOCK_H

#include <stdint.h>

/* The offset to add to the node's clock.  The node sent a request at SENT_NS and got the reply at ANSWERED_NS, by its
 * own clock; in between the server's clock showed SERVER_NS.  Returns KNOWN if that can still be true, else the least
 * offset that can be.  So a slow reply changes nothing, a quick one corrects, and a clock that is set is followed at
 * once.  Times made with the offset do not lie in the server's future. */
static inline int64_t kr_server_clock_offset(int64_t known, uint64_t sent_ns, uint64_t answered_ns, int64_t server_ns)
{
	int64_t least = server_ns - (int64_t)answered_ns, most = server_ns - (int64_t)sent_ns;

	return known >= least && known <= most ? known : least;
}

#endif

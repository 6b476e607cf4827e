/* How far the server's clock is ahead of ours, from questions and answers. Pure. */
#ifndef KR_FUSE_SERVER_CLOCK_H
#define KR_FUSE_SERVER_CLOCK_H

#include <stdint.h>

/* What to add to our clock after a question sent at SENT_NS and answered at ANSWERED_NS (both ours), when the server's
 * clock showed SERVER_NS somewhere between: KNOWN if that can still be true, else the least that can be.  So a slow
 * answer moves nothing, a quick one corrects, a clock that is set is followed at once, and what is dated by it does not
 * lie in the server's future. */
static inline int64_t kr_server_clock_offset(int64_t known, uint64_t sent_ns, uint64_t answered_ns, int64_t server_ns)
{
	int64_t least = server_ns - (int64_t)answered_ns, most = server_ns - (int64_t)sent_ns;

	return known >= least && known <= most ? known : least;
}

#endif

/* See flush_plan.h. */
#include "fuse/writeback/flush_plan.h"

#include <errno.h>

#include "common/base/util.h"

void kr_flush_plan_want(struct kr_flush_plan *plan, uint64_t seq, bool urgent)
{
	plan->wanted = KR_MAX(plan->wanted, seq);
	plan->urgent |= urgent;
}

enum kr_flush_plan_step kr_flush_plan_next(const struct kr_flush_plan *plan, const struct kr_flush_facts *facts)
{
	bool old = facts->now_ns - facts->dirty_since_ns >= facts->age_ns;

	if (!facts->dirty || plan->gone || plan->in_flight || facts->blocked)
		return KR_FLUSH_NOTHING;
	if (facts->now_ns < plan->retry_ns && !plan->urgent)
		return KR_FLUSH_LATER;
	if (plan->wanted > facts->flushed_seq || plan->urgent || plan->refused || old || facts->backlog)
		return KR_FLUSH_SEND;
	return KR_FLUSH_LATER;
}

void kr_flush_plan_sent(struct kr_flush_plan *plan)
{
	plan->in_flight = true;
	plan->urgent = false;
}

/* Not refusals: the session ended, or the server has too much to do. */
static bool is_passing(int err)
{
	return err == -EAGAIN || err == -ENOTCONN || err == -EINTR || err == -ECANCELED || err == -ECONNRESET ||
		err == -ENOMEM;
}

bool kr_flush_plan_answered(struct kr_flush_plan *plan, int err, uint64_t now_ns)
{
	plan->in_flight = false;
	plan->passing = is_passing(err);
	if (err == 0) {
		plan->refused = 0;
		plan->retry_ns = 0;
		return false;
	}
	if (plan->passing) {
		plan->retry_ns = now_ns + KR_FLUSH_AGAIN_MS * KR_NS_PER_MS;
		return false;
	}
	plan->refused = err;
	plan->retry_ns = now_ns + KR_FLUSH_RETRY_MS * KR_NS_PER_MS;
	plan->gone |= err == -ESTALE;
	return true;
}

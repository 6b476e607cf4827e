/* Nodes that are lost, and come back too late. */
#ifndef KR_TEST_UNIT_LATE_FIXTURE_H
#define KR_TEST_UNIT_LATE_FIXTURE_H

#include <time.h>

#include "test/unit/server/session/server_fixture.h"

static inline void lose(struct fixture *f, struct node *node, struct node *other)
{
	uint64_t lost = f->server.sessions->lost;

	node_disconnect(node);
	while (f->server.sessions->lost == lost)
		a_moment_later(f, other);
}

static const struct kr_time never = {0}, always = {.sec = 1 << 30};

/* After all that has been changed so far, and before all that will be: the clock of file times ticks, so the next tick
 * is waited for. */
static inline struct kr_time just_now(void)
{
	const uint64_t now_ns = kr_clock_real_ns();
	const struct kr_time now = {.sec = (int64_t)(now_ns / KR_NS_PER_S), .nsec = (uint32_t)(now_ns % KR_NS_PER_S)};
	struct timespec tick;

	do
		clock_gettime(CLOCK_REALTIME_COARSE, &tick);
	while (tick.tv_sec < now.sec || (tick.tv_sec == now.sec && (uint32_t)tick.tv_nsec <= now.nsec));
	return now;
}

static inline struct kr_time seconds_before(struct kr_time time, int64_t seconds)
{
	time.sec -= seconds;
	return time;
}

/* As if all that has been changed so far had been a second earlier: a moment after it that can be told from it, and
 * that is not after what will be changed in the next second, as far as times tell. */
static inline struct kr_time a_second_later(void)
{
	return seconds_before(just_now(), -1);
}

static inline uint64_t send_reclaim(struct node *node, const struct kr_fid *fid, struct kr_time since)
{
	struct kr_reclaim_request reclaim = {
		.file = *fid, .kinds = KR_LEASE_WRITE, .first = 5, .last = 9, .since = since};

	return node_send(node, KR_MSG_RECLAIM, &reclaim);
}

/* Whether NODE, which comes back with unflushed bytes of FID written SINCE, is told that they are in conflict. */
static inline bool in_conflict(struct node *node, const struct kr_fid *fid, struct kr_time since)
{
	const union kr_any_msg *reply;

	assert_int_equal(node_result(node, send_reclaim(node, fid, since), &reply), 0);
	if (!reply->reclaim_reply.conflict)
		assert_true(reply->reclaim_reply.kinds & KR_LEASE_WRITE);
	return reply->reclaim_reply.conflict;
}

static inline void cut(struct node *node, const struct kr_fid *fid, uint64_t size)
{
	struct kr_setattr_request msg = {.file = *fid, .valid = KR_SET_SIZE, .size = size};

	assert_int_equal(node_call(node, KR_MSG_SETATTR, &msg, NULL), 0);
}

/* The same; returns a moment after it that is too short for the clocks of two machines, and for the ticks of file
 * times. */
static inline struct kr_time right_after_cut(struct node *node, const struct kr_fid *fid, uint64_t size)
{
	struct kr_setattr_request msg = {.file = *fid, .valid = KR_SET_SIZE, .size = size};
	const union kr_any_msg *reply;
	struct kr_time time;

	assert_int_equal(node_call(node, KR_MSG_SETATTR, &msg, &reply), 0);
	time = reply->setattr_reply.attr.ctime;
	time.sec += (time.nsec + (uint32_t)KR_NS_PER_MS) / (uint32_t)KR_NS_PER_S;
	time.nsec = (time.nsec + (uint32_t)KR_NS_PER_MS) % (uint32_t)KR_NS_PER_S;
	return time;
}

static inline void back(struct node *node)
{
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.resumed, 0);
	assert_int_equal(node->hello.late, 1);
}

/* While NODE is lost OTHER changes FID; NODE comes back. */
static inline void overtake(struct fixture *f, struct node *node, struct node *other, const struct kr_fid *fid)
{
	lose(f, node, other);
	cut(other, fid, 7);
	back(node);
}

#endif

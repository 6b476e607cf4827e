/* Nodes that are asked something, or wait for what others are asked: time passes in moments, and the hostile one lets
 * it pass in its own way. */
#ifndef KR_TEST_NEGLECT_FIXTURE_H
#define KR_TEST_NEGLECT_FIXTURE_H

#include "test/unit/server/session/hostile_fixture.h"

#include "server/session/callbacks.h"
#include "server/leases/file_table.h"

enum { MOMENTS = LEASE_MS / MOMENT_MS, /* of a lease time */ SLACK = 4 };

static inline void a_moment_later_both(struct fixture *f)
{
	pass_a_moment(f);
	assert_true(ping(f->nodes[HONEST]));
	ping(f->nodes[HOSTILE]);
}

static inline bool is_unanswered(struct fixture *f, uint64_t id)
{
	return !is_answered(f->nodes[HONEST], id);
}

/* What a daemon does that was killed and started again: it has everything still. */
static inline void begin_anew(struct node *node, const struct kr_fid *fid)
{
	const struct kr_reclaim_request reclaim = {.file = *fid, .kinds = KR_LEASE_WRITE, .opens = 1};

	node_disconnect(node);
	node->asked_count = node->answer_count = 0;
	if (node_hello(node, false))
		return;
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
}

/* The honest one waits for the answer to ID while the hostile one does WHAT six times in a lease time. How long that
 * takes, in moments. */
static inline int wait_beside(struct fixture *f, uint64_t id, void (*what)(struct node *node, const struct kr_fid *fid),
	const struct kr_fid *fid, int most)
{
	int moments = 0;

	for (; is_unanswered(f, id) && moments < most; moments++) {
		if (moments % (MOMENTS / 6) == 0)
			what(f->nodes[HOSTILE], fid);
		a_moment_later_both(f);
	}
	assert_false(is_unanswered(f, id));
	assert_int_equal(node_result(f->nodes[HONEST], id, NULL), 0);
	return moments;
}

static inline void do_nothing(struct node *node, const struct kr_fid *fid)
{
	(void)node, (void)fid;
}

static inline void pass_leases(struct fixture *f, int halves)
{
	for (int moment = 0; moment < halves * MOMENTS / 2; moment++) {
		a_moment_later(f, f->nodes[HONEST]);
		assert_true(ping(f->nodes[HOSTILE]));
	}
}

#endif

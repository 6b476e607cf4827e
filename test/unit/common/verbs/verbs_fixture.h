/* Connections whose data goes over verbs, both ends in one loop. */
#ifndef KR_TEST_VERBS_FIXTURE_H
#define KR_TEST_VERBS_FIXTURE_H

#include "test/unit/common/rpc/carrier_conformance.h"

#include "common/verbs/verbs.h"

static struct kr_verbs *callers, *called;
static enum kr_transport transport_of_called;

static inline void answer(struct side *side, const struct kr_frame *frame)
{
	if (frame->header.type == KR_MSG_HOP_VERBS)
		kr_verbs_answer(called, side->conn, frame);
}

static inline void make(void)
{
	assert_int_equal(kr_verbs_new(&loop, KR_TRANSPORT_AUTO, POOL, &callers), 0);
	assert_int_equal(kr_verbs_new(&loop, transport_of_called, POOL, &called), 0);
	server.hook = answer;
}

static inline void detach(void)
{
	kr_verbs_close(callers);
	kr_verbs_close(called);
	run_a_little();
	kr_verbs_free(callers);
	kr_verbs_free(called);
	callers = called = NULL;
	transport_of_called = KR_TRANSPORT_AUTO;
}

static inline bool by_verbs(const struct side *side)
{
	return strcmp(kr_conn_transport(side->conn), "verbs") == 0;
}

static inline void attach(bool client_receives)
{
	make();
	kr_verbs_ask(callers, client.conn, client_receives);
	RUN_UNTIL(by_verbs(&client) && by_verbs(&server));
	server.hook = NULL;
	server.frames = 0;
}

static const struct kind verbs = {"verbs", true, attach, detach};

#endif

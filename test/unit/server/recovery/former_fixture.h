/* An instance of the server after another, and what of the former one's requests the next one finds. */
#ifndef KR_TEST_FORMER_FIXTURE_H
#define KR_TEST_FORMER_FIXTURE_H

#include "test/unit/server/session/server_fixture.h"

#include "server/recovery/executed_log.h"
#include "server/base/fid.h"
#include "server/session/session.h"
#include "server/export/intent.h"

static inline void rejoin(struct fixture *f, struct node *const *nodes, int count)
{
	for (int i = 0; i < count; i++) {
		assert_true(node_wait_for(&f->loop, node_is_closed, nodes[i]));
		assert_int_equal(node_hello(nodes[i], true), 0);
	}
	for (int i = 0; i < count; i++)
		assert_int_equal(node_call(nodes[i], KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
}

static inline void restart(struct fixture *f, struct node *const *nodes, int count)
{
	stop_server(f);
	start_server(f);
	rejoin(f, nodes, count);
}

static inline int resend(struct node *node, uint64_t id, uint16_t type, const void *msg)
{
	struct node_answer *before = node_answer(node, id);

	if (before)
		before->replies = 0;
	node_send_as(node, id, KR_FRAME_RESEND, type, msg);
	return node_result(node, id, NULL);
}

/* As if NODE had sent a request, the present instance had begun it, and were killed then. Its id. */
static inline uint64_t begun(struct fixture *f, struct node *node, struct kr_executed_key *ret_key)
{
	const struct kr_session *session = kr_session_find(&f->server, node->hello.session);

	*ret_key = (struct kr_executed_key){.incarnation = session->incarnation, .request = node->next_id++};
	memcpy(ret_key->node_id, session->node_id, sizeof(ret_key->node_id));
	kr_executed_begin(f->server.recovery->executed, ret_key);
	return ret_key->request;
}

/* ... when its turn for CHANGE had come, before or after that was made. */
static inline uint64_t in_turn_of(struct fixture *f, struct node *node, struct kr_intent_change change)
{
	struct kr_executed_key key;
	uint64_t id = begun(f, node, &key);

	if (!change.parent)
		change.parent = &node->hello.root;
	if (change.kind == KR_INTENT_RENAME)
		change.new_parent = &node->hello.root;
	kr_executed_intent(f->server.recovery->executed, &key, &change);
	return id;
}

/* ... and FID had the name, of which nothing else is known. */
static inline uint64_t in_turn(struct fixture *f, struct node *node, const struct kr_fid *fid)
{
	return in_turn_of(f, node,
		(struct kr_intent_change){.kind = KR_INTENT_MAKE, .name = "", .before = fid ? kr_fid_hash(fid) : 0});
}

static inline struct kr_fid make_dir(struct node *node, struct kr_make_request *make, const char *name)
{
	const union kr_any_msg *reply;

	make->name = name;
	assert_int_equal(node_call(node, KR_MSG_MAKE, make, &reply), 0);
	return reply->make_reply.file;
}

static inline char *in_export(const struct fixture *f, const char *name)
{
	static char paths[2][128];
	static int last;

	last = !last;
	snprintf(paths[last], sizeof(paths[last]), "%s/%s", f->export_path, name);
	return paths[last];
}

static inline bool has_handles(struct fixture *f)
{
	struct kr_export_info info;

	kr_export_info(f->server.export, &info);
	return info.by_handle;
}

#endif

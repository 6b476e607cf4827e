/* Two nodes at a server of the fixture: an honest one, and one that does not play by the rules.
 *
 * The hostile one is a user when a test says so: it has what a user key gives (uid 1000), whatever it says.
 */
#ifndef KR_TEST_HOSTILE_FIXTURE_H
#define KR_TEST_HOSTILE_FIXTURE_H

#include "test/unit/server/session/server_fixture.h"

#include <signal.h>

#include "common/base/log.h"
#include "server/session/session.h"
#include "server/session/trust.h"

enum { USER = 1000, PING_ID = 1 << 20 };
enum { HONEST, HOSTILE }; /* of the fixture's nodes; both have a session */

static struct kr_fid secret_file,
	own_file; /* root's, 0600, with a lease of the honest node's; and the hostile user's */

static inline struct kr_fid create_as(struct node *node, const char *name, uint32_t uid, uint8_t want)
{
	struct kr_create_request msg = {.cred = {.uid = uid, .gid = uid},
		.parent = node->hello.root,
		.name = name,
		.mode = 0600,
		.flags = KR_OPEN_BOTH,
		.want = want};
	const union kr_any_msg *reply;

	assert_int_equal(node_call(node, KR_MSG_CREATE, &msg, &reply), 0);
	assert_int_equal(reply->create_reply.granted, want);
	return reply->create_reply.file;
}

/* From now on the session is one that came with a user's key. */
static inline void confine(struct fixture *f, struct node *node)
{
	const struct kr_key_owner owner = {.kind = KR_KEY_USER, .uid = USER};
	struct kr_session *session = kr_session_find(&f->server, node->hello.session);

	assert_int_equal(kr_key_new(&owner, "mallory", kr_clock_real_s(), 0, &session->trust.key), 0);
	session->trust.groups = calloc(1, sizeof(*session->trust.groups));
	session->trust.groups[0] = USER;
	session->trust.group_count = 1;
}

static inline int setup_two(void **state)
{
	struct fixture *f;

	setup(state);
	f = *state;
	assert_int_equal(chmod(f->export_path, 0777), 0);
	joined(f, HONEST);
	joined(f, HOSTILE);
	return 0;
}

static inline bool ping_or_end(void *context)
{
	struct node *node = context;

	return node->closed || node_answer(node, PING_ID)->replies > 0;
}

/* The node renews its session, and does nothing else. False: its connection has ended. */
static inline bool ping(struct node *node)
{
	if (!node->conn)
		return false;
	if (node_answer(node, PING_ID))
		node_answer(node, PING_ID)->replies = 0;
	node_send_as(node, PING_ID, 0, KR_MSG_PING, NULL);
	assert_true(node_wait_for(node->loop, ping_or_end, node));
	return !node->closed;
}

/* --- a user, and a file that is not his ------------------------------------------------------- */

static inline void refused(struct node *node, uint16_t type, const void *msg)
{
	int err = node_call(node, type, msg, NULL);

	if (err >= 0)
		fail_msg("%s is taken", kr_msg_name(type));
	if (err == -EPROTO)
		fail_msg("%s was not understood", kr_msg_name(type));
}
#define REFUSED(node, TYPE, type, ...) refused(node, KR_MSG_##TYPE, &(struct kr_##type##_request){__VA_ARGS__})

static inline struct fixture *with_a_user(void **state)
{
	struct fixture *f = *state;

	if (geteuid() != 0)
		skip();
	secret_file = create_as(f->nodes[HONEST], "secret", 0, KR_LEASE_WRITE);
	assert_int_equal(node_call(f->nodes[HONEST], KR_MSG_FLUSH,
				 &(struct kr_flush_request){.file = secret_file, .flags = 1, .seq = 1}, NULL),
		0);
	confine(f, f->nodes[HOSTILE]);
	own_file = create_as(f->nodes[HOSTILE], "own", USER, 0);
	return f;
}

/* The honest node has lost nothing, and has been asked nothing but what GETATTR may ask. */
static inline void undisturbed(struct fixture *f)
{
	assert_true(ping(f->nodes[HONEST]));
	for (size_t i = 0; i < f->nodes[HONEST]->asked_count; i++)
		assert_true(f->nodes[HONEST]->asked[i].type == KR_MSG_QUERY ||
			f->nodes[HONEST]->asked[i].type == KR_MSG_STABLE);
	assert_int_equal(node_call(f->nodes[HONEST], KR_MSG_LEASE,
				 &(struct kr_lease_request){.file = secret_file, .kinds = KR_LEASE_WRITE}, NULL),
		0);
}

#endif

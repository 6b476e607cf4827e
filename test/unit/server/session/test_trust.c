/* A server with keys against scripted nodes: who is let in, whose session is whose, and what a user key allows. */
#include "test/unit/server/session/trust_fixture.h"

#include "common/auth/pair_conn.h"
#include "server/flush/hop.h"
#include "server/flush/data_state.h"

/* --- who is let in --- */

static void who_shows_no_key_gets_nothing(void **state)
{
	const struct kr_status_request status = {.what = "status", .argument = ""};
	struct fixture *f = *state;
	struct node *node = f->nodes[0];

	assert_int_equal(node_hello(node, false), -ENOKEY);
	assert_closed(f, node);
	node_connect(node);
	assert_int_equal(node_call(node, KR_MSG_STATUS, &status, NULL), -ENOKEY);
	assert_closed(f, node);
	assert_int_equal(f->server.sessions->count, 0);
}

static void who_has_a_key_gets_a_session(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0, KEY_NODE);

	assert_int_equal(make_directory(node, "d", 0, 0), 0);
	assert_int_equal(kr_session_find(&f->server, node->hello.session)->trust.key->owner.kind, KR_KEY_NODE);
}

static void an_unknown_key_is_refused_and_its_connection_ends(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(show(f->nodes[0], f->keys[KEY_STRANGER]), -EKEYREJECTED);
	assert_closed(f, f->nodes[0]);
}

/* The node is the head of job a. */
static void lead(struct node *node, struct kr_key *key, uint8_t ret_secret[32])
{
	const struct kr_introduce_request request = {.job = "a", .member = {1}, .uid = 0, .node = "n", .address = ""};
	const union kr_any_msg *reply;
	struct kr_auth auth;

	assert_int_equal(shake_hands(node, key, &auth), 0);
	assert_int_equal(node_call(node, KR_MSG_INTRODUCE, &request, &reply), 0);
	assert_true(reply->introduce_reply.is_head);
	memcpy(ret_secret, reply->introduce_reply.secret, 32);
	kr_auth_mask_ring_key(&auth, ret_secret);
	kr_auth_fini(&auth);
}

/* Also one who names the head and the job of another. */
static void a_user_key_gets_no_secret_of_another_users_job(void **state)
{
	const struct kr_introduce_request request = {.job = "a", .node = "n", .address = ""};
	uint8_t secrets[3][32];
	struct fixture *f = *state;

	node_connect(f->nodes[0]);
	assert_int_equal(node_call(f->nodes[0], KR_MSG_INTRODUCE, &request, NULL), -ENOKEY);
	assert_closed(f, f->nodes[0]);
	lead(f->nodes[0], f->keys[KEY_NODE], secrets[0]);
	lead(f->nodes[1], f->keys[KEY_UNKNOWN_USER], secrets[1]);
	lead(f->nodes[2], f->keys[KEY_OTHER_NODE], secrets[2]);
	assert_memory_not_equal(secrets[0], secrets[1], 32);
	assert_memory_equal(secrets[0], secrets[2], 32);
}

static void half_a_handshake_is_none(void **state)
{
	struct fixture *f = *state;
	struct kr_auth_prove_request prove;
	struct kr_auth auth;

	kr_auth_init(&auth);
	assert_int_equal(begin(f->nodes[0], &auth, f->keys[KEY_NODE], &prove), 0);
	assert_int_equal(node_hello(f->nodes[0], false), -ENOKEY);
	assert_closed(f, f->nodes[0]);
	kr_auth_fini(&auth);
	/* The proof is for that connection only. */
	node_connect(f->nodes[0]);
	assert_int_equal(node_call(f->nodes[0], KR_MSG_AUTH_PROVE, &prove, NULL), -EPROTO);
	assert_closed(f, f->nodes[0]);
}

static void a_second_handshake_on_a_connection_is_refused(void **state)
{
	struct fixture *f = *state;
	struct node *node = f->nodes[0];

	assert_int_equal(show(node, f->keys[KEY_NODE]), 0);
	assert_int_equal(show(node, f->keys[KEY_OTHER_NODE]), -EPROTO);
	assert_closed(f, node);
	joined(f, 1, KEY_NODE);
	assert_int_equal(show(f->nodes[1], f->keys[KEY_USER]), -EPROTO);
	assert_int_equal(make_directory(f->nodes[1], "d", 0, 0), 0); /* on a session that changes nothing */
}

static void a_user_whom_the_server_does_not_know_is_refused(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(show(f->nodes[0], f->keys[KEY_UNKNOWN_USER]), 0);
	assert_int_equal(node_hello(f->nodes[0], false), -EPERM);
	assert_closed(f, f->nodes[0]);
}

/* --- whose session is whose --- */

static void a_session_goes_on_with_another_key_of_its_owner(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0, KEY_NODE);

	node_disconnect(node);
	assert_int_equal(show(node, f->keys[KEY_OTHER_NODE]), 0);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.resumed, 1);
	assert_memory_equal(kr_session_find(&f->server, node->hello.session)->trust.key->id,
		f->keys[KEY_OTHER_NODE]->id, KR_KEY_ID);
}

static void a_session_is_not_taken_over_with_somebody_elses_key(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0, KEY_NODE), *thief = f->nodes[1];

	memcpy(thief->node_id, node->node_id, 16);
	thief->hello = node->hello;
	assert_int_equal(show(thief, f->keys[KEY_USER]), 0);
	assert_int_equal(node_hello(thief, true), -EBUSY);
	assert_closed(f, thief);
	assert_int_equal(show(thief, f->keys[KEY_USER]), 0);
	assert_int_equal(node_hello(thief, false), -EBUSY); /* nor ended by a new one */
	assert_int_equal(make_directory(node, "d", 0, 0), 0);
}

static void restart(struct fixture *f)
{
	kr_server_stop(&f->server);
	assert_true(node_wait_for(&f->loop, server_has_ended, f));
	for (int i = 0; i < 20; i++)
		uv_run(&f->loop, UV_RUN_NOWAIT); /* closed handles go */
	kr_server_fini(&f->server);
	assert_int_equal(kr_server_init(&f->server, &f->loop, &f->options), 0);
	assert_int_equal(kr_server_listen(&f->server), 0);
	for (int i = 0; i < NODES; i++)
		f->nodes[i]->port = kr_listen_port(&f->server);
}

/* A thief knows the node's id; it comes back with another key of its owner. */
static void expect_own(struct fixture *f, struct node *node, int thief_err)
{
	struct node *thief = f->nodes[1];

	memcpy(thief->node_id, node->node_id, 16);
	assert_int_equal(show(thief, f->keys[KEY_USER]), 0);
	assert_int_equal(node_hello(thief, false), thief_err);
	if (!thief_err)
		return;
	assert_int_equal(show(node, f->keys[KEY_OTHER_NODE]), 0);
	assert_int_equal(node_hello(node, false), 0);
}

static void a_node_stays_its_owners_over_a_restart_of_the_server(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0, KEY_NODE);

	restart(f);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	expect_own(f, node, -EBUSY);
	assert_int_equal(node->hello.late, 0);
}

static void a_node_that_was_lost_stays_its_owners(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0, KEY_NODE);

	kr_session_end(kr_session_find(&f->server, node->hello.session), KR_SESSION_LOST);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	expect_own(f, node, -EBUSY);
	assert_int_equal(node->hello.late, 1);
}

static void who_has_left_leaves_his_directory_to_others(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0, KEY_NODE);

	assert_int_equal(node_call(node, KR_MSG_GOODBYE, NULL, NULL), 0);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	expect_own(f, node, 0);
}

/* --- what a user key allows --- */

static void a_user_key_acts_for_its_user_only(void **state)
{
	const struct passwd *self = getpwuid(geteuid());
	struct fixture *f = *state;
	struct node *node;

	if (!self)
		skip();
	node = joined(f, 0, KEY_USER);
	assert_int_equal(make_directory(node, "mine", self->pw_uid, self->pw_gid), 0);
	assert_int_equal(make_directory(node, "others", self->pw_uid + 1, self->pw_gid), -EPERM);
	assert_int_equal(make_directory(node, "group", self->pw_uid, NOBODY_HERE), -EPERM);
}

static gid_t joined_group; /* of every user; 0: none */

int __real_getgrouplist(const char *user, gid_t group, gid_t *groups, int *count);
int __wrap_getgrouplist(const char *user, gid_t group, gid_t *groups, int *count);

int __wrap_getgrouplist(const char *user, gid_t group, gid_t *groups, int *count)
{
	int room = *count, found = __real_getgrouplist(user, group, groups, count);

	if (found < 0 || found == room || !joined_group)
		return found;
	groups[found] = joined_group;
	*count = found + 1;
	return found + 1;
}

static void come_back(struct fixture *f, struct node *node)
{
	node_disconnect(node);
	assert_int_equal(show(node, f->keys[KEY_USER]), 0);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.resumed, 1);
}

static void who_leaves_a_group_has_it_until_the_next_handshake(void **state)
{
	const struct passwd *self = getpwuid(geteuid());
	struct fixture *f = *state;
	const uint32_t *borrowed;
	struct node *node;
	uint32_t first;

	if (!self)
		skip();
	joined_group = NOBODY_HERE;
	node = joined(f, 0, KEY_USER);
	borrowed = kr_session_find(&f->server, node->hello.session)->trust.groups; /* as a request that runs does */
	first = borrowed[0];
	assert_int_not_equal(make_directory(node, "group", self->pw_uid, NOBODY_HERE), -EPERM);
	joined_group = 0;
	come_back(f, node);
	assert_int_equal(make_directory(node, "left", self->pw_uid, NOBODY_HERE), -EPERM);
	joined_group = NOBODY_HERE;
	come_back(f, node);
	assert_int_not_equal(make_directory(node, "again", self->pw_uid, NOBODY_HERE), -EPERM);
	joined_group = 0;
	assert_int_equal(borrowed[0], first);
}

static void the_server_knows_a_users_groups_best(void **state)
{
	const uint32_t claimed[] = {NOBODY_HERE, 0};
	const struct passwd *self = getpwuid(geteuid());
	struct fixture *f = *state;
	struct kr_session *session;
	union kr_any_msg msg = {0};

	if (!self)
		skip();
	session = kr_session_find(&f->server, joined(f, 0, KEY_USER)->hello.session);
	msg.make_request.cred =
		(struct kr_cred){.uid = self->pw_uid, .gid = self->pw_gid, .groups = claimed, .group_count = 2};
	assert_int_equal(kr_trust_restrict(session, KR_MSG_MAKE, &msg), 0);
	assert_ptr_equal(msg.make_request.cred.groups, session->trust.groups);
	assert_int_equal(msg.make_request.cred.group_count, session->trust.group_count);
	assert_int_equal(session->trust.groups[0], self->pw_gid);
	for (uint32_t i = 0; i < session->trust.group_count; i++)
		assert_int_not_equal(session->trust.groups[i], NOBODY_HERE);
}

/* --- what who may learn of others --- */

static void on_status(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	const struct kr_status_reply *status = reply;

	(void)data;
	assert_int_equal(err, 0);
	assert_false(more);
	*(json_t **)context = json_loadb((const char *)status->json.bytes, status->json.length, 0, NULL);
	assert_non_null(*(json_t **)context);
}

static bool status_is_there(void *context)
{
	return *(json_t **)context != NULL;
}

static json_t *status_of(struct fixture *f, struct node *node)
{
	const struct kr_status_request request = {.what = "status", .argument = ""};
	json_t *status = NULL;

	assert_true(kr_conn_request(node->conn, KR_MSG_STATUS, &request, NULL, 0, on_status, &status) > 0);
	assert_true(node_wait_for(&f->loop, status_is_there, &status));
	return status;
}

static void add_conflict(struct fixture *f, const struct kr_key_owner *owner, uint8_t file, const char *path)
{
	const struct kr_fid fid = {.length = 1, .bytes = {file}};
	struct kr_conflict *conflict = kr_conflict_new((const uint8_t[16]){0}, owner, "lost", &fid, 1, 2);

	conflict->original = strdup(path);
	kr_conflicts_put(&f->server.recovery->conflicts, conflict);
}

/* Nothing else, also not what a later version adds for all. */
static void expect_own_only(json_t *status)
{
	static const char *const names[] = {"kind", "version", "uptime_ms", "clock_ms", "lease_ms", "grace", "user",
		"conflicts", "introduced_jobs", "export", "nodes"};
	const json_t *conflicts = json_object_get(status, "conflicts"), *nodes = json_object_get(status, "nodes");

	for (size_t i = 0; i < KR_ARRAY_SIZE(names); i++)
		assert_non_null(json_object_get(status, names[i]));
	assert_int_equal(json_object_size(status), KR_ARRAY_SIZE(names));
	assert_int_equal(json_object_size(json_object_get(status, "export")), 2);
	assert_int_equal(json_array_size(json_object_get(status, "introduced_jobs")), 0);
	assert_int_equal(json_array_size(conflicts), 1);
	assert_string_equal(json_string_value(json_object_get(json_array_get(conflicts, 0), "path")), "mine");
	assert_int_equal(json_array_size(nodes), 1);
	assert_non_null(strstr(json_string_value(json_object_get(json_array_get(nodes, 0), "key")), "of user"));
	json_decref(status);
}

static void expect_all(json_t *status)
{
	assert_int_equal(json_array_size(json_object_get(status, "conflicts")), 3);
	assert_int_equal(json_array_size(json_object_get(status, "nodes")), 2);
	assert_non_null(json_object_get(status, "parked"));
	json_decref(status);
}

static void a_user_key_gets_the_status_of_its_user_only(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0, KEY_NODE), *user = joined(f, 1, KEY_USER), *tool = f->nodes[2];

	add_conflict(f, &f->keys[KEY_NODE]->owner, 1, "secret/nodes");
	add_conflict(f, &f->keys[KEY_UNKNOWN_USER]->owner, 2, "secret/others");
	add_conflict(f, &f->keys[KEY_USER]->owner, 3, "mine");
	expect_all(status_of(f, node));
	expect_own_only(status_of(f, user));
	assert_int_equal(show(tool, f->keys[KEY_OTHER_NODE]), 0);
	expect_all(status_of(f, tool));
	node_disconnect(tool);
	assert_int_equal(show(tool, f->keys[KEY_USER]), 0);
	expect_own_only(status_of(f, tool));
}

/* --- how many sessions a user may have --- */

static void a_user_has_so_many_sessions_from_one_address_and_a_node_any(void **state)
{
	struct fixture *f = *state;
	struct node *third = f->nodes[2];

	f->server.lease_ms = LONG_MS;
	joined(f, 0, KEY_USER);
	joined(f, 1, KEY_USER);
	assert_int_equal(show(third, f->keys[KEY_USER]), 0);
	assert_int_equal(node_hello(third, false), -EUSERS);
	assert_closed(f, third);
	/* What is there goes on, and may begin anew. */
	node_disconnect(f->nodes[0]);
	assert_int_equal(show(f->nodes[0], f->keys[KEY_USER]), 0);
	assert_int_equal(node_hello(f->nodes[0], true), 0);
	assert_int_equal(f->nodes[0]->hello.resumed, 1);
	node_disconnect(f->nodes[0]);
	joined(f, 0, KEY_USER);
	assert_int_equal(f->server.sessions->count, 2);
	joined(f, 2, KEY_NODE);
	assert_int_equal(node_call(f->nodes[0], KR_MSG_GOODBYE, NULL, NULL), 0);
	assert_closed(f, f->nodes[0]);
	node_disconnect(third);
	memset(third->node_id, 99, sizeof(third->node_id));
	joined(f, 2, KEY_USER);
}

/* From elsewhere he has some more, but not all there are. */
static void a_user_has_so_many_sessions_in_all(void **state)
{
	enum { ALL = USER_SESSIONS * KR_SERVER_USER_ADDRESSES };
	struct node *nodes[ALL + 1] = {0};
	struct fixture *f = *state;

	f->server.lease_ms = LONG_MS; /* none of them is lost while others come, on a machine however slow */
	for (int i = 0; i <= ALL; i++) {
		nodes[i] = node_new(&f->loop, kr_listen_port(&f->server), (uint8_t)(i + 10));
		assert_int_equal(show(nodes[i], f->keys[KEY_USER]), 0);
		assert_int_equal(node_hello(nodes[i], false), i < ALL ? 0 : -EUSERS);
		if (i < ALL)
			snprintf(kr_session_find(&f->server, nodes[i]->hello.session)->trust.host, 64, "10.0.0.%d", i);
	}
	joined(f, 0, KEY_NODE);
	for (int i = 0; i <= ALL; i++)
		node_free(nodes[i]);
}

/* --- changing keys --- */

static void take_away(struct fixture *f, int key)
{
	assert_int_equal(rename(f->paths[KEY_UNKNOWN_USER], f->paths[key]), 0);
	f->options.key.count = KEYS - 1;
	kr_trust_reload(&f->server);
}

static void a_key_that_is_taken_away_cuts_off_who_came_with_it(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0, KEY_NODE), *other = joined(f, 1, KEY_OTHER_NODE);

	assert_int_equal(show(f->nodes[2], f->keys[KEY_NODE]), 0);
	take_away(f, KEY_NODE);
	assert_closed(f, node);
	assert_closed(f, other);
	assert_int_equal(show(other, f->keys[KEY_OTHER_NODE]), 0);
	assert_int_equal(node_hello(other, true), 0);
	assert_int_equal(make_directory(other, "d", 0, 0), 0);
	assert_int_equal(show(node, f->keys[KEY_NODE]), -EKEYREJECTED);
	assert_closed(f, node);
	assert_int_equal(node_hello(f->nodes[2], false), -ENOKEY); /* between handshake and HELLO */
	assert_int_equal(show(node, f->keys[KEY_OTHER_NODE]), 0);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.resumed, 1);
}

struct hop {
	struct kr_conn *conn;
	bool answered, closed;
	int err;
};

static void on_hop_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)conn, (void)frame;
	fail();
}

static void on_hop_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct hop *hop = kr_conn_context(conn);

	(void)err, (void)reason;
	hop->closed = true;
	hop->conn = NULL;
}

static void on_hop_opened(void *context, int err)
{
	struct hop *hop = context;

	hop->answered = true;
	hop->err = err;
}

static bool hop_is_answered(void *context)
{
	return ((struct hop *)context)->answered;
}

static bool hop_is_closed(void *context)
{
	return ((struct hop *)context)->closed;
}

/* A ring connection of NODE's session to the server, with what the server has told that session. */
static void open_hop(struct fixture *f, struct node *node, struct hop *hop)
{
	static const struct kr_conn_handler handler = {.on_frame = on_hop_frame, .on_closed = on_hop_closed};
	struct kr_session *session = kr_session_find(&f->server, node->hello.session);
	struct kr_pair_caller self = {.node = session->node, .session = session->id};
	struct kr_hop_address to;
	struct sockaddr_in address;
	char host[64];

	*hop = (struct hop){0};
	memcpy(self.ring_key, session->ring.key, sizeof(self.ring_key));
	assert_true(kr_hop_address_of(f->server.data, session, 0, host, &to));
	uv_ip4_addr("127.0.0.1", kr_listen_port(&f->server), &address);
	assert_int_equal(kr_conn_connect(&f->loop, (struct sockaddr *)&address, &handler, hop, &hop->conn), 0);
	kr_pair_open(hop->conn, &to, &self, on_hop_opened, hop);
	assert_true(node_wait_for(&f->loop, hop_is_answered, hop));
}

static void a_key_that_is_taken_away_ends_the_ring_connections_of_who_came_with_it(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0, KEY_NODE), *away = joined(f, 1, KEY_NODE);
	struct hop hop, of_away, after;

	open_hop(f, node, &hop);
	open_hop(f, away, &of_away);
	assert_int_equal(hop.err, 0);
	assert_int_equal(of_away.err, 0);
	node_disconnect(away);
	take_away(f, KEY_NODE);
	assert_true(node_wait_for(&f->loop, hop_is_closed, &hop));
	assert_true(node_wait_for(&f->loop, hop_is_closed, &of_away));
	open_hop(f, node, &after);
	assert_int_equal(after.err, -EKEYREJECTED);
	assert_true(node_wait_for(&f->loop, hop_is_closed, &after));
	/* With another key of its owner the session may again. */
	assert_int_equal(show(node, f->keys[KEY_OTHER_NODE]), 0);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.resumed, 1);
	open_hop(f, node, &after);
	assert_int_equal(after.err, 0);
	kr_conn_close(after.conn, false);
	assert_true(node_wait_for(&f->loop, hop_is_closed, &after));
}

static void a_node_key_that_is_taken_away_makes_all_ring_keys_anew(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0, KEY_OTHER_NODE);
	uint8_t before[KR_RING_KEY];

	joined(f, 1, KEY_USER);
	joined(f, 2, KEY_NODE);
	memcpy(before, kr_session_find(&f->server, node->hello.session)->ring.key, sizeof(before));
	take_away(f, KEY_NODE);
	assert_memory_not_equal(kr_session_find(&f->server, node->hello.session)->ring.key, before, sizeof(before));
	assert_closed(f, node); /* and so it gets the new one */
	assert_int_equal(show(node, f->keys[KEY_OTHER_NODE]), 0);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.resumed, 1);
}

static void a_user_key_that_is_taken_away_disturbs_nobody(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0, KEY_NODE), *user = joined(f, 1, KEY_USER);
	uint8_t before[KR_RING_KEY];

	memcpy(before, kr_session_find(&f->server, node->hello.session)->ring.key, sizeof(before));
	take_away(f, KEY_USER);
	assert_closed(f, user);
	assert_memory_equal(kr_session_find(&f->server, node->hello.session)->ring.key, before, sizeof(before));
	assert_int_equal(make_directory(node, "d", 0, 0), 0);
}

static void files_that_cannot_be_read_change_nothing(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0, KEY_NODE);

	assert_int_equal(chmod(f->paths[KEY_NODE], 0644), 0);
	kr_trust_reload(&f->server);
	assert_int_equal(unlink(f->paths[KEY_NODE]), 0);
	kr_trust_reload(&f->server);
	assert_int_equal(make_directory(node, "d", 0, 0), 0);
	joined(f, 1, KEY_NODE);
}

/* --- what a session that cannot act as anybody may do with data --- */

static struct kr_fid created(struct node *node, const char *name)
{
	struct kr_create_request msg = {
		.cred = {.uid = 1001, .gid = 1001}, .parent = node->hello.root, .name = name, .mode = 0600, .flags = 1};
	const union kr_any_msg *reply;

	assert_int_equal(node_call(node, KR_MSG_CREATE, &msg, &reply), 0);
	return reply->create_reply.file;
}

/* All that touches data, or waits for who does. */
static void assert_no_data(struct node *node, const struct kr_fid *fid, int err)
{
	assert_int_equal(
		node_call(node, KR_MSG_LEASE, &(struct kr_lease_request){.file = *fid, .kinds = KR_LEASE_READ}, NULL),
		err);
	assert_int_equal(
		node_call(node, KR_MSG_LEASE, &(struct kr_lease_request){.file = *fid, .kinds = KR_LEASE_ALL}, NULL),
		err);
	assert_int_equal(node_call(node, KR_MSG_JOIN, &(struct kr_join_request){.file = *fid}, NULL), err);
	assert_int_equal(node_call(node, KR_MSG_REPARENT, &(struct kr_reparent_request){.file = *fid}, NULL), err);
	assert_int_equal(
		node_call(node, KR_MSG_FLUSH, &(struct kr_flush_request){.file = *fid, .flags = 1}, NULL), err);
	assert_int_equal(node_call(node, KR_MSG_FLUSH, &(struct kr_flush_request){.file = *fid}, NULL), err);
	assert_int_equal(
		node_call(node, KR_MSG_FALLOCATE, &(struct kr_fallocate_request){.file = *fid, .length = 1}, NULL),
		err);
	assert_int_equal(
		node_call(node, KR_MSG_SEEK, &(struct kr_seek_request){.file = *fid, .whence = SEEK_DATA}, NULL), err);
	assert_int_equal(
		node_call(node, KR_MSG_COPY, &(struct kr_copy_request){.from = *fid, .to = *fid, .length = 1}, NULL),
		err);
}

static void data_is_for_who_opened_the_file(void **state)
{
	struct fixture *f = *state;
	struct node *owner, *other;
	struct kr_fid fid, forged;
	struct kr_setattr_request truncate = {.cred = {.uid = 1002, .gid = 1002}, .valid = 1 << 3 | 1 << 9};

	if (geteuid() != 0)
		skip();
	f->options.squash = KR_SQUASH_ROOT;
	f->options.anon_uid = f->options.anon_gid = 65534;
	assert_int_equal(chmod(f->export_path, 0777), 0);
	owner = joined(f, 0, KEY_NODE);
	other = joined(f, 1, KEY_OTHER_NODE);
	fid = created(owner, "mine");
	assert_no_data(other, &fid, -EACCES);
	assert_int_equal(
		node_call(other, KR_MSG_CLOSE, &(struct kr_close_request){.file = fid, .count = 1}, NULL), -EBADF);
	assert_int_equal(node_call(other, KR_MSG_OPEN,
				 &(struct kr_open_request){.cred = {.uid = 1002, .gid = 1002}, .file = fid}, NULL),
		-EACCES);
	assert_int_equal(
		node_call(other, KR_MSG_OPEN, &(struct kr_open_request){.cred = {0}, .file = fid}, NULL), -EACCES);
	truncate.file = fid;
	assert_int_equal(node_call(other, KR_MSG_SETATTR, &truncate, NULL), -EACCES);
	forged = fid;
	forged.bytes[forged.length - 1] ^= 1;
	assert_no_data(other, &forged, -ESTALE);
	assert_int_equal(node_call(other, KR_MSG_GETATTR, &(struct kr_getattr_request){.file = forged}, NULL), -ESTALE);
	/* Nobody was disturbed; what was opened for writing only cannot be read. */
	assert_int_equal(
		node_call(owner, KR_MSG_LEASE, &(struct kr_lease_request){.file = fid, .kinds = KR_LEASE_ALL}, NULL),
		0);
	assert_int_equal(node_call(owner, KR_MSG_JOIN, &(struct kr_join_request){.file = fid}, NULL), -EACCES);
	assert_int_equal(
		node_call(owner, KR_MSG_FLUSH, &(struct kr_flush_request){.file = fid, .flags = 1, .seq = 1}, NULL), 0);
	assert_int_equal(owner->asked_count, 0);
	/* The right outlives the close, and a chmod. */
	assert_int_equal(node_call(owner, KR_MSG_CLOSE, &(struct kr_close_request){.file = fid, .count = 1}, NULL), 0);
	assert_int_equal(chmod(f->export_path, 0), 0);
	assert_int_equal(
		node_call(owner, KR_MSG_FLUSH, &(struct kr_flush_request){.file = fid, .flags = 1, .seq = 2}, NULL), 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_shows_no_key_gets_nothing),
		TEST(who_has_a_key_gets_a_session),
		TEST(an_unknown_key_is_refused_and_its_connection_ends),
		TEST(a_user_key_gets_no_secret_of_another_users_job),
		TEST(half_a_handshake_is_none),
		TEST(a_second_handshake_on_a_connection_is_refused),
		TEST(a_user_whom_the_server_does_not_know_is_refused),
		TEST(a_session_goes_on_with_another_key_of_its_owner),
		TEST(a_session_is_not_taken_over_with_somebody_elses_key),
		TEST(a_node_stays_its_owners_over_a_restart_of_the_server),
		TEST(a_node_that_was_lost_stays_its_owners),
		TEST(who_has_left_leaves_his_directory_to_others),
		TEST(a_user_key_acts_for_its_user_only),
		TEST(who_leaves_a_group_has_it_until_the_next_handshake),
		TEST(the_server_knows_a_users_groups_best),
		TEST(a_user_key_gets_the_status_of_its_user_only),
		TEST(a_user_has_so_many_sessions_from_one_address_and_a_node_any),
		TEST(a_user_has_so_many_sessions_in_all),
		TEST(a_key_that_is_taken_away_cuts_off_who_came_with_it),
		TEST(a_key_that_is_taken_away_ends_the_ring_connections_of_who_came_with_it),
		TEST(a_node_key_that_is_taken_away_makes_all_ring_keys_anew),
		TEST(a_user_key_that_is_taken_away_disturbs_nobody),
		TEST(files_that_cannot_be_read_change_nothing),
		TEST(data_is_for_who_opened_the_file),
	};

	signal(SIGPIPE, SIG_IGN);
	kr_log_init("test_trust", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

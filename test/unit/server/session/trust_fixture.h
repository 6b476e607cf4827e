/* A server with keys of nodes and of users, and scripted nodes that have some of them. */
#ifndef KR_TEST_UNIT_TRUST_FIXTURE_H
#define KR_TEST_UNIT_TRUST_FIXTURE_H

#include "test/unit/directory.h"
#include "test/unit/server/session/scripted_node.h"

#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/auth/auth.h"
#include "common/base/fail.h"
#include "common/base/log.h"
#include "server/leases/invalidation.h"
#include "server/session/listen.h"
#include "server/base/options.h"
#include "server/daemon/life.h"
#include "server/session/session.h"
#include "server/session/trust.h"
#include "server/flush/flush.h"
#include "server/leases/file_table.h"
#include "server/leases/invalidation.h"
#include "server/pipelines/staging.h"
#include "server/recovery/recovery.h"

enum { NODES = 3, LEASE_MS = 5000, LONG_MS = 600000, USER_SESSIONS = 2, NOBODY_HERE = 4294967 };
enum { KEY_NODE, KEY_OTHER_NODE, KEY_USER, KEY_UNKNOWN_USER, KEYS, KEY_STRANGER = KEYS, KEYS_ALL };

struct fixture {
	uv_loop_t loop;
	struct kr_server server;
	struct kr_server_options options;
	char *listen[1], *paths[KEYS];
	struct kr_key *keys[KEYS_ALL];
	char directory[64], export_path[80], state_path[80];
	struct node *nodes[NODES];
};

static inline bool server_has_ended(void *context)
{
	struct fixture *f = context;

	return f->server.daemon->end.ended && !uv_is_active((uv_handle_t *)&f->server.daemon->tick);
}

/* The user key is of the user who runs the test, because others may have no right to the export. */
static inline void make_keys(struct fixture *f)
{
	const struct kr_key_owner owners[KEYS_ALL] = {{.kind = KR_KEY_NODE}, {.kind = KR_KEY_NODE},
		{.kind = KR_KEY_USER, .uid = geteuid()}, {.kind = KR_KEY_USER, .uid = NOBODY_HERE},
		{.kind = KR_KEY_NODE}};

	for (int i = 0; i < KEYS_ALL; i++) {
		const char *name = owners[i].kind == KR_KEY_USER ? "user" : "";

		assert_int_equal(kr_key_new(&owners[i], name, kr_clock_real_s(), 0, &f->keys[i]), 0);
		if (i == KEYS)
			break;
		assert_true(asprintf(&f->paths[i], "%s/key%d", f->directory, i) > 0);
		assert_int_equal(kr_key_save(f->keys[i], f->paths[i]), 0);
	}
}

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->directory, "/tmp/kr-test-trust-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	snprintf(f->export_path, sizeof(f->export_path), "%s/export", f->directory);
	snprintf(f->state_path, sizeof(f->state_path), "%s/state", f->directory);
	assert_int_equal(mkdir(f->export_path, 0755), 0);
	make_keys(f);
	f->listen[0] = strdup("127.0.0.1:0");
	f->options = (struct kr_server_options){.listen = {f->listen, 1},
		.key = {f->paths, KEYS},
		.state = f->state_path,
		.lease = LEASE_MS,
		.user_sessions = USER_SESSIONS,
		.export_path = f->export_path};
	uv_loop_init(&f->loop);
	assert_int_equal(kr_server_init(&f->server, &f->loop, &f->options), 0);
	assert_int_equal(kr_server_listen(&f->server), 0);
	kr_invalidation_allow(&f->server, false); /* nodes note nothing */
	for (uint8_t i = 0; i < NODES; i++)
		f->nodes[i] = node_new(&f->loop, kr_listen_port(&f->server), (uint8_t)(i + 1));
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < NODES; i++)
		node_free(f->nodes[i]);
	kr_server_stop(&f->server);
	assert_true(node_wait_for(&f->loop, server_has_ended, f));
	uv_run(&f->loop, UV_RUN_DEFAULT); /* until the last handle has closed */
	kr_server_fini(&f->server);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	directory_remove(f->directory);
	for (int i = 0; i < KEYS_ALL; i++)
		kr_key_put(f->keys[i]);
	for (int i = 0; i < KEYS; i++)
		free(f->paths[i]);
	free(f->listen[0]);
	free(f);
	return 0;
}

static inline int begin(
	struct node *node, struct kr_auth *auth, struct kr_key *key, struct kr_auth_prove_request *ret_prove)
{
	const int64_t now = kr_clock_real_s();
	const union kr_any_msg *reply;
	struct kr_auth_request ask;
	struct kr_fresh fresh;
	int err;

	if (!node->conn)
		node_connect(node);
	kr_fresh_make(&fresh);
	assert_int_equal(kr_auth_client_begin(auth, key, KR_SECURITY_AUTH, &fresh, now, &ask), 0);
	err = node_call(node, KR_MSG_AUTH, &ask, &reply);
	return err ? err : kr_auth_client_prove(auth, &reply->auth_reply, now, ret_prove);
}

/* The handshake on NODE's connection, which is made if there is none; the caller finishes AUTH. */
static inline int shake_hands(struct node *node, struct kr_key *key, struct kr_auth *auth)
{
	struct kr_auth_prove_request prove;
	struct kr_seal_keys keys;
	int err;

	kr_auth_init(auth);
	err = begin(node, auth, key, &prove);
	if (!err)
		err = node_call(node, KR_MSG_AUTH_PROVE, &prove, NULL);
	if (!err) {
		assert_int_equal(kr_auth_client_end(auth, &keys), 0);
		kr_conn_seal(node->conn, &keys);
	}
	return err;
}

static inline int show(struct node *node, struct kr_key *key)
{
	struct kr_auth auth;
	int err = shake_hands(node, key, &auth);

	kr_auth_fini(&auth);
	return err;
}

/* A node with a session that came with the key of that number. */
static inline struct node *joined(struct fixture *f, int i, int key)
{
	assert_int_equal(show(f->nodes[i], f->keys[key]), 0);
	assert_int_equal(node_hello(f->nodes[i], false), 0);
	assert_int_equal(node_call(f->nodes[i], KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	return f->nodes[i];
}

static inline int make_directory(struct node *node, const char *name, uint32_t uid, uint32_t gid)
{
	struct kr_make_request msg = {.cred = {.uid = uid, .gid = gid},
		.parent = node->hello.root,
		.name = name,
		.mode = S_IFDIR | 0755,
		.target = ""};

	return node_call(node, KR_MSG_MAKE, &msg, NULL);
}

static inline void assert_closed(struct fixture *f, struct node *node)
{
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
}

#endif

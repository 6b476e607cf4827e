/* The caller's side of a ring connection's handshake; see pair_conn.h. */
#include "common/auth/pair_conn.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/util.h"

/* A connection during its handshake; the last callback frees it. */
struct opening {
	struct kr_conn *conn;
	struct kr_pair pair;
	kr_pair_fn done;
	void *context;
};

static void finish(struct opening *opening, int err)
{
	if (err && err != -ECONNRESET)
		kr_conn_close(opening->conn, false);
	if (opening->done)
		opening->done(opening->context, err);
	kr_pair_fini(&opening->pair);
	free(opening);
}

static void on_proved(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	(void)reply, (void)data, (void)more;
	if (err && err != -ECONNRESET)
		err = kr_fail_errno(err, "it refuses our ring connection");
	finish(context, err);
}

static void on_challenged(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct opening *opening = context;
	struct kr_hop_prove_request prove;
	struct kr_seal_keys keys;

	(void)data, (void)more;
	if (err && err != -ECONNRESET)
		err = kr_fail_errno(err, "it refuses our ring connection");
	if (!err)
		err = kr_pair_prove(&opening->pair, reply, &prove, &keys);
	if (!err && !kr_conn_request(opening->conn, KR_MSG_HOP_PROVE, &prove, NULL, 0, on_proved, opening))
		err = -ECONNRESET; /* it is ending */
	if (err) {
		finish(opening, err);
		return;
	}
	kr_conn_seal(opening->conn, &keys);
	kr_conn_release(opening->conn);
	sodium_memzero(&keys, sizeof(keys));
}

void kr_pair_open(struct kr_conn *conn, const struct kr_hop_address *to, const struct kr_pair_caller *caller,
	kr_pair_fn done, void *context)
{
	struct opening *opening = kr_xcalloc(1, sizeof(*opening));
	struct kr_hop_hello_request hello;
	struct kr_fresh fresh;

	opening->conn = conn;
	opening->done = done;
	opening->context = context;
	kr_fresh_make(&fresh);
	kr_pair_call(
		&opening->pair, to, caller->ring_key, caller->node, caller->session, caller->least, &fresh, &hello);
	sodium_memzero(&fresh, sizeof(fresh));
	kr_conn_hold(conn);
	if (!kr_conn_request(conn, KR_MSG_HOP_HELLO, &hello, NULL, 0, on_challenged, opening))
		finish(opening, -ECONNRESET); /* it is ending */
}

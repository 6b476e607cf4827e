/* See introduction.h. */
#include "fuse/daemon/introduction.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/auth/conn_login.h"
#include "common/base/fail.h"
#include "common/rpc/resolve.h"
#include "fuse/base/options.h"

enum { ANSWER_MS = 5000 };

struct ask {
	const struct kr_introduce_request *request;
	struct kr_job_head *head;
	struct kr_conn_login login;
	struct kr_conn *conn;
	uv_timer_t timer;
	bool ended;
	int err;
	char reason[512];
};

static void finish(struct ask *ask, int err, const char *reason)
{
	if (ask->ended)
		return;
	ask->ended = true;
	ask->err = err;
	snprintf(ask->reason, sizeof(ask->reason), "%s", reason);
	if (ask->conn)
		kr_conn_close(ask->conn, false);
	uv_close((uv_handle_t *)&ask->timer, NULL);
}

static const char *refusal(int err)
{
	switch (err) {
	case -EEXIST:
		return "another node is the head of this job";
	case -EUSERS:
		return "there are too many jobs";
	case -EPROTO:
		return "it does not know jobs (is its kairand older?)";
	case -ENOKEY:
		return "it wants a key (mount with -o key=FILE, a copy of a file that kairand was started with)";
	default:
		return strerror(-err);
	}
}

static void on_reply(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	struct ask *ask = context;
	struct kr_job_head *head = ask->head;
	const struct kr_introduce_reply *reply = message;

	(void)data, (void)more;
	if (err == -ECONNRESET)
		return; /* on_closed gets the reason */
	if (err < 0) {
		finish(ask, err, refusal(err));
		return;
	}
	head->is_head = reply->is_head;
	head->port = reply->port;
	head->lease_ms = reply->lease_ms;
	head->security = kr_conn_security(ask->conn);
	snprintf(head->node, sizeof(head->node), "%s", reply->node);
	snprintf(head->address, sizeof(head->address), "%s", reply->address);
	memcpy(head->secret, reply->secret, sizeof(head->secret));
	if (reply->is_head || reply->port)
		kr_auth_mask_ring_key(&ask->login.auth, head->secret);
	kr_conn_local_host(ask->conn, head->own_host, sizeof(head->own_host));
	finish(ask, 0, "");
}

static void on_login(void *context, int err)
{
	struct ask *ask = context;

	if (err < 0)
		finish(ask, err, kr_fail_reason());
	else if (!kr_conn_request(ask->conn, KR_MSG_INTRODUCE, ask->request, NULL, 0, on_reply, ask))
		finish(ask, -EINVAL, "the request cannot be sent");
}

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)conn, (void)frame; /* a client without a session gets no requests */
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct ask *ask = kr_conn_context(conn);

	ask->conn = NULL;
	kr_conn_login_stop(&ask->login);
	finish(ask, err ? err : -ECONNRESET, reason);
}

static void on_timeout(uv_timer_t *timer)
{
	finish(timer->data, -ETIMEDOUT, "no answer");
}

bool kr_introduction_may_pass(int err)
{
	switch (err) {
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ETIMEDOUT:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
	case -EAGAIN: /* the name service does not answer */
		return true;
	default:
		return false;
	}
}

static int ask_at(const struct sockaddr *address, struct ask *ask)
{
	static const struct kr_conn_handler handler = {.on_frame = on_frame, .on_closed = on_closed};
	uv_loop_t loop;
	int err;

	ask->ended = false;
	ask->timer.data = ask;
	uv_loop_init(&loop);
	uv_timer_init(&loop, &ask->timer);
	uv_timer_start(&ask->timer, on_timeout, ANSWER_MS, 0);
	err = kr_conn_connect(&loop, address, &handler, ask, &ask->conn);
	if (err < 0)
		finish(ask, err, kr_fail_reason());
	else
		kr_conn_login_begin(&ask->login, ask->conn, on_login, ask);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	return ask->err;
}

int kr_introduction_ask(
	const struct kr_mount_options *options, const struct kr_introduce_request *request, struct kr_job_head *ret)
{
	struct ask ask = {.request = request,
		.head = ret,
		.login = {.munge = options->munge,
			.munge_socket = options->munge_socket,
			.munge_uid = (uint32_t)options->munge_uid,
			.least = (enum kr_security)options->security}};
	struct kr_addresses addresses;
	int err = options->key ? kr_key_load(options->key, &ask.login.key) : 0;

	if (err == 0)
		err = kr_resolve(&options->server, false, &addresses);
	if (err < 0)
		goto out;
	for (size_t i = 0; i < addresses.count; i++) {
		err = ask_at((const struct sockaddr *)&addresses.items[i], &ask);
		if (err == 0 || !kr_introduction_may_pass(err))
			break;
	}
	if (err < 0)
		err = kr_fail(err, "server %s:%u: %s", options->server.host, options->server.port, ask.reason);
out:
	kr_conn_login_fini(&ask.login);
	return err;
}

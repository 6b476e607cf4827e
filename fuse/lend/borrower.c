/* See borrower.h.
 *
 * At most one request, LEND or a ping, is under way; then asked_ns > heard_ns.  Its answer proves that the lender has
 * heard the borrower after asked_ns.  The lender counts from that later moment, so the borrower is fenced, and gives
 * up, first.
 */
#include "fuse/lend/borrower.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/auth/conn_login.h"
#include "common/base/fail.h"
#include "common/base/log.h"
#include "fuse/base/options.h"
#include "fuse/lend/borrower_kernel.h"
#include "fuse/lend/lender.h"
#include "fuse/lend/link.h"
#include "fuse/session/fence.h"

enum { AGAIN_MS = 500, ANSWER_MS = 10000, PING_MS = 2000, START_MS = 90000, MARGIN_MS = 1000, KEPT_MAX = 64 << 20 };

struct kr_borrower {
	const struct kr_mount_options *options;
	uv_loop_t *loop;
	kr_borrower_changed_fn changed;
	void *context;
	char lender[300];
	enum kr_borrower_state state;
	struct kr_borrower_kernel *kernel; /* NULL before MOUNTED */

	struct kr_addresses addresses;
	size_t next_address;
	struct kr_conn *conn;
	struct kr_conn_login login;
	bool linked; /* the lender has answered LEND on CONN, which carries messages */
	uint8_t token[16];
	struct kr_lend_link messages;

	uint64_t begun_ns;
	uint64_t tried_ns; /* the latest connection was begun */
	uint64_t asked_ns; /* the latest request was sent */
	uint64_t heard_ns; /* the latest request that the lender has answered was sent */
	uint32_t hold_ms;  /* the lender keeps the daemon for so long; from STARTING on */
	uint32_t lease_ms; /* of the daemon's session; from READY on */
};

static void enter(struct kr_borrower *b, enum kr_borrower_state state, int result)
{
	if (state <= b->state)
		return;
	b->state = state;
	b->changed(b->context, state, result);
}

void kr_borrower_end(struct kr_borrower *b, int result)
{
	if (result == -ENOTCONN && (b->state == KR_BORROWER_MOUNTED || b->state == KR_BORROWER_PARTING))
		kr_log_error("%s: the mount on %s is lost. %s keeps what was written; mount again", kr_fail_reason(),
			b->options->mount_point, b->lender);
	enter(b, KR_BORROWER_OVER, result);
}

/* --- messages --------------------------------------------------------------------------------- */

static void transmit(struct kr_borrower *b, const struct kr_lend_kept *kept)
{
	struct kr_lend_message_request message = kept->message;
	const struct kr_slice slice = {kept->data, 0, kept->data ? kept->data->length : 0};

	if (!b->linked)
		return;
	message.ack = kr_lend_link_tell(&b->messages);
	kr_conn_oneway(b->conn, KR_MSG_LEND_MESSAGE, &message, &slice, kept->data != NULL);
}

bool kr_borrower_send(struct kr_borrower *b, const struct kr_lend_message_request *message, struct kr_buf *data)
{
	transmit(b, kr_lend_link_add(&b->messages, message, data));
	return b->messages.kept_bytes <= KEPT_MAX;
}

void kr_borrower_part(struct kr_borrower *b, enum kr_lend_kind kind)
{
	enter(b, KR_BORROWER_PARTING, 0);
	kr_borrower_send(b, &(struct kr_lend_message_request){.kind = (uint8_t)kind}, NULL);
}

static void go_on(struct kr_borrower *b)
{
	if (b->kernel && b->messages.kept_bytes <= KEPT_MAX / 2)
		kr_borrower_kernel_go_on(b->kernel);
}

static void on_ended(struct kr_borrower *b, const struct kr_lend_message_request *message)
{
	int result = (int)message->status;

	if (message->id != 0)
		result = kr_fail(-ENOTCONN, "the daemon at %s has ended (signal %" PRIu64 ")", b->lender, message->id);
	else if (message->status > 1)
		result = kr_fail(-ENOTCONN, "the daemon at %s has ended (status %d)", b->lender, result);
	else if (b->state < KR_BORROWER_PARTING)
		kr_log_info("%s ends the mount on %s", b->lender, b->options->mount_point);
	kr_borrower_end(b, result);
}

static void acknowledge(struct kr_borrower *b)
{
	const struct kr_lend_ping_request ping = {.ack = kr_lend_link_tell(&b->messages)};

	kr_conn_oneway(b->conn, KR_MSG_LEND_PING, &ping, NULL, 0);
}

/* The lender has answered a request, and received all up to ACK.  -EPROTO. */
static int on_answer(struct kr_borrower *b, uint64_t ack)
{
	int err = kr_lend_link_acked(&b->messages, ack);

	if (err == 0)
		b->heard_ns = b->asked_ns;
	go_on(b);
	return err;
}

static int take_message(struct kr_borrower *b, const struct kr_lend_message_request *message, struct kr_buf *data)
{
	const bool ended = message->kind == KR_LEND_ENDED;
	int result = kr_lend_link_take(&b->messages, message, data ? data->length : 0);

	if (result > 0 && ended)
		on_ended(b, message);
	else if (result > 0 && !(b->kernel && kr_borrower_kernel_take(b->kernel, message, data, b->lease_ms)))
		result = kr_fail(-EPROTO, "%s sends a message of kind %u", b->lender, message->kind);
	if (result >= 0 && (ended || kr_lend_link_owes(&b->messages)))
		acknowledge(b);
	return result;
}

/* --- the connection --------------------------------------------------------------------------- */

static void on_ready(struct kr_borrower *b, const struct kr_lend_ready_request *ready)
{
	b->lease_ms = ready->lease_ms;
	if (ready->status == 0)
		enter(b, KR_BORROWER_READY, 0);
	else
		kr_borrower_end(b, kr_fail(-EIO, "%s: %s", b->lender, ready->reason));
}

static int take_frame(struct kr_borrower *b, const struct kr_frame *frame, const union kr_any_msg *msg)
{
	switch (frame->header.type) {
	case KR_MSG_LEND_READY:
		on_ready(b, &msg->lend_ready_request);
		return 0;
	case KR_MSG_LEND_MESSAGE:
		return take_message(b, &msg->lend_message_request, frame->data);
	case KR_MSG_LEND_PING:
		return kr_lend_link_acked(&b->messages, msg->lend_ping_request.ack);
	default:
		return kr_fail(-EPROTO, "%s sends %s", b->lender, kr_msg_name(frame->header.type));
	}
}

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct kr_borrower *b = kr_conn_context(conn);
	struct kr_arena arena = {0};
	union kr_any_msg msg;
	int err = kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, &arena);

	if (err == 0 && b->linked)
		err = take_frame(b, frame, &msg);
	kr_arena_fini(&arena);
	go_on(b);
	if (err < 0) {
		kr_log_error("%s: connection closed", kr_fail_reason());
		kr_conn_close(conn, false);
	}
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_borrower *b = kr_conn_context(conn);

	if (b->linked && b->state != KR_BORROWER_OVER)
		kr_log_warn("the connection to %s is lost: %s; programs wait", b->lender, reason);
	kr_conn_login_fini(&b->login);
	b->login = (struct kr_conn_login){0};
	b->conn = NULL;
	b->linked = false;
	if (b->state == KR_BORROWER_STARTING) /* the lender ends the daemon, too */
		kr_borrower_end(b, kr_fail(-ECONNRESET, "%s has closed the connection: %s", b->lender, reason));
	else if (b->state == KR_BORROWER_REACHING) /* a reason for `check`, in case that goes on */
		kr_fail(err < 0 ? err : -ECONNRESET, "cannot reach %s: %s (does kairanfs --lend run there?)", b->lender,
			reason);
}

/* With a reason by kr_fail.  A mount that was there already tries again, unless it is lost. */
static void on_refused(struct kr_borrower *b, int err)
{
	if (b->state < KR_BORROWER_READY || err == -ENOTCONN)
		kr_borrower_end(b, err);
	else
		kr_log_warn("%s", kr_fail_reason());
	kr_conn_close(b->conn, false);
}

static void on_lent(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	struct kr_borrower *b = context;
	const struct kr_lend_reply *reply = message;
	const struct kr_lend_kept *kept;

	(void)data, (void)more;
	if (err == -ECONNRESET || b->state == KR_BORROWER_OVER)
		return;
	if (err == 0)
		err = on_answer(b, reply->seen);
	else if (err == -ESTALE && b->state >= KR_BORROWER_READY)
		err = kr_fail(-ENOTCONN, "%s has ended the daemon of this mount, or was started anew", b->lender);
	else
		kr_fail_errno(err, "%s refuses (its log says why)", b->lender);
	if (err < 0) {
		on_refused(b, err);
		return;
	}
	if (b->state >= KR_BORROWER_READY)
		kr_log_info("connected to %s again", b->lender);
	memcpy(b->token, reply->token, sizeof(b->token));
	b->hold_ms = reply->hold_ms;
	b->linked = true;
	enter(b, KR_BORROWER_STARTING, 0);
	KR_LIST_FOR_EACH(kept, &b->messages.kept, link)
		transmit(b, kept);
}

static uint32_t flags_of(const struct kr_mount_options *options)
{
	return (options->read_only ? KR_LEND_RO : 0u) | (options->allow_other ? KR_LEND_ALLOW_OTHER : 0u) |
		(options->default_permissions ? 0u : KR_LEND_NO_DEFAULT_PERMISSIONS) |
		(options->no_acls ? KR_LEND_NOACL : 0u) | (options->soft ? KR_LEND_SOFT : 0u) |
		(options->shared_mmap ? KR_LEND_SHARED_MMAP : 0u) | (options->noatime ? KR_LEND_NOATIME : 0u);
}

static void ask_to_lend(void *context, int err)
{
	struct kr_borrower *b = context;
	const struct kr_mount_options *options = b->options;
	char host[256] = "";
	struct kr_lend_request request = {.version = KR_LEND_VERSION,
		.node = options->node ? options->node : host,
		.source = options->source,
		.mount_point = options->mount_point,
		.ring = options->ring ? options->ring : "",
		.seen = kr_lend_link_tell(&b->messages),
		.close = (uint8_t)options->close,
		.coherence = (uint8_t)options->coherence,
		.journal_max = options->journal_max,
		.cache_max = options->cache_max,
		.flush_age = options->flush_age,
		.flush_backlog = options->flush_backlog,
		.stripe_size = options->stripe_size,
		.timeo = options->timeo,
		.drain_timeout = options->drain_timeout,
		.connect_timeout = options->connect_timeout,
		.flags = flags_of(options)};

	if (err < 0) {
		on_refused(b, err);
		return;
	}
	gethostname(host, sizeof(host) - 1);
	memcpy(request.token, b->token, sizeof(request.token));
	b->asked_ns = kr_clock_ns();
	kr_conn_request(b->conn, KR_MSG_LEND, &request, NULL, 0, on_lent, b);
}

static void connect_to_lender(struct kr_borrower *b, uint64_t now_ns)
{
	static const struct kr_conn_handler handler = {on_frame, NULL, on_closed};
	const struct sockaddr *address =
		(const struct sockaddr *)&b->addresses.items[b->next_address++ % b->addresses.count];

	b->tried_ns = now_ns;
	b->login.least = (enum kr_security)b->options->security;
	if (b->options->key && kr_key_load(b->options->key, &b->login.key) < 0) {
		if (b->state == KR_BORROWER_REACHING)
			kr_borrower_end(b, kr_fail(-EKEYREJECTED, "%s", kr_fail_reason()));
		return;
	}
	if (kr_conn_connect(b->loop, address, &handler, b, &b->conn) == 0)
		kr_conn_login_begin(&b->login, b->conn, ask_to_lend, b);
}

/* --- time ------------------------------------------------------------------------------------- */

static void on_pong(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	struct kr_borrower *b = context;
	const struct kr_lend_ping_reply *reply = message;

	(void)data, (void)more;
	if (err == 0)
		err = on_answer(b, reply->ack);
	if (err < 0 && err != -ECONNRESET)
		kr_conn_close(b->conn, false);
}

static void ping(struct kr_borrower *b, uint64_t now_ns)
{
	const struct kr_lend_ping_request ping = {.ack = kr_lend_link_tell(&b->messages)};

	b->asked_ns = now_ns;
	kr_conn_request(b->conn, KR_MSG_LEND_PING, &ping, NULL, 0, on_pong, b);
}

/* Whether the lender is too late: -errno with a reason; else 0. */
static int check(const struct kr_borrower *b, uint64_t now_ns)
{
	const uint64_t begun_ms = (now_ns - b->begun_ns) / KR_NS_PER_MS, connect_ms = b->options->connect_timeout;
	const uint64_t silent_ms = (now_ns - b->heard_ns) / KR_NS_PER_MS;

	if (b->state >= KR_BORROWER_READY && silent_ms + MARGIN_MS > b->hold_ms)
		return kr_fail(-ENOTCONN, "%s has not answered for %u s", b->lender, b->hold_ms / 1000);
	if (b->state == KR_BORROWER_STARTING && begun_ms >= connect_ms + START_MS)
		return kr_fail(-ETIMEDOUT, "%s: the daemon there does not serve", b->lender);
	if (b->state == KR_BORROWER_REACHING && begun_ms >= connect_ms) /* without a connection: on_closed's reason */
		return b->conn ? kr_fail(-ETIMEDOUT, "cannot reach %s: it does not answer", b->lender) : -ETIMEDOUT;
	return 0;
}

void kr_borrower_tick(struct kr_borrower *b)
{
	const uint64_t now_ns = kr_clock_ns();
	const uint64_t tried_ms = (now_ns - b->tried_ns) / KR_NS_PER_MS,
		       asked_ms = (now_ns - b->asked_ns) / KR_NS_PER_MS;
	int err = check(b, now_ns);

	if (err < 0)
		kr_borrower_end(b, err);
	if (b->state == KR_BORROWER_OVER)
		return;
	if (b->kernel)
		kr_borrower_kernel_tick(b->kernel, now_ns, now_ns > kr_fence_after(b->heard_ns, b->lease_ms));
	if (!b->conn && tried_ms > AGAIN_MS)
		connect_to_lender(b, now_ns);
	else if (b->conn && !b->linked && tried_ms > ANSWER_MS)
		kr_conn_close(b->conn, false);
	else if (b->linked && b->asked_ns == b->heard_ns && asked_ms > KR_MIN((uint32_t)PING_MS, b->lease_ms / 8))
		ping(b, now_ns);
}

/* --- life ------------------------------------------------------------------------------------- */

int kr_borrower_new(const struct kr_mount_options *options, uv_loop_t *loop, kr_borrower_changed_fn changed,
	void *context, struct kr_borrower **ret_borrower)
{
	struct kr_addresses addresses;
	int err = kr_resolve(&options->lender, false, &addresses);
	struct kr_borrower *b;

	if (err < 0)
		return err;
	*ret_borrower = b = kr_xcalloc(1, sizeof(*b));
	*b = (struct kr_borrower){.options = options,
		.loop = loop,
		.changed = changed,
		.context = context,
		.addresses = addresses,
		.begun_ns = kr_clock_ns()};
	kr_endpoint_format(&options->lender, b->lender, sizeof(b->lender));
	kr_lend_link_init(&b->messages);
	return 0;
}

void kr_borrower_mounted(struct kr_borrower *b, int fd)
{
	b->kernel = kr_borrower_kernel_new(b->loop, fd, b);
	enter(b, KR_BORROWER_MOUNTED, 0);
}

struct kr_conn *kr_borrower_conn(const struct kr_borrower *b)
{
	return b->linked ? b->conn : NULL;
}

void kr_borrower_stop(struct kr_borrower *b)
{
	if (b->state == KR_BORROWER_READY || b->state == KR_BORROWER_MOUNTED) /* the mount could not be made */
		kr_borrower_part(b, KR_LEND_BYE);
	b->state = KR_BORROWER_OVER;
	if (b->kernel)
		kr_borrower_kernel_stop(b->kernel);
	if (b->conn)
		kr_conn_close(b->conn, true);
}

void kr_borrower_free(struct kr_borrower *b)
{
	if (!b)
		return;
	kr_borrower_kernel_free(b->kernel);
	kr_lend_link_fini(&b->messages);
	free(b);
}

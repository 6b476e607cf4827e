/* See serve_borrowed.h.  The main thread mounts, waits, and takes the mount down.  kr-loop reads requests from
 * /dev/fuse and sends them to the lender, and writes the lender's replies.  Notifications may wait for a page that a
 * reply fills, so libuv's pool writes them.
 *
 * A broken connection is made again, and the messages that the lender has not seen are sent again (fuse/lend/link.h).
 * The kernel's caches are right only as long as the lender's daemon can reach them.  So the borrower drops them when
 * it has not been heard for most of the lease time.  After `hold` it gives the mount up, before the lender ends the
 * daemon.
 */
#include "fuse/daemon/serve_borrowed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/auth/conn_login.h"
#include "common/base/fail.h"
#include "common/base/log.h"
#include "fuse/base/lent.h"
#include "fuse/base/loop.h"
#include "fuse/daemon/borrowed_control.h"
#include "fuse/daemon/kernel.h"
#include "fuse/daemon/serve.h"
#include "fuse/lend/lender.h"
#include "fuse/lend/link.h"
#include "fuse/lend/requests.h"
#include "fuse/session/fence.h"

enum {
	SIGNALS = 3,
	TICK_MS = 100,
	AGAIN_MS = 500,
	ANSWER_MS = 10000,
	PING_MS = 2000,
	START_MS = 90000,
	MARGIN_MS = 1000,
	READS = 32,
	KEPT_MAX = 64 << 20
};

struct borrower {
	struct kr_mount mount;
	const struct kr_mount_options *options;
	char node[256], lender[300];
	struct kr_kernel *kernel;
	struct kr_loop *kr_loop;
	struct kr_addresses addresses;

	/* Loop thread. */
	uv_loop_t *loop;
	uv_timer_t tick;
	uv_signal_t signals[SIGNALS];
	uv_poll_t poll;
	int fd; /* /dev/fuse */
	bool polls;
	struct kr_conn *conn;
	struct kr_conn_login login;
	bool linked; /* CONN carries messages */
	bool pinged;
	bool told_cut;
	size_t next_address;
	uint64_t begun_ns, tried_ns, asked_ns, ping_ns;
	uint64_t heard_ns; /* when the latest request that the lender has answered was sent */
	uint64_t hold_ns, lease_ns;
	bool fenced; /* the daemon's session may have ended since */
	uint8_t token[16];
	struct kr_lend_link messages;
	struct kr_lend_requests requests;
	bool serves, unmounted, terminating, stopped;
	struct kr_borrowed_control *control;
	uint8_t *buffer;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool ready, finished; /* guarded by lock, as is the rest */
	int result;           /* -errno, or as kr_serve */
	char reason[512];
};

/* --- the loop tells the main thread ----------------------------------------------------------- */

static void finish(struct borrower *b, int result)
{
	KR_SCOPED_LOCK(&b->lock);

	if (b->finished)
		return;
	b->finished = true;
	b->result = result;
	snprintf(b->reason, sizeof(b->reason), "%s", result < 0 ? kr_fail_reason() : "");
	pthread_cond_broadcast(&b->changed);
}

static void become_ready(struct borrower *b)
{
	KR_SCOPED_LOCK(&b->lock);

	b->ready = true;
	pthread_cond_broadcast(&b->changed);
}

/* The kernel has to be told ENOTCONN. */
static void lose(struct borrower *b)
{
	if (!b->finished && b->serves)
		kr_log_error("%s: the mount on %s is lost. %s keeps what was written; mount again", kr_fail_reason(),
			b->options->mount_point, b->lender);
	finish(b, -ENOTCONN);
}

/* --- messages --------------------------------------------------------------------------------- */

static void transmit(struct borrower *b, const struct kr_lend_kept *kept)
{
	struct kr_lend_message_request message = kept->message;
	const struct kr_slice slice = {kept->data, 0, kept->data ? kept->data->length : 0};

	if (!b->linked)
		return;
	message.ack = kr_lend_link_tell(&b->messages);
	kr_conn_oneway(b->conn, KR_MSG_LEND_MESSAGE, &message, &slice, kept->data != NULL);
}

static void send_message(struct borrower *b, const struct kr_lend_message_request *message, struct kr_buf *data)
{
	transmit(b, kr_lend_link_add(&b->messages, message, data));
}

static void send_word(struct borrower *b, enum kr_lend_kind kind)
{
	send_message(b, &(struct kr_lend_message_request){.kind = (uint8_t)kind}, NULL);
}

/* --- requests of the kernel ------------------------------------------------------------------- */

static void pass_on(struct borrower *b, const void *bytes, size_t length)
{
	static uint32_t groups[KR_GROUPS_MAX];
	struct kr_lend_message_request message = {.kind = KR_LEND_REQUEST};
	struct kr_buf *data = kr_buf_new(length);
	struct fuse_in_header header;

	if (!data)
		abort();
	memcpy(&header, bytes, sizeof(header));
	memcpy(data->data, bytes, length);
	data->length = length;
	message.caller = (struct kr_cred){.uid = header.uid, .gid = header.gid, .groups = groups};
	message.caller.group_count = kr_lend_requests_groups(&header, groups);
	send_message(b, &message, data);
	kr_buf_put(data);
}

static void take_request(struct borrower *b, size_t length)
{
	if (kr_lend_requests_take(&b->requests, b->buffer, length, kr_clock_ns()))
		pass_on(b, b->buffer, length);
}

static void on_unmounted(struct borrower *b)
{
	uv_poll_stop(&b->poll);
	b->polls = false;
	b->unmounted = true;
	send_word(b, KR_LEND_BYE);
}

static void on_requests(uv_poll_t *poll, int status, int events)
{
	struct borrower *b = poll->data;

	(void)status, (void)events;
	for (int i = 0; i < READS && b->messages.kept_bytes <= KEPT_MAX; i++) {
		ssize_t length = read(b->fd, b->buffer, KR_LEND_DATA_MAX);

		if (length >= (ssize_t)sizeof(struct fuse_in_header)) {
			take_request(b, (size_t)length);
		} else if (length < 0 && (errno == ENODEV || errno == ECONNABORTED)) {
			on_unmounted(b);
			return;
		} else if (length < 0 && errno != ENOENT && errno != EINTR) {
			break;
		}
	}
	if (b->messages.kept_bytes > KEPT_MAX) {
		uv_poll_stop(&b->poll);
		b->polls = false;
	}
}

/* The lender has received more, so there is room again. */
static void go_on_reading(struct borrower *b)
{
	if (!b->serves || b->polls || b->unmounted || b->stopped || b->messages.kept_bytes > KEPT_MAX / 2)
		return;
	b->polls = true;
	uv_poll_start(&b->poll, UV_READABLE, on_requests);
}

/* --- answers ---------------------------------------------------------------------------------- */

static void write_reply(struct borrower *b, struct kr_buf *data)
{
	if (!kr_lend_requests_answered(&b->requests, data->data, data->length, b->lease_ns / 2, kr_clock_ns()))
		return;
	if (write(b->fd, data->data, data->length) < 0 && errno != ENOENT && errno != ENODEV)
		kr_log_error("the kernel does not take an answer of %zu bytes: %s", data->length, strerror(errno));
}

struct notification {
	uv_work_t work;
	struct borrower *b;
	uint64_t id;     /* the lender's; 0: it is answered, or the borrower's own */
	uint64_t number; /* the file whose pages go, of the borrower's own */
	struct kr_buf *data;
	int err;
};

static void write_notification(uv_work_t *work)
{
	struct notification *notification = KR_CONTAINER_OF(work, struct notification, work);

	notification->err = kr_shim_notify(notification->b->fd, notification->data->data, notification->data->length);
}

static void notified(uv_work_t *work, int status)
{
	struct notification *notification = KR_CONTAINER_OF(work, struct notification, work);
	const struct kr_lend_message_request message = {.kind = KR_LEND_NOTIFIED,
		.id = notification->id,
		.status = kr_status_from_errno(status < 0 ? status : notification->err)};

	if (notification->id)
		send_message(notification->b, &message, NULL);
	else if (status == 0 && notification->err == 0 && notification->number && notification->b->fenced)
		kr_lend_requests_emptied(&notification->b->requests, notification->number, true);
	kr_buf_put(notification->data);
	free(notification);
}

static void start_notification(struct borrower *b, uint64_t id, uint64_t number, struct kr_buf *data)
{
	struct notification *notification = kr_xcalloc(1, sizeof(*notification));

	notification->b = b;
	notification->id = id;
	notification->number = number;
	notification->data = kr_buf_get(data);
	uv_queue_work(b->loop, &notification->work, write_notification, notified);
}

/* The kernel drops the file's pages and attributes. */
static void drop_pages(uint64_t number, void *context)
{
	const struct {
		struct fuse_out_header head;
		struct fuse_notify_inval_inode_out inode;
	} message = {.head = {.len = sizeof(message), .error = FUSE_NOTIFY_INVAL_INODE}, .inode.ino = number};
	struct kr_buf *data = kr_buf_new(sizeof(message));

	if (!data)
		abort();
	memcpy(data->data, &message, sizeof(message));
	data->length = sizeof(message);
	start_notification(context, 0, number, data);
	kr_buf_put(data);
}

/* Pages that the borrower has dropped while it was cut off, the kernel need not drop again.  It would wait for programs
 * that have begun to read since, and these for the daemon. */
static void take_notification(struct borrower *b, uint64_t id, struct kr_buf *data)
{
	const struct kr_lend_message_request answer = {.kind = KR_LEND_NOTIFIED, .id = id};
	struct {
		struct fuse_out_header head;
		struct fuse_notify_inval_inode_out inode;
	} message = {0};

	memcpy(&message, data->data, KR_MIN(sizeof(message), data->length));
	if (message.head.error != FUSE_NOTIFY_INVAL_INODE || message.inode.off < 0 ||
		!kr_lend_requests_is_empty(&b->requests, message.inode.ino)) {
		start_notification(b, id, 0, data);
		return;
	}
	send_message(b, &answer, NULL);
	start_notification(b, 0, 0, data);
}

static void on_ended(struct borrower *b, const struct kr_lend_message_request *message)
{
	if (message->id != 0 || message->status > 1) {
		kr_fail(-ENOTCONN, "the daemon at %s has ended (%s %u)", b->lender, message->id ? "signal" : "status",
			message->id ? (unsigned)message->id : message->status);
		lose(b);
		return;
	}
	if (!b->unmounted && !b->terminating)
		kr_log_info("%s ends the mount on %s", b->lender, b->options->mount_point);
	finish(b, (int)message->status);
}

static int deliver(struct borrower *b, const struct kr_lend_message_request *message, struct kr_buf *data)
{
	const bool has_header = data && data->length >= sizeof(struct fuse_out_header);

	if (message->kind == KR_LEND_REPLY && has_header)
		write_reply(b, data);
	else if (message->kind == KR_LEND_NOTIFY && has_header && message->id)
		take_notification(b, message->id, data);
	else if (message->kind == KR_LEND_NOTIFY && has_header)
		kr_shim_notify(b->fd, data->data, data->length);
	else if (message->kind == KR_LEND_ENDED)
		on_ended(b, message);
	else
		return kr_fail(-EPROTO, "%s sends a message of kind %u", b->lender, message->kind);
	return 0;
}

static void acknowledge(struct borrower *b)
{
	const struct kr_lend_ping_request ping = {.ack = kr_lend_link_tell(&b->messages)};

	kr_conn_oneway(b->conn, KR_MSG_LEND_PING, &ping, NULL, 0);
}

static int take_message(struct borrower *b, const struct kr_lend_message_request *message, struct kr_buf *data)
{
	int result = kr_lend_link_take(&b->messages, message, data ? data->length : 0);

	if (result > 0)
		result = deliver(b, message, data);
	if (result >= 0 && (kr_lend_link_owes(&b->messages) || message->kind == KR_LEND_ENDED))
		acknowledge(b);
	go_on_reading(b);
	return result;
}

/* --- the connection --------------------------------------------------------------------------- */

static void on_ready(struct borrower *b, const struct kr_lend_ready_request *ready)
{
	if (ready->status == 0) {
		b->lease_ns = ready->lease_ms * KR_NS_PER_MS;
		become_ready(b);
		return;
	}
	finish(b, kr_fail(-EIO, "%s: %s", b->lender, ready->reason));
}

static int take_frame(struct borrower *b, const struct kr_frame *frame, const union kr_any_msg *msg)
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
	struct borrower *b = kr_conn_context(conn);
	struct kr_arena arena = {0};
	union kr_any_msg msg;
	int err = kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, &arena);

	if (err == 0 && b->linked)
		err = take_frame(b, frame, &msg);
	kr_arena_fini(&arena);
	go_on_reading(b);
	if (err < 0) {
		kr_log_error("%s: connection closed", kr_fail_reason());
		kr_conn_close(conn, false);
	}
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct borrower *b = kr_conn_context(conn);

	if (b->linked && !b->finished && !b->told_cut)
		kr_log_warn("the connection to %s is lost: %s; programs wait", b->lender, reason);
	b->told_cut |= b->linked;
	kr_conn_login_fini(&b->login);
	b->login = (struct kr_conn_login){0};
	b->conn = NULL;
	b->linked = false;
	b->pinged = false;
	if (b->ready || b->finished)
		return;
	if (b->hold_ns) /* it was there, and has not said that the daemon serves */
		finish(b, kr_fail(-ECONNRESET, "%s has closed the connection: %s", b->lender, reason));
	else
		kr_fail(err < 0 ? err : -ECONNRESET, "cannot reach %s: %s (does kairanfs --lend run there?)", b->lender,
			reason);
}

static void on_lent(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	struct borrower *b = context;
	const struct kr_lend_reply *reply = message;
	const struct kr_lend_kept *kept;

	(void)data, (void)more;
	if (err == -ECONNRESET)
		return;
	if (err == 0)
		err = kr_lend_link_acked(&b->messages, reply->seen);
	else
		kr_fail_errno(err, "%s refuses (its log says why)", b->lender);
	if (err == -ESTALE && b->ready) {
		kr_fail(-ENOTCONN, "%s has ended the daemon of this mount, or was started anew", b->lender);
		lose(b);
	} else if (err < 0 && !b->ready) {
		finish(b, err);
	}
	if (err < 0) {
		kr_conn_close(b->conn, false);
		return;
	}
	if (b->told_cut)
		kr_log_info("connected to %s again", b->lender);
	b->told_cut = false;
	memcpy(b->token, reply->token, sizeof(b->token));
	b->hold_ns = reply->hold_ms * KR_NS_PER_MS;
	b->heard_ns = b->asked_ns;
	b->linked = true;
	KR_LIST_FOR_EACH(kept, &b->messages.kept, link)
		transmit(b, kept);
	go_on_reading(b);
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
	struct borrower *b = context;
	const struct kr_mount_options *options = b->options;
	struct kr_lend_request request = {.version = KR_LEND_VERSION,
		.node = b->node,
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
		if (!b->ready)
			finish(b, err);
		else
			kr_log_warn("%s", kr_fail_reason());
		kr_conn_close(b->conn, false);
		return;
	}
	memcpy(request.token, b->token, sizeof(request.token));
	b->asked_ns = kr_clock_ns();
	kr_conn_request(b->conn, KR_MSG_LEND, &request, NULL, 0, on_lent, b);
}

static void connect_to_lender(struct borrower *b)
{
	static const struct kr_conn_handler handler = {on_frame, NULL, on_closed};
	const struct sockaddr *address =
		(const struct sockaddr *)&b->addresses.items[b->next_address++ % b->addresses.count];

	b->tried_ns = kr_clock_ns();
	b->login.least = (enum kr_security)b->options->security;
	if (b->options->key && kr_key_load(b->options->key, &b->login.key) < 0) {
		if (!b->ready)
			finish(b, kr_fail(-EKEYREJECTED, "%s", kr_fail_reason()));
		return;
	}
	if (kr_conn_connect(b->loop, address, &handler, b, &b->conn) == 0)
		kr_conn_login_begin(&b->login, b->conn, ask_to_lend, b);
}

static void on_pong(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	struct borrower *b = context;
	const struct kr_lend_ping_reply *reply = message;

	(void)data, (void)more;
	b->pinged = false;
	if (err == 0 && kr_lend_link_acked(&b->messages, reply->ack) == 0)
		b->heard_ns = b->ping_ns;
	go_on_reading(b);
}

static void ping(struct borrower *b, uint64_t now_ns)
{
	const struct kr_lend_ping_request ping = {.ack = kr_lend_link_tell(&b->messages)};

	b->pinged = true;
	b->ping_ns = now_ns;
	kr_conn_request(b->conn, KR_MSG_LEND_PING, &ping, NULL, 0, on_pong, b);
}

/* --- time and signals ------------------------------------------------------------------------- */

static void look_at_start(struct borrower *b, uint64_t now_ns)
{
	const uint64_t limit_ms = b->hold_ns ? b->options->connect_timeout + START_MS : b->options->connect_timeout;

	if (now_ns - b->begun_ns < limit_ms * KR_NS_PER_MS)
		return;
	if (b->hold_ns)
		kr_fail(-ETIMEDOUT, "%s: the daemon there does not serve", b->lender);
	else if (b->conn)
		kr_fail(-ETIMEDOUT, "cannot reach %s: it does not answer", b->lender);
	finish(b, -ETIMEDOUT);
}

/* As on a node with a disk (fuse/session/fence.h): the lender's daemon may be waiting in vain for this kernel to drop
 * pages, and lose its session for that.  Then other nodes may write. */
static void look_at_fence(struct borrower *b, uint64_t now_ns)
{
	const bool fenced = b->serves && now_ns > kr_fence_after(b->heard_ns, (uint32_t)(b->lease_ns / KR_NS_PER_MS));

	if (fenced && !b->fenced)
		kr_lend_requests_each_held(&b->requests, drop_pages, b);
	b->fenced = fenced;
}

static void on_tick(uv_timer_t *timer)
{
	struct borrower *b = timer->data;
	const uint64_t now_ns = kr_clock_ns();
	const uint64_t ping_ns = KR_MIN(PING_MS * KR_NS_PER_MS, b->lease_ns / 8);
	struct kr_lend_interrupt interrupt;

	if (b->finished)
		return;
	if (!b->ready)
		look_at_start(b, now_ns);
	else if (now_ns + MARGIN_MS * KR_NS_PER_MS > b->heard_ns + b->hold_ns) {
		kr_fail(-ENOTCONN, "%s has not answered for %u s", b->lender, (unsigned)(b->hold_ns / KR_NS_PER_S));
		lose(b);
	}
	if (b->finished)
		return;
	look_at_fence(b, now_ns);
	if (!b->conn && now_ns - b->tried_ns > AGAIN_MS * KR_NS_PER_MS)
		connect_to_lender(b);
	else if (b->conn && !b->linked && now_ns - b->tried_ns > ANSWER_MS * KR_NS_PER_MS)
		kr_conn_close(b->conn, false);
	else if (b->linked && !b->pinged && now_ns - b->ping_ns > ping_ns)
		ping(b, now_ns);
	while (kr_lend_requests_interrupt(&b->requests, now_ns, &interrupt))
		pass_on(b, &interrupt, sizeof(interrupt));
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct borrower *b = handle->data;

	if (!b->serves) {
		finish(b, kr_fail(-EINTR, "interrupted by a signal"));
	} else if (number == SIGHUP && !b->options->foreground) {
		kr_log_info("SIGHUP: there is nothing to read again (SIGTERM unmounts)");
	} else if (b->terminating && !b->linked) {
		kr_log_warn("signal %d again, and %s cannot be reached: it keeps what was written", number, b->lender);
		finish(b, 1);
	} else {
		kr_log_info("signal %d: draining, then unmounting", number);
		b->terminating = true;
		send_word(b, KR_LEND_TERM);
	}
}

/* --- life ------------------------------------------------------------------------------------- */

static void start_loop(void *context)
{
	static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
	struct borrower *b = context;

	for (int i = 0; i < SIGNALS; i++) {
		uv_signal_init(b->loop, &b->signals[i]);
		b->signals[i].data = b;
		uv_signal_start(&b->signals[i], on_signal, numbers[i]);
	}
	uv_timer_init(b->loop, &b->tick);
	b->tick.data = b;
	uv_timer_start(&b->tick, on_tick, 0, TICK_MS);
	b->begun_ns = kr_clock_ns();
}

static struct kr_conn *to_lender(void *context)
{
	const struct borrower *b = context;

	return b->linked ? b->conn : NULL;
}

static void start_serving(void *context)
{
	struct borrower *b = context;
	unsigned dev_major, dev_minor;

	kr_kernel_device(b->kernel, &dev_major, &dev_minor);
	b->control = kr_borrowed_control_new(b->loop, dev_major, dev_minor, to_lender, b);
	b->fd = fuse_session_fd(kr_kernel_fuse(b->kernel));
	fcntl(b->fd, F_SETFL, fcntl(b->fd, F_GETFL) | O_NONBLOCK);
	uv_poll_init(b->loop, &b->poll, b->fd);
	b->poll.data = b;
	b->serves = true;
	go_on_reading(b);
}

static void stop_loop(void *context)
{
	struct borrower *b = context;

	b->stopped = true;
	if (b->linked && !b->finished) /* it could not be mounted */
		send_word(b, KR_LEND_BYE);
	kr_borrowed_control_free(b->control);
	if (b->serves)
		uv_close((uv_handle_t *)&b->poll, NULL);
	if (b->conn)
		kr_conn_close(b->conn, true);
	uv_close((uv_handle_t *)&b->tick, NULL);
	for (int i = 0; i < SIGNALS; i++)
		uv_close((uv_handle_t *)&b->signals[i], NULL);
}

static void wait_until(struct borrower *b, const bool *flag)
{
	pthread_mutex_lock(&b->lock);
	while (!*flag && !b->finished)
		pthread_cond_wait(&b->changed, &b->lock);
	pthread_mutex_unlock(&b->lock);
}

static int make(struct borrower *b)
{
	static const struct fuse_lowlevel_ops none;
	static const struct kr_kernel_side side = {.operations = &none};
	int err;

	kr_serve_give_up_privileges();
	err = kr_resolve(&b->options->lender, false, &b->addresses);
	if (err == 0)
		err = kr_loop_new(&b->kr_loop);
	if (err < 0)
		return err;
	b->loop = kr_loop_uv(b->kr_loop);
	kr_loop_run(b->kr_loop, start_loop, b);
	wait_until(b, &b->ready);
	if (b->finished)
		return kr_fail(b->result < 0 ? b->result : -EIO, "%s", b->reason);
	err = kr_kernel_new(&b->mount, &side, &b->kernel);
	if (err == 0)
		kr_loop_run(b->kr_loop, start_serving, b);
	return err;
}

static void unmake(struct borrower *b)
{
	kr_kernel_stop(b->kernel);
	if (b->kernel)
		kr_kernel_abort(
			b->kernel); /* else a notification could wait for ever for what programs still have open */
	if (b->kr_loop)
		kr_loop_run(b->kr_loop, stop_loop, b);
	kr_loop_free(b->kr_loop);
	kr_kernel_free(b->kernel);
	kr_lend_requests_fini(&b->requests);
	kr_lend_link_fini(&b->messages);
	free(b->buffer);
}

static void init(struct borrower *b, const struct kr_mount_options *options)
{
	b->options = b->mount.options = options;
	if (options->node)
		snprintf(b->node, sizeof(b->node), "%s", options->node);
	else
		gethostname(b->node, sizeof(b->node) - 1);
	kr_endpoint_format(&options->lender, b->lender, sizeof(b->lender));
	kr_lend_link_init(&b->messages);
	kr_lend_requests_init(&b->requests);
	b->buffer = kr_xmalloc(KR_LEND_DATA_MAX);
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->changed, NULL);
}

int kr_serve_borrowed(const struct kr_mount_options *options, bool (*ready)(void *context), void *context)
{
	static struct borrower b;
	char reason[512];
	int result;

	init(&b, options);
	result = make(&b);
	if (result == 0 && ready(context))
		wait_until(&b, &b.finished);
	if (result == 0 && b.finished)
		result = b.result;
	snprintf(reason, sizeof(reason), "%s", b.finished ? b.reason : kr_fail_reason());
	if (result == -ENOTCONN && b.kernel) {
		kr_kernel_abort(b.kernel); /* the mount stays, until it is unmounted */
		return kr_fail(result, "%s", reason);
	}
	unmake(&b);
	return result < 0 ? kr_fail(result, "%s", reason) : result;
}

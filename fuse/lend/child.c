/* Children of the lender: how they are started and ended, and the messages from and to them. */
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/table.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "fuse/base/lent.h"
#include "fuse/base/options.h"
#include "fuse/lend/lend_priv.h"
#include "fuse/lend/lender.h"

enum { CHILDREN_MAX = 256, ARGUMENTS_MAX = 96, QUEUED_MAX = 64 << 20, SOCKET_OF_CHILD = 3, SOCKET_BUFFER = 4 << 20 };

/* --- what a borrower asks for ----------------------------------------------------------------- */

static int check_request(const struct kr_lend_request *request)
{
	if (request->version != KR_LEND_VERSION)
		return kr_fail(
			-EPROTO, "version %u of LEND, and this kairanfs knows %d", request->version, KR_LEND_VERSION);
	if (!kr_text_is_name(request->node, KR_JOB_NAME_MAX) || strchr(".-", request->node[0]))
		return kr_fail(-EINVAL, "no name of a node");
	if (!strstr(request->source, ":/") || request->source[0] == '-')
		return kr_fail(-EINVAL, "node %s names no source", request->node);
	if (request->mount_point[0] != '/')
		return kr_fail(-EINVAL, "node %s names no mount point", request->node);
	if (strlen(request->ring) > KR_RING_NAME_MAX || request->close > KR_CLOSE_ASYNC ||
		request->coherence > KR_COHERENCE_ORDERED || request->flags & ~(uint32_t)KR_LEND_FLAGS)
		return kr_fail(-EINVAL, "node %s asks for options that there are not", request->node);
	return 0;
}

/* DIR/NODE/HASH: a node may have several mounts. */
static int make_directory(const struct kr_lend_child *child, char **ret_path)
{
	KR_AUTO_FREE char *of_node = NULL;
	const uint64_t hash = kr_hash_bytes(child->source, strlen(child->source)) * 3 +
		kr_hash_bytes(child->mount_point, strlen(child->mount_point));

	if (asprintf(&of_node, "%s/%s", child->lender->options->lend, child->node) < 0)
		abort();
	if (mkdir(of_node, 0700) < 0 && errno != EEXIST)
		return kr_fail_errno(-errno, "cannot make %s", of_node);
	if (asprintf(ret_path, "%s/%016" PRIx64, of_node, hash) < 0)
		abort();
	return 0;
}

/* --- the process ------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static void add(struct kr_lend_child *child, const char *format, ...)
{
	size_t count = 0;
	va_list values;

	while (child->arguments[count])
		count++;
	if (count + 1 >= ARGUMENTS_MAX)
		abort();
	va_start(values, format);
	if (vasprintf(&child->arguments[count], format, values) < 0)
		abort();
	va_end(values);
}

/* An option with a text for a value, in which commas are no ends. */
static void add_text(struct kr_lend_child *child, const char *name, const char *value)
{
	KR_AUTO_FREE char *escaped = NULL;
	char *end;

	if (!value || !*value)
		return;
	escaped = end = kr_xcalloc(2, strlen(value) + 1);
	for (; *value; value++) {
		if (*value == ',' || *value == '\\')
			*end++ = '\\';
		*end++ = *value;
	}
	add(child, "-o");
	add(child, "%s=%s", name, escaped);
}

static void add_number(struct kr_lend_child *child, const char *name, uint64_t value, const char *unit)
{
	add(child, "-o");
	add(child, "%s=%" PRIu64 "%s", name, value, unit);
}

static void add_flag(struct kr_lend_child *child, bool set, const char *name)
{
	if (!set)
		return;
	add(child, "-o");
	add(child, "%s", name);
}

/* WANTED, but at most LIMIT.  0 stands for no wish, and for no limit. */
static uint64_t limited(uint64_t wanted, uint64_t limit)
{
	return wanted == 0 || (limit && limit < wanted) ? limit : wanted;
}

/* The options that the lender's administrator has set. */
static void add_own_arguments(struct kr_lend_child *child)
{
	static const char *const transports[] = {"auto", "tcp", "verbs"};
	const struct kr_mount_options *own = child->lender->options;

	add_text(child, "local", child->directory);
	add_text(child, "key", own->key);
	add_flag(child, own->munge, "munge");
	add_text(child, "munge_socket", own->munge_socket);
	add_number(child, "munge_uid", own->munge_uid, "");
	add_text(child, "security", kr_security_name((enum kr_security)own->security));
	add_text(child, "ring_port", own->ring_port);
	add_text(child, "transport", transports[own->transport]);
	add_number(child, "lanes", own->lanes, "");
	add_flag(child, own->debug, "debug");
}

static void make_arguments(struct kr_lend_child *child, const struct kr_lend_request *request)
{
	static const char *const coherences[] = {"strict", "relaxed", "ordered"};
	const struct kr_mount_options *own = child->lender->options;
	const uint32_t flags = request->flags;

	child->arguments = kr_xcalloc(ARGUMENTS_MAX, sizeof(char *));
	add(child, "kairanfs");
	add(child, "%s", child->source);
	add(child, "%s:%s", child->node, child->mount_point);
	add(child, "-f");
	add_own_arguments(child);
	add_text(child, "node", child->node);
	add_text(child, "ring", request->ring);
	add_text(child, "close", request->close == KR_CLOSE_ASYNC ? "async" : "sync");
	add_text(child, "coherence", coherences[request->coherence]);
	add_number(child, "journal_max", limited(request->journal_max, own->journal_max), "");
	add_number(child, "cache_max", limited(request->cache_max, own->cache_max), "");
	add_number(child, "flush_age", request->flush_age, "ms");
	add_number(child, "flush_backlog", request->flush_backlog, "");
	add_number(child, "stripe_size", request->stripe_size, "");
	add_number(child, "timeo", request->timeo, "ms");
	add_number(child, "drain_timeout", request->drain_timeout, "ms");
	add_number(child, "connect_timeout", request->connect_timeout, "ms");
	add_flag(child, flags & KR_LEND_RO, "ro");
	add_flag(child, flags & KR_LEND_ALLOW_OTHER, "allow_other");
	add_flag(child, flags & KR_LEND_NO_DEFAULT_PERMISSIONS, "no_default_permissions");
	add_flag(child, flags & KR_LEND_NOACL, "noacl");
	add_flag(child, flags & KR_LEND_SOFT, "soft");
	add_flag(child, flags & KR_LEND_SHARED_MMAP, "shared_mmap");
	add_flag(child, flags & KR_LEND_NOATIME, "noatime");
}

/* The exit and the end of the socket come in any order. */
static void look_at_end(struct kr_lend_child *child)
{
	const struct kr_lend_message_request message = {
		.kind = KR_LEND_ENDED, .id = (uint64_t)child->signal, .status = (uint32_t)child->exit_status};
	const struct kr_lend_ready_request failed = {
		.status = kr_status_from_errno(-EIO), .reason = "the daemon at the lender ended unexpectedly"};

	if (child->runs || child->conn || child->ended)
		return;
	child->ended = true;
	if (child->signal || !child->ending)
		kr_log_info("node %s, %s: its daemon has ended (%s %d)", child->node, child->mount_point,
			child->signal ? "signal" : "status", child->signal ? child->signal : (int)child->exit_status);
	if (child->ready)
		kr_lend_child_send(child, kr_lend_link_add(&child->messages, &message, NULL));
	else if (child->peer)
		kr_conn_oneway(child->peer->conn, KR_MSG_LEND_READY, &failed, NULL, 0);
	kr_lend_children_start(child->lender);
}

static void on_exit_of_child(uv_process_t *process, int64_t exit_status, int signal)
{
	struct kr_lend_child *child = process->data;

	child->runs = false;
	child->exit_status = exit_status;
	child->signal = signal;
	look_at_end(child);
}

static void on_message(struct kr_lend_child *child, const struct kr_frame *frame)
{
	struct kr_arena arena = {0};
	union kr_any_msg msg;
	int err = kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, &arena);

	if (err == 0 && frame->header.type == KR_MSG_LEND_READY) {
		child->ready = msg.lend_ready_request.status == 0;
		child->lease_ms = msg.lend_ready_request.lease_ms;
		if (child->peer)
			kr_conn_oneway(child->peer->conn, KR_MSG_LEND_READY, &msg, NULL, 0);
	} else if (err == 0 && frame->header.type == KR_MSG_LEND_MESSAGE) {
		kr_lend_child_send(child, kr_lend_link_add(&child->messages, &msg.lend_message_request, frame->data));
	}
	kr_arena_fini(&arena);
}

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	on_message(kr_conn_context(conn), frame);
}

static void on_drain(struct kr_conn *conn)
{
	struct kr_lend_child *child = kr_conn_context(conn);

	if (child->peer)
		kr_lend_peer_resume(child->peer);
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_lend_child *child = kr_conn_context(conn);

	(void)err, (void)reason;
	child->conn = NULL;
	look_at_end(child);
}

static int spawn(struct kr_lend_child *child, int socket)
{
	static char variable[] = KR_LENT_ENVIRONMENT "=3";
	static_assert(SOCKET_OF_CHILD == 3, "as the variable says");
	uv_stdio_container_t descriptors[] = {{.flags = UV_IGNORE}, {.flags = UV_INHERIT_FD, .data.fd = STDOUT_FILENO},
		{.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO}, {.flags = UV_INHERIT_FD, .data.fd = socket}};
	uv_process_options_t options = {.exit_cb = on_exit_of_child,
		.file = "/proc/self/exe",
		.args = child->arguments,
		.stdio = descriptors,
		.stdio_count = KR_ARRAY_SIZE(descriptors),
		.flags = UV_PROCESS_DETACHED}; /* Ctrl-C is the lender's to take */
	char **environment;
	size_t count = 0;
	int err;

	while (environ[count])
		count++;
	environment = kr_xcalloc(count + 2, sizeof(char *));
	environment[0] = variable;
	count = 1;
	for (char **each = environ; *each; each++)
		if (strncmp(*each, "NOTIFY_SOCKET=", strlen("NOTIFY_SOCKET=")) != 0) /* the lender's own readiness */
			environment[count++] = *each;
	options.env = environment;
	child->process.data = child;
	err = uv_spawn(child->lender->loop, &child->process, &options);
	free(environment);
	child->runs = err == 0;
	return err < 0 ? kr_fail(err, "cannot start a kairanfs for node %s: %s", child->node, uv_strerror(err)) : 0;
}

/* Room for a large message or two, so that neither side has to wait for the other to go on. */
static void widen(int socket)
{
	const int size = SOCKET_BUFFER;

	if (setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static int start(struct kr_lend_child *child)
{
	static const struct kr_conn_handler handler = {on_frame, on_drain, on_closed};
	int pair[2], err;

	child->waits = false;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return kr_fail_errno(-errno, "no socket for the daemon of node %s", child->node);
	widen(pair[0]);
	widen(pair[1]);
	err = spawn(child, pair[1]);
	close(pair[1]);
	if (err < 0)
		close(pair[0]);
	else
		err = kr_conn_take(child->lender->loop, pair[0], &handler, child, &child->conn);
	return err;
}

/* Whether another child still uses CHILD's directory. */
static bool is_used(const struct kr_lend_child *child)
{
	const struct kr_lend_child *other;

	KR_LIST_FOR_EACH(other, &child->lender->children, link)
		if (other != child && !other->ended && !other->waits && strcmp(other->directory, child->directory) == 0)
			return true;
	return false;
}

/* Ends all others that use CHILD's directory, or wait for it. */
static void end_former(const struct kr_lend_child *child)
{
	struct kr_lend_child *other;

	KR_LIST_FOR_EACH(other, &child->lender->children, link) {
		if (other == child || other->ended || strcmp(other->directory, child->directory) != 0)
			continue;
		kr_log_info("node %s mounts %s on %s anew: its former daemon ends first", child->node, child->source,
			child->mount_point);
		kr_lend_child_end(other);
	}
}

static void start_or_say_why_not(struct kr_lend_child *child)
{
	struct kr_lend_ready_request failed = {.status = kr_status_from_errno(-EIO)};

	if (start(child) == 0)
		return;
	failed.reason = kr_fail_reason();
	kr_log_error("%s", failed.reason);
	child->ended = true;
	if (child->peer)
		kr_conn_oneway(child->peer->conn, KR_MSG_LEND_READY, &failed, NULL, 0);
}

void kr_lend_children_start(struct kr_lender *lender)
{
	struct kr_lend_child *child;

	KR_LIST_FOR_EACH(child, &lender->children, link)
		if (child->waits && !is_used(child))
			start_or_say_why_not(child);
}

/* --- life ------------------------------------------------------------------------------------- */

void kr_lend_child_end(struct kr_lend_child *child)
{
	child->ending = true;
	if (child->conn)
		kr_conn_close(child->conn, true);
	if (child->waits) {
		child->waits = false;
		child->ended = true;
	}
}

void kr_lend_child_terminate(struct kr_lend_child *child)
{
	child->ending = true;
	if (child->runs)
		uv_process_kill(&child->process, SIGTERM);
	else
		kr_lend_child_end(child);
}

static void free_child(struct kr_lend_child *child)
{
	kr_lend_link_fini(&child->messages);
	for (char **each = child->arguments; each && *each; each++)
		free(*each);
	free(child->arguments);
	free(child->node);
	free(child->source);
	free(child->mount_point);
	free(child->directory);
	free(child);
}

static void on_process_closed(uv_handle_t *handle)
{
	free_child(handle->data);
}

void kr_lend_child_free(struct kr_lend_child *child)
{
	kr_list_remove(&child->link);
	if (child->process.data)
		uv_close((uv_handle_t *)&child->process, on_process_closed);
	else
		free_child(child);
}

static bool too_many(struct kr_lender *lender)
{
	struct kr_lend_child *child;
	int count = 0;

	KR_LIST_FOR_EACH(child, &lender->children, link)
		count++;
	return count >= CHILDREN_MAX;
}

int kr_lend_child_new(struct kr_lender *lender, const struct kr_lend_request *request, struct kr_lend_child **ret_child)
{
	struct kr_lend_child *child;
	int err = check_request(request);

	if (err == 0 && (lender->stopping || too_many(lender)))
		err = kr_fail(-ENOSPC, "node %s refused: %s", request->node,
			lender->stopping ? "the lender is ending" : "enough borrowers are served");
	if (err < 0)
		return err;
	child = kr_xcalloc(1, sizeof(*child));
	child->lender = lender;
	randombytes_buf(child->token, sizeof(child->token));
	child->node = kr_xstrdup(request->node);
	child->source = kr_xstrdup(request->source);
	child->mount_point = kr_xstrdup(request->mount_point);
	kr_lend_link_init(&child->messages);
	err = make_directory(child, &child->directory);
	if (err < 0) {
		free_child(child);
		return err;
	}
	make_arguments(child, request);
	child->waits = true;
	kr_list_append(&lender->children, &child->link);
	end_former(child);
	*ret_child = child;
	return 0;
}

/* --- messages --------------------------------------------------------------------------------- */

void kr_lend_child_send(struct kr_lend_child *child, const struct kr_lend_kept *kept)
{
	struct kr_lend_message_request message = kept->message;
	const struct kr_slice slice = {kept->data, 0, kept->data ? kept->data->length : 0};

	if (!child->peer)
		return;
	message.ack = kr_lend_link_tell(&child->messages);
	kr_conn_oneway(child->peer->conn, KR_MSG_LEND_MESSAGE, &message, &slice, kept->data != NULL);
}

int kr_lend_child_deliver(
	struct kr_lend_child *child, const struct kr_lend_message_request *message, struct kr_buf *data)
{
	struct kr_lend_message_request plain = *message;
	const struct kr_slice slice = {data, 0, data ? data->length : 0};

	plain.seq = plain.ack = 0;
	switch (message->kind) {
	case KR_LEND_REQUEST:
	case KR_LEND_NOTIFIED:
		if (!child->conn)
			return 0; /* the borrower will hear ENDED */
		kr_conn_oneway(child->conn, KR_MSG_LEND_MESSAGE, &plain, &slice, data != NULL);
		if (kr_conn_queued(child->conn) > QUEUED_MAX && child->peer && !child->peer->paused) {
			child->peer->paused = true;
			kr_conn_pause(child->peer->conn);
		}
		return 0;
	case KR_LEND_TERM:
		kr_lend_child_terminate(child);
		return 0;
	case KR_LEND_BYE:
		kr_lend_child_end(child);
		return 0;
	default:
		return kr_fail(-EPROTO, "a message of kind %u", message->kind);
	}
}

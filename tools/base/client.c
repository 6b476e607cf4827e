/* See client.h. */
#include "tools/base/client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/rpc/conn.h"
#include "common/base/fail.h"
#include "common/base/nearest.h"
#include "common/rpc/resolve.h"
#include "common/base/text.h"
#include "common/base/types.h"
#include "common/base/util.h"
#include "fuse/daemon/control_address.h"

enum { STATUS_MAX = 64 << 20, TIMEOUT_MAX_S = 1000000000 };

struct ask {
	struct kr_status_request request;
	struct kr_probe *probe;
	struct kr_writer text;
	struct kr_conn *conn;
	struct kr_tool_login *login; /* NULL: none */
	uv_timer_t timer;
	bool answered, closed;
	int err;
	char reason[512];
};

static void finish(struct ask *ask, int err, const char *reason)
{
	if (ask->answered)
		return;
	ask->answered = true;
	ask->err = err;
	snprintf(ask->reason, sizeof(ask->reason), "%s", reason);
	if (!ask->closed)
		kr_conn_close(ask->conn, false);
	uv_close((uv_handle_t *)&ask->timer, NULL);
}

static void on_reply(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	struct ask *ask = context;
	const struct kr_status_reply *reply = message;

	(void)data;
	if (err == -ECONNRESET)
		return; /* on_closed gets the reason */
	if (err < 0) {
		finish(ask, err,
			err == -ENOKEY ?
				"the server wants a key (--key FILE, a copy of a file that kairand was started "
				"with) or MUNGE (--munge)" :
				strerror(-err));
		return;
	}
	if (ask->probe->on_lines) {
		ask->probe->begun = true;
		uv_timer_stop(&ask->timer);
		if (!ask->probe->on_lines((const char *)reply->json.bytes, reply->json.length))
			finish(ask, 0, "");
		return;
	}
	if (ask->text.length + reply->json.length > STATUS_MAX)
		finish(ask, -EFBIG, "the answer is too long");
	kr_put_bytes(&ask->text, reply->json.bytes, reply->json.length);
	if (more)
		return;
	ask->probe->answered_ns = kr_clock_real_ns();
	ask->probe->answer = ask->text.length;
	ask->probe->rtt_us = kr_conn_rtt_us(ask->conn);
	finish(ask, 0, "");
}

static void ask_status(struct ask *ask)
{
	ask->probe->sent_ns = kr_clock_real_ns();
	if (!kr_conn_request(ask->conn, KR_MSG_STATUS, &ask->request, NULL, 0, on_reply, ask))
		finish(ask, -EINVAL, "the request cannot be sent");
}

static void on_login(void *context, int err)
{
	if (err < 0)
		finish(context, err, kr_fail_reason());
	else
		ask_status(context);
}

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)conn, (void)frame; /* a tool gets no requests */
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct ask *ask = kr_conn_context(conn);

	ask->closed = true;
	if (ask->login)
		kr_conn_login_stop(&ask->login->handshake);
	finish(ask, err ? err : -ECONNRESET, reason);
}

static void on_timeout(uv_timer_t *timer)
{
	finish(timer->data, -ETIMEDOUT, "no answer");
}

static int parse(const struct ask *ask, json_t **ret_status)
{
	json_error_t error;

	if (ask->text.failed)
		return kr_fail(-ENOMEM, "out of memory");
	*ret_status = json_loadb((const char *)ask->text.bytes, ask->text.length, 0, &error);
	return *ret_status ? 0 : kr_fail(-EBADMSG, "the answer is not JSON: %s", error.text);
}

/* A connected socket with segments of at most BYTES.  The kernel tells the peer of that limit when it connects. */
static int connect_with_segments(const struct sockaddr *address, unsigned bytes, unsigned timeout_ms)
{
	const struct timeval timeout = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
	const int limit = (int)bytes;
	socklen_t length = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

	if (fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &limit, sizeof(limit)) == 0 &&
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0 &&
		connect(fd, address, length) == 0)
		return fd;
	err = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
	if (fd >= 0)
		close(fd);
	return kr_fail_errno(err, "cannot connect");
}

static int start(struct ask *ask, uv_loop_t *loop, const struct sockaddr *address)
{
	static const struct kr_conn_handler handler = {.on_frame = on_frame, .on_closed = on_closed};
	int fd;

	if (!ask->probe->max_segment)
		return kr_conn_connect(loop, address, &handler, ask, &ask->conn);
	fd = connect_with_segments(address, ask->probe->max_segment, ask->probe->timeout_ms);
	return fd < 0 ? fd : kr_conn_take(loop, fd, &handler, ask, &ask->conn);
}

static int ask_at(const struct sockaddr *address, const char *what, const char *argument, struct kr_probe *probe,
	struct kr_tool_login *login, json_t **ret_status)
{
	struct ask ask = {
		.timer.data = &ask, .request = {.what = what, .argument = argument}, .probe = probe, .login = login};
	void (*former)(int number);
	uv_loop_t loop;
	int err;

	kr_writer_init(&ask.text);
	uv_loop_init(&loop);
	uv_timer_init(&loop, &ask.timer);
	uv_timer_start(&ask.timer, on_timeout, probe->timeout_ms, 0);
	err = start(&ask, &loop, address);
	if (err < 0) {
		ask.closed = true;
		finish(&ask, err, kr_fail_reason());
	} else if (login) {
		kr_conn_login_begin(&login->handshake, ask.conn, on_login, &ask);
	} else {
		ask_status(&ask);
	}
	/* A daemon may close the connection at once.  But what prints lines ends with who reads them. */
	former = probe->on_lines ? SIG_ERR : signal(SIGPIPE, SIG_IGN);
	uv_run(&loop, UV_RUN_DEFAULT);
	if (former != SIG_ERR)
		signal(SIGPIPE, former);
	uv_loop_close(&loop);
	err = ask.err < 0 ? kr_fail(ask.err, "%s", ask.reason) : probe->on_lines ? 0 : parse(&ask, ret_status);
	kr_writer_fini(&ask.text);
	return err;
}

static int ask_socket(
	const char *path, const char *what, const char *argument, struct kr_probe *probe, json_t **ret_status)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	KR_AUTO_FREE char *directory = kr_xstrdup(path);
	char *slash = strrchr(directory, '/');
	KR_AUTO_FD int fd = -1;

	if (!slash)
		return kr_fail(-EINVAL, "%s is not a socket's path", path);
	*slash = '\0';
	/* By way of /proc, because a socket's name may have 107 bytes only. */
	fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return kr_fail_errno(-errno, "%s", directory);
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", fd, slash + 1);
	return ask_at((const struct sockaddr *)&address, what, argument, probe, NULL, ret_status);
}

int kr_ask_socket(const char *path, const char *what, const char *argument, json_t **ret_status)
{
	struct kr_probe probe = {.timeout_ms = KR_ASK_TIMEOUT_MS};

	return ask_socket(path, what, argument, &probe, ret_status);
}

/* The daemon lets a user ask again a moment later. */
static int ask_as_user(const struct kr_mounted *mounted, const char *socket, json_t **ret_status)
{
	int err;

	for (int attempts = 0; attempts < 100; attempts++) {
		err = kr_ask_socket(socket, "status", "", ret_status);
		if (err != -EAGAIN)
			break;
		kr_sleep_ms(20);
	}
	return err < 0 ? kr_fail(err, "%s: its daemon does not answer users: %s", mounted->path, strerror(-err)) : 0;
}

static int ask_mount(const struct kr_mounted *mounted, const char *what, const char *argument, struct kr_probe *probe,
	json_t **ret_status)
{
	KR_AUTO_FREE char *socket = NULL;
	KR_AUTO_FREE char *reason = NULL;
	char users[KR_CONTROL_PATH];
	int pid = 0, err = kr_control_address_read(mounted, &socket, &pid);

	if (err < 0)
		return kr_fail(-ENOENT, "%s: no daemon is known for this mount (fusermount3 -uz %s removes a dead one)",
			mounted->path, mounted->path);
	err = ask_socket(socket, what, argument, probe, ret_status);
	if (err == 0)
		return 0;
	reason = kr_xstrdup(kr_fail_reason());
	if ((err == -ECONNREFUSED || err == -ENOENT) && !kr_daemon_runs(pid))
		return kr_fail(-ENOTCONN, "%s: its daemon is gone; mount again%s", mounted->path,
			strstr(mounted->source, ":/") ? ": the journal is replayed" : "");
	if ((err == -EACCES || err == -EPERM) && strcmp(what, "status") == 0 &&
		kr_control_users_socket(mounted, users) == 0)
		return ask_as_user(mounted, users, ret_status);
	if (err == -EACCES || err == -EPERM)
		return kr_fail(err, "%s: only root and who has mounted it may ask its daemon (process %d)",
			mounted->path, pid);
	if (err == -ENOENT)
		return kr_fail(err,
			"%s: its daemon (process %d) cannot be asked, because somebody has removed its local directory, "
			"or files in it, with %s (kairan umount %s flushes what can be read)",
			mounted->path, pid, socket, mounted->path);
	return kr_fail(err, "%s: its daemon (process %d) does not answer: %s", mounted->path, pid, reason);
}

int kr_ask_mount(const struct kr_mounted *mounted, const char *what, const char *argument, json_t **ret_status)
{
	struct kr_probe probe = {.timeout_ms = KR_ASK_TIMEOUT_MS};

	return ask_mount(mounted, what, argument, &probe, ret_status);
}

int kr_follow_log(
	const struct kr_mounted *mounted, const char *filter, bool (*on_lines)(const char *lines, size_t length))
{
	struct kr_probe probe = {.timeout_ms = KR_ASK_TIMEOUT_MS, .on_lines = on_lines};
	int err = ask_mount(mounted, "log", filter, &probe, NULL);

	return probe.begun ? 0 : err;
}

static bool about_keys(int err)
{
	return err == -ENOKEY || err == -EKEYREJECTED || err == -EKEYEXPIRED || err == -EOPNOTSUPP || err == -EHOSTDOWN;
}

static int ask_endpoint(
	const struct kr_endpoint *endpoint, struct kr_probe *probe, struct kr_tool_login *login, json_t **ret_status)
{
	struct kr_addresses addresses;
	KR_AUTO_FREE char *reason = NULL, *padding = kr_xcalloc(1, probe->padding + 1);
	int err = kr_resolve(endpoint, false, &addresses);

	if (err < 0)
		return err;
	memset(padding, ' ', probe->padding);
	for (size_t i = 0; i < addresses.count; i++) {
		err = ask_at((const struct sockaddr *)&addresses.items[i], "status", padding, probe, login, ret_status);
		if (err == 0)
			return 0;
		if (about_keys(err))
			break;
	}
	reason = kr_xstrdup(kr_fail_reason());
	if (about_keys(err))
		return kr_fail(err, "server %s:%u: %s", endpoint->host, endpoint->port, reason);
	return kr_fail(err, "cannot reach server %s:%u: %s (is kairand running there?)", endpoint->host, endpoint->port,
		reason);
}

int kr_probe_server(const char *text, const struct kr_tool_proof *proof, struct kr_probe *probe, json_t **ret_status)
{
	struct kr_endpoint endpoint;
	struct kr_tool_login login;
	int err = kr_tool_login_init(&login, proof);

	if (err == 0)
		err = kr_endpoint_parse(text, KR_DEFAULT_PORT, false, &endpoint);
	if (err == 0)
		err = ask_endpoint(&endpoint, probe, &login, ret_status);
	kr_tool_login_fini(&login);
	return err;
}

int kr_ask_server(const char *text, const struct kr_tool_proof *proof, json_t **ret_status)
{
	struct kr_probe probe = {.timeout_ms = KR_ASK_TIMEOUT_MS};

	return kr_probe_server(text, proof, &probe, ret_status);
}

json_t *kr_printable(const json_t *value)
{
	KR_AUTO_FREE char *text = json_is_string(value) ? kr_text_shown(json_string_value(value)) : NULL;
	json_t *copy, *each;
	const char *name;
	size_t i;

	if (text)
		return json_string(text);
	if (json_is_array(value)) {
		copy = json_array();
		json_array_foreach(value, i, each) json_array_append_new(copy, kr_printable(each));
		return copy;
	}
	copy = json_copy((json_t *)(uintptr_t)value);
	json_object_foreach(copy, name, each) json_object_set_new(copy, name, kr_printable(each));
	return copy;
}

json_t *kr_server_printable(const json_t *status)
{
	json_t *printable = kr_printable(status), *counts = json_object(), *node;
	json_t *nodes = json_object_get(printable, "nodes");
	size_t i;

	json_array_foreach(nodes, i, node)
	{
		const char *name = kr_text_of(node, "name");

		json_object_set_new(counts, name, json_integer(kr_number(counts, NULL, name) + 1));
	}
	json_array_foreach(nodes, i, node)
	{
		const char *name = kr_text_of(node, "name");

		if (kr_number(counts, NULL, name) > 1)
			json_object_set_new(node, "name",
				json_sprintf("%s#%" JSON_INTEGER_FORMAT, name, kr_number(node, NULL, "node")));
	}
	json_decref(counts);
	return printable;
}

int kr_tool_failed(void)
{
	fprintf(stderr, "kairan: %s\n", kr_fail_reason());
	return KR_EXIT_FAILED;
}

int kr_tool_option(int argc, char **argv, const char *letters, const struct option *options)
{
	const int option = getopt_long(argc, argv, letters, options, NULL);
	struct kr_nearest nearest = {0};

	if (option != '?' || optopt || strncmp(argv[optind - 1], "--", 2) != 0)
		return option;
	KR_AUTO_FREE char *word = strndup(argv[optind - 1] + 2, strcspn(argv[optind - 1] + 2, "="));

	for (const struct option *each = options; word && each->name; each++)
		kr_nearest_try(&nearest, word, each->name);
	if (nearest.name)
		fprintf(stderr, "%s: did you mean --%s?\n", argv[0], nearest.name);
	return option;
}

int kr_tool_usage(const char *usage, bool asked)
{
	fputs(usage, asked ? stdout : stderr);
	return asked ? KR_EXIT_OK : KR_EXIT_USAGE;
}

int kr_tool_printed(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	fprintf(stderr, "kairan: cannot write to standard output: %s\n", strerror(errno));
	return KR_EXIT_FAILED;
}

bool kr_tool_number(const char *option, const char *text, unsigned max, unsigned *ret_number)
{
	uint64_t number;

	if (!kr_parse_number(text, 1, max, &number)) {
		fprintf(stderr, "kairan: %s: \"%s\" is not a number from 1 to %u\n", option, text, max);
		return false;
	}
	*ret_number = (unsigned)number;
	return true;
}

int kr_tool_timeout(const char *text, unsigned long *ret_ms)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds > 0 && seconds <= TIMEOUT_MAX_S)) {
		fprintf(stderr, "kairan: --timeout: \"%s\" is not a number of seconds above 0\n", text);
		return -EINVAL;
	}
	*ret_ms = KR_MAX((unsigned long)(seconds * 1000), 1UL);
	return 0;
}

/* See control.h. */
#include "fuse/daemon/control.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/rpc/conn.h"
#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/daemon/control_address.h"
#include "fuse/file/file.h"
#include "fuse/writeback/flush.h"
#include "fuse/base/local_dir.h"
#include "fuse/daemon/mount_status.h"
#include "fuse/ops/access_log.h"
#include "fuse/ops/io_trace.h"

/* A user may ask so often, at so many connections; so many users at a time are told apart. */
enum { PIECE = 60000, BACKLOG = 16, CONNECTIONS_MAX = 64, USER_CONNECTIONS = 4, USER_INTERVAL_MS = 50, USERS_MAX = 32 };
enum { LOG_INTERVAL_MS = 20 };

struct user {
	uint32_t uid;
	uint64_t next_ns; /* no answer before */
};

struct kr_control {
	struct kr_mount *mount;
	uv_pipe_t listener, users_listener;
	uv_timer_t log_timer; /* runs while a client reads the access log */
	unsigned dev_major, dev_minor;
	struct kr_list clients;
	size_t client_count; /* of the owner's socket */
	char *path;          /* of that; owned */
	ino_t users_socket;  /* inode of the users' one; 0: there is none */
	struct user users[USERS_MAX];
	int handles; /* that are open */
	bool freed;
};

struct client {
	struct kr_control *control;
	struct kr_conn *conn;
	bool is_user; /* came by the users' socket, where the kernel says that it is UID */
	bool refused; /* is being closed: a user who connects all the time keeps no other user out */
	uint32_t uid;
	struct kr_access_reader *reader; /* NULL: does not read the access log */
	uint64_t log_id;                 /* the request that its lines answer */
	struct kr_link link;
};

/* --- commands --------------------------------------------------------------------------------- */

static int flush(struct kr_mount *mount, const char *argument)
{
	struct kr_file *file;

	if (mount->view) /* there is no server */
		return 0;
	if (!*argument) {
		kr_flusher_ask_all(mount->flusher, KR_FLUSH_COMMAND);
		return 0;
	}
	file = kr_flusher_find(mount->flusher, argument);
	if (file)
		kr_flush_ask(file, KR_FLUSH_COMMAND);
	return 0; /* the flusher does not know the file: it has no unflushed bytes */
}

static int discard(struct kr_mount *mount, const char *argument)
{
	struct kr_file *file = mount->view ? NULL : kr_flusher_find(mount->flusher, argument);

	if (*argument == 0 && !mount->view) {
		kr_log_warn("discarding what was damaged in the journal, by command");
		kr_flusher_discard_damage(mount->flusher);
		return 0;
	}
	if (!file)
		return -ENODATA;
	kr_log_warn("discarding the unflushed bytes of %s by command", argument);
	kr_flush_discard(file);
	return 0;
}

static int limit_drain(struct kr_mount *mount, const char *argument)
{
	uint64_t ms;

	if (!*argument) { /* the unmount did not happen after all: drain_timeout holds again */
		atomic_store(&mount->drain_deadline_ns, 0);
		return 0;
	}
	if (!kr_parse_number(argument, 0, UINT32_MAX, &ms))
		return -EINVAL;
	atomic_store(&mount->drain_deadline_ns, kr_clock_ns() + ms * KR_NS_PER_MS);
	return 0;
}

static int trace(struct kr_io_trace *trace, const char *argument)
{
	if (!trace) /* of a view */
		return -EOPNOTSUPP;
	if (strcmp(argument, "start") == 0)
		return kr_io_trace_start(trace);
	if (strcmp(argument, "stop") == 0 || strcmp(argument, "write") == 0)
		return kr_io_trace_write(trace, strcmp(argument, "stop") == 0);
	return -EINVAL;
}

static int execute(struct kr_mount *mount, const struct kr_status_request *request)
{
	if (strcmp(request->what, "status") == 0)
		return 0;
	if (strcmp(request->what, "flush") == 0)
		return flush(mount, request->argument);
	if (strcmp(request->what, "drain") == 0)
		return limit_drain(mount, request->argument);
	if (strcmp(request->what, "end") == 0)
		return raise(SIGTERM) == 0 ? 0 : -errno;
	if (strcmp(request->what, "discard") == 0)
		return discard(mount, request->argument);
	if (strcmp(request->what, "trace") == 0)
		return trace(mount->io_trace, request->argument);
	return -EOPNOTSUPP;
}

/* --- frames ----------------------------------------------------------------------------------- */

/* Takes STATUS. */
static void answer(struct kr_conn *conn, uint64_t id, json_t *status)
{
	KR_AUTO_FREE char *text = status ? json_dumps(status, JSON_COMPACT) : NULL;
	size_t length = text ? strlen(text) : 0;

	json_decref(status);
	if (!text) {
		kr_conn_reply(conn, KR_MSG_STATUS, id, 0, -ENOMEM, NULL, NULL, 0);
		return;
	}
	for (size_t done = 0;; done += PIECE) {
		size_t piece = KR_MIN(length - done, (size_t)PIECE);
		bool more = done + piece < length;
		struct kr_status_reply reply = {
			.json = {.bytes = (const uint8_t *)text + done, .length = (uint32_t)piece}};

		kr_conn_reply(conn, KR_MSG_STATUS, id, more ? KR_FRAME_MORE : 0, 0, &reply, NULL, 0);
		if (!more)
			break;
	}
}

/* --- the access log --------------------------------------------------------------------------- */

static void send_lines(const struct client *client, const char *lines, size_t length)
{
	struct kr_status_reply reply = {.json = {.bytes = (const uint8_t *)lines, .length = (uint32_t)length}};

	kr_conn_reply(client->conn, KR_MSG_STATUS, client->log_id, KR_FRAME_MORE, 0, &reply, NULL, 0);
}

/* A client that reads slowly gets nothing new before its connection has taken all: its lines fill its reader, which
 * counts those that do not fit. */
static void on_log_tick(uv_timer_t *timer)
{
	const struct kr_control *control = timer->data;
	const struct client *client;
	bool reading = false;

	KR_LIST_FOR_EACH(client, &control->clients, link) {
		struct kr_writer lines = {0};

		reading |= client->reader != NULL;
		if (client->reader && kr_conn_queued(client->conn) == 0)
			kr_access_take(client->reader, &lines);
		for (size_t done = 0, piece; done < lines.length; done += piece) {
			const char *text = (const char *)lines.bytes + done;
			const char *end = memrchr(text, '\n', KR_MIN(lines.length - done, (size_t)KR_ACCESS_LINE_MAX));

			piece = (size_t)(end + 1 - text);
			send_lines(client, text, piece);
		}
		kr_writer_fini(&lines);
	}
	if (!reading)
		uv_timer_stop(timer);
}

static void serve_log(struct client *client, uint64_t id, const char *filter)
{
	uv_timer_t *timer = &client->control->log_timer;
	struct kr_access_log *log = client->control->mount->access_log;
	int err = client->reader ? -EBUSY : log ? kr_access_reader_new(log, filter, &client->reader) : -EOPNOTSUPP;

	if (err < 0) {
		kr_conn_reply(client->conn, KR_MSG_STATUS, id, 0, err, NULL, NULL, 0);
		return;
	}
	client->log_id = id;
	send_lines(client, "", 0); /* from now on lines come */
	uv_timer_start(timer, on_log_tick, LOG_INTERVAL_MS, LOG_INTERVAL_MS);
}

/* --- requests --------------------------------------------------------------------------------- */

/* Whether the user may have an answer now.  A user who asks all the time costs the loop little, and keeps no other user
 * out. */
static bool may_ask(struct kr_control *control, uint32_t uid)
{
	const uint64_t now_ns = kr_clock_ns();
	struct user *user = NULL;

	for (size_t i = 0; i < USERS_MAX; i++) {
		if (control->users[i].next_ns > now_ns && control->users[i].uid == uid)
			return false;
		if (control->users[i].next_ns <= now_ns)
			user = &control->users[i];
	}
	if (user)
		*user = (struct user){.uid = uid, .next_ns = now_ns + USER_INTERVAL_MS * KR_NS_PER_MS};
	return user != NULL;
}

/* Other users than the owner may ask for the status alone. */
static void serve_user(struct client *client, uint64_t id, const struct kr_status_request *request)
{
	struct kr_control *control = client->control;

	if (strcmp(request->what, "status") != 0)
		kr_conn_reply(client->conn, KR_MSG_STATUS, id, 0, -EPERM, NULL, NULL, 0);
	else if (kr_conn_queued(client->conn) > 0) /* asks, and does not read */
		kr_conn_close(client->conn, false);
	else if (!may_ask(control, client->uid))
		kr_conn_reply(client->conn, KR_MSG_STATUS, id, 0, -EAGAIN, NULL, NULL, 0);
	else
		answer(client->conn, id, kr_mount_status_for(control->mount, client->uid));
}

static void serve(struct client *client, uint64_t id, const struct kr_status_request *request)
{
	int err;

	if (strcmp(request->what, "log") == 0) {
		serve_log(client, id, request->argument);
		return;
	}
	err = execute(client->control->mount, request);
	if (err < 0)
		kr_conn_reply(client->conn, KR_MSG_STATUS, id, 0, err, NULL, NULL, 0);
	else
		answer(client->conn, id, kr_mount_status(client->control->mount));
}

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct client *client = kr_conn_context(conn);
	const struct kr_frame_header *header = &frame->header;
	union kr_any_msg *msg;
	int err;

	if (header->flags & KR_FRAME_ONEWAY)
		return;
	if (header->type != KR_MSG_STATUS) {
		kr_conn_reply(conn, header->type, header->id, 0, -EPROTO, NULL, NULL, 0);
		return;
	}
	msg = kr_xcalloc(1, sizeof(*msg));
	err = kr_msg_decode(header->type, false, frame->fields, header->fields_length, msg, NULL);
	if (err < 0)
		kr_conn_reply(conn, KR_MSG_STATUS, header->id, 0, -EPROTO, NULL, NULL, 0);
	else if (client->is_user)
		serve_user(client, header->id, &msg->status_request);
	else
		serve(client, header->id, &msg->status_request);
	free(msg);
}

/* --- connections ------------------------------------------------------------------------------ */

static void free_when_done(struct kr_control *control)
{
	if (!control->freed || control->handles > 0 || !kr_list_empty(&control->clients))
		return;
	free(control->path);
	free(control);
}

static void on_conn_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct client *client = kr_conn_context(conn);
	struct kr_control *control = client->control;

	if (err < 0)
		kr_log_debug("control connection: %s", reason);
	kr_access_reader_free(client->reader);
	kr_list_remove(&client->link);
	control->client_count -= !client->is_user;
	free(client);
	free_when_done(control);
}

static const struct kr_conn_handler handler = {.on_frame = on_frame, .on_closed = on_conn_closed};

static struct client *accept_client(uv_stream_t *listener)
{
	struct kr_control *control = listener->data;
	struct client *client = kr_xcalloc(1, sizeof(*client));

	client->control = control;
	if (kr_conn_accept(listener, &handler, client, &client->conn) < 0) {
		free(client);
		return NULL;
	}
	kr_list_append(&control->clients, &client->link);
	return client;
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct kr_control *control = listener->data;
	struct client *client = status < 0 ? NULL : accept_client(listener);

	if (client && ++control->client_count > CONNECTIONS_MAX)
		kr_conn_close(client->conn, false);
}

/* Whether the user, or all users, have too many connections, without those that were refused. */
static bool too_many_users(const struct kr_control *control, uint32_t uid)
{
	const struct client *client;
	int own = 0, all = 0;

	KR_LIST_FOR_EACH(client, &control->clients, link) {
		all += client->is_user && !client->refused;
		own += client->is_user && !client->refused && client->uid == uid;
	}
	return own > USER_CONNECTIONS || all > CONNECTIONS_MAX;
}

static void on_user_connection(uv_stream_t *listener, int status)
{
	struct client *client = status < 0 ? NULL : accept_client(listener);
	int err;

	if (!client)
		return;
	client->is_user = true;
	err = kr_conn_peer_uid(client->conn, &client->uid);
	client->refused = err < 0 || too_many_users(client->control, client->uid);
	if (client->refused)
		kr_conn_close(client->conn, false);
	else
		kr_conn_set_guest(client->conn, true);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct kr_control *control = handle->data;

	control->handles--;
	free_when_done(control);
}

static int listen_to_owner(struct kr_control *control)
{
	int dir = kr_local_fd(control->mount->local);
	char path[64];
	int err;

	/* Through /proc, because a socket's name holds 107 bytes only. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d/control", dir);
	unlinkat(dir, "control", 0);
	err = uv_pipe_bind(&control->listener, path);
	if (err == 0 && fchmodat(dir, "control", 0600, 0) < 0)
		err = -errno;
	if (err == 0)
		err = uv_listen((uv_stream_t *)&control->listener, BACKLOG, on_connection);
	return err < 0 ?
		kr_fail_errno(err, "cannot make the control socket in %s", kr_local_path(control->mount->local)) :
		0;
}

/* A mount without it serves all the same: users are told that they may not ask. */
static void listen_to_users(struct kr_control *control)
{
	int fd = kr_control_users_bind(control->dev_major, control->dev_minor, &control->users_socket);
	int err = fd < 0 ? fd : uv_pipe_open(&control->users_listener, fd);

	if (err == 0)
		err = uv_listen((uv_stream_t *)&control->users_listener, BACKLOG, on_user_connection);
	if (err < 0 && err != -ENOENT)
		kr_log_warn("cannot make the control socket for users: %s", strerror(-err));
}

int kr_control_new(struct kr_mount *mount, unsigned dev_major, unsigned dev_minor, struct kr_control **ret_control)
{
	struct kr_control *control = kr_xcalloc(1, sizeof(*control));
	int err;

	*control = (struct kr_control){.mount = mount, .dev_major = dev_major, .dev_minor = dev_minor, .handles = 3};
	if (asprintf(&control->path, "%s/control", kr_local_path(mount->local)) < 0)
		abort();
	kr_list_init(&control->clients);
	uv_pipe_init(mount->loop, &control->listener, 0);
	uv_pipe_init(mount->loop, &control->users_listener, 0);
	uv_timer_init(mount->loop, &control->log_timer);
	control->listener.data = control->users_listener.data = control->log_timer.data = control;
	err = listen_to_owner(control);
	if (err < 0) {
		kr_control_free(control);
		return err;
	}
	listen_to_users(control);
	if (kr_control_address_write(dev_major, dev_minor, control->path) < 0)
		kr_log_warn("%s; kairan status will not find this mount", kr_fail_reason());
	*ret_control = control;
	return 0;
}

void kr_control_free(struct kr_control *control)
{
	struct client *client, *after;

	if (!control)
		return;
	kr_control_address_remove(control->dev_major, control->dev_minor, control->path);
	control->freed = true;
	KR_LIST_FOR_EACH_SAFE(client, after, &control->clients, link)
		kr_conn_close(client->conn, false);
	kr_control_users_remove(control->dev_major, control->dev_minor, control->users_socket);
	uv_close((uv_handle_t *)&control->listener, on_handle_closed);
	uv_close((uv_handle_t *)&control->users_listener, on_handle_closed);
	uv_close((uv_handle_t *)&control->log_timer, on_handle_closed);
}

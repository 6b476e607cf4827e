/* See borrowed_control.h. */
#include "fuse/daemon/borrowed_control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "fuse/daemon/control_address.h"
#include "fuse/lend/status_relay.h"

enum { BACKLOG = 16, CLIENTS_MAX = 64 };

struct kr_borrowed_control {
	uv_pipe_t listener;
	unsigned dev_major, dev_minor;
	char *path; /* of the socket; owned */
	struct kr_conn *(*to_lender)(void *context);
	void *context;
	struct kr_list clients;
	unsigned client_count;
	bool listens, freed;
};

struct client {
	struct kr_link link;
	struct kr_borrowed_control *control;
	struct kr_conn *conn;
	struct kr_list under_way;
};

static void free_when_done(struct kr_borrowed_control *control)
{
	if (!control->freed || control->listens || !kr_list_empty(&control->clients))
		return;
	free(control->path);
	free(control);
}

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	const struct client *client = kr_conn_context(conn);
	const struct kr_frame_header *header = &frame->header;
	struct kr_arena arena = {0};
	union kr_any_msg msg;

	if (header->flags & KR_FRAME_ONEWAY)
		return;
	if (header->type != KR_MSG_STATUS ||
		kr_msg_decode(header->type, false, frame->fields, header->fields_length, &msg, &arena) < 0)
		kr_conn_reply(conn, header->type, header->id, 0, -EPROTO, NULL, NULL, 0);
	else
		kr_status_relay((struct kr_list *)(uintptr_t)&client->under_way, conn, header->id, &msg.status_request,
			client->control->to_lender(client->control->context), false);
	kr_arena_fini(&arena);
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct client *client = kr_conn_context(conn);
	struct kr_borrowed_control *control = client->control;

	(void)err, (void)reason;
	kr_status_relays_end(&client->under_way);
	kr_list_remove(&client->link);
	control->client_count--;
	free(client);
	free_when_done(control);
}

static void on_connection(uv_stream_t *listener, int status)
{
	static const struct kr_conn_handler handler = {.on_frame = on_frame, .on_closed = on_closed};
	struct kr_borrowed_control *control = listener->data;
	struct client *client;

	if (status < 0)
		return;
	client = kr_xcalloc(1, sizeof(*client));
	client->control = control;
	kr_list_init(&client->under_way);
	if (kr_conn_accept(listener, &handler, client, &client->conn) < 0) {
		free(client);
		return;
	}
	kr_list_append(&control->clients, &client->link);
	if (++control->client_count > CLIENTS_MAX)
		kr_conn_close(client->conn, false);
}

static void on_listener_closed(uv_handle_t *handle)
{
	struct kr_borrowed_control *control = handle->data;

	control->listens = false;
	free_when_done(control);
}

struct kr_borrowed_control *kr_borrowed_control_new(uv_loop_t *loop, unsigned dev_major, unsigned dev_minor,
	struct kr_conn *(*to_lender)(void *context), void *context)
{
	struct kr_borrowed_control *control = kr_xcalloc(1, sizeof(*control));
	int fd = kr_control_owner_bind(dev_major, dev_minor, &control->path), err = fd;

	*control = (struct kr_borrowed_control){.dev_major = dev_major,
		.dev_minor = dev_minor,
		.path = control->path,
		.to_lender = to_lender,
		.context = context,
		.listens = true};
	kr_list_init(&control->clients);
	uv_pipe_init(loop, &control->listener, 0);
	control->listener.data = control;
	if (err >= 0)
		err = uv_pipe_open(&control->listener, fd);
	if (err >= 0)
		err = uv_listen((uv_stream_t *)&control->listener, BACKLOG, on_connection);
	if (err < 0)
		kr_fail_errno(err, "cannot make the control socket");
	else
		err = kr_control_address_write(dev_major, dev_minor, control->path);
	if (err == 0)
		return control;
	kr_log_warn("%s; kairan status will not find this mount", kr_fail_reason());
	kr_borrowed_control_free(control);
	return NULL;
}

void kr_borrowed_control_free(struct kr_borrowed_control *control)
{
	struct client *client, *after;

	if (!control)
		return;
	if (control->path) {
		kr_control_address_remove(control->dev_major, control->dev_minor, control->path);
		unlink(control->path);
	}
	control->freed = true;
	KR_LIST_FOR_EACH_SAFE(client, after, &control->clients, link)
		kr_conn_close(client->conn, false);
	uv_close((uv_handle_t *)&control->listener, on_listener_closed);
}

/* See borrowed_control.h. */
#include "fuse/daemon/borrowed_control.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/daemon/control_address.h"
#include "fuse/lend/status_relay.h"

enum { BACKLOG = 16, CLIENTS_MAX = 64 };

struct client {
	struct kr_link link;
	struct kr_borrowed_control *control;
	struct kr_conn *conn;
	struct kr_list under_way;
};

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct client *client = kr_conn_context(conn);
	const struct kr_frame_header *header = &frame->header;
	union kr_any_msg msg;

	if (header->flags & KR_FRAME_ONEWAY)
		return;
	if (header->type != KR_MSG_STATUS ||
		kr_msg_decode(header->type, false, frame->fields, header->fields_length, &msg, NULL) < 0)
		kr_conn_reply(conn, header->type, header->id, 0, -EPROTO, NULL, NULL, 0);
	else
		kr_status_relay(&client->under_way, conn, header->id, &msg.status_request,
			kr_borrower_conn(client->control->borrower), false);
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct client *client = kr_conn_context(conn);

	(void)err, (void)reason;
	kr_status_relays_end(&client->under_way);
	kr_list_remove(&client->link);
	client->control->client_count--;
	free(client);
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

void kr_borrowed_control_start(struct kr_borrowed_control *control, uv_loop_t *loop)
{
	int fd = kr_control_owner_bind(control->dev_major, control->dev_minor, &control->path), err = fd;

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
		err = kr_control_address_write(control->dev_major, control->dev_minor, control->path);
	if (err < 0)
		kr_log_warn("%s; kairan status will not find this mount", kr_fail_reason());
}

void kr_borrowed_control_stop(struct kr_borrowed_control *control)
{
	struct client *client, *after;

	if (!control->listener.data)
		return;
	if (control->path) {
		kr_control_address_remove(control->dev_major, control->dev_minor, control->path);
		unlink(control->path);
		free(control->path);
	}
	KR_LIST_FOR_EACH_SAFE(client, after, &control->clients, link)
		kr_conn_close(client->conn, false);
	uv_close((uv_handle_t *)&control->listener, NULL);
}

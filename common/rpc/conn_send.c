/* A connection's way out: frames queue up, and one write at a time gathers as many as are waiting.
 *
 * The frames of one turn of the loop leave together at its end, as do those that wait while the socket is full: that is
 * one system call here, one packet, and one read at the peer.  libuv watches the socket only for bytes that the kernel
 * did not take at once.
 * Data is not copied, as the write holds references to the buffers.  Exceptions: data that privacy makes unreadable,
 * and sealed data in several pieces.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/conn_priv.h"
#include "common/base/fail.h"

struct outgoing {
	struct kr_link link;
	struct kr_writer head; /* header and fields, with their tags when sealed */
	size_t data_length;
	size_t length;         /* of all that is sent */
	bool carried;          /* the data goes beside the stream */
	struct kr_buf *hidden; /* carried data with privacy: where its unreadable form goes; or NULL */
	size_t slice_count;
	struct kr_slice slices[];
};

/* FRAME_COST: the memory of a queued frame beside its bytes.  It counts because a peer that takes no replies, of 28
 * bytes each perhaps, would hold several times as much memory as it seems. */
enum { GATHER_BUFFERS = 64, GATHER_BYTES = 1 << 20, FRAME_COST = 192 };

static _Atomic size_t queued_in_all; /* of heads and data, with FRAME_COST, until they are sent */

size_t kr_conn_queued_in_all(void)
{
	return atomic_load_explicit(&queued_in_all, memory_order_relaxed);
}

static void free_outgoing(struct outgoing *out)
{
	if (out->length > 0) /* it has been counted */
		atomic_fetch_sub_explicit(&queued_in_all, out->length + FRAME_COST, memory_order_relaxed);
	for (size_t i = 0; i < out->slice_count; i++)
		kr_buf_put(out->slices[i].buf);
	kr_buf_put(out->hidden);
	kr_writer_fini(&out->head);
	free(out);
}

static void free_list(struct kr_list *list)
{
	struct outgoing *out;

	while ((out = KR_LIST_POP(list, struct outgoing, link)))
		free_outgoing(out);
}

void kr_conn_drop_queue(struct kr_conn *conn)
{
	free_list(&conn->out.waiting);
	free_list(&conn->out.held);
	free_list(&conn->out.in_flight);
	conn->out.bytes = conn->out.frames = 0;
}

size_t kr_conn_queued_frames(const struct kr_conn *conn)
{
	return conn->out.frames;
}

size_t kr_conn_queued(const struct kr_conn *conn)
{
	return conn->out.bytes + conn->out.frames * FRAME_COST +
		(conn->out.writing ? uv_stream_get_write_queue_size(&conn->stream) : 0);
}

/* The next frame has carried data, and must wait for the peer to take some. */
static bool waits_for_carrier(const struct kr_conn *conn)
{
	return KR_LIST_ENTRY(conn->out.waiting.head.next, struct outgoing, link)->carried && !kr_conn_may_carry(conn);
}

/* Takes frames from the outbox, the first of which may leave.  Their parts become BUFS (GATHER_BUFFERS of them), or go
 * to the carrier.  Returns the number of BUFS. */
static unsigned gather(struct kr_conn *conn, uv_buf_t *bufs)
{
	unsigned count = 0;
	size_t bytes = 0;

	do {
		struct outgoing *out = KR_LIST_ENTRY(conn->out.waiting.head.next, struct outgoing, link);

		if (count > 0 && (count + 1 + out->slice_count > GATHER_BUFFERS || bytes + out->length > GATHER_BYTES))
			break;
		kr_list_remove(&out->link);
		kr_list_append(&conn->out.in_flight, &out->link);
		conn->out.bytes -= out->length;
		conn->out.frames--;
		bytes += out->length;
		bufs[count++] = uv_buf_init((char *)out->head.bytes, (unsigned)out->head.length);
		if (out->carried)
			kr_conn_carry_out(conn, out->slices, out->slice_count);
		for (size_t i = 0; i < out->slice_count && !out->carried; i++)
			bufs[count++] = uv_buf_init((char *)out->slices[i].buf->data + out->slices[i].offset,
				(unsigned)out->slices[i].length);
	} while (!kr_list_empty(&conn->out.waiting) && !waits_for_carrier(conn));
	conn->out.bytes_sent += bytes;
	kr_conn_count(&kr_conn_counts.sent, bytes);
	return count;
}

/* Never inside a call of the user's, because the user may be about to send more. */
static void tell_drained(struct kr_conn *conn)
{
	if (conn->state != KR_CONN_OPEN || !conn->out.above_low_water || kr_conn_queued(conn) >= KR_CONN_LOW_WATER)
		return;
	conn->out.above_low_water = false;
	if (conn->handler->on_drain)
		conn->handler->on_drain(conn);
}

static void on_written(uv_write_t *request, int status)
{
	struct kr_conn *conn = KR_CONTAINER_OF(request, struct kr_conn, out.write_request);

	conn->out.writing = false;
	conn->idle_ticks = 0;
	free_list(&conn->out.in_flight);
	if (conn->state == KR_CONN_CLOSING)
		return;
	if (status < 0) {
		kr_conn_end(conn, status, uv_strerror(status));
		return;
	}
	kr_conn_write_more(conn);
	tell_drained(conn);
}

static void on_shut_down(uv_shutdown_t *request, int status)
{
	struct kr_conn *conn = KR_CONTAINER_OF(request, struct kr_conn, shutdown_request);

	if (status < 0 && conn->state != KR_CONN_CLOSING)
		kr_conn_end(conn, 0, "closed");
}

static void shut_down(struct kr_conn *conn)
{
	conn->state = KR_CONN_LINGERING;
	conn->idle_ticks = 0;
	conn->carried.awaited = false;
	kr_conn_read_start(conn); /* for the peer's end */
	if (uv_shutdown(&conn->shutdown_request, &conn->stream, on_shut_down) < 0)
		kr_conn_end(conn, 0, "closed");
}

/* The rest of BUFS behind LENGTH bytes that the kernel has taken. */
static unsigned skip(uv_buf_t *bufs, unsigned count, size_t length, uv_buf_t **ret_rest)
{
	for (; count > 0 && length >= bufs->len; bufs++, count--)
		length -= bufs->len;
	if (count > 0) {
		bufs->base += length;
		bufs->len -= length;
	}
	*ret_rest = bufs;
	return count;
}

/* Writes the gathered frames. */
static void write_some(struct kr_conn *conn)
{
	uv_buf_t bufs[GATHER_BUFFERS], *rest;
	unsigned count = gather(conn, bufs);
	int taken = uv_try_write(&conn->stream, bufs, count), err;

	count = skip(bufs, count, taken > 0 ? (size_t)taken : 0, &rest);
	if (count == 0) {
		conn->idle_ticks = 0;
		free_list(&conn->out.in_flight);
		return;
	}
	err = uv_write(&conn->out.write_request, &conn->stream, rest, count,
		on_written); /* also reports why the kernel took nothing */
	if (err < 0)
		kr_conn_end(conn, err, uv_strerror(err));
	else
		conn->out.writing = true;
}

void kr_conn_write_more(struct kr_conn *conn)
{
	if (!conn->connected)
		return;
	while (!conn->out.writing && (conn->state == KR_CONN_OPEN || conn->state == KR_CONN_FLUSHING)) {
		if (kr_list_empty(&conn->out.waiting)) {
			if (conn->state == KR_CONN_FLUSHING && conn->carried.sending == 0)
				shut_down(conn);
			break;
		}
		if (waits_for_carrier(conn))
			break;
		write_some(conn);
	}
}

static void uncork(uv_idle_t *idle)
{
	struct kr_conn *conn = KR_CONTAINER_OF(idle, struct kr_conn, cork);

	uv_idle_stop(idle); /* first: what on_drain sends is corked anew */
	kr_conn_write_more(conn);
	tell_drained(conn);
}

void kr_conn_uncork(struct kr_conn *conn)
{
	if (!uv_is_active((uv_handle_t *)&conn->cork))
		return;
	uv_idle_stop(&conn->cork);
	kr_conn_write_more(conn);
}

void kr_conn_cork(struct kr_conn *conn)
{
	if (conn->connected && !conn->out.writing)
		uv_idle_start(&conn->cork, uncork);
}

static int check_slices(
	const struct kr_frame_header *header, const struct kr_slice *slices, size_t count, size_t *ret_length)
{
	size_t length = 0;

	if (count >= GATHER_BUFFERS)
		return kr_fail(-EINVAL, "%s: data in %zu pieces", kr_msg_name(header->type), count);
	for (size_t i = 0; i < count; i++)
		length += slices[i].length;
	if (length > kr_msg_data_max(header->type, header->flags & KR_FRAME_REPLY))
		return kr_fail(
			-EINVAL, "%s: %zu bytes of data are more than it can carry", kr_msg_name(header->type), length);
	*ret_length = length;
	return 0;
}

/* Header and fields of the frame; HEADER has all but the lengths. */
static int encode_head(struct kr_frame_header *header, const void *msg, const struct kr_writer *encoded,
	size_t data_length, struct kr_writer *w)
{
	uint8_t blank[KR_FRAME_HEADER] = {0};
	int err = 0;

	kr_put_bytes(w, blank, sizeof(blank));
	if (encoded)
		kr_put_bytes(w, encoded->bytes, encoded->length);
	else if (header->status == 0)
		err = kr_msg_encode(header->type, header->flags & KR_FRAME_REPLY, msg, w);
	else if (kr_status_to_errno(header->status) == -EPROTONOSUPPORT)
		kr_put_u32(w, KR_PROTO_VERSION);
	if (!err && w->failed)
		err = kr_fail_errno(-ENOMEM, "cannot queue a frame");
	if (err)
		return err;
	header->fields_length = (uint32_t)(w->length - KR_FRAME_HEADER);
	header->data_length = (uint32_t)data_length;
	kr_frame_header_encode(header, w->bytes);
	return 0;
}

/* --- sealing --- */

/* Copies OUT's data into one piece of its own. */
static int gather_data(struct outgoing *out)
{
	struct kr_buf *buf = kr_buf_new(out->data_length);

	if (!buf)
		return kr_fail_errno(-ENOMEM, "cannot seal a frame");
	for (size_t i = 0; i < out->slice_count; i++) {
		memcpy(buf->data + buf->length, out->slices[i].buf->data + out->slices[i].offset,
			out->slices[i].length);
		buf->length += out->slices[i].length;
		kr_buf_put(out->slices[i].buf);
	}
	out->slices[0] = (struct kr_slice){buf, 0, buf->length};
	out->slice_count = 1;
	return 0;
}

static int seal_data(struct kr_seal *seal, struct outgoing *out, uint8_t tag[KR_SEAL_TAG])
{
	struct kr_slice *data = &out->slices[0];
	struct kr_buf *hidden = NULL;
	int err = out->slice_count > 1 ? gather_data(out) : 0;

	hidden = out->hidden;
	out->hidden = NULL;
	if (!err && kr_seal_hides(seal) && !hidden && !(hidden = kr_buf_new(data->length)))
		err = kr_fail_errno(-ENOMEM, "cannot seal a frame");
	if (!err)
		err = kr_seal_close(seal, KR_SEAL_DATA, data->buf->data + data->offset, data->length,
			hidden ? hidden->data : NULL, tag);
	if (err) {
		kr_buf_put(hidden);
		return err;
	}
	if (hidden) { /* other users read the original */
		hidden->length = data->length;
		kr_buf_put(data->buf);
		*data = (struct kr_slice){hidden, 0, hidden->length};
	}
	return 0;
}

/* Puts the tags into OUT's head (layout: msgs.def).  After an error SEAL is out of step, and the connection must end.
 */
static int seal_frame(struct kr_seal *seal, struct outgoing *out)
{
	const size_t fields_length = out->head.length - KR_FRAME_HEADER;
	uint8_t tag[KR_SEAL_TAG] = {0};
	struct kr_writer head;
	int err = 0;

	kr_writer_init(&head);
	kr_put_bytes(&head, out->head.bytes, KR_FRAME_HEADER);
	kr_put_bytes(&head, tag, KR_SEAL_TAG); /* room */
	kr_put_bytes(&head, out->head.bytes + KR_FRAME_HEADER, fields_length);
	if (head.failed)
		err = kr_fail_errno(-ENOMEM, "cannot seal a frame");
	if (!err)
		err = kr_seal_close(
			seal, KR_SEAL_HEADER, head.bytes, KR_FRAME_HEADER, head.bytes, head.bytes + KR_FRAME_HEADER);
	if (!err && fields_length > 0) {
		uint8_t *fields = head.bytes + KR_FRAME_HEADER + KR_SEAL_TAG;

		err = kr_seal_close(seal, KR_SEAL_FIELDS, fields, fields_length, fields, tag);
		kr_put_bytes(&head, tag, KR_SEAL_TAG);
	}
	if (!err && out->data_length > 0) {
		err = seal_data(seal, out, tag);
		kr_put_bytes(&head, tag, KR_SEAL_TAG);
	}
	if (!err && head.failed)
		err = kr_fail_errno(-ENOMEM, "cannot seal a frame");
	if (err) {
		kr_writer_fini(&head);
		return err;
	}
	atomic_fetch_add_explicit(&queued_in_all, head.length - out->head.length, memory_order_relaxed);
	out->length += head.length - out->head.length;
	kr_writer_fini(&out->head);
	out->head = head;
	return 0;
}

/* Takes OUT. */
static int put_into_outbox(struct kr_conn *conn, struct outgoing *out)
{
	int err = conn->out.seal ? seal_frame(conn->out.seal, out) : 0;

	if (err) {
		free_outgoing(out);
		kr_conn_end(conn, err, kr_fail_reason());
		return err;
	}
	kr_list_append(&conn->out.waiting, &out->link);
	conn->out.bytes += out->length;
	conn->out.frames++;
	return 0;
}

void kr_conn_send_held(struct kr_conn *conn)
{
	struct outgoing *out;

	while (kr_conn_usable(conn) && (out = KR_LIST_POP(&conn->out.held, struct outgoing, link))) {
		conn->out.bytes -= out->length;
		conn->out.frames--;
		put_into_outbox(conn, out);
	}
	kr_conn_write_more(conn);
}

static bool of_handshake(uint16_t type)
{
	return type == KR_MSG_HOP_HELLO || type == KR_MSG_HOP_PROVE;
}

/* Whether the data goes beside the stream.  With privacy *RET_HIDDEN is then a registered buffer for its unreadable
 * form. */
static bool chooses_carrier(const struct kr_conn *conn, const struct kr_slice *slices, size_t count, size_t length,
	struct kr_buf **ret_hidden)
{
	if (!kr_conn_carries(conn, slices, count, length))
		return false;
	if (!conn->out.seal || !kr_seal_hides(conn->out.seal))
		return true;
	*ret_hidden = kr_buf_new_registered();
	return *ret_hidden;
}

int kr_conn_enqueue(struct kr_conn *conn, struct kr_frame_header header, const void *msg,
	const struct kr_writer *encoded, const struct kr_slice *slices, size_t count)
{
	struct outgoing *out;
	size_t data_length = 0;
	int err;

	if (!kr_conn_usable(conn))
		return kr_fail(-ECONNRESET, "the connection to %s is closing", conn->peer);
	err = check_slices(&header, slices, count, &data_length);
	if (err)
		return err;
	out = calloc(1, sizeof(*out) + count * sizeof(*slices));
	if (!out)
		return kr_fail_errno(-ENOMEM, "cannot queue a frame");
	out->carried = chooses_carrier(conn, slices, count, data_length, &out->hidden);
	if (out->carried)
		header.flags |= KR_FRAME_CARRIED;
	err = encode_head(&header, msg, encoded, data_length, &out->head);
	if (err) {
		free_outgoing(out);
		return err;
	}
	for (; out->slice_count < count; out->slice_count++) {
		out->slices[out->slice_count] = slices[out->slice_count];
		kr_buf_get(slices[out->slice_count].buf);
	}
	if (out->carried)
		conn->carried.queued++;
	out->data_length = data_length;
	out->length = out->head.length + data_length;
	atomic_fetch_add_explicit(&queued_in_all, out->length + FRAME_COST, memory_order_relaxed);
	if (conn->out.holding && !of_handshake(header.type)) {
		kr_list_append(&conn->out.held, &out->link);
		conn->out.bytes += out->length;
		conn->out.frames++;
	} else {
		err = put_into_outbox(conn, out);
		if (err)
			return err;
		kr_conn_cork(conn);
	}
	if (kr_conn_queued(conn) > KR_CONN_LOW_WATER)
		conn->out.above_low_water = true;
	return 0;
}

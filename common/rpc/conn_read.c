/* A connection's way in: bytes to frames.
 *
 * RECEIVED takes headers and fields, as many as come.  A frame's data goes from the socket straight into its kr_buf;
 * only the part that came along with the fields (at most READ_AHEAD bytes) is copied.  A frame is delivered when it is
 * complete.  The parser checks lengths before it allocates memory for them.  It opens a sealed frame in place: the
 * header first, then the fields, then the data.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/conn_priv.h"
#include "common/base/fail.h"
#include "common/base/util.h"

enum {
	TURN_NS = 1000000
}; /* the longest time for one connection in a turn of the loop, so that others have their turn */
/* REFUSALS_MAX: more than may wait for any peer whose requests are served (KR_SESSION_QUEUE_MAX). */
enum { READ_AHEAD = 8192, REFUSALS_MAX = 9 << 20, GUEST_REFUSALS_MAX = 64 << 10, GUEST_FIELDS_MAX = 17 << 10 };

static bool wants_data(const struct kr_conn *conn)
{
	return conn->in.frame.data && conn->in.frame.data->length < conn->in.frame.header.data_length;
}

/* Bytes of the header, and of its tag. */
static size_t header_size(const struct kr_conn *conn)
{
	return KR_FRAME_HEADER + (conn->in.seal ? KR_SEAL_TAG : 0);
}

/* How many bytes RECEIVED must hold, from PARSED on, for the next step of the parser: the header, then all but the
 * data. */
static size_t bytes_needed(const struct kr_conn *conn)
{
	const struct kr_frame_header *header = &conn->in.frame.header;
	size_t tags = conn->in.seal ? (header->fields_length > 0) + (header->data_length > 0) : 0;

	return header_size(conn) + (conn->in.have_header ? header->fields_length + tags * KR_SEAL_TAG : 0);
}

/* Moves unparsed bytes to the front and makes room for the next header and fields. */
static int make_room(struct kr_conn *conn)
{
	size_t wanted = KR_MAX(bytes_needed(conn), (size_t)READ_AHEAD);

	if (conn->in.parsed > 0) {
		conn->in.received_length -= conn->in.parsed;
		memmove(conn->in.received, conn->in.received + conn->in.parsed, conn->in.received_length);
		conn->in.parsed = 0;
	}
	if (wanted > conn->in.received_capacity) {
		uint8_t *larger = realloc(conn->in.received, wanted);

		if (!larger)
			return -ENOMEM;
		conn->in.received = larger;
		conn->in.received_capacity = wanted;
	}
	return 0;
}

/* Where the next bytes go. A buffer of length 0 tells libuv that there is no memory. */
static void choose_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
	struct kr_conn *conn = KR_CONTAINER_OF(handle, struct kr_conn, handle);
	struct kr_buf *data = conn->in.frame.data;

	(void)suggested;
	if (!kr_conn_parses(conn)) {
		conn->in.parsed = conn->in.received_length; /* dropped */
		data = NULL;
	}
	if (data && wants_data(conn))
		*ret_buf = uv_buf_init((char *)data->data + data->length,
			(unsigned)(conn->in.frame.header.data_length - data->length));
	else if (make_room(conn) < 0)
		*ret_buf = uv_buf_init(NULL, 0);
	else
		*ret_buf = uv_buf_init((char *)conn->in.received + conn->in.received_length,
			(unsigned)(KR_MAX(bytes_needed(conn), (size_t)READ_AHEAD) - conn->in.received_length));
}

/* true also for replies and unknown types: other code checks those. */
static bool belongs_to_rings(const struct kr_frame_header *header)
{
	enum kr_direction direction;

	return header->flags & KR_FRAME_REPLY || !kr_msg_known(header->type, &direction) ||
		direction == KR_DIRECTION_RING;
}

static int begin_frame(struct kr_conn *conn)
{
	uint8_t *header = conn->in.received + conn->in.parsed;
	int err = 0;

	if (conn->in.seal)
		err = kr_seal_open(conn->in.seal, KR_SEAL_HEADER, header, KR_FRAME_HEADER, header + KR_FRAME_HEADER);
	if (!err)
		err = kr_frame_header_decode(header, &conn->in.frame.header);
	if (err)
		return err;
	if (conn->guest &&
		(conn->in.frame.header.data_length || conn->in.frame.header.fields_length > GUEST_FIELDS_MAX))
		return kr_fail(-EBADMSG, "%s with %u and %u bytes before the peer has said who it is",
			kr_msg_name(conn->in.frame.header.type), conn->in.frame.header.fields_length,
			conn->in.frame.header.data_length);
	if (conn->ring && !belongs_to_rings(&conn->in.frame.header))
		return kr_fail(-EBADMSG, "%s on a ring connection", kr_msg_name(conn->in.frame.header.type));
	conn->in.have_header = true;
	return 0;
}

/* Header and fields have arrived. */
static int open_fields(struct kr_conn *conn)
{
	const uint32_t length = conn->in.frame.header.fields_length;
	uint8_t *fields = conn->in.received + conn->in.parsed + header_size(conn);

	return conn->in.seal && length > 0 ?
		kr_seal_open(conn->in.seal, KR_SEAL_FIELDS, fields, length, fields + length) :
		0;
}

/* The data has arrived; its tag is the last thing before it. */
static int open_data(struct kr_conn *conn)
{
	struct kr_buf *data = conn->in.frame.data;
	const uint8_t *tag = conn->in.received + conn->in.parsed + bytes_needed(conn) - KR_SEAL_TAG;

	return conn->in.seal ? kr_seal_open(conn->in.seal, KR_SEAL_DATA, data->data, data->length, tag) : 0;
}

/* Header and fields have arrived: copies the data that came with them.  1; 0: the carried data has not arrived yet; or
 * -errno. */
static int begin_data(struct kr_conn *conn)
{
	size_t head = bytes_needed(conn), length = conn->in.frame.header.data_length, here;

	if (conn->in.frame.header.flags & KR_FRAME_CARRIED) {
		int err = kr_conn_carry_in(conn, &conn->in.frame.header, &conn->in.frame.data);

		return err ? err : conn->in.frame.data != NULL;
	}
	here = KR_MIN(length, conn->in.received_length - conn->in.parsed - head);
	conn->in.frame.data = kr_buf_new(length);
	if (!conn->in.frame.data)
		return kr_fail_errno(-ENOMEM, "no memory for %zu bytes of data", length);
	memcpy(conn->in.frame.data->data, conn->in.received + conn->in.parsed + head, here);
	conn->in.frame.data->length = here;
	conn->in.data_alongside = here;
	return 1;
}

static void answer_unknown_type(struct kr_conn *conn, const struct kr_frame_header *header)
{
	if (!(header->flags & KR_FRAME_ONEWAY))
		kr_conn_reply(conn, header->type, header->id, 0, -EPROTO, NULL, NULL, 0);
	if (kr_conn_queued(conn) >
		(size_t)(conn->guest ? GUEST_REFUSALS_MAX : REFUSALS_MAX)) /* no sender watches the queue for these */
		kr_conn_end(conn, -EBADMSG, "the peer sends garbage and takes no answers");
}

/* Delivers the complete frame.  PARSED stays in front of its fields meanwhile, so that they keep their place. */
static void deliver(struct kr_conn *conn)
{
	struct kr_frame frame = conn->in.frame;
	size_t taken = bytes_needed(conn) + conn->in.data_alongside;

	frame.fields = conn->in.received + conn->in.parsed + header_size(conn);
	conn->in.frame = (struct kr_frame){0};
	conn->in.have_header = conn->in.have_fields = false;
	conn->in.data_alongside = 0;
	if (frame.header.type == KR_MSG_HOP_CREDIT && frame.header.flags & KR_FRAME_ONEWAY && conn->carried.used)
		kr_conn_take_credits(conn, &frame);
	else if (conn->state != KR_CONN_OPEN)
		; /* flushing: dropped */
	else if (frame.header.flags & KR_FRAME_REPLY)
		kr_conn_take_reply(conn, &frame);
	else if (!kr_msg_known(frame.header.type, NULL))
		answer_unknown_type(conn, &frame.header);
	else
		conn->handler->on_frame(conn, &frame);
	kr_buf_put(frame.data);
	conn->in.parsed += taken;
	if (conn->ring && conn->out.frames > KR_CONN_UNTAKEN_MAX)
		kr_conn_end(conn, -EBADMSG, "the peer asks and takes no answers");
}

/* One step of the parser.  1: progress; 0: it needs more bytes; or -errno. */
static int parse_step(struct kr_conn *conn)
{
	int err;

	if (conn->in.frame.data) {
		if (wants_data(conn))
			return 0;
		err = open_data(conn);
		if (err)
			return err;
		deliver(conn);
		return 1;
	}
	if (conn->in.received_length - conn->in.parsed < bytes_needed(conn))
		return 0;
	if (!conn->in.have_header) {
		err = begin_frame(conn);
		return err ? err : 1;
	}
	if (!conn->in.have_fields) {
		err = open_fields(conn);
		if (err)
			return err;
		conn->in.have_fields = true;
	}
	if (conn->in.frame.header.data_length > 0)
		return begin_data(conn);
	deliver(conn);
	return 1;
}

/* Whether this connection, read since BEGAN_NS, has used up its turn. */
static bool has_had_its_turn(struct kr_conn *conn, uint64_t began_ns)
{
	return conn->in.turn_ns + (kr_clock_ns() - began_ns) > TURN_NS;
}

/* Frames that have arrived are to be parsed now. */
static bool goes_on(const struct kr_conn *conn)
{
	return kr_conn_delivers(conn) || (conn->state == KR_CONN_FLUSHING && kr_conn_parses(conn));
}

static void parse(struct kr_conn *conn)
{
	const uint64_t began_ns = kr_clock_ns();
	int step = 1;

	if (conn->in.turn != uv_now(conn->loop))
		conn->in.turn_ns = 0;
	conn->in.turn = uv_now(conn->loop);
	while (step > 0 && goes_on(conn) && !has_had_its_turn(conn, began_ns))
		step = parse_step(conn);
	conn->in.turn_ns += kr_clock_ns() - began_ns;
	if (step < 0) {
		kr_conn_end(conn, step, kr_fail_reason());
	} else if (step > 0 && goes_on(conn)) {
		uv_read_stop(&conn->stream);
		kr_conn_read_kick(conn);
	} else if (conn->carried.awaited) {
		uv_read_stop(&conn->stream);
	}
}

static void peer_ended(struct kr_conn *conn)
{
	if (conn->state != KR_CONN_OPEN)
		kr_conn_end(conn, 0, "closed");
	else if (conn->in.received_length > conn->in.parsed || conn->in.have_header)
		kr_conn_end(conn, -ECONNRESET, "the peer closed the connection in the middle of a frame");
	else
		kr_conn_end(conn, 0, "closed by the peer");
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buf)
{
	struct kr_conn *conn = KR_CONTAINER_OF(stream, struct kr_conn, stream);

	(void)buf;
	if (length == UV_EOF) {
		peer_ended(conn);
	} else if (length < 0) {
		kr_conn_end(conn, (int)length, uv_strerror((int)length));
	} else if (length > 0 && kr_conn_parses(conn)) {
		conn->in.bytes_received += (uint64_t)length;
		kr_conn_count(&kr_conn_counts.received, (uint64_t)length);
		if (wants_data(conn))
			conn->in.frame.data->length += (size_t)length;
		else
			conn->in.received_length += (size_t)length;
		parse(conn);
	}
}

void kr_conn_read_start(struct kr_conn *conn)
{
	int err;

	if (conn->carried.awaited)
		return; /* kr_conn_read_kick follows */
	err = uv_read_start(&conn->stream, choose_buffer, on_read);
	if (err < 0 && err != UV_EALREADY)
		kr_conn_end(conn, err, uv_strerror(err));
}

void kr_conn_read_fini(struct kr_conn *conn)
{
	kr_buf_put(conn->in.frame.data);
	free(conn->in.received);
}

void kr_conn_set_guest(struct kr_conn *conn, bool guest)
{
	conn->guest = guest;
}

void kr_conn_set_ring(struct kr_conn *conn)
{
	conn->ring = true;
}

void kr_conn_pause(struct kr_conn *conn)
{
	if (conn->in.paused++ == 0 && conn->state == KR_CONN_OPEN)
		uv_read_stop(&conn->stream);
}

/* Frames that arrived before the pause come first.  Reading goes on after them, so that the end of the stream comes
 * last. */
static void deliver_received(uv_idle_t *kick)
{
	struct kr_conn *conn = KR_CONTAINER_OF(kick, struct kr_conn, kick);

	uv_idle_stop(kick);
	conn->in.turn_ns = 0;
	if (goes_on(conn))
		parse(conn);
	if (goes_on(conn) && !uv_is_active((uv_handle_t *)kick))
		kr_conn_read_start(conn);
}

void kr_conn_read_kick(struct kr_conn *conn)
{
	if (goes_on(conn))
		uv_idle_start(&conn->kick, deliver_received);
}

void kr_conn_resume(struct kr_conn *conn)
{
	assert(conn->in.paused > 0);
	if (--conn->in.paused == 0 && conn->state == KR_CONN_OPEN)
		uv_idle_start(&conn->kick, deliver_received);
}

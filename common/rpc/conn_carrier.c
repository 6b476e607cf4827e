/* Data of frames beside the stream: the account of credits, and which data belongs to which frame (carrier.h).
 *
 * The receiver gives its carrier a new buffer for each data that the parser takes, so credits come back as fast as
 * frames are delivered.  It takes the buffer from the registered pool.  When that is empty, it copies the data into
 * another buffer, and gives the carrier the same one again.  So no connection waits for memory that another holds.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/types.h"
#include "common/rpc/conn_priv.h"

enum { TELL = KR_CARRIER_GRANTS / 4 };

void kr_conn_carry(struct kr_conn *conn, struct kr_carrier *carrier)
{
	assert(!conn->carried.used && kr_conn_usable(conn));
	carrier->conn = conn;
	conn->carried.carrier = carrier;
	conn->carried.used = true;
}

bool kr_conn_had_carrier(const struct kr_conn *conn)
{
	return conn->carried.used;
}

const char *kr_conn_transport(const struct kr_conn *conn)
{
	return conn->carried.open ? conn->carried.carrier->ops->name : "tcp";
}

uint64_t kr_conn_carried_bytes(const struct kr_conn *conn)
{
	return conn->carried.bytes;
}

/* --- in --- */

static int give(struct kr_conn *conn, struct kr_buf *buf)
{
	struct kr_carrier *carrier = conn->carried.carrier;
	int err = carrier->ops->receive(carrier, buf);

	conn->carried.granted += err == 0;
	return err;
}

int kr_conn_grant(struct kr_conn *conn)
{
	int err = 0;

	while (!err && conn->carried.granted < KR_CARRIER_GRANTS) {
		struct kr_buf *buf = kr_buf_new_registered();

		if (!buf)
			break;
		err = give(conn, buf);
	}
	if (!err && conn->carried.granted < KR_CARRIER_GRANTS_MIN)
		err = kr_fail(-ENOBUFS, "the pool of registered buffers is used up");
	return err ? err : (int)conn->carried.granted;
}

void kr_conn_carrier_received(struct kr_conn *conn, struct kr_buf *buf)
{
	struct kr_conn_carried *carried = &conn->carried;

	carried->arrived[(carried->first + carried->arrived_count) % KR_CARRIER_GRANTS] = buf;
	carried->arrived_count++;
	carried->granted--;
	carried->steps++;
	if (!carried->awaited)
		return;
	carried->awaited = false;
	kr_conn_read_kick(conn);
}

/* A copy of BUF's bytes, so that BUF is free. */
static int copy_out(struct kr_buf *buf, struct kr_buf **ret_copy)
{
	struct kr_buf *copy = kr_buf_new(buf->length);

	if (!copy)
		return kr_fail_errno(-ENOMEM, "no memory for %zu bytes of data", buf->length);
	memcpy(copy->data, buf->data, buf->length);
	copy->length = buf->length;
	*ret_copy = copy;
	return 0;
}

/* Gives the carrier a buffer in place of *BUF, perhaps *BUF itself. */
static int replace(struct kr_conn *conn, struct kr_buf **buf)
{
	struct kr_buf *fresh = (*buf)->length < KR_BUF_POOLED_MIN ? NULL : kr_buf_new_registered();
	int err = 0;

	if (!conn->carried.carrier) {
		kr_buf_put(fresh);
		return 0; /* gone: this arrived before */
	}
	if (!fresh) {
		struct kr_buf *copy;

		err = copy_out(*buf, &copy);
		if (err)
			return err;
		fresh = *buf;
		fresh->length = 0;
		*buf = copy;
	}
	err = give(conn, fresh);
	if (!err && ++conn->carried.untold >= TELL) {
		struct kr_hop_credit_request credit = {.count = conn->carried.untold};

		if (conn->out.frames > KR_CONN_UNTAKEN_MAX)
			return kr_fail(-EBADMSG, "the peer sends data and takes no credits");
		conn->carried.untold = 0;
		kr_conn_oneway(conn, KR_MSG_HOP_CREDIT, &credit, NULL, 0);
	}
	return err;
}

int kr_conn_carry_in(struct kr_conn *conn, const struct kr_frame_header *header, struct kr_buf **ret_buf)
{
	struct kr_conn_carried *carried = &conn->carried;
	struct kr_buf *buf;
	int err;

	*ret_buf = NULL;
	if (carried->arrived_count == 0) {
		if (!carried->carrier)
			return kr_fail(carried->used ? -ECONNRESET : -EBADMSG, "%s without its data",
				kr_msg_name(header->type));
		carried->awaited = true;
		return 0;
	}
	buf = carried->arrived[carried->first];
	if (buf->length != header->data_length)
		return kr_fail(-EBADMSG, "%s: %zu bytes of data came instead of %u", kr_msg_name(header->type),
			buf->length, header->data_length);
	carried->first = (carried->first + 1) % KR_CARRIER_GRANTS;
	carried->arrived_count--;
	err = replace(conn, &buf);
	if (err) {
		kr_buf_put(buf);
		return err;
	}
	conn->in.bytes_received += buf->length;
	kr_conn_count(&kr_conn_counts.received, buf->length);
	carried->bytes += buf->length;
	*ret_buf = buf;
	return 0;
}

/* --- out --- */

void kr_conn_carrier_opened(struct kr_conn *conn, uint32_t credits)
{
	if (!kr_conn_usable(conn))
		return; /* what has arrived since it was closed was dropped, perhaps in the middle of a frame */
	conn->carried.open = true;
	conn->carried.sends = credits > 0;
	conn->carried.credits = credits;
}

/* Small data costs less in the stream than a buffer of the peer's.  Sealed data in pieces is put together first. */
bool kr_conn_carries(const struct kr_conn *conn, const struct kr_slice *slices, size_t count, size_t length)
{
	if (!conn->carried.open || !conn->carried.sends || length < KR_BUF_POOLED_MIN || length > KR_BLOCK_SIZE ||
		count > (conn->out.seal ? 1 : KR_CARRIER_SLICES))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!kr_buf_is_registered(slices[i].buf))
			return false;
	}
	return true;
}

void kr_conn_carry_out(struct kr_conn *conn, const struct kr_slice *slices, size_t count)
{
	struct kr_conn_carried *carried = &conn->carried;

	carried->credits--;
	carried->queued--;
	carried->sending++;
	for (size_t i = 0; i < count; i++)
		carried->bytes += slices[i].length;
	carried->carrier->ops->send(carried->carrier, slices, count);
}

void kr_conn_carrier_sent(struct kr_conn *conn)
{
	conn->carried.sending--;
	conn->carried.steps++;
	conn->idle_ticks = 0;
	kr_conn_cork(conn);
}

void kr_conn_take_credits(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct kr_hop_credit_request credit;
	int err = kr_msg_decode(KR_MSG_HOP_CREDIT, false, frame->fields, frame->header.fields_length, &credit, NULL);

	if (!err && credit.count > KR_CARRIER_CREDITS - conn->carried.credits)
		err = kr_fail(-EBADMSG, "%u credits beside %u", credit.count, conn->carried.credits);
	if (err) {
		kr_conn_end(conn, err, kr_fail_reason());
		return;
	}
	if (!conn->carried.open)
		return; /* the carrier has gone meanwhile */
	conn->carried.credits += credit.count;
	conn->idle_ticks = 0;
	kr_conn_cork(conn);
}

/* --- the end --- */

bool kr_conn_carrier_is_stuck(struct kr_conn *conn)
{
	struct kr_conn_carried *carried = &conn->carried;
	bool stuck = (carried->sending > 0 || carried->awaited) && carried->steps == carried->steps_seen;

	carried->steps_seen = carried->steps;
	return stuck;
}

void kr_conn_carrier_gone(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_conn_carried *carried = &conn->carried;
	bool lost = carried->queued > 0 || carried->sending > 0 || carried->awaited;

	carried->carrier = NULL;
	carried->open = false;
	carried->credits = carried->granted = carried->untold = 0;
	if (lost)
		kr_conn_end(conn, err, reason);
}

void kr_conn_carrier_close(struct kr_conn *conn, int err)
{
	struct kr_conn_carried *carried = &conn->carried;
	struct kr_carrier *carrier = carried->carrier;

	carried->carrier = NULL;
	carried->open = false;
	if (carrier)
		carrier->ops->close(carrier, err);
	for (; carried->arrived_count > 0; carried->arrived_count--) {
		kr_buf_put(carried->arrived[carried->first]);
		carried->first = (carried->first + 1) % KR_CARRIER_GRANTS;
	}
}

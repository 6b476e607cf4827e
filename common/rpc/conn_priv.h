/* Shared by the files of the connection: conn.c (life and death), conn_send.c (queue and writes), conn_read.c (frames
 * in), conn_carrier.c (data beside the stream).  All of it runs in the loop's thread.
 *
 * Life: CONNECTING -> OPEN -> [FLUSHING -> LINGERING] -> CLOSING -> freed.  kr_conn_end closes the handles once; the
 * last of their close callbacks ends all requests, calls on_closed and frees.  A callback of the user's may call any
 * function of conn.h: so no code relies on the parser's or the queue's old state after a callback.
 */
#ifndef KR_COMMON_CONN_PRIV_H
#define KR_COMMON_CONN_PRIV_H

#include <stdatomic.h>

#include "common/rpc/carrier.h"
#include "common/rpc/conn.h"
#include "common/base/list.h"
#include "common/base/table.h"

enum kr_conn_state {
	KR_CONN_CONNECTING,
	KR_CONN_OPEN,
	KR_CONN_FLUSHING,  /* this side has closed: the queue is still sent, arriving bytes are dropped */
	KR_CONN_LINGERING, /* all is sent; a reset before the peer's end would destroy bytes on their way */
	KR_CONN_CLOSING,
};

/* Frames out (conn_send.c). The lists are of struct outgoing. */
struct kr_conn_out {
	struct kr_list waiting;   /* not yet given to the kernel */
	struct kr_list in_flight; /* in WRITE_REQUEST */
	struct kr_list held;      /* not sealed yet: kr_conn_release sends them */
	size_t bytes, frames;     /* of waiting and held */
	bool writing, above_low_water;
	bool holding, close_when_released;
	uv_write_t write_request;
	uint64_t bytes_sent;
	struct kr_seal *seal; /* NULL: not sealed */
};

/* Frames in (conn_read.c). */
struct kr_conn_in {
	unsigned paused;
	uint64_t turn;     /* the present turn of the loop ... */
	uint64_t turn_ns;  /* ... and how long this connection has been read in it */
	uint8_t *received; /* bytes of the next header and fields, and perhaps more */
	size_t received_length, received_capacity, parsed;
	bool have_header;      /* FRAME's header is decoded; its bytes are still in RECEIVED */
	bool have_fields;      /* ... and its fields are there and opened */
	struct kr_frame frame; /* data: being filled */
	size_t data_alongside; /* bytes of FRAME's data that came in RECEIVED, behind the fields */
	uint64_t bytes_received;
	struct kr_seal *seal; /* NULL: not sealed */
};

/* Data beside the stream (conn_carrier.c). */
struct kr_conn_carried {
	struct kr_carrier *carrier; /* NULL: all data goes in the stream */
	bool used;                  /* there is a carrier, or there was one */
	bool open, sends;           /* the carrier moves data; the peer takes some */
	uint32_t credits;           /* of the peer, not used yet */
	uint32_t queued, sending;   /* frames with carried data that wait; data under way */
	uint32_t granted;           /* receives that the carrier has */
	uint32_t untold;            /* of these, not told to the peer */
	struct kr_buf *arrived[KR_CARRIER_GRANTS];
	size_t first, arrived_count; /* in ARRIVED, which is a ring */
	bool awaited;                /* the frame being read lacks its data: the stream is not read meanwhile */
	uint64_t steps, steps_seen;  /* data sent or arrived; as of the last tick */
	uint64_t bytes;              /* of it */
};

struct kr_conn {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	};
	uv_timer_t watch; /* detects dead peers */
	uv_idle_t kick;   /* delivers frames that had arrived before a pause */
	uv_idle_t cork;   /* active: frames were sent in this turn of the loop, and leave together at its end */
	uv_loop_t *loop;
	int open_handles;
	enum kr_conn_state state;
	const struct kr_conn_handler *handler;
	void *context;
	char peer[80];
	int end_err;
	char end_reason[256];
	unsigned idle_ticks; /* of the watch: since the last progress or sign of life */
	struct sockaddr_storage remote;

	bool connected;
	bool reset; /* kr_conn_reset ends it */
	uint16_t reply_flags; /* of the reply under delivery */
	uv_shutdown_t shutdown_request;
	uv_connect_t connect_request;

	struct kr_table requests; /* of struct request (conn.c), by id */
	struct kr_list requests_in_order;
	uint64_t last_id;

	bool guest, ring; /* see kr_conn_set_guest, kr_conn_set_ring */
	enum kr_security security;
	struct kr_conn_out out;
	struct kr_conn_in in;
	struct kr_conn_carried carried;
};

/* conn.c: the connection ends; on_closed follows.  Only the first call counts. */
void kr_conn_end(struct kr_conn *conn, int err, const char *reason);
/* conn.c: runs the callback of the request that FRAME answers. */
void kr_conn_take_reply(struct kr_conn *conn, const struct kr_frame *frame);
/* conn_send.c: starts a write if none is under way; frees what is queued. */
void kr_conn_write_more(struct kr_conn *conn);
void kr_conn_drop_queue(struct kr_conn *conn);
/* Writes what the kernel takes at once of the frames of this turn, because the connection ends. */
void kr_conn_uncork(struct kr_conn *conn);
/* Queues a frame with the fields of MSG, or ENCODED (NULL: MSG is to be encoded). */
int kr_conn_enqueue(struct kr_conn *conn, struct kr_frame_header header, const void *msg,
	const struct kr_writer *encoded, const struct kr_slice *slices, size_t count);
/* conn_send.c: seals and queues the frames that kr_conn_hold held back. */
void kr_conn_send_held(struct kr_conn *conn);
/* conn_read.c: starts to read; delivers complete frames until paused or closing. */
void kr_conn_read_start(struct kr_conn *conn);
void kr_conn_read_fini(struct kr_conn *conn);
/* conn_read.c: goes on with what has arrived, from the loop. */
void kr_conn_read_kick(struct kr_conn *conn);
/* conn_send.c: sends what waits, in the loop's next turn. */
void kr_conn_cork(struct kr_conn *conn);

/* conn_carrier.c */
/* Whether data of this shape goes through the carrier. */
bool kr_conn_carries(const struct kr_conn *conn, const struct kr_slice *slices, size_t count, size_t length);
/* Whether a frame with carried data may leave now. */
static inline bool kr_conn_may_carry(const struct kr_conn *conn)
{
	return conn->carried.credits > 0 && conn->carried.sending < KR_CARRIER_SENDS;
}
/* Sends the data of a queued frame. */
void kr_conn_carry_out(struct kr_conn *conn, const struct kr_slice *slices, size_t count);
/* The carried data of the frame with HEADER, owned, and a new receive for the carrier; *RET_BUF is NULL if it has not
 * arrived yet.  -EBADMSG, -ENOMEM, -ECONNRESET. */
int kr_conn_carry_in(struct kr_conn *conn, const struct kr_frame_header *header, struct kr_buf **ret_buf);
/* Takes HOP_CREDIT. */
void kr_conn_take_credits(struct kr_conn *conn, const struct kr_frame *frame);
/* Data is under way or awaited, and none has moved since the last call. */
bool kr_conn_carrier_is_stuck(struct kr_conn *conn);
/* The connection ends with ERR: closes the carrier, and puts what has arrived. */
void kr_conn_carrier_close(struct kr_conn *conn, int err);

/* For kr_conn_sums. */
extern struct kr_conn_counts {
	_Atomic uint64_t requests, received, sent;
} kr_conn_counts;

static inline void kr_conn_count(_Atomic uint64_t *sum, uint64_t more)
{
	atomic_fetch_add_explicit(sum, more, memory_order_relaxed);
}

static inline bool kr_conn_delivers(const struct kr_conn *conn)
{
	return conn->state == KR_CONN_OPEN && conn->in.paused == 0;
}
/* Arriving frames are parsed.  While it flushes only for the credits among them; all others are dropped. */
static inline bool kr_conn_parses(const struct kr_conn *conn)
{
	return conn->state == KR_CONN_OPEN || (conn->state == KR_CONN_FLUSHING && conn->carried.open);
}
static inline bool kr_conn_usable(const struct kr_conn *conn)
{
	return conn->state == KR_CONN_CONNECTING || conn->state == KR_CONN_OPEN;
}

#endif

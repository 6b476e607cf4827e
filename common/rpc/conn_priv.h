/* What the files of the connection share: conn.c (life and death), conn_send.c (queue and writes), conn_read.c (frames
 * in).  Everything here runs in the loop's thread.
 *
 * Life: CONNECTING -> OPEN -> [FLUSHING -> LINGERING] -> CLOSING -> freed.  Handles are closed once, by kr_conn_end;
 * the last of their close callbacks ends all requests, calls on_closed and frees.  Callbacks of the user's may call any
 * function of conn.h: so nothing looks at the parser's or the queue's old state after one has run.
 */
#ifndef KR_COMMON_CONN_PRIV_H
#define KR_COMMON_CONN_PRIV_H

#include "common/rpc/conn.h"
#include "common/base/list.h"
#include "common/base/table.h"

enum kr_conn_state {
	KR_CONN_CONNECTING,
	KR_CONN_OPEN,
	KR_CONN_FLUSHING,  /* closed by our side: the queue is still sent, what arrives is thrown away */
	KR_CONN_LINGERING, /* all is sent; waits for the peer's end, so that a reset does not destroy bytes on their way
			    */
	KR_CONN_CLOSING,
};

struct kr_conn {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	};
	uv_timer_t watch; /* notices dead peers */
	uv_idle_t kick;   /* delivers what had been received when the connection was paused */
	uv_idle_t cork; /* active: a frame has been sent in this turn of the loop; before it waits again those behind it
			   leave together */
	uv_loop_t *loop;
	int open_handles;
	enum kr_conn_state state;
	const struct kr_conn_handler *handler;
	void *context;
	char peer[80];
	int end_err;
	char end_reason[256];
	unsigned idle_ticks; /* of the watch: since the state's last progress, or sign of life */
	struct sockaddr_storage remote;

	bool connected;
	uint16_t reply_flags;               /* of the reply that is being delivered */
	struct kr_list outbox;              /* of struct outgoing (conn_send.c), not yet given to the kernel */
	struct kr_list in_flight;           /* of struct outgoing, in WRITE_REQUEST */
	struct kr_list held;                /* of struct outgoing, not sealed yet: sent at the release */
	size_t outbox_bytes, outbox_frames; /* of outbox and held */
	bool writing, above_low_water;
	bool holding, close_when_released;
	uv_write_t write_request;
	uv_shutdown_t shutdown_request;
	uv_connect_t connect_request;

	struct kr_table requests; /* of struct request (conn.c), by id */
	struct kr_list requests_in_order;
	uint64_t last_id;

	bool guest, ring; /* see kr_conn_set_guest, kr_conn_set_ring */
	unsigned paused;
	uint64_t turn;     /* the loop's time ... */
	uint64_t turn_ns;  /* ... in which it has been heard for so long */
	uint8_t *received; /* bytes of the next header and fields, and perhaps more */
	size_t received_length, received_capacity, parsed;
	bool have_header;      /* FRAME's header is decoded; its bytes are still in RECEIVED */
	struct kr_frame frame; /* data: being filled */
	size_t data_alongside; /* bytes of FRAME's data that came in RECEIVED, behind the fields */

	uint64_t bytes_received, bytes_sent;

	enum kr_security security;
	struct kr_seal *seal_out, *seal_in; /* NULL: not sealed */
};

/* conn.c: the connection is over; on_closed follows. Only the first call counts. */
void kr_conn_end(struct kr_conn *conn, int err, const char *reason);
/* conn.c: runs the callback of the request that FRAME answers. */
void kr_conn_take_reply(struct kr_conn *conn, const struct kr_frame *frame);
/* conn_send.c: starts a write if none is under way; frees what is queued. */
void kr_conn_write_more(struct kr_conn *conn);
void kr_conn_uncork(uv_idle_t *cork);
void kr_conn_drop_queue(struct kr_conn *conn);
int kr_conn_enqueue(struct kr_conn *conn, struct kr_frame_header header, const void *msg, const struct kr_slice *slices,
	size_t count);
/* conn_send.c: the next frames are sealed; what was held is. */
void kr_conn_send_held(struct kr_conn *conn);
/* conn_read.c: starts to read; delivers complete frames until paused or closing. */
void kr_conn_read_start(struct kr_conn *conn);
void kr_conn_read_fini(struct kr_conn *conn);
void kr_conn_kick(uv_idle_t *kick);
static inline bool kr_conn_delivers(const struct kr_conn *conn)
{
	return conn->state == KR_CONN_OPEN && conn->paused == 0;
}
static inline bool kr_conn_usable(const struct kr_conn *conn)
{
	return conn->state == KR_CONN_CONNECTING || conn->state == KR_CONN_OPEN;
}

#endif

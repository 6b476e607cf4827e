/* One connection that carries frames (msg.h), over TCP or a Unix socket, in the event loop's thread only.
 *
 * Frames arrive whole: the fields, and the data in a kr_buf that the receiver may keep (kr_buf_get).  Replies go to the
 * callback of their request; requests and ONEWAY frames go to on_frame.  Sending queues and never blocks; a sender of
 * bulk data watches kr_conn_queued and on_drain.  A connection that receives garbage closes itself with one reason.
 *
 * A ring connection may have a carrier, which moves the data of its frames beside the stream (carrier.h).
 *
 * After a handshake frames are sealed (seal.h).  The connection seals a frame when it is sent, and opens it before it
 * delivers any part.  It allocates memory for a sealed frame only after it has verified the header.
 */
#ifndef KR_COMMON_CONN_H
#define KR_COMMON_CONN_H

#include <uv.h>

#include "common/base/buf.h"
#include "common/rpc/msg.h"
#include "common/rpc/seal.h"

struct kr_conn;

/* A frame as delivered.  All is borrowed until the callback returns; kr_buf_get(data) keeps the data. */
struct kr_frame {
	struct kr_frame_header header;
	const uint8_t *fields;
	struct kr_buf *data; /* NULL when data_length is 0 */
};

/* Part of a buffer to be sent; the connection takes its own reference. */
struct kr_slice {
	struct kr_buf *buf;
	size_t offset, length;
};

struct kr_conn_handler {
	/* A request or a ONEWAY frame, of a known type (the connection itself answers unknown ones).  The receiver
	 * decodes its fields. */
	void (*on_frame)(struct kr_conn *conn, const struct kr_frame *frame);
	/* The queue of unsent bytes has fallen below KR_CONN_LOW_WATER after it was above; may be NULL. */
	void (*on_drain)(struct kr_conn *conn);
	/* The last call: the connection has ended.  ERR: 0 if the peer or this side closed it without an
	 * error, else -errno.
	 * REASON: a sentence.  All callbacks of unanswered requests have run with -ECONNRESET.  The conn is freed when
	 * this returns. */
	void (*on_closed)(struct kr_conn *conn, int err, const char *reason);
};
enum { KR_CONN_LOW_WATER = 1 << 20 };

/* ERR: 0 or the reply's status as -errno, -ECONNRESET when the connection ended. REPLY: decoded, borrowed, NULL unless
 * ERR is 0. MORE: further replies follow (then the callback stays armed). DATA: borrowed or NULL. */
typedef void (*kr_reply_fn)(void *context, int err, const void *reply, struct kr_buf *data, bool more);

/* Takes over an accepted stream (uv_tcp_t or uv_pipe_t, initialised on LOOP): *RET_CONN owns it. */
int kr_conn_accept(
	uv_stream_t *listener, const struct kr_conn_handler *handler, void *context, struct kr_conn **ret_conn);
/* Starts to connect; frames may be queued at once. A failure comes as on_closed. ADDRESS may be AF_INET, AF_INET6 or
 * AF_UNIX. */
int kr_conn_connect(uv_loop_t *loop, const struct sockaddr *address, const struct kr_conn_handler *handler,
	void *context, struct kr_conn **ret_conn);
/* The same on FD, a connected TCP or Unix socket, which *RET_CONN owns.  After an error it is closed. */
int kr_conn_take(
	uv_loop_t *loop, int fd, const struct kr_conn_handler *handler, void *context, struct kr_conn **ret_conn);
void *kr_conn_context(const struct kr_conn *conn);
void kr_conn_set_context(struct kr_conn *conn, void *context);
void kr_conn_set_handler(struct kr_conn *conn, const struct kr_conn_handler *handler);
uv_loop_t *kr_conn_loop(const struct kr_conn *conn);
/* "10.0.0.3:51324", for logs. */
const char *kr_conn_peer(const struct kr_conn *conn);
/* Who has opened a connection on a Unix socket, as the kernel says.  0 or -errno. */
int kr_conn_peer_uid(const struct kr_conn *conn, uint32_t *ret_uid);
/* The peer's and this side's address of the connection. */
void kr_conn_peer_host(const struct kr_conn *conn, char *host, size_t size);
void kr_conn_local_host(const struct kr_conn *conn, char *host, size_t size);
/* This side's port of a TCP connection; 0 on a Unix socket. */
uint16_t kr_conn_local_port(const struct kr_conn *conn);

/* Sends a request; CALLBACK gets the reply, and with -EPROTONOSUPPORT the reason (kr_fail_reason). Returns its id, or
 * 0 if the connection is closing or MSG cannot be encoded (the callback is not called then). */
uint64_t kr_conn_request(struct kr_conn *conn, uint16_t type, const void *msg, const struct kr_slice *slices,
	size_t count, kr_reply_fn callback, void *context);
/* As kr_conn_request, with an id of the caller's and extra flags (KR_FRAME_RESEND).  No id occurs twice while
 * unanswered; those of kr_conn_request are 1, 2, 3...  0, -ECONNRESET when closing, -EINVAL, -ENOMEM; the callback runs
 * only after 0. */
int kr_conn_request_as(struct kr_conn *conn, uint64_t id, uint16_t flags, uint16_t type, const void *msg,
	const struct kr_slice *slices, size_t count, kr_reply_fn callback, void *context);
/* The same for a message whose fields are ENCODED already (kr_msg_encode). */
int kr_conn_request_encoded(struct kr_conn *conn, uint64_t id, uint16_t flags, uint16_t type,
	const struct kr_writer *encoded, const struct kr_slice *slices, size_t count, kr_reply_fn callback,
	void *context);
/* Drops the callback of an unanswered request. */
void kr_conn_forget(struct kr_conn *conn, uint64_t id);
/* The flags of the reply whose callback is running. */
uint16_t kr_conn_reply_flags(const struct kr_conn *conn);
/* Answers request ID: with MSG when ERR is 0, else with the status.  FLAGS may have KR_FRAME_MORE and the cacheable
 * ones. */
void kr_conn_reply(struct kr_conn *conn, uint16_t type, uint64_t id, uint16_t flags, int err, const void *msg,
	const struct kr_slice *slices, size_t count);
/* Sends a frame that gets no reply. */
int kr_conn_oneway(struct kr_conn *conn, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count);
/* From now on frames are sealed with KEYS (copied): those that this side sends, and those that arrive behind the frame
 * under delivery.  With security=auth nothing is sealed.  Once for a connection; a failure ends it. */
void kr_conn_seal(struct kr_conn *conn, const struct kr_seal_keys *keys);
/* How the connection is sealed, for status. */
enum kr_security kr_conn_security(const struct kr_conn *conn);
/* Holds back the frames sent from now on, except the handshake's (HOP_HELLO, HOP_PROVE).  kr_conn_release sends them in
 * their order. */
void kr_conn_hold(struct kr_conn *conn);
void kr_conn_release(struct kr_conn *conn);

/* GUEST: the peer has not authenticated yet.  Its frames may carry 16 KiB of fields and no data, and only few replies
 * may wait for it; a violation ends the connection. */
void kr_conn_set_guest(struct kr_conn *conn, bool guest);

/* A ring connection that a peer has opened.  A request that does not belong to rings ends it before its fields or data
 * are read.  So does the next frame of a peer with more than KR_CONN_UNTAKEN_MAX frames queued for it.  A correct peer
 * has at most 1024: one for each block that a node asks for at a time, and one for each request. */
enum { KR_CONN_UNTAKEN_MAX = 2048 };
void kr_conn_set_ring(struct kr_conn *conn);

/* Frames that wait in the queue, without those of the write under way. */
size_t kr_conn_queued_frames(const struct kr_conn *conn);
/* The memory of frames that the kernel has not taken yet, roughly; of this connection, and of all connections of the
 * process.  The write under way counts as far as the kernel has not taken it: at most 1 MiB or one frame. */
size_t kr_conn_queued(const struct kr_conn *conn);
size_t kr_conn_queued_in_all(void);
/* Of all connections of the process so far: requests that it has sent, bytes that it has received and sent. */
struct kr_conn_sums {
	uint64_t requests, received, sent;
};
struct kr_conn_sums kr_conn_sums(void);
/* Stops and resumes delivery (back-pressure to the peer through TCP). Nest by counting. */
void kr_conn_pause(struct kr_conn *conn);
void kr_conn_resume(struct kr_conn *conn);
/* Closes the connection; on_closed follows from the loop, never inside this call.  With FLUSH the queue is still sent,
 * for as long as the peer takes some of it every 10 s.  Nothing is delivered any more but the end of requests and
 * on_closed. */
void kr_conn_close(struct kr_conn *conn, bool flush);
/* Closes the connection, and the kernel drops what the peer has not got, so that nothing of it arrives later.  So does
 * the end of a connection whose peer is silent. */
void kr_conn_reset(struct kr_conn *conn);
/* Bytes received and sent so far, for status. */
void kr_conn_counters(const struct kr_conn *conn, uint64_t *ret_received, uint64_t *ret_sent);
/* The shortest round trip that the kernel has seen, in microseconds; 0: not known, or no TCP. */
uint64_t kr_conn_rtt_us(const struct kr_conn *conn);
/* Whether what is sent waits in queues on the way, for longer than the way itself takes. */
bool kr_conn_congested(const struct kr_conn *conn);
/* What moves the data of the connection's frames, for status: "tcp", or the carrier's name (carrier.h). */
const char *kr_conn_transport(const struct kr_conn *conn);
/* Bytes of data that a carrier has moved, both ways. */
uint64_t kr_conn_carried_bytes(const struct kr_conn *conn);

#endif

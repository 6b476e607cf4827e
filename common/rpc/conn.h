/* One connection that carries frames (msg.h), over TCP or a Unix socket, in the event loop's thread only.
 *
 * Frames arrive whole: the fields, and the data in a kr_buf that the receiver may keep (kr_buf_get).  Replies go to the
 * callback of their request; requests and ONEWAY frames to on_frame.  Sending queues and never blocks; who sends data
 * in bulk watches kr_conn_queued and on_drain.  A connection that receives garbage closes itself with one reason.
 *
 * After a handshake frames are sealed (seal.h): a frame is sealed when it is sent, and opened before any of it is
 * delivered; nothing is allocated for a sealed frame whose header has not been verified.
 */
#ifndef KR_COMMON_CONN_H
#define KR_COMMON_CONN_H

#include <uv.h>

#include "common/base/buf.h"
#include "common/rpc/msg.h"
#include "common/rpc/seal.h"

struct kr_conn;

/* A frame as delivered: everything is borrowed until the callback returns; kr_buf_get(data) to keep the data. */
struct kr_frame {
	struct kr_frame_header header;
	const uint8_t *fields;
	struct kr_buf *data; /* NULL when data_length is 0 */
};

/* Part of a buffer to be sent; kr_conn_send takes its own reference. */
struct kr_slice {
	struct kr_buf *buf;
	size_t offset, length;
};

struct kr_conn_handler {
	/* A request or a ONEWAY frame, of a known type (others are answered here); its fields are for the receiver to
	 * decode. */
	void (*on_frame)(struct kr_conn *conn, const struct kr_frame *frame);
	/* The queue of unsent bytes has fallen below KR_CONN_LOW_WATER after having been above; may be NULL. */
	void (*on_drain)(struct kr_conn *conn);
	/* The last call: the connection is gone (ERR: 0 closed in peace by the peer or by us, else -errno; REASON a
	 * sentence). All callbacks of unanswered requests have run with -ECONNRESET. The conn is freed when this
	 * returns. */
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
void *kr_conn_context(const struct kr_conn *conn);
void kr_conn_set_context(struct kr_conn *conn, void *context);
void kr_conn_set_handler(struct kr_conn *conn, const struct kr_conn_handler *handler);
/* "10.0.0.3:51324", for logs. */
const char *kr_conn_peer(const struct kr_conn *conn);
/* The peer's and our own address of this connection. */
void kr_conn_peer_host(const struct kr_conn *conn, char *host, size_t size);
void kr_conn_local_host(const struct kr_conn *conn, char *host, size_t size);
/* Our own port of a TCP connection; 0 on a Unix socket. */
uint16_t kr_conn_local_port(const struct kr_conn *conn);

/* Sends a request; CALLBACK gets the reply. Returns its id (> 0), or 0 if the connection is closing or MSG cannot be
 * encoded (the callback is not called then). */
uint64_t kr_conn_request(struct kr_conn *conn, uint16_t type, const void *msg, const struct kr_slice *slices,
	size_t count, kr_reply_fn callback, void *context);
/* As kr_conn_request, with an id that the caller manages and extra flags (KR_FRAME_RESEND); ids of both kinds must not
 * mix, and no id twice while unanswered. 0, -ECONNRESET when closing, -EINVAL, -ENOMEM: the callback is called only
 * after 0. */
int kr_conn_request_as(struct kr_conn *conn, uint64_t id, uint16_t flags, uint16_t type, const void *msg,
	const struct kr_slice *slices, size_t count, kr_reply_fn callback, void *context);
/* Forgets the callback of an unanswered request. */
void kr_conn_forget(struct kr_conn *conn, uint64_t id);
/* From inside a reply's callback: the flags of its frame. */
uint16_t kr_conn_reply_flags(const struct kr_conn *conn);
/* Answers request ID: MSG when ERR is 0, else the status. FLAGS may have KR_FRAME_MORE and those of notes. */
void kr_conn_reply(struct kr_conn *conn, uint16_t type, uint64_t id, uint16_t flags, int err, const void *msg,
	const struct kr_slice *slices, size_t count);
/* A frame that is not answered. */
int kr_conn_oneway(struct kr_conn *conn, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count);
/* What is sent from now on, and what arrives behind the frame that is being delivered, is sealed with KEYS (copied),
 * but for security=auth. Once for a connection. Ends the connection if that cannot be. */
void kr_conn_seal(struct kr_conn *conn, const struct kr_seal_keys *keys);
/* Whether sealed, and how, for status. */
enum kr_security kr_conn_security(const struct kr_conn *conn);
/* Keeps frames back that are sent from now on, but for handshakes' (HOP_HELLO, HOP_PROVE), until kr_conn_release, which
 * sends them in their order. */
void kr_conn_hold(struct kr_conn *conn);
void kr_conn_release(struct kr_conn *conn);

/* The peer has not said who it is: a frame of it may carry 16 KiB of fields and no data, and little waits to be taken
 * by it; else the connection ends.  Or it has (GUEST false). */
void kr_conn_set_guest(struct kr_conn *conn, bool guest);

/* A ring connection that a peer has opened: a request that does not belong to rings ends it before its fields or data
 * are taken in, and so does the next frame of a peer that has left more than KR_CONN_UNTAKEN_MAX frames untaken. Who
 * plays by the rules has as many answers at most as a node asks for blocks at a time, with one more for each request:
 * 1024. */
enum { KR_CONN_UNTAKEN_MAX = 2048 };
void kr_conn_set_ring(struct kr_conn *conn);

/* Frames queued, but for those that the kernel is being given. */
size_t kr_conn_queued_frames(const struct kr_conn *conn);
/* Bytes of memory that frames take which are queued and not yet taken by the kernel, roughly; the same of all
 * connections of the process together. (What the one write under way has in flight, at most 1 MiB or one frame, counts
 * as far as the kernel has not taken it.) */
size_t kr_conn_queued(const struct kr_conn *conn);
size_t kr_conn_queued_in_all(void);
/* Stops and resumes delivery (back-pressure to the peer through TCP). Nest by counting. */
void kr_conn_pause(struct kr_conn *conn);
void kr_conn_resume(struct kr_conn *conn);
/* Closes; on_closed follows from the loop, never from inside this call. What is queued is still sent when FLUSH (for as
 * long as the peer takes some of it every 10 s). Nothing is delivered any more but the end of requests and on_closed.
 */
void kr_conn_close(struct kr_conn *conn, bool flush);
/* Bytes received and sent so far, for status. */
void kr_conn_counters(const struct kr_conn *conn, uint64_t *ret_received, uint64_t *ret_sent);

#endif

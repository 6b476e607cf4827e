/* A carrier moves the data of frames beside a connection's stream: over RDMA (common/verbs), or in memory (tests).
 *
 * The stream keeps the headers, the fields, the tags of sealed frames and their order.  A frame with KR_FRAME_CARRIED
 * has its data in the carrier: the n-th such frame of a direction belongs to the n-th data.  Without a carrier all data
 * goes in the stream.  The code above the connection does not know which it is.
 *
 * Credits: the receiver gives its carrier buffers for data to come, and tells the sender how many.  The sender sends no
 * data for which it knows of no buffer; its frames wait, as when a socket is full.  The connection keeps this account
 * (conn_carrier.c).  The carrier only moves bytes, in order, from the sender's buffers into the receiver's.
 *
 * Seals: the connection seals the data before it gives them to the carrier, and opens them where they have arrived.
 * So integrity and privacy hold for carried data as for the stream.
 *
 * Loop thread.
 */
#ifndef KR_COMMON_CARRIER_H
#define KR_COMMON_CARRIER_H

#include "common/rpc/conn.h"

struct kr_carrier;

enum {
	KR_CARRIER_GRANTS = 16,    /* buffers that a receiver gives its carrier ... */
	KR_CARRIER_GRANTS_MIN = 4, /* ... or at least these, or there is no carrier */
	KR_CARRIER_SENDS = 32,     /* data under way at once */
	KR_CARRIER_SLICES = 4,     /* pieces of one data */
	KR_CARRIER_CREDITS = 1024, /* unused at once; a peer that gives more loses the connection */
};

struct kr_carrier_ops {
	const char *name; /* for status */
	/* One more data of the peer may come: into BUF, of KR_BLOCK_SIZE.  Takes BUF's reference, also after an error.
	 * 0 or -errno. */
	int (*receive)(struct kr_carrier *carrier, struct kr_buf *buf);
	/* Sends the SLICES of registered buffers as one data, and holds references to them meanwhile.  An error comes
	 * as kr_conn_carrier_gone, not inside this call. */
	void (*send)(struct kr_carrier *carrier, const struct kr_slice *slices, size_t count);
	/* The connection has ended with ERR; -ETIMEDOUT: nothing has moved for 10 s, perhaps of the carrier's data.
	 * The last call: the carrier frees itself and all buffers. */
	void (*close)(struct kr_carrier *carrier, int err);
};

/* The head of a carrier's own struct. */
struct kr_carrier {
	const struct kr_carrier_ops *ops;
	struct kr_conn *conn;
};

/* CONN has CARRIER from now on: the only one in its life.  CONN must not be ending. */
void kr_conn_carry(struct kr_conn *conn, struct kr_carrier *carrier);
/* CONN has a carrier, or had one. */
bool kr_conn_had_carrier(const struct kr_conn *conn);
/* Gives the carrier KR_CARRIER_GRANTS receives, or what there are buffers for.  Returns their number; -ENOBUFS: less
 * than KR_CARRIER_GRANTS_MIN; or receive's error. */
int kr_conn_grant(struct kr_conn *conn);
/* From the carrier: the peer has told its first CREDITS (at most KR_CARRIER_CREDITS), so data may be sent.  A
 * connection that is closing already does not use them. */
void kr_conn_carrier_opened(struct kr_conn *conn, uint32_t credits);
/* From the carrier: data has arrived in BUF, whose length is set.  Takes BUF's reference. */
void kr_conn_carrier_received(struct kr_conn *conn, struct kr_buf *buf);
/* From the carrier: the oldest data under way is sent. */
void kr_conn_carrier_sent(struct kr_conn *conn);
/* From the carrier: it frees itself after this call.  If carried data is lost with it, the connection ends with ERR and
 * REASON.  Otherwise it goes on, with all data in the stream. */
void kr_conn_carrier_gone(struct kr_conn *conn, int err, const char *reason);

#endif

/* Inside of the verbs room: verbs.c (devices, events of the connection manager), negotiate.c (HOP_VERBS and private
 * data), link.c (a connection's queue pair: the carrier), peers.c (what went wrong with whom).
 */
#ifndef KR_COMMON_VERBS_PRIV_H
#define KR_COMMON_VERBS_PRIV_H

#include <errno.h>
#include <rdma/rdma_cma.h>

#include "common/base/list.h"
#include "common/rpc/carrier.h"
#include "common/verbs/verbs.h"

enum {
	KR_VERBS_TOKEN = 32,
	KR_VERBS_PRIVATE = 12 + KR_VERBS_TOKEN, /* less than the 56 bytes that RDMA_PS_TCP leaves */
	KR_VERBS_PEERS = 64,
	KR_VERBS_CONNECT_S = 10,
	KR_VERBS_RESOLVE_MS = 2000,
	KR_VERBS_REST_S = 60,
};

/* One device, opened by librdmacm, with the pool registered. */
struct kr_verbs_device {
	struct kr_link link;
	struct ibv_context *context; /* borrowed */
	struct ibv_pd *pd;
	struct ibv_mr *mr;
};

/* Where callers come: the local address of one or more TCP connections. */
struct kr_verbs_listener {
	struct kr_link link;
	char host[64];
	struct rdma_cm_id *id;
	uint16_t port;
};

/* The last failure with a peer. */
struct kr_verbs_peer {
	char host[64]; /* "": unused */
	char reason[160];
	uint64_t rests_until_ns;
};

struct kr_verbs {
	uv_loop_t *loop;
	enum kr_transport transport;
	size_t pool;
	struct rdma_event_channel *channel; /* NULL: no device so far */
	uint64_t looked_ns;                 /* for one */
	bool told;                          /* that the connection manager cannot be used */
	uv_poll_t poll;                     /* of CHANNEL */
	uv_timer_t tick;                    /* while a link is not open */
	struct kr_list devices, listeners, links;
	struct kr_verbs_peer peers[KR_VERBS_PEERS];
	size_t next_peer;
	bool closing;
};

enum kr_link_state {
	KR_LINK_ASKED,      /* caller: HOP_VERBS is not answered */
	KR_LINK_EXPECTED,   /* called: the caller has not come */
	KR_LINK_RESOLVING,  /* caller: address, then route */
	KR_LINK_CONNECTING, /* the queue pair is there */
	KR_LINK_OPEN,
};

/* The RDMA connection beside one TCP connection. */
struct kr_verbs_link {
	struct kr_carrier carrier;
	struct kr_link link; /* kr_verbs.links */
	struct kr_verbs *verbs;
	enum kr_link_state state;
	uint64_t deadline_ns; /* until it is open */
	bool called;          /* the peer has asked */
	bool receives;        /* this side takes data */
	uint8_t token[KR_VERBS_TOKEN];
	uint64_t request;     /* ASKED: the id of HOP_VERBS */
	uint32_t peer_grants; /* receives that the peer has posted at the beginning */

	struct rdma_cm_id *id; /* NULL: none yet */
	struct kr_verbs_device *device;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	uv_poll_t poll; /* of CHANNEL */
	bool polls;
	unsigned events; /* of CQ, not acknowledged */

	/* In the order in which they were posted, which is that of completions. */
	struct {
		struct kr_buf *bufs[KR_CARRIER_SLICES];
		size_t count;
	} sends[KR_CARRIER_SENDS];
	struct kr_buf *receives_posted[KR_CARRIER_GRANTS];
	size_t first_send, send_count, first_receive, receive_count;
};

/* The errno of a library call, or its result, as -errno: some providers return -1, or leave errno as it was. */
static inline int kr_verbs_error(int err)
{
	return err > 0 ? -err : -EIO;
}

/* verbs.c */
/* 0, or why there is no RDMA now. */
int kr_verbs_ready(struct kr_verbs *verbs);
/* The listener for HOST, the local address of a connection; makes it. */
int kr_verbs_listen(struct kr_verbs *verbs, const char *host, struct kr_verbs_listener **ret_listener);
/* The device of CONTEXT with the pool registered. */
int kr_verbs_device_get(struct kr_verbs *verbs, struct ibv_context *context, struct kr_verbs_device **ret_device);
/* Has the tick watch links that are not open. */
void kr_verbs_watch(struct kr_verbs *verbs);

/* negotiate.c */
/* From verbs.c: the connection manager reports EVENT of a link, or a caller with private data. */
void kr_verbs_event(
	struct kr_verbs_link *link, enum rdma_cm_event_type event, int status, const uint8_t *data, size_t length);
void kr_verbs_caller_came(struct kr_verbs *verbs, struct rdma_cm_id *id, const uint8_t *data, size_t length);

/* link.c */
struct kr_verbs_link *kr_verbs_link_new(struct kr_verbs *verbs, struct kr_conn *conn, bool receives);
/* Makes the queue pair of link->id, and posts the receives.  Returns their number or -errno. */
int kr_verbs_link_open(struct kr_verbs_link *link);
/* Takes what is done.  The error of the first that failed: -EIO, or -ECONNRESET when the queue pair has ended. */
int kr_verbs_link_poll(struct kr_verbs_link *link);
/* The TCP connection goes on alone, or ends if data is lost.  RESTS: the path broke.  Frees LINK. */
void kr_verbs_link_fail(struct kr_verbs_link *link, int err, bool rests);

/* peers.c */
/* The reason is kr_fail_reason.  Tells it once. */
void kr_verbs_peer_failed(struct kr_verbs *verbs, const struct kr_conn *conn, bool rests);
void kr_verbs_peer_works(struct kr_verbs *verbs, const struct kr_conn *conn);
bool kr_verbs_peer_rests(const struct kr_verbs *verbs, const struct kr_conn *conn);

#endif

/* One RDMA connection: its queue pair, and the carrier of its TCP connection.
 *
 * Sends and receives complete in the order in which they were posted, so two rings of buffers suffice.  The queues have
 * room for all that the connection's credits allow, so they cannot overflow, and a receive is posted for each send: the
 * peer is never "receiver not ready".
 *
 * The end: the buffers are put only when the queue pair is destroyed, because until then the device may use them.  No
 * completions are awaited for that; destroying the queue pair drops what is posted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/types.h"
#include "common/base/util.h"
#include "common/verbs/verbs_priv.h"

enum { COMPLETIONS = 16 };

/* --- the carrier ------------------------------------------------------------------------------ */

static int post_receive(struct kr_carrier *carrier, struct kr_buf *buf)
{
	struct kr_verbs_link *link = KR_CONTAINER_OF(carrier, struct kr_verbs_link, carrier);
	struct ibv_sge piece = {(uintptr_t)buf->data, KR_BLOCK_SIZE, link->device->mr->lkey};
	struct ibv_recv_wr request = {.sg_list = &piece, .num_sge = 1}, *bad;
	int err = ibv_post_recv(link->id->qp, &request, &bad);

	if (err) {
		kr_buf_put(buf);
		return kr_fail_errno(kr_verbs_error(err), "a receive cannot be posted");
	}
	link->receives_posted[(link->first_receive + link->receive_count++) % KR_CARRIER_GRANTS] = buf;
	return 0;
}

static void post_send(struct kr_carrier *carrier, const struct kr_slice *slices, size_t count)
{
	struct kr_verbs_link *link = KR_CONTAINER_OF(carrier, struct kr_verbs_link, carrier);
	const size_t place = (link->first_send + link->send_count++) % KR_CARRIER_SENDS;
	struct ibv_sge pieces[KR_CARRIER_SLICES];
	struct ibv_send_wr request = {.sg_list = pieces,
				   .num_sge = (int)count,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	for (size_t i = 0; i < count; i++) {
		link->sends[place].bufs[i] = kr_buf_get(slices[i].buf);
		pieces[i] = (struct ibv_sge){(uintptr_t)slices[i].buf->data + slices[i].offset,
			(uint32_t)slices[i].length, link->device->mr->lkey};
	}
	link->sends[place].count = count;
	if (ibv_post_send(link->id->qp, &request, &bad))
		rdma_disconnect(link->id); /* its event ends the link */
}

static void drop_send(struct kr_verbs_link *link)
{
	const size_t place = link->first_send;

	for (size_t i = 0; i < link->sends[place].count; i++)
		kr_buf_put(link->sends[place].bufs[i]);
	link->first_send = (place + 1) % KR_CARRIER_SENDS;
	link->send_count--;
}

static struct kr_buf *take_receive(struct kr_verbs_link *link)
{
	struct kr_buf *buf = link->receives_posted[link->first_receive];

	link->first_receive = (link->first_receive + 1) % KR_CARRIER_GRANTS;
	link->receive_count--;
	return buf;
}

static void on_poll_closed(uv_handle_t *handle)
{
	free(KR_CONTAINER_OF(handle, struct kr_verbs_link, poll));
}

static void free_link(struct kr_verbs_link *link)
{
	kr_list_remove(&link->link);
	if (link->polls)
		uv_close((uv_handle_t *)&link->poll, on_poll_closed);
	if (link->id && link->id->qp) {
		rdma_disconnect(link->id);
		rdma_destroy_qp(link->id);
	}
	if (link->cq) {
		ibv_ack_cq_events(link->cq, link->events); /* else destroying it waits for that */
		ibv_destroy_cq(link->cq);
	}
	if (link->channel)
		ibv_destroy_comp_channel(link->channel);
	if (link->id)
		rdma_destroy_id(link->id);
	while (link->send_count > 0)
		drop_send(link);
	while (link->receive_count > 0)
		kr_buf_put(take_receive(link));
	if (!link->polls)
		free(link);
}

/* Devices may not notice for longer than 10 s that no data gets through. */
static void close_link(struct kr_carrier *carrier, int err)
{
	struct kr_verbs_link *link = KR_CONTAINER_OF(carrier, struct kr_verbs_link, carrier);

	if (link->request)
		kr_conn_forget(carrier->conn, link->request);
	if (err == -ETIMEDOUT && link->state == KR_LINK_OPEN) {
		kr_fail_record(err, "nothing has moved for 10 s");
		kr_verbs_peer_failed(link->verbs, carrier->conn, true);
	}
	free_link(link);
}

static const struct kr_carrier_ops ops = {"verbs", post_receive, post_send, close_link};

struct kr_verbs_link *kr_verbs_link_new(struct kr_verbs *verbs, struct kr_conn *conn, bool receives)
{
	struct kr_verbs_link *link = kr_xcalloc(1, sizeof(*link));

	link->carrier.ops = &ops;
	link->verbs = verbs;
	link->receives = receives;
	link->deadline_ns = kr_clock_ns() + KR_VERBS_CONNECT_S * KR_NS_PER_S;
	kr_list_append(&verbs->links, &link->link);
	kr_conn_carry(conn, &link->carrier);
	kr_verbs_watch(verbs);
	return link;
}

void kr_verbs_link_fail(struct kr_verbs_link *link, int err, bool rests)
{
	struct kr_conn *conn = link->carrier.conn;

	if (link->request)
		kr_conn_forget(conn, link->request);
	if (!link->verbs->closing && err != -ECONNRESET)
		kr_verbs_peer_failed(link->verbs, conn, rests);
	kr_conn_carrier_gone(conn, err, kr_fail_reason());
	free_link(link);
}

/* --- completions ------------------------------------------------------------------------------ */

static int take(struct kr_verbs_link *link, const struct ibv_wc *done)
{
	if (done->status == IBV_WC_WR_FLUSH_ERR)
		return kr_fail(-ECONNRESET, "the RDMA connection has ended");
	if (done->status != IBV_WC_SUCCESS) /* the other fields are not valid */
		return kr_fail(-EIO, "the RDMA connection broke: %s", ibv_wc_status_str(done->status));
	if (done->opcode == IBV_WC_RECV) {
		struct kr_buf *buf = take_receive(link);

		buf->length = done->byte_len;
		kr_conn_carrier_received(link->carrier.conn, buf);
	} else if (done->opcode == IBV_WC_SEND) {
		drop_send(link);
		kr_conn_carrier_sent(link->carrier.conn);
	} else { /* as an RDMA WRITE of 0 bytes with immediate data, which needs no key */
		return kr_fail(-EIO, "the peer sends by another operation than SEND");
	}
	return 0;
}

int kr_verbs_link_poll(struct kr_verbs_link *link)
{
	struct ibv_wc done[COMPLETIONS];
	int count, err = 0;

	if (!link->cq)
		return 0;
	do {
		count = ibv_poll_cq(link->cq, COMPLETIONS, done);
		for (int i = 0; i < count && !err; i++)
			err = take(link, &done[i]);
	} while (count > 0 && !err);
	if (count < 0 && !err)
		err = kr_fail(-EIO, "completions of the RDMA connection cannot be read");
	return err;
}

/* Armed before it is polled: what comes between makes another event. */
static void on_completions(uv_poll_t *poll, int status, int events)
{
	struct kr_verbs_link *link = KR_CONTAINER_OF(poll, struct kr_verbs_link, poll);
	struct ibv_cq *cq;
	void *context;
	int err;

	(void)status, (void)events;
	while (ibv_get_cq_event(link->channel, &cq, &context) == 0)
		link->events++;
	err = ibv_req_notify_cq(link->cq, 0);
	err = err ? kr_fail_errno(kr_verbs_error(err), "the RDMA connection cannot be watched") :
		    kr_verbs_link_poll(link);
	if (err)
		kr_verbs_link_fail(link, err, err == -EIO);
}

/* --- the queue pair --------------------------------------------------------------------------- */

static int make_completions(struct kr_verbs_link *link)
{
	struct ibv_context *context = link->id->verbs;
	int err;

	link->channel = ibv_create_comp_channel(context);
	if (link->channel)
		link->cq = ibv_create_cq(context, KR_CARRIER_GRANTS + KR_CARRIER_SENDS, NULL, link->channel, 0);
	if (!link->cq)
		return kr_fail_errno(kr_verbs_error(errno), "no completion queue");
	fcntl(link->channel->fd, F_SETFL, O_NONBLOCK);
	err = uv_poll_init(link->verbs->loop, &link->poll, link->channel->fd);
	if (err < 0)
		return kr_fail_errno(err, "completions cannot be watched");
	link->polls = true;
	uv_poll_start(&link->poll, UV_READABLE, on_completions);
	err = ibv_req_notify_cq(link->cq, 0);
	return err ? kr_fail_errno(kr_verbs_error(err), "the RDMA connection cannot be watched") : 0;
}

int kr_verbs_link_open(struct kr_verbs_link *link)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = KR_CARRIER_SENDS,
			.max_recv_wr = KR_CARRIER_GRANTS,
			.max_send_sge = KR_CARRIER_SLICES,
			.max_recv_sge = 1},
	};
	int err = kr_verbs_device_get(link->verbs, link->id->verbs, &link->device);

	if (!err)
		err = make_completions(link);
	if (err)
		return err;
	attr.send_cq = attr.recv_cq = link->cq;
	if (rdma_create_qp(link->id, link->device->pd, &attr) < 0)
		return kr_fail_errno(kr_verbs_error(errno), "no queue pair");
	return link->receives ? kr_conn_grant(link->carrier.conn) : 0;
}

/* How two peers come to an RDMA connection: HOP_VERBS on the TCP connection, then the connection manager with private
 * data (msgs.def). */
#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/rpc/resolve.h"
#include "common/verbs/verbs_priv.h"

enum { MAGIC = 0x4b52564d };

/* --- private data ----------------------------------------------------------------------------- */

/* TOKEN: the caller's; NULL in the answer. */
static size_t encode(uint32_t grants, const uint8_t *token, uint8_t data[KR_VERBS_PRIVATE])
{
	struct kr_writer w = {.bytes = data, .capacity = KR_VERBS_PRIVATE};

	kr_put_u32(&w, MAGIC);
	kr_put_u32(&w, KR_VERBS_VERSION);
	kr_put_u32(&w, grants);
	if (token)
		kr_put_bytes(&w, token, KR_VERBS_TOKEN);
	return w.length;
}

/* Devices may append zeros.  RET_TOKEN is NULL for an answer. */
static int decode(const uint8_t *data, size_t length, uint32_t *ret_grants, uint8_t *ret_token)
{
	const size_t needed = ret_token ? KR_VERBS_PRIVATE : KR_VERBS_PRIVATE - KR_VERBS_TOKEN;
	struct kr_reader r;
	uint32_t magic, version, grants;

	if (length < needed)
		return kr_fail(-EPROTO, "its private data is too short");
	kr_reader_init(&r, data, needed);
	magic = kr_take_u32(&r);
	version = kr_take_u32(&r);
	grants = kr_take_u32(&r);
	if (magic != MAGIC || version != KR_VERBS_VERSION || grants > KR_CARRIER_CREDITS)
		return kr_fail(-EPROTO, "its private data is not kairan's");
	*ret_grants = grants;
	if (ret_token)
		memcpy(ret_token, data + needed - KR_VERBS_TOKEN, KR_VERBS_TOKEN);
	return 0;
}

/* No reads: none are asked and none are answered.  Receiver-not-ready is tried again only so that it becomes an error.
 */
static struct rdma_conn_param parameters(const uint8_t *data, size_t length)
{
	return (struct rdma_conn_param){
		.private_data = data, .private_data_len = (uint8_t)length, .retry_count = 7, .rnr_retry_count = 3};
}

/* --- the caller ------------------------------------------------------------------------------- */

static int resolve(struct kr_verbs_link *link, uint16_t port)
{
	struct kr_conn *conn = link->carrier.conn;
	struct sockaddr_storage from = {0}, to = {0};
	char host[64];

	kr_conn_local_host(conn, host, sizeof(host));
	if (uv_ip4_addr(host, 0, (struct sockaddr_in *)&from) != 0 &&
		uv_ip6_addr(host, 0, (struct sockaddr_in6 *)&from) != 0)
		return kr_fail(-EINVAL, "%s is no numeric address", host);
	kr_conn_peer_host(conn, host, sizeof(host));
	if (uv_ip4_addr(host, port, (struct sockaddr_in *)&to) != 0 &&
		uv_ip6_addr(host, port, (struct sockaddr_in6 *)&to) != 0)
		return kr_fail(-EINVAL, "%s is no numeric address", host);
	if (rdma_create_id(link->verbs->channel, &link->id, link, RDMA_PS_TCP) < 0)
		return kr_fail_errno(kr_verbs_error(errno), "no RDMA connection");
	if (rdma_resolve_addr(link->id, (struct sockaddr *)&from, (struct sockaddr *)&to, KR_VERBS_RESOLVE_MS) < 0) {
		kr_conn_local_host(conn, host, sizeof(host));
		return kr_fail_errno(kr_verbs_error(errno), "no RDMA device has the address %s", host);
	}
	link->state = KR_LINK_RESOLVING;
	return 0;
}

static int connect_link(struct kr_verbs_link *link)
{
	uint8_t data[KR_VERBS_PRIVATE];
	struct rdma_conn_param param;
	int grants = kr_verbs_link_open(link);

	if (grants < 0)
		return grants;
	param = parameters(data, encode((uint32_t)grants, link->token, data));
	link->state = KR_LINK_CONNECTING;
	return rdma_connect(link->id, &param) < 0 ?
		kr_fail_errno(kr_verbs_error(errno), "the RDMA connection manager refuses") :
		0;
}

static void on_answer(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct kr_verbs_link *link = context;
	const struct kr_hop_verbs_reply *answer = reply;

	(void)data, (void)more;
	link->request = 0;
	if (err == -EPROTO)
		err = kr_fail(err, "the peer does not know verbs (is its kairan older?)");
	else if (err == -EOPNOTSUPP)
		err = kr_fail(err, "the peer uses TCP only (its log may tell why)");
	else if (err)
		err = kr_fail_errno(err, "the peer refuses verbs");
	if (!err) {
		memcpy(link->token, answer->token, sizeof(link->token));
		err = resolve(link, answer->port);
	}
	if (err)
		kr_verbs_link_fail(link, err, false);
}

void kr_verbs_ask(struct kr_verbs *verbs, struct kr_conn *conn, bool receives)
{
	struct kr_hop_verbs_request request = {.version = KR_VERBS_VERSION, .receives = receives};
	struct kr_verbs_link *link;

	if (verbs->closing || verbs->transport == KR_TRANSPORT_TCP || kr_verbs_ready(verbs) < 0 ||
		kr_verbs_peer_rests(verbs, conn))
		return;
	link = kr_verbs_link_new(verbs, conn, receives);
	link->state = KR_LINK_ASKED;
	link->request = kr_conn_request(conn, KR_MSG_HOP_VERBS, &request, NULL, 0, on_answer, link);
}

/* --- the called peer -------------------------------------------------------------------------- */

static int expect(struct kr_verbs *verbs, struct kr_conn *conn, const struct kr_hop_verbs_request *request,
	struct kr_hop_verbs_reply *ret_reply)
{
	struct kr_verbs_listener *listener;
	struct kr_verbs_link *link;
	char host[64];
	int err;

	if (request->version != KR_VERBS_VERSION)
		return kr_fail(-EOPNOTSUPP, "the peer speaks version %u of verbs", request->version);
	if (verbs->closing || verbs->transport == KR_TRANSPORT_TCP)
		return kr_fail(-EOPNOTSUPP, "transport=tcp");
	if (kr_verbs_peer_rests(verbs, conn))
		return kr_fail(-EAGAIN, "the path broke lately");
	if (kr_conn_had_carrier(conn))
		return kr_fail(-EPROTO, "HOP_VERBS twice on one connection");
	if (kr_verbs_ready(verbs) < 0)
		return -EOPNOTSUPP;
	kr_conn_local_host(conn, host, sizeof(host));
	err = kr_verbs_listen(verbs, host, &listener);
	if (err) {
		kr_verbs_peer_failed(verbs, conn, false);
		return -ENODEV;
	}
	link = kr_verbs_link_new(verbs, conn, !request->receives);
	link->state = KR_LINK_EXPECTED;
	link->called = true;
	randombytes_buf(link->token, sizeof(link->token));
	ret_reply->port = listener->port;
	memcpy(ret_reply->token, link->token, sizeof(link->token));
	return 0;
}

void kr_verbs_answer(struct kr_verbs *verbs, struct kr_conn *conn, const struct kr_frame *frame)
{
	struct kr_hop_verbs_request request;
	struct kr_hop_verbs_reply reply;
	int err = kr_msg_decode(KR_MSG_HOP_VERBS, false, frame->fields, frame->header.fields_length, &request, NULL);

	if (frame->header.flags & KR_FRAME_ONEWAY)
		return;
	err = err < 0 ? -EPROTO : expect(verbs, conn, &request, &reply);
	kr_conn_reply(conn, KR_MSG_HOP_VERBS, frame->header.id, 0, err, err ? NULL : &reply, NULL, 0);
}

static struct kr_verbs_link *find_expected(struct kr_verbs *verbs, const uint8_t *token)
{
	return KR_LIST_FIND(struct kr_verbs_link, link, &verbs->links, link,
		link->state == KR_LINK_EXPECTED && sodium_memcmp(link->token, token, KR_VERBS_TOKEN) == 0);
}

/* ID comes from the address that CONN comes from. */
static bool is_peer_of(const struct kr_conn *conn, struct rdma_cm_id *id)
{
	char host[64], peer[64];

	kr_address_host(rdma_get_peer_addr(id), host, sizeof(host));
	kr_conn_peer_host(conn, peer, sizeof(peer));
	return strcmp(host, peer) == 0;
}

void kr_verbs_caller_came(struct kr_verbs *verbs, struct rdma_cm_id *id, const uint8_t *data, size_t length)
{
	struct kr_verbs_link *link = NULL;
	uint8_t token[KR_VERBS_TOKEN], answer[KR_VERBS_PRIVATE];
	struct rdma_conn_param param;
	uint32_t peer_grants;
	int grants;

	id->context = NULL;
	if (decode(data, length, &peer_grants, token) == 0)
		link = find_expected(verbs, token);
	if (!link || !is_peer_of(link->carrier.conn, id)) {
		kr_log_debug("an RDMA connection request without a valid token is refused");
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return;
	}
	id->context = link;
	link->id = id;
	link->peer_grants = peer_grants;
	link->state = KR_LINK_CONNECTING;
	grants = kr_verbs_link_open(link);
	if (grants < 0) {
		rdma_reject(id, NULL, 0);
		kr_verbs_link_fail(link, grants, false);
		return;
	}
	param = parameters(answer, encode((uint32_t)grants, NULL, answer));
	if (rdma_accept(id, &param) < 0)
		kr_verbs_link_fail(
			link, kr_fail_errno(kr_verbs_error(errno), "the RDMA connection manager refuses"), false);
}

/* --- events ----------------------------------------------------------------------------------- */

/* The caller learns the grants of the called peer here; the called peer has known the caller's before. */
static int established(struct kr_verbs_link *link, const uint8_t *data, size_t length)
{
	int err = link->called ? 0 : decode(data, length, &link->peer_grants, NULL);

	if (err)
		return err;
	link->state = KR_LINK_OPEN;
	kr_verbs_peer_works(link->verbs, link->carrier.conn);
	kr_log_debug("ring connection with %s: data goes over verbs", kr_conn_peer(link->carrier.conn));
	kr_conn_carrier_opened(link->carrier.conn, link->peer_grants);
	return 0;
}

void kr_verbs_event(
	struct kr_verbs_link *link, enum rdma_cm_event_type event, int status, const uint8_t *data, size_t length)
{
	bool rests = false;
	int err = 0;

	switch (event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(link->id, KR_VERBS_RESOLVE_MS) < 0)
			err = kr_fail_errno(kr_verbs_error(errno), "no RDMA route");
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		err = connect_link(link);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		err = established(link, data, length);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		err = kr_verbs_link_poll(link); /* what was done before */
		rests = err == -EIO;
		if (!rests)
			err = kr_fail(-ECONNRESET, "the peer has ended the RDMA connection");
		break;
	default:
		err = kr_fail(-EHOSTUNREACH, "no RDMA connection: %s (%d)", rdma_event_str(event), status);
		rests = link->state == KR_LINK_OPEN;
	}
	if (err)
		kr_verbs_link_fail(link, err, rests);
}

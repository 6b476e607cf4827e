/* Where a node finds another node, or the server, for a ring connection.  Loop thread. */
#include <string.h>

#include "server/flush/data_state.h"
#include "server/flush/hop.h"

/* The secret of the pair, masked for the node of SESSION alone. */
static void make_ticket(
	const struct kr_session *session, const uint8_t ring_key[KR_RING_KEY], struct kr_hop_address *hop)
{
	kr_pair_secret(ring_key, session->id, session->node, hop->ticket);
	kr_pair_mask(session->ring.key, hop->session, hop->node, hop->ticket);
}

bool kr_hop_address_of(
	struct kr_data *data, struct kr_session *session, uint32_t node, char *host, struct kr_hop_address *ret_hop)
{
	struct kr_session *peer = node ? kr_session_find_node(data->server, node) : NULL;

	*ret_hop = (struct kr_hop_address){.node = node};
	if (peer) {
		ret_hop->address = peer->ring.address;
		ret_hop->port = peer->ring.port;
		ret_hop->session = peer->id;
		make_ticket(session, peer->ring.key, ret_hop);
		return peer->ring.port != 0;
	}
	if (node)
		return false;
	/* The address at which the node has reached the server; without a connection, that of the latest session. */
	if (session->conn) {
		kr_conn_local_host(session->conn, data->host, sizeof data->host);
		data->port = kr_conn_local_port(session->conn);
	}
	memcpy(host, data->host, sizeof data->host);
	ret_hop->address = host;
	ret_hop->port = data->port;
	ret_hop->session = session->id;
	make_ticket(session, data->ring_key, ret_hop);
	return true;
}

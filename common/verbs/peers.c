/* What went wrong with which peer: so that the log tells it once, and a path that broke rests for a while. */
#include <stdio.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "common/verbs/verbs_priv.h"

static struct kr_verbs_peer *find(const struct kr_verbs *verbs, const struct kr_conn *conn)
{
	char host[64];

	kr_conn_peer_host(conn, host, sizeof(host));
	for (size_t i = 0; i < KR_VERBS_PEERS; i++) {
		const struct kr_verbs_peer *peer = &verbs->peers[i];

		if (peer->host[0] && strcmp(peer->host, host) == 0)
			return (struct kr_verbs_peer *)(uintptr_t)peer;
	}
	return NULL;
}

void kr_verbs_peer_failed(struct kr_verbs *verbs, const struct kr_conn *conn, bool rests)
{
	const char *reason = kr_fail_reason();
	struct kr_verbs_peer *peer = find(verbs, conn);

	if (!peer) {
		peer = &verbs->peers[verbs->next_peer++ % KR_VERBS_PEERS]; /* the one known for the longest time */
		*peer = (struct kr_verbs_peer){0};
		kr_conn_peer_host(conn, peer->host, sizeof(peer->host));
	}
	if (rests)
		peer->rests_until_ns = kr_clock_ns() + KR_VERBS_REST_S * KR_NS_PER_S;
	if (strncmp(peer->reason, reason, sizeof(peer->reason) - 1) == 0)
		return;
	snprintf(peer->reason, sizeof(peer->reason), "%s", reason);
	if (verbs->transport == KR_TRANSPORT_VERBS)
		kr_log_warn("ring connections with %s use TCP, not verbs: %s", peer->host, reason);
	else
		kr_log_info("ring connections with %s use TCP, not verbs: %s", peer->host, reason);
}

void kr_verbs_peer_works(struct kr_verbs *verbs, const struct kr_conn *conn)
{
	struct kr_verbs_peer *peer = find(verbs, conn);

	if (!peer)
		return;
	kr_log_info("ring connections with %s use verbs again", peer->host);
	*peer = (struct kr_verbs_peer){0};
}

bool kr_verbs_peer_rests(const struct kr_verbs *verbs, const struct kr_conn *conn)
{
	const struct kr_verbs_peer *peer = find(verbs, conn);

	return peer && kr_clock_ns() < peer->rests_until_ns;
}

#include "server/session/grace.h"

#include <stdlib.h>
#include <string.h>

struct awaited {
	struct kr_table_link link;
	uint8_t node_id[16];
	struct kr_key_owner owner;
};

static struct awaited *find(const struct kr_grace *grace, const uint8_t node_id[16])
{
	return KR_TABLE_FIND(struct awaited, awaited, &grace->awaited, kr_hash_bytes(node_id, 16), link,
		memcmp(awaited->node_id, node_id, 16) == 0);
}

void kr_grace_init(struct kr_grace *grace)
{
	*grace = (struct kr_grace){0};
	kr_table_init(&grace->awaited);
	kr_list_init(&grace->waiting);
}

void kr_grace_fini(struct kr_grace *grace)
{
	kr_table_free_all(&grace->awaited, offsetof(struct awaited, link));
}

void kr_grace_await(struct kr_grace *grace, const uint8_t node_id[16], const struct kr_key_owner *owner)
{
	struct awaited *awaited;

	if (find(grace, node_id))
		return;
	awaited = kr_xcalloc(1, sizeof(*awaited));
	memcpy(awaited->node_id, node_id, 16);
	awaited->owner = *owner;
	kr_table_insert(&grace->awaited, &awaited->link, kr_hash_bytes(node_id, 16));
}

bool kr_grace_start(struct kr_grace *grace, uint64_t now_ns, uint32_t lease_ms, bool unsynced)
{
	grace->unsynced = unsynced;
	grace->active = grace->awaited.count > 0 || unsynced;
	grace->ends_ns = now_ns + lease_ms * KR_NS_PER_MS;
	grace->latest_ns = now_ns + lease_ms * KR_NS_PER_MS * KR_GRACE_LEASES;
	return grace->active;
}

bool kr_grace_node_done(struct kr_grace *grace, const uint8_t node_id[16])
{
	struct awaited *awaited = find(grace, node_id);

	if (awaited)
		kr_table_remove(&grace->awaited, &awaited->link);
	free(awaited);
	return grace->active && grace->awaited.count == 0;
}

bool kr_grace_due(const struct kr_grace *grace, uint64_t now_ns, bool reclaiming)
{
	uint64_t ends_ns = reclaiming ? KR_MAX(grace->ends_ns, grace->latest_ns) : grace->ends_ns;

	return grace->active && (grace->awaited.count == 0 || now_ns >= ends_ns);
}

bool kr_grace_awaits(const struct kr_grace *grace, const uint8_t node_id[16], struct kr_key_owner *ret_owner)
{
	const struct awaited *awaited = grace->active ? find(grace, node_id) : NULL;

	if (awaited && ret_owner)
		*ret_owner = awaited->owner;
	return awaited != NULL;
}

size_t kr_grace_awaited(const struct kr_grace *grace)
{
	return grace->awaited.count;
}

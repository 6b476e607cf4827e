/* Open addressing. The server signs identities (fid.h), so a client cannot choose their hashes. */
#include "server/session/open_rights.h"
#include "server/base/server.h"
#include "common/base/log.h"
#include "server/session/trust.h"
#include "server/session/session.h"
#include "server/session/request.h"
#include "server/export/export.h"

#include <stdlib.h>

#include "common/base/table.h"
#include "common/base/util.h"
#include "server/base/fid.h"

enum { SMALLEST = 64 };

static uint64_t key_of(const struct kr_fid *fid)
{
	uint64_t key = kr_fid_hash(fid) & ~(uint64_t)KR_OPEN_RIGHT_ALL;

	return key ? key : KR_OPEN_RIGHT_ALL + 1;
}

/* The slot of KEY, or the free one where it belongs. CAPACITY is a power of two, and not all slots are taken. */
static uint64_t *slot_of(const struct kr_open_rights_set *set, uint64_t key)
{
	size_t i = (size_t)(key >> 2) & (set->capacity - 1);

	while (set->slots[i] && (set->slots[i] & ~(uint64_t)KR_OPEN_RIGHT_ALL) != key)
		i = (i + 1) & (set->capacity - 1);
	return &set->slots[i];
}

static void grow(struct kr_open_rights_set *set)
{
	struct kr_open_rights_set larger = {
		.capacity = set->capacity ? set->capacity * 2 : SMALLEST, .count = set->count};

	larger.slots = kr_xcalloc(larger.capacity, sizeof(larger.slots[0]));
	for (size_t i = 0; i < set->capacity; i++)
		if (set->slots[i])
			*slot_of(&larger, set->slots[i] & ~(uint64_t)KR_OPEN_RIGHT_ALL) = set->slots[i];
	free(set->slots);
	*set = larger;
}

static uint8_t find(const struct kr_open_rights_set *set, uint64_t key)
{
	return set->count ? *slot_of(set, key) & KR_OPEN_RIGHT_ALL : 0;
}

static void put(struct kr_open_rights *table, uint64_t key, uint8_t rights)
{
	struct kr_open_rights_set *young = &table->sets[0];
	uint64_t *slot;

	if (young->count == KR_OPEN_RIGHTS_MAX) {
		free(table->sets[1].slots);
		table->sets[1] = *young;
		*young = (struct kr_open_rights_set){0};
	}
	if (young->count * 2 >= young->capacity)
		grow(young);
	slot = slot_of(young, key);
	young->count += *slot == 0;
	*slot |= key | rights;
}

void kr_open_rights_add(struct kr_open_rights *table, const struct kr_fid *fid, uint8_t rights)
{
	uint64_t key = key_of(fid);

	put(table, key, rights | find(&table->sets[1], key));
}

uint8_t kr_open_rights_find(struct kr_open_rights *table, const struct kr_fid *fid)
{
	uint64_t key = key_of(fid);
	uint8_t rights = find(&table->sets[0], key);

	if (rights)
		return rights;
	rights = find(&table->sets[1], key);
	if (rights)
		put(table, key, rights);
	return rights;
}

void kr_open_rights_fini(struct kr_open_rights *table)
{
	free(table->sets[0].slots);
	free(table->sets[1].slots);
	*table = (struct kr_open_rights){0};
}

uint8_t kr_open_rights_leases(uint8_t kinds, uint8_t rights)
{
	if (!(rights & KR_OPEN_RIGHT_WRITE))
		kinds &= (uint8_t)~KR_LEASE_WRITE;
	return rights ? kinds : 0;
}

bool kr_open_rights_allowed(struct kr_session *session, const struct kr_fid *fid, uint8_t rights)
{
	return !kr_trust_confined(session) || kr_open_rights_find(&session->trust.open_rights, fid) & rights;
}

static void run_refuse(struct kr_request *request)
{
	struct kr_attr attr;

	/* A removed file gets ESTALE, whatever the rights. */
	request->err = kr_export_getattr(request->server->export, request->state, &attr);
	if (!request->err)
		request->err = -EACCES;
}

bool kr_open_rights_allow(struct kr_request *request, const struct kr_fid *fid, uint8_t rights)
{
	struct kr_fid *copy;

	if (kr_open_rights_allowed(request->session, fid, rights))
		return true;
	kr_log_debug("node %s: %s of a file that it has not opened for it", request->session->name,
		kr_msg_name(request->type));
	copy = kr_xmalloc(sizeof(*copy));
	*copy = *fid;
	request->state = copy;
	request->free_state = free;
	kr_request_run(request, run_refuse, kr_request_reply_job);
	return false;
}

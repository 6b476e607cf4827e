#include "server/export/intent.h"

#include <stddef.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/table.h"
#include "server/base/fid.h"

static _Thread_local struct kr_intent *current;
static _Thread_local bool begun;

uint64_t kr_intent_value(enum kr_intent_kind kind, const struct kr_fid *parent, const char *name)
{
	return kr_hash_u64(
		kr_hash_u64(kr_fid_hash(parent)) + kr_hash_bytes(name, strlen(name)) + (kind == KR_INTENT_LINK));
}

void kr_intent_take(struct kr_intent *intent)
{
	current = intent;
	begun = false;
}

bool kr_intent_is_for(uint64_t before)
{
	return !current || !current->expected || current->expected == before;
}

void kr_intent_begin(const struct kr_intent_change *change)
{
	if (!current)
		return;
	begun = true;
	current->begin(current, change);
	(void)KR_FAULT("turn.begun");
}

void kr_intent_end(int err, uint64_t after)
{
	if (begun && !err)
		(void)KR_FAULT("turn.made");
	if (current && (begun || !err))
		current->end(current, err, after);
	begun = false;
}

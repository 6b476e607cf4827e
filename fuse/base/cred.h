/* A program's identity, for requests that outlive the thread which learned it. */
#ifndef KR_FUSE_CRED_H
#define KR_FUSE_CRED_H

#include <string.h>

#include "common/base/types.h"
#include "common/base/util.h"

/* A copy of CRED's groups, owned by the caller; NULL: none. */
static inline uint32_t *kr_cred_copy_groups(const struct kr_cred *cred)
{
	uint32_t *groups;

	if (cred->group_count == 0)
		return NULL;
	groups = kr_xcalloc(cred->group_count, sizeof(groups[0]));
	memcpy(groups, cred->groups, cred->group_count * sizeof(groups[0]));
	return groups;
}

#endif

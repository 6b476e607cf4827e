/* What has become of the changes of names that kairand was killed in the turns of (intent.h), found out at the start of
 * the next instance.
 *
 * Before anybody is served: so what is found under the names is what the change has left there, but for what programs
 * on this machine have changed directly.  Once nodes are served again, others may change the same names before the
 * change is asked for again, and nothing could be told. A directory that is gone tells, too, what was removed from it:
 * it could only be removed when it was empty.  Of whose directory cannot be opened now for another reason, and where
 * files are not identified by handles, the request stays in its turn (request_cache.c).
 */
#ifndef KR_SERVER_INTENT_RECOVERY_H
#define KR_SERVER_INTENT_RECOVERY_H

#include "server/recovery/executed_log.h"
#include "server/export/export.h"
#include "server/export/intent.h"

/* What a name stands for now. */
struct kr_intent_recovery_name {
	int err;       /* -errno: not known */
	bool gone;     /* with an err: its directory has been removed */
	uint64_t file; /* hash; 0: nothing */
	uint32_t type; /* S_IFMT */
};

/* As JUDGE of kr_executed_settle, with what CHANGE's NAME and (RENAME) NEW_NAME stand for. PURE. */
enum kr_executed_phase kr_intent_recovery_judge(const struct kr_intent_change *change,
	const struct kr_intent_recovery_name *name, const struct kr_intent_recovery_name *new_name,
	uint64_t *ret_value);
/* All that EXECUTED was inherited with. */
void kr_intent_recovery(struct kr_executed *executed, struct kr_export *export);

#endif

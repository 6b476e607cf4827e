/* Finds out, at the start of the server, which changes of names were made before the former instance was killed in the
 * middle of them (intent.h).
 *
 * It looks before anybody is served.  So the names stand for what the change has left there, unless a program on this
 * machine has changed them.  Later, other nodes' changes would hide that.  A directory that is gone tells that the
 * change removed the name, since only an empty directory can be removed.  A request stays in the phase INTENT if its
 * directory cannot be opened now for another reason, or if files are not identified by handles (request_cache.h).
 */
#ifndef KR_SERVER_INTENT_RECOVERY_H
#define KR_SERVER_INTENT_RECOVERY_H

#include "server/recovery/executed_log.h"
#include "server/export/export.h"
#include "server/export/intent.h"

/* The file that a name stands for now. */
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
/* Settles all intent records that the former instance left in EXECUTED.  Blocks. */
void kr_intent_recovery(struct kr_executed *executed, struct kr_export *export);

#endif

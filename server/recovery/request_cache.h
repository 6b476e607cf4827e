/* The duplicate request cache.  A session or an instance of the server can end before its answer to a request arrives.
 * Such a request must not be executed twice, because other nodes may have built on its first effect.
 *
 * executed_log.h remembers requests, and in which phase each is.  When a node sends a request again:
 *
 *   phase     meaning                                     the repetition
 *   DONE      executed                                    gets the remembered answer
 *   INTENT    the server was killed during the change,    runs only if the name still stands for the file that it
 *             and cannot tell whether it was made         stood for before the first execution
 *   BEGUN     begun, not done                             runs; a change of a name was not made (else INTENT)
 *   DOUBT     as UNKNOWN, when it was begun               runs; as below
 *   UNKNOWN   never begun, or forgotten                   runs; as below
 *
 * If the log is complete (since the first instance of this boot), a request that it lacks was not executed.  Then
 * EEXIST and ENOENT are genuine errors.  If the log may lack it, they may be the effect of the first execution, and
 * mean success (names.h), unless another request is remembered to have had that effect.  A late node always gets the
 * genuine error: a false error is better than two nodes that both hold one lock directory, or both took one token.
 *
 * A change of a name becomes DONE under the lock of its directory (intent.h), before another change can follow.  After
 * a kill in between, the next instance finds out which of these changes were made before it serves anybody
 * (intent_recovery.h).  Loop thread.
 */
#ifndef KR_SERVER_REQUEST_CACHE_H
#define KR_SERVER_REQUEST_CACHE_H

#include "server/session/request.h"

/* Whether another request is remembered to have made FID.  Any thread. */
bool kr_request_cache_made_by_other(const struct kr_request *request, const struct kr_fid *fid);
/* Whether another request is remembered to have removed the name that REQUEST (REMOVE, RENAME) is to remove, or to
 * have made the name that REQUEST (LINK) is to make.  Always false for a request in phase INTENT.  Any thread. */
bool kr_request_cache_by_other(const struct kr_request *request);
/* The hook `end` (session/hooks.h). */
void kr_request_cache_end(struct kr_request *request, int err);
void kr_request_cache_register(struct kr_server *server);

#endif

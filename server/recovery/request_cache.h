/* Requests that must not run twice although their answer was lost with a session or with a former instance of the
 * server: by the second time others may have built on what the first did.  executed_log.h remembers them.  One that it
 * would have and does not has not run, so that "exists" and "is not there" are about what others did.  One that may be
 * forgotten (a boot of the machine ends the memory) may have, and they can mean success (names.h), unless another is
 * remembered to have done the same.  But a node that is late is told them as they are: that it is told of a failure of
 * what it has made is better than that two are told that they have made one lock, or removed one token.
 *
 * Changes of names are remembered in the instant in which they are made (intent.h), since another node's can be made
 * right after them, before the loop hears of either: with the repetition of the first rmdir of a lock directory made
 * after that one's mkdir, two would have the lock.  Of those in whose instant kairand was killed, its next instance
 * finds out before it serves anybody whether they have been made (intent_recovery.h).  Loop thread.
 */
#ifndef KR_SERVER_REQUEST_CACHE_H
#define KR_SERVER_REQUEST_CACHE_H

#include "server/session/request.h"

/* REQUEST, sent before on another session, is about to be handled. True: it had been executed and is answered now (or
 * will be), or it is being executed for that session still, and goes on when that has ended. False: it is to be
 * handled; a truncation that was made already is taken out of it. */
bool kr_request_cache_settled(struct kr_request *request);
/* Whether it is remembered that another request has made FID. Any thread. */
bool kr_request_cache_made_by_other(const struct kr_request *request, const struct kr_fid *fid);
/* Whether another request is remembered to have removed the name that REQUEST (REMOVE, RENAME) is to remove, or to
 * have made the one that REQUEST (LINK) is to make.  Not asked of one that had its turn: what others did before that
 * was of another file. Any thread. */
bool kr_request_cache_by_other(const struct kr_request *request);
/* Executes it, in the pool. */
void kr_request_cache_run(struct kr_request *request);
/* Around its execution: before the first job; and before the reply, or, where that waits for others, before they can
 * build on what it has done. */
void kr_request_cache_begin(struct kr_request *request);
void kr_request_cache_end(struct kr_request *request, int err);
/* REQUEST's session has ended, and it cannot be withdrawn: repetitions that come for another session of its node wait
 * for it.  So from here on it must not wait for its node: for the disk, and for a bounded time for others, of whom its
 * node's next session is one, where what was told of names is forgotten (invalidation.h). */
void kr_request_cache_outlives(struct kr_request *request);
/* It is being freed. */
void kr_request_cache_over(struct kr_request *request);

void kr_request_cache_register(struct kr_server *server);

#endif

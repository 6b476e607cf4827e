/* Whose identity and rights the calling thread has while it works for a client.
 *
 * Linux keeps credentials per thread; glibc's wrappers change all threads, so this uses the raw calls.  A caller who is
 * not root has none of the server's privileges: this machine's kernel checks what he does as if he did it here.  Files
 * are opened by their handles before that, with the server's own rights. Rights go back at the end of the block: `KR_AS
 * as = {0}; r = kr_cred_enter(&as, ...)`.
 */
#ifndef KR_SERVER_CRED_H
#define KR_SERVER_CRED_H

#include "common/base/types.h"

struct kr_as {
	bool ids, umask, umask_lock;
};
#define KR_AS __attribute__((cleanup(kr_cred_leave))) struct kr_as

/* Makes the calling thread ready: own umask (0), no CAP_SYS_RESOURCE. Cheap after the first call in a thread. */
void kr_cred_prepare_thread(void);
/* Gives up what the server does not need, for good: capabilities but those of the list in cred.c, new privileges,
 * system calls. In the main thread, before there are others, when everything is open that needs more. */
void kr_cred_give_up(void);
/* Whether this process can take on other users' identities. */
bool kr_cred_can_switch(void);
/* Takes on CRED unless USE_IDS is false or CRED is NULL (the server's own work). -EINVAL for an id that does not exist
 * here. */
int kr_cred_enter(struct kr_as *as, bool use_ids, const struct kr_cred *cred);
/* Sets the thread's umask for a creation. */
void kr_cred_umask(struct kr_as *as, uint32_t umask_bits);
void kr_cred_leave(struct kr_as *as);

#endif

/* Whose identity and rights the calling thread has while it works for a client.
 *
 * Linux keeps credentials per thread; glibc's wrappers change all threads, so this uses the raw calls.  Here, and only
 * here, is decided what a caller may do:
 *   NODE    the node's kernel has checked the caller, and nothing is made that belongs to anybody: the server acts as
 *           itself (a switch of identity costs microseconds);
 *   SERVER  the node has checked; what is made belongs to the caller, and quota and set-gid rules see it, but the
 *           server's right to pass permission bits stays;
 *   CALLER  the kernel checks everything here.
 * Rights go back at the end of the block: `KR_AS as = ...; r = kr_cred_enter(&as, ...)`.
 */
#ifndef KR_SERVER_CRED_H
#define KR_SERVER_CRED_H

#include "common/types.h"

enum kr_rights { KR_RIGHTS_NODE, KR_RIGHTS_SERVER, KR_RIGHTS_CALLER };

struct kr_as {
	bool ids, umask, umask_lock;
};
#define KR_AS __attribute__((cleanup(kr_cred_leave))) struct kr_as

/* Makes the calling thread ready: own umask (0), no CAP_SYS_RESOURCE. Cheap after the first call in a thread. */
void kr_cred_prepare_thread(void);
/* Whether this process can take on other users' identities. */
bool kr_cred_can_switch(void);
/* Takes on CRED unless USE_IDS is false or CRED is NULL. -EINVAL for an id that does not exist here. */
int kr_cred_enter(struct kr_as *as, bool use_ids, const struct kr_cred *cred, enum kr_rights rights);
/* Sets the thread's umask for a creation. */
void kr_cred_umask(struct kr_as *as, uint32_t umask_bits);
void kr_cred_leave(struct kr_as *as);

#endif

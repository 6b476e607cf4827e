/* The identity and rights of the calling thread while it works for a client.
 *
 * Linux keeps credentials per thread; glibc's wrappers change all threads, so this uses the raw calls. For a user other
 * than root the thread has none of the server's privileges: the kernel checks the user's operation as a local one.
 * Before that, files are opened by their handles with the server's own rights. The thread's rights return at the end of
 * the block: `KR_AS as = {0}; r = kr_cred_enter(&as, ...)`. */
#ifndef KR_SERVER_CRED_H
#define KR_SERVER_CRED_H

#include "common/base/types.h"

struct kr_as {
	bool ids, umask, umask_lock;
};
#define KR_AS __attribute__((cleanup(kr_cred_leave))) struct kr_as

/* Prepares the calling thread: own umask (0), no CAP_SYS_RESOURCE. Cheap after its first call. */
void kr_cred_prepare_thread(void);
/* Gives up for good: capabilities beyond the list in cred.c, new privileges, system calls. Called in the main thread
 * before other threads start, after all that needs more is open. */
void kr_cred_give_up(void);
/* Whether this process can take on other users' identities. */
bool kr_cred_can_switch(void);
/* Takes on CRED, unless USE_IDS is false or CRED is NULL (the server's own work). -EINVAL for an id that this machine
 * lacks. */
int kr_cred_enter(struct kr_as *as, bool use_ids, const struct kr_cred *cred);
/* Sets the thread's umask for a creation. */
void kr_cred_umask(struct kr_as *as, uint32_t umask_bits);
void kr_cred_leave(struct kr_as *as);

#endif

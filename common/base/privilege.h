/* Giving up rights that a daemon does not need: capabilities, new privileges by exec, and system calls.
 *
 * All of it applies to the calling thread and to threads that it makes later: call it before there are others.  There
 * are no errors: a kernel without seccomp, or a container, may lack what should be given up.
 */
#ifndef KR_COMMON_PRIVILEGE_H
#define KR_COMMON_PRIVILEGE_H

#include <stdbool.h>
#include <stddef.h>

struct kr_capability {
	int number;      /* CAP_CHOWN... */
	const char *why; /* for readers of the list */
};

/* Drops all capabilities that are not in LIST. */
void kr_capabilities_keep(const struct kr_capability *list, size_t count);
/* From here on no started program has more rights than this one (set-user-ID, file capabilities). */
void kr_privileges_freeze(void);
/* Call it after kr_privileges_freeze, and before there is a loop of libuv that is to live past kr_syscalls_forbid.
 * libuv makes an io_uring per loop since 1.45, and aborts when it may no longer use it; it does without when it cannot
 * make one. */
void kr_rings_forbid(void);
/* Call it after kr_privileges_freeze.  Makes system calls that no file daemon needs fail with EPERM: loading modules,
 * tracing, bpf, mounting (unless MOUNTS), starting programs (unless EXECS).  Does nothing in sanitizer builds, which
 * trace themselves. */
void kr_syscalls_forbid(bool mounts, bool execs);

#endif

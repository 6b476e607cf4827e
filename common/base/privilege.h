/* Giving up what a daemon does not need: capabilities, new privileges by exec, and system calls.
 *
 * All of it is for the calling thread and those that it makes: to be called before there are others.  What cannot be
 * given up (a kernel without seccomp, a container that has taken it away already) is not there to be misused: no
 * errors.
 */
#ifndef KR_COMMON_PRIVILEGE_H
#define KR_COMMON_PRIVILEGE_H

#include <stdbool.h>
#include <stddef.h>

struct kr_capability {
	int number;      /* CAP_CHOWN... */
	const char *why; /* for who reads the list */
};

/* Keeps only these capabilities, of those that are there. */
void kr_capabilities_keep(const struct kr_capability *list, size_t count);
/* No program that is started from here on has more rights than this one (set-user-ID, file capabilities). */
void kr_privileges_freeze(void);
/* After kr_privileges_freeze: calls that no file daemon makes (loading modules, tracing, mounting unless MOUNTS,
 * bpf...), and starting programs unless EXECS, fail with EPERM. Does nothing in sanitizer builds, which trace
 * themselves. */
void kr_syscalls_forbid(bool mounts, bool execs);

#endif

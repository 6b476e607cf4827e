/* The processors that the daemon may use (cpus=); the others are left to the job. */
#ifndef KR_FUSE_CPUS_H
#define KR_FUSE_CPUS_H

#include <sched.h>

/* "0-3:8" or "0-3,8" (a comma ends an option of -o). 0; -EINVAL with kr_fail's reason. */
int kr_cpus_parse(const char *list, cpu_set_t *ret_set);
/* This thread and all threads that it will make run on SET only, which is LIST parsed.  0; the kernel's error with a
 * reason: the machine has none of them. */
int kr_cpus_confine(const char *list, const cpu_set_t *set);
/* How many processors this thread may use: at least 1. */
unsigned kr_cpus_usable(void);

#endif

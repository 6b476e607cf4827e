/* Who a process is, by /proc.  Any thread; a few system calls. */
#ifndef KR_FUSE_PROCESS_H
#define KR_FUSE_PROCESS_H

#include <stdint.h>

struct kr_process {
	char command[64]; /* "" not known */
	uint64_t start;   /* clock ticks since boot; 0: not known */
};

/* Reads TEXT, the contents of /proc/PID/stat. */
void kr_process_parse(const char *text, struct kr_process *ret_process);
/* The process PID now; one that has ended is not known. */
void kr_process_find(int pid, struct kr_process *ret_process);
/* The command of PID alone, for a process that may be executing another program just now: then the kernel holds a lock
 * that readers of /proc/PID/stat wait for. */
void kr_process_find_command(int pid, struct kr_process *ret_process);
/* Its cgroup ("/system.slice/a.service"), owned; "" not known.  Where there are several (version 1), the one that names
 * a job, else the last. */
char *kr_process_cgroup(int pid);
/* The same of TEXT, the contents of /proc/PID/cgroup, which is changed. */
char *kr_process_cgroup_of(char *text);

#endif

/* The checks of kairan doctor, by what they look at.  Each may block for some seconds. */
#ifndef KR_TOOLS_DOCTOR_CHECKS_H
#define KR_TOOLS_DOCTOR_CHECKS_H

#include <sched.h>

#include "fuse/daemon/mountpoint.h"
#include "tools/doctor/findings.h"
#include "tools/base/login.h"

/* The features that a mount lacks on this kernel (uname -r), and their cost; NULL: none. */
const char *kr_kernel_lacks(const char *release);

/* Kernel, FUSE and Slurm of this machine. */
void kr_doctor_machine(struct kr_findings *findings);
void kr_doctor_slurm(struct kr_findings *findings);
/* A mount: its daemon, its local directory, its credentials, its copies, and the server as seen from here. */
void kr_doctor_mount(struct kr_findings *findings, const struct kr_mounted *mounted);
/* Finds other work on the processors that the mount with this STATUS leaves to programs, if it leaves any. */
void kr_doctor_cpus(struct kr_findings *findings, const json_t *status);
/* "0-3,8" and "ff,0000000f", as the kernel writes sets of processors.  False: TEXT is none. */
bool kr_cpus_of_list(const char *list, cpu_set_t *ret_set);
bool kr_cpus_of_mask(const char *mask, cpu_set_t *ret_set);
/* SET as a list, in TEXT, cut off where that is full. */
const char *kr_cpus_text(const cpu_set_t *set, char *text, size_t size);
/* The server HOST[:PORT], the link to it, and the ring ports of its nodes.  NODE: of these the neighbours of this node,
 * with its ring port; NULL: all. */
void kr_doctor_server(
	struct kr_findings *findings, const char *host, const struct kr_tool_proof *proof, const char *node);

#endif

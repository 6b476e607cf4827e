/* kairan doctor: what its checks have found, and the checks, by what they look at.  Each prints what it finds at once.
 */
#ifndef KR_TOOLS_DOCTOR_H
#define KR_TOOLS_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>

#include "fuse/daemon/mountpoint.h"
#include "tools/login.h"

enum kr_finding { KR_FINDING_OK, KR_FINDING_WARNING, KR_FINDING_PROBLEM };

struct kr_doctor {
	json_t *findings; /* array, owned; NULL: print text */
	char *about;      /* what the next findings are about, owned */
	unsigned count[3];
};

/* The next findings are about this machine, a mount or a server. */
void kr_doctor_begin(struct kr_doctor *doctor, const char *about);
/* One check's result: what there is and what it costs; ADVICE: what to do, NULL with KR_FINDING_OK. */
void kr_doctor_found(struct kr_doctor *doctor, enum kr_finding finding, const char *check, const char *advice,
	const char *format, ...) __attribute__((format(printf, 5, 6)));

/* What a mount lacks on this kernel (uname -r), and what that costs; NULL: nothing. */
const char *kr_kernel_lacks(const char *release);

/* Kernel, FUSE and Slurm of this machine. */
void kr_doctor_machine(struct kr_doctor *doctor);
void kr_doctor_slurm(struct kr_doctor *doctor);
/* A mount: its daemon, its local directory, its credentials, its copies, and the server as seen from here. */
void kr_doctor_mount(struct kr_doctor *doctor, const struct kr_mounted *mounted);
/* munged on this machine. SOCKET: NULL or "": the usual one. */
void kr_doctor_munge(struct kr_doctor *doctor, const char *socket);
/* The server HOST[:PORT], the link to it, and the ring ports of its nodes.  NODE: of these the neighbours of this node,
 * with its ring port; NULL: all. */
void kr_doctor_server(struct kr_doctor *doctor, const char *host, const struct kr_tool_proof *proof, const char *node);

#endif

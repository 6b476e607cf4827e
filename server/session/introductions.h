/* Which node is the head of which job (INTRODUCE in common/rpc/msgs.def): a pure table in the server's memory.
 *
 * The first member that asks for a job becomes its head.  The server keeps the others waiting until the head has said
 * where it serves.  After that the server tells them this place, and has no further part in the job.
 *
 * Each user's jobs have names of their own: nobody takes the names of another's, a batch system's numbers, say.
 *
 * A job has one head at a time, whatever dies or is cut off between two steps:
 *  - A head that has not served yet keeps its place for a lease time.  Then the next member that asks is head, and the
 *    former one is told so when it says that it serves.
 *  - A head that serves is told to all that ask, also while the server does not hear of it: it may be cut off from the
 *    server alone.  It loses its place when it leaves; when the server has not heard of it for a lease time and a
 *    member says that it does not answer; or after KR_JOB_SILENT_LEASES of silence.
 *  - A head says again that it serves four times per lease time.  So a server that has started anew makes no head for
 *    half a lease time, and knows all heads afterwards.
 *  - A head that comes back and finds another in its place is refused, and does not replace it.
 */
#ifndef KR_SERVER_INTRODUCTIONS_H
#define KR_SERVER_INTRODUCTIONS_H

#include <jansson.h>

#include "common/base/list.h"
#include "common/rpc/msg.h"

enum {
	KR_JOBS_MAX = 4096,
	KR_JOBS_USER_MAX = 64,     /* of one user other than root */
	KR_JOB_SILENT_LEASES = 15, /* a head that is silent for so long is forgotten */
};

struct kr_introduction {
	struct kr_link link;
	char job[KR_JOB_NAME_MAX + 1];
	uint32_t uid;
	uint8_t head[16];               /* INTRODUCE's `member` */
	char node[KR_JOB_NAME_MAX + 1]; /* the head's name */
	char address[KR_JOB_NAME_MAX + 1];
	uint16_t port; /* 0: the head has not said it yet */
	uint64_t heard_ns;
};

struct kr_introductions {
	struct kr_list jobs;
	size_t count;
	uint64_t lease_ns;
	uint64_t heads_from_ns; /* makes no head before */
};

/* RESTARTED: an earlier instance of the server may have known heads. */
void kr_introductions_init(struct kr_introductions *table, uint64_t lease_ns, bool restarted, uint64_t now_ns);
void kr_introductions_fini(struct kr_introductions *table);
/* Takes a REQUEST of a client that is user UID.  0 and *RET, borrowed until the next call: the job, of which the client
 * is head if kr_introduction_is_head; NULL: the client has to ask again.  Other errors, with a reason, are INTRODUCE's
 * statuses. */
int kr_introduce(struct kr_introductions *table, const struct kr_introduce_request *request, uint32_t uid,
	uint64_t now_ns, const struct kr_introduction **ret);
/* [{"job", "user", "node", "address", "port", "silent_ms"}]: the jobs with their heads; port 0: it does not serve yet.
 * OWNER: only this user's; NULL: all. */
json_t *kr_introductions_status(const struct kr_introductions *table, const uint32_t *owner, uint64_t now_ns);
bool kr_introduction_is_head(const struct kr_introduction *job, const struct kr_introduce_request *request);

#endif

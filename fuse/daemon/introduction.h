/* Asks a server for the head of a job (INTRODUCE in common/rpc/msgs.def), before there is a session, or without one.
 * Blocks; the calling thread runs an event loop of its own meanwhile. */
#ifndef KR_FUSE_INTRODUCTION_H
#define KR_FUSE_INTRODUCTION_H

#include "common/auth/key.h"
#include "common/rpc/msg.h"
#include "common/rpc/seal.h"

struct kr_mount_options;

struct kr_job_head {
	bool is_head;
	char node[KR_JOB_NAME_MAX + 1];    /* the head's name */
	char address[KR_JOB_NAME_MAX + 1]; /* where it serves; "": it has not said so */
	uint16_t port;
	uint8_t secret[KR_KEY_SECRET];
	uint32_t lease_ms;
	enum kr_security security; /* of the connection to the server */
	char own_host[64];         /* this node's address on it */
};

/* Authenticates as the options say, and asks.  0 and *RET; -errno with a reason that names the server. */
int kr_introduction_ask(
	const struct kr_mount_options *options, const struct kr_introduce_request *request, struct kr_job_head *ret);
/* Whether it may help to ask again after this error. */
bool kr_introduction_may_pass(int err);

#endif

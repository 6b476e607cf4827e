/* Shared by lender.c (connections of borrowers) and child.c (processes that serve them). */
#ifndef KR_FUSE_LEND_PRIV_H
#define KR_FUSE_LEND_PRIV_H

#include <uv.h>

#include "common/auth/auth.h"
#include "common/rpc/conn.h"
#include "fuse/lend/link.h"

struct kr_lend_child;

struct kr_lender {
	const struct kr_mount_options *options;
	uv_loop_t *loop;
	struct kr_keyring *keyring; /* NULL: without a key */
	uv_tcp_t listeners[8];
	unsigned listening;
	struct kr_list peers, children;
	uv_timer_t tick;
	uv_signal_t signals[3];
	bool stopping;
};

/* A connection of a borrower. */
struct kr_lend_peer {
	struct kr_link link;
	struct kr_lender *lender;
	struct kr_conn *conn;
	struct kr_auth auth;
	uint64_t since_ns;
	struct kr_lend_child *child; /* NULL before LEND */
	struct kr_list asked;        /* of the child's status (status_relay.h) */
	bool paused;
};

/* A mount of a borrower, and the process that serves it. */
struct kr_lend_child {
	struct kr_link link;
	struct kr_lender *lender;
	uint8_t token[16];
	char *node, *source, *mount_point, *directory;
	char **arguments;          /* of the process; ends with NULL */
	struct kr_lend_peer *peer; /* NULL: cut off */
	struct kr_lend_link messages;
	uint64_t heard_ns; /* the borrower was there */
	uint32_t lease_ms; /* of the process's session, once it serves */

	uv_process_t process;
	struct kr_conn *conn;     /* to the process; NULL: not yet, or closed */
	bool waits;               /* for the end of another child with the same directory */
	bool runs, ready, ending; /* it has not exited; it serves; it is to end */
	bool ended;               /* it has exited, and all that it said has come */
	int64_t exit_status;
	int signal;
};

/* child.c */

/* Checks REQUEST, and starts a child for it, or has it wait.  -EINVAL, -ENOSPC and others, with a reason. */
int kr_lend_child_new(
	struct kr_lender *lender, const struct kr_lend_request *request, struct kr_lend_child **ret_child);
/* Starts the process of each child that need not wait any more. */
void kr_lend_children_start(struct kr_lender *lender);
/* The borrower's mount has ended: the process drains and exits. */
void kr_lend_child_end(struct kr_lend_child *child);
/* SIGTERM: the process drains while it serves, and exits. */
void kr_lend_child_terminate(struct kr_lend_child *child);
/* A new message of the borrower.  -EPROTO. */
int kr_lend_child_deliver(
	struct kr_lend_child *child, const struct kr_lend_message_request *message, struct kr_buf *data);
/* Sends a kept message, if the borrower is connected. */
void kr_lend_child_send(struct kr_lend_child *child, const struct kr_lend_kept *kept);
/* Once it has ended. */
void kr_lend_child_free(struct kr_lend_child *child);

/* lender.c */

/* The child takes messages again. */
void kr_lend_peer_resume(struct kr_lend_peer *peer);

#endif

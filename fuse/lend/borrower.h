/* A node without a disk (borrower): its connection to the lender (lender.h), with numbered messages (link.h).
 *
 * The borrower makes a broken connection again, and sends again what the lender has not received.  It gives the mount
 * up when it has not heard the lender for nearly as long as the lender keeps the daemon for it.
 *
 * Loop thread, except for new and free.
 */
#ifndef KR_FUSE_BORROWER_H
#define KR_FUSE_BORROWER_H

#include "common/rpc/conn.h"
#include "fuse/base/lent.h"

struct kr_borrower;
struct kr_mount_options;

/* A mount goes on from one state to a later one, never back. */
enum kr_borrower_state {
	KR_BORROWER_REACHING, /* the lender has not answered LEND yet */
	KR_BORROWER_STARTING, /* the lender starts a daemon */
	KR_BORROWER_READY,    /* the daemon serves */
	KR_BORROWER_MOUNTED,  /* the kernel's requests go to it */
	KR_BORROWER_PARTING,  /* the borrower has told it to end */
	KR_BORROWER_OVER      /* the daemon has ended, or the borrower has given up */
};

/* RESULT is 0 before OVER.  Then: 0 or 1, the daemon's exit status; -ENOTCONN: the mount is lost; another -errno: it
 * cannot be made.  -errno comes with a reason by kr_fail. */
typedef void (*kr_borrower_changed_fn)(void *context, enum kr_borrower_state state, int result);

/* Resolves the lender's name, which blocks.  -errno with a reason. */
int kr_borrower_new(const struct kr_mount_options *options, uv_loop_t *loop, kr_borrower_changed_fn changed,
	void *context, struct kr_borrower **ret_borrower);
/* Several times a second; the first call connects. */
void kr_borrower_tick(struct kr_borrower *borrower);
/* READY: the mount is there, and FD its /dev/fuse. */
void kr_borrower_mounted(struct kr_borrower *borrower, int fd);
/* Sends a message (kind, id, status, caller; copied) with a reference to DATA, which may be NULL, as soon as there is a
 * connection.  False: so much waits for the lender that the kernel's requests are to wait until
 * kr_borrower_kernel_go_on. */
bool kr_borrower_send(struct kr_borrower *borrower, const struct kr_lend_message_request *message, struct kr_buf *data);
/* MOUNTED: tells the daemon to end, by KR_LEND_TERM or KR_LEND_BYE. */
void kr_borrower_part(struct kr_borrower *borrower, enum kr_lend_kind kind);
/* Gives the mount up: it is OVER, with this RESULT. */
void kr_borrower_end(struct kr_borrower *borrower, int result);
/* NULL while there is none that carries messages. */
struct kr_conn *kr_borrower_conn(const struct kr_borrower *borrower);
/* Closes the connection.  The state does not change any more. */
void kr_borrower_stop(struct kr_borrower *borrower);
/* When the loop has ended; NULL is fine. */
void kr_borrower_free(struct kr_borrower *borrower);

#endif

/* The mount's login: a mount with a key or with MUNGE proves itself (common/auth/conn_login.h) before each HELLO.  Loop
 * thread.
 *
 * The key file is read when the mount starts, and again for each connection.  So the file can be replaced under a
 * running mount; if it cannot be read, the former key stays in use. */
#ifndef KR_FUSE_LOGIN_H
#define KR_FUSE_LOGIN_H

#include "common/auth/auth.h"
#include "fuse/session/rpc.h"

struct kr_login;

/* The mount's options say how to log in: with a key, whose file is read here, or with MUNGE.  Blocks.  Reason in
 * kr_fail_reason. */
int kr_login_new(struct kr_mount *mount, struct kr_login **ret_login);
/* NULL is fine. */
void kr_login_free(struct kr_login *login);
/* On the connection that is being made, once for each.  DONE gets 0 when the server has accepted it, else -errno with a
 * reason that tells the user what to do.  DONE is not called if the connection is lost before. */
void kr_login_start(struct kr_login *login, void (*done)(void *context, int err), void *context);
/* The connection is lost. */
void kr_login_stop(struct kr_login *login);
/* When HELLO's reply is there: unmasks the ring key in it.  Returns the security of the connection. */
enum kr_security kr_login_unmask(const struct kr_login *login, uint8_t ring_key[32]);

#endif

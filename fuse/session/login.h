/* The mount's side of the handshake (common/auth/auth.h, auth_munge.h), before each HELLO where the mount has a key or
 * uses MUNGE.  Loop thread.
 *
 * The key file is read when the mount starts, and again for each connection, so that it can be replaced while the mount
 * goes on; a file that cannot be read then leaves the former key in use.  Credentials of MUNGE are made and opened in
 * the pool.
 */
#ifndef KR_FUSE_LOGIN_H
#define KR_FUSE_LOGIN_H

#include "fuse/session/rpc.h"

struct kr_login;

/* What to prove, and how, is in the mount's options: a key, whose file is read, or MUNGE. Blocks. Reason in
 * kr_fail_reason. */
int kr_login_new(struct kr_mount *mount, struct kr_login **ret_login);
/* After kr_rpc_stop. NULL is fine. */
void kr_login_free(struct kr_login *login);
/* Proves the key on the connection that is being made. DONE: 0 when the server has accepted it, else -errno with a
 * reason that tells the user what to do; never called if the connection is lost before. Once for each connection. */
void kr_login_start(struct kr_login *login, void (*done)(void *context, int err), void *context);
/* With HELLO's answer: unmasks the ring key in it; the security of the connection. */
enum kr_security kr_login_unmask(const struct kr_login *login, uint8_t ring_key[32]);

#endif

/* Who is let in: the server's keys, the handshake of a new connection, and what a session's key allows.
 *
 * Without keys (kr_trusts_anybody) everybody who reaches the server's addresses is let in, and may act for any user.
 * With keys a connection first has to prove that it has one (common/auth/auth.h); its session then remembers whose key
 * it was: a node key may act for any uid; a user key for its own only, with the groups that this machine knows of the
 * user. Then identities are squashed (--squash): root, or everybody, becomes the anonymous user. Loop thread, unless
 * said otherwise.
 */
#ifndef KR_SERVER_TRUST_H
#define KR_SERVER_TRUST_H

#include "server/session/listen.h"
#include "server/session/session.h"

/* Reads the key files of the options. Blocks; before the loop runs. Reason by kr_fail. */
int kr_trust_init(struct kr_server *server);
/* SIGHUP: reads the key files again. What cannot be read changes nothing. Who came with a key that is gone is cut off,
 * on ring connections, too, and needs another one to come back; when that is a node, all get new ring keys, so that
 * what it knows opens nothing at others. Blocks for the time of reading them. */
void kr_trust_reload(struct kr_server *server);
void kr_trust_fini(struct kr_server *server);
bool kr_trusts_anybody(const struct kr_server *server);
/* The least security of connections (--security); auth where everybody is let in. */
enum kr_security kr_trust_security(const struct kr_server *server);

/* AUTH or AUTH_PROVE of a pending conn. False: it has been refused, and is to be dropped. */
bool kr_trust_handshake(struct kr_pending_conn *pending_conn, const struct kr_frame *frame);
/* 0: the pending conn may go on; -ENOKEY with a reason. */
int kr_trust_admit(const struct kr_pending_conn *pending_conn);
/* Whether KEY (NULL: none) still lets one in. */
bool kr_trust_accepts(const struct kr_server *server, const struct kr_key *key);

/* Whether two keys (NULL: none) belong to the same: a session may be resumed with another key of its owner only. */
bool kr_trust_same_owner(const struct kr_key *a, const struct kr_key *b);
/* Whether who comes with KEY (NULL: none) can be a node that came with one of OWNER (kind 0: not known) before. */
bool kr_trust_is_owner(const struct kr_server *server, const struct kr_key_owner *owner, const struct kr_key *key);
/* The groups on this machine of the user of a user key, the primary one first: *RET_GROUPS owned, NULL for other keys.
 * -EPERM: no such user here. Any thread; blocks. */
int kr_trust_find_groups(
	const struct kr_server *server, const struct kr_key *key, uint32_t **ret_groups, uint32_t *ret_count);
/* Makes them SESSION's, at each handshake. Takes GROUPS. Requests borrow them, so that former ones stay until the
 * session is freed. */
void kr_trust_set_groups(struct kr_session *session, uint32_t *groups, uint32_t count);
void kr_trust_free_groups(struct kr_session *session);
/* A decoded request: 0, its CRED made what the session's key allows; or -EPERM. */
int kr_trust_restrict(struct kr_session *session, uint16_t type, void *msg);
/* Whether the session's node is somebody who cannot act as any user: a user key's, or any where identities are
 * squashed. Only such sessions have their use of file data checked (open_rights.h). */
bool kr_trust_confined(const struct kr_session *session);
/* Whether the session came with a user key: it is kept out of rings, where nodes trust each other. */
bool kr_trust_is_user(const struct kr_session *session);
/* Whom SESSION acts as where a request does not say, and its rights count: false: nobody in particular (the server
 * itself acts). *RET_CRED borrows the session's groups. */
bool kr_trust_acts_as(const struct kr_session *session, struct kr_cred *ret_cred);
/* Whom a session of KEY acts as where a request does not say: a user key's user, with GROUPS (borrowed). *RET_CRED with
 * group_count 0: nobody in particular. Any thread. */
void kr_trust_cred(const struct kr_server *server, const struct kr_key *key, const uint32_t *groups, uint32_t count,
	struct kr_cred *ret_cred);

#endif

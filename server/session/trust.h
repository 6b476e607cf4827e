/* Keys: the handshake of a new connection, and what a session's key allows.
 *
 * Without keys (kr_trusts_anybody) every client that reaches the server's addresses may act for any user. With keys a
 * connection first proves that it has one (common/auth/auth.h), and its session remembers the key. A node key may act
 * for any uid; a user key for its own only, with the groups that this machine knows. Then identities are squashed
 * (--squash): root, or every user, becomes the anonymous user. Loop thread, unless said otherwise. */
#ifndef KR_SERVER_TRUST_H
#define KR_SERVER_TRUST_H

#include "server/session/listen.h"
#include "server/session/session.h"

/* Reads the key files of the options. Blocks; before the loop runs. Reason by kr_fail. */
int kr_trust_init(struct kr_server *server);
/* SIGHUP: reads the key files again; unreadable files change nothing. The server closes all connections, ring
 * connections too, of sessions whose key is gone. If such a key was a node's, all nodes get new ring keys. Blocks while
 * it reads. */
void kr_trust_reload(struct kr_server *server);
void kr_trust_fini(struct kr_server *server);
bool kr_trusts_anybody(const struct kr_server *server);
/* The least security of connections (--security); auth where the server has no keys. */
enum kr_security kr_trust_security(const struct kr_server *server);

/* AUTH, AUTH_PROVE, AUTH_MUNGE or AUTH_MUNGE_PROVE of a pending connection. False: refused, the caller drops it. munged
 * is asked in the pool, with the connection paused. */
bool kr_trust_handshake(struct kr_pending_conn *pending_conn, const struct kr_frame *frame);
/* 0: the pending connection may go on; -ENOKEY with a reason. */
int kr_trust_admit(const struct kr_pending_conn *pending_conn);
/* Whether the server accepts KEY (NULL: none) now. */
bool kr_trust_accepts(const struct kr_server *server, const struct kr_key *key);

/* Whether two keys (NULL: none) have one owner: only then may a session be resumed. */
bool kr_trust_same_owner(const struct kr_key *a, const struct kr_key *b);
/* Whether a client with KEY (NULL: none) can be a node whose key belonged to OWNER (kind 0: unknown). */
bool kr_trust_is_owner(const struct kr_server *server, const struct kr_key_owner *owner, const struct kr_key *key);
/* The groups on this machine of a user key's user, the primary one first: *RET_GROUPS owned, NULL for other keys.
 * -EPERM: no such user here. Any thread; blocks. */
int kr_trust_find_groups(
	const struct kr_server *server, const struct kr_key *key, uint32_t **ret_groups, uint32_t *ret_count);
/* Sets SESSION's groups at each handshake. Takes GROUPS. Requests borrow them, so former ones stay until the session is
 * freed. */
void kr_trust_set_groups(struct kr_session *session, uint32_t *groups, uint32_t count);
void kr_trust_free_groups(struct kr_session *session);
/* Restricts a decoded request's CRED to what the session's key allows. 0 or -EPERM. */
int kr_trust_restrict(struct kr_session *session, uint16_t type, void *msg);
/* Whether the session cannot act as any user: it has a user key, or identities are squashed. Only such sessions' use of
 * file data is checked (open_rights.h). */
bool kr_trust_confined(const struct kr_session *session);
/* Whether the session has a user key: the server keeps it out of rings, where nodes trust each other. */
bool kr_trust_is_user(const struct kr_session *session);
/* As which user SESSION acts where a request names none. False: as the server itself. *RET_CRED borrows the session's
 * groups. */
bool kr_trust_acts_as(const struct kr_session *session, struct kr_cred *ret_cred);
/* As which user a session of KEY acts: a user key's user, with GROUPS (borrowed). *RET_CRED with group_count 0: as the
 * server itself. Any thread. */
void kr_trust_cred(const struct kr_server *server, const struct kr_key *key, const uint32_t *groups, uint32_t count,
	struct kr_cred *ret_cred);

#endif

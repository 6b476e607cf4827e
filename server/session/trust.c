#include "server/session/trust.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/auth/auth_munge.h"
#include "common/base/fail.h"
#include "common/base/log.h"
#include "server/base/options.h"
#include "server/session/session.h"

enum { LISTED_MAX = 16, PASSWD_MAX = 1 << 20 };

/* --- keys ------------------------------------------------------------------------------------- */

static void log_keys(const struct kr_keyring *keyring)
{
	char description[KR_KEY_DESCRIPTION], expires[KR_KEY_TIME];
	size_t count = kr_keyring_count(keyring);

	for (size_t i = 0; i < count; i++) {
		const struct kr_key *key = kr_keyring_at(keyring, i);

		if (kr_key_check(key, kr_clock_real_s()))
			kr_log_warn("%s", kr_fail_reason());
		else if (i < LISTED_MAX)
			kr_log_info("accepting %s, expires %s", kr_key_describe(key, description),
				kr_key_time_format(key->expires, expires));
	}
	if (count > LISTED_MAX)
		kr_log_info("%zu keys in all", count);
}

int kr_trust_init(struct kr_server *server)
{
	const struct kr_strings *paths = &server->options->key;
	int err = paths->count ? kr_keyring_load(paths->items, paths->count, &server->keyring) : 0;

	if (!err && server->keyring)
		log_keys(server->keyring);
	return err;
}

void kr_trust_fini(struct kr_server *server)
{
	kr_keyring_free(server->keyring);
	server->keyring = NULL;
}

bool kr_trusts_anybody(const struct kr_server *server)
{
	return !server->options->key.count && !server->options->munge;
}

enum kr_security kr_trust_security(const struct kr_server *server)
{
	return kr_trusts_anybody(server) ? KR_SECURITY_AUTH : (enum kr_security)server->options->security;
}

bool kr_trust_accepts(const struct kr_server *server, const struct kr_key *key)
{
	if (kr_trusts_anybody(server))
		return true;
	if (key && key->munge)
		return server->options->munge;
	return key && server->keyring && kr_keyring_find(server->keyring, key->id);
}

/* The session stays without any connection until its node returns with another key of the same owner. */
static void cut_off(struct kr_session *session)
{
	char description[KR_KEY_DESCRIPTION];

	kr_log_warn("node %s (%s) came with %s, which is not accepted any more: its connections are closed",
		session->name, session->conn ? kr_conn_peer(session->conn) : "not connected",
		session->trust.key ? kr_key_describe(session->trust.key, description) : "no key");
	if (session->conn)
		kr_conn_close(session->conn, false);
	session->server->sessions->hooks.ring_cut(session);
}

/* Ring keys make tickets, so with new ones no node accepts or uses an old ticket. HELLO carries them, so the nodes have
 * to connect again. */
static void renew_ring_keys(struct kr_server *server)
{
	struct kr_session *session;

	kr_log_info("all nodes connect again, for new secrets of their ring");
	KR_LIST_FOR_EACH(session, &server->sessions->living, link) {
		randombytes_buf(session->ring.key, sizeof(session->ring.key));
		if (session->conn)
			kr_conn_close(session->conn, false);
	}
}

static void cut_off_removed(struct kr_server *server)
{
	struct kr_session *session;
	bool node = false;

	KR_LIST_FOR_EACH(session, &server->sessions->living, link) {
		if (kr_trust_accepts(server, session->trust.key))
			continue;
		cut_off(session);
		node |= !kr_trust_is_user(session); /* a user's session is in no ring */
	}
	if (node)
		renew_ring_keys(server);
}

void kr_trust_reload(struct kr_server *server)
{
	const struct kr_strings *paths = &server->options->key;
	struct kr_keyring *keyring;

	if (server->stopping)
		return;
	if (!server->keyring) {
		kr_log_info("SIGHUP: there are no key files to read again");
		return;
	}
	if (kr_keyring_load(paths->items, paths->count, &keyring)) {
		kr_log_error("the keys stay as they were: %s", kr_fail_reason());
		return;
	}
	kr_keyring_free(server->keyring);
	server->keyring = keyring;
	log_keys(keyring);
	cut_off_removed(server);
}

/* --- handshake by MUNGE (common/auth/auth_munge.h) -------------------------------------------- */

/* A credential in the pool. */
struct proof {
	struct kr_job job;
	struct kr_pending_conn *pending_conn;
	uint64_t id;
	char *credential;    /* the client's, then the server's */
	struct kr_auth auth; /* moved from the pending connection, which waits */
	struct kr_seal_keys keys;
	int err;
	char reason[256];
};

static void free_proof(struct proof *proof)
{
	kr_auth_fini(&proof->auth);
	free(proof->credential);
	sodium_memzero(proof, sizeof(*proof));
	free(proof);
}

static int check_proof(struct proof *proof)
{
	const char *socket = proof->job.server->options->munge_socket;
	uint8_t payload[KR_MUNGE_PAYLOAD], own[KR_MUNGE_PAYLOAD], random[KR_SECRET];
	char *credential = NULL;
	uint32_t uid = 0;
	int err = kr_munge_decode(socket, proof->credential, &uid, payload);

	randombytes_buf(random, sizeof(random));
	if (!err)
		err = kr_auth_munge_verify(&proof->auth, uid, payload, random, own, &proof->keys);
	if (!err)
		err = kr_munge_encode(socket, uid, own, &credential);
	sodium_memzero(payload, sizeof(payload));
	sodium_memzero(own, sizeof(own));
	sodium_memzero(random, sizeof(random));
	if (err)
		return err;
	free(proof->credential);
	proof->credential = credential;
	return 0;
}

static void run_proof(struct kr_job *job)
{
	struct proof *proof = KR_CONTAINER_OF(job, struct proof, job);

	proof->err = check_proof(proof);
	if (proof->err)
		snprintf(proof->reason, sizeof(proof->reason), "%s", kr_fail_reason());
}

static void refuse_proof(struct proof *proof)
{
	struct kr_conn *conn = kr_pending_conn_take(proof->pending_conn);

	if (conn) {
		kr_log_warn("%s refused: %s", kr_conn_peer(conn), proof->reason);
		kr_conn_reply(conn, KR_MSG_AUTH_MUNGE_PROVE, proof->id, 0, proof->err, NULL, NULL, 0);
		kr_conn_close(conn, true);
	}
}

static void proof_done(struct kr_job *job)
{
	struct proof *proof = KR_CONTAINER_OF(job, struct proof, job);
	struct kr_pending_conn *pending_conn = proof->pending_conn;
	struct kr_auth_munge_prove_reply reply = {.credential = proof->credential};

	if (job->server->stopping || !pending_conn->conn) {
		kr_pending_conn_take(pending_conn);
	} else if (proof->err) {
		refuse_proof(proof);
	} else {
		pending_conn->auth = proof->auth; /* moved, with its key */
		proof->auth = (struct kr_auth){0};
		pending_conn->busy = false;
		kr_conn_reply(pending_conn->conn, KR_MSG_AUTH_MUNGE_PROVE, proof->id, 0, 0, &reply, NULL, 0);
		kr_conn_seal(pending_conn->conn, &proof->keys); /* the reply was the last plain frame */
		kr_conn_resume(pending_conn->conn);
	}
	free_proof(proof);
}

static void start_proof(struct kr_pending_conn *pending_conn, uint64_t id, const char *credential)
{
	struct proof *proof = kr_xcalloc(1, sizeof(*proof));

	proof->pending_conn = pending_conn;
	proof->id = id;
	proof->credential = kr_xstrdup(credential);
	proof->auth = pending_conn->auth;
	kr_auth_init(&pending_conn->auth);
	pending_conn->busy = true;
	kr_conn_pause(pending_conn->conn);
	kr_job_start(pending_conn->server, &proof->job, run_proof, proof_done);
}

static int challenge_munge(struct kr_pending_conn *pending_conn, const struct kr_auth_munge_request *request,
	struct kr_auth_munge_reply *ret_reply)
{
	const uint64_t ns = kr_clock_real_ns();
	const struct kr_time now = {.sec = (int64_t)(ns / KR_NS_PER_S), .nsec = (uint32_t)(ns % KR_NS_PER_S)};
	struct kr_fresh fresh;
	int err;

	kr_fresh_make(&fresh);
	err = kr_auth_munge_challenge(
		&pending_conn->auth, kr_trust_security(pending_conn->server), request, &fresh, now, ret_reply);
	sodium_memzero(&fresh, sizeof(fresh));
	return err;
}

static bool handshake_munge(struct kr_pending_conn *pending_conn, const struct kr_frame *frame)
{
	const uint16_t type = frame->header.type;
	struct kr_auth_munge_reply reply;
	union kr_any_msg msg;
	int err;

	if (!pending_conn->server->options->munge)
		err = kr_fail(-EOPNOTSUPP, "it comes with MUNGE, which we do not do (--munge)");
	else if (kr_msg_decode(type, false, frame->fields, frame->header.fields_length, &msg, NULL))
		err = kr_fail(-EPROTO, "its %s cannot be decoded", kr_msg_name(type));
	else if (type == KR_MSG_AUTH_MUNGE)
		err = challenge_munge(pending_conn, &msg.auth_munge_request, &reply);
	else if (pending_conn->auth.state != KR_AUTH_CHALLENGED || pending_conn->auth.key)
		err = kr_fail(-EPROTO, "a message of the handshake came out of turn");
	else
		err = 0;
	if (!err && type == KR_MSG_AUTH_MUNGE_PROVE) {
		start_proof(pending_conn, frame->header.id, msg.auth_munge_prove_request.credential);
		return true;
	}
	if (err)
		kr_log_warn("%s refused: %s", kr_conn_peer(pending_conn->conn), kr_fail_reason());
	kr_conn_reply(pending_conn->conn, type, frame->header.id, 0, err, err ? NULL : &reply, NULL, 0);
	return err == 0;
}

/* --- handshake -------------------------------------------------------------------------------- */

static int challenge(
	struct kr_pending_conn *pending_conn, const struct kr_auth_request *request, struct kr_auth_reply *ret_reply)
{
	uint64_t ns = kr_clock_real_ns();
	const struct kr_time now = {.sec = (int64_t)(ns / KR_NS_PER_S), .nsec = (uint32_t)(ns % KR_NS_PER_S)};
	struct kr_fresh fresh;
	int err;

	if (!pending_conn->server->keyring)
		return kr_fail(-EOPNOTSUPP, "it has a key, and we have none (--key FILE)");
	kr_fresh_make(&fresh);
	err = kr_auth_server_challenge(&pending_conn->auth, pending_conn->server->keyring,
		kr_trust_security(pending_conn->server), request, &fresh, now, ret_reply);
	sodium_memzero(&fresh, sizeof(fresh));
	return err;
}

bool kr_trust_handshake(struct kr_pending_conn *pending_conn, const struct kr_frame *frame)
{
	const uint16_t type = frame->header.type;
	struct kr_seal_keys keys = {.security = KR_SECURITY_AUTH};
	struct kr_auth_reply reply;
	union kr_any_msg msg;
	int err;

	if (frame->header.flags & (KR_FRAME_ONEWAY | KR_FRAME_REPLY))
		return false;
	if (type == KR_MSG_AUTH_MUNGE || type == KR_MSG_AUTH_MUNGE_PROVE)
		return handshake_munge(pending_conn, frame);
	if (kr_msg_decode(type, false, frame->fields, frame->header.fields_length, &msg, NULL))
		err = kr_fail(-EPROTO, "its %s cannot be decoded", kr_msg_name(type));
	else if (type == KR_MSG_AUTH)
		err = challenge(pending_conn, &msg.auth_request, &reply);
	else
		err = kr_auth_server_verify(&pending_conn->auth, &msg.auth_prove_request, &keys);
	if (err)
		kr_log_warn("%s refused: %s", kr_conn_peer(pending_conn->conn), kr_fail_reason());
	kr_conn_reply(pending_conn->conn, type, frame->header.id, 0, err, err || type != KR_MSG_AUTH ? NULL : &reply,
		NULL, 0);
	if (!err && type == KR_MSG_AUTH_PROVE) /* the reply is the last plain frame */
		kr_conn_seal(pending_conn->conn, &keys);
	sodium_memzero(&keys, sizeof(keys));
	return err == 0;
}

int kr_trust_admit(const struct kr_pending_conn *pending_conn)
{
	const struct kr_key *key = pending_conn->auth.state == KR_AUTH_DONE ? pending_conn->auth.key : NULL;

	if (kr_trust_accepts(pending_conn->server, key))
		return 0;
	return kr_fail(-ENOKEY, "%s",
		key ? "its key is not accepted any more" :
		      "it has shown no key (kairanfs -o key=FILE or -o munge, kairan status --key FILE)");
}

/* --- what a key allows ------------------------------------------------------------------------ */

bool kr_trust_same_owner(const struct kr_key *a, const struct kr_key *b)
{
	return a && b ? kr_key_owner_equal(&a->owner, &b->owner) : !a && !b;
}

bool kr_trust_is_owner(const struct kr_server *server, const struct kr_key_owner *owner, const struct kr_key *key)
{
	return !owner->kind || kr_trusts_anybody(server) || (key && kr_key_owner_equal(owner, &key->owner));
}

static uint32_t squash_group(const struct kr_server_options *options, uint32_t gid)
{
	bool squashed = options->squash == KR_SQUASH_ALL || (options->squash == KR_SQUASH_ROOT && gid == 0);

	return squashed ? (uint32_t)options->anon_gid : gid;
}

static void squash_groups(const struct kr_server_options *options, uint32_t *groups, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		groups[i] = squash_group(options, groups[i]);
}

int kr_trust_find_groups(
	const struct kr_server *server, const struct kr_key *key, uint32_t **ret_groups, uint32_t *ret_count)
{
	KR_AUTO_FREE char *buffer = NULL;
	struct passwd entry, *found = NULL;
	int count = KR_GROUPS_MAX;
	gid_t *groups;

	*ret_groups = NULL;
	*ret_count = 0;
	if (!key || key->owner.kind != KR_KEY_USER)
		return 0;
	buffer = kr_xmalloc(PASSWD_MAX);
	if (getpwuid_r(key->owner.uid, &entry, buffer, PASSWD_MAX, &found) || !found)
		return kr_fail(-EPERM,
			"it is user %s (%u), whom this machine does not know, and so not the groups either (make the "
			"user known here: getent passwd %u)",
			key->name, key->owner.uid, key->owner.uid);
	groups = kr_xcalloc(KR_GROUPS_MAX, sizeof(*groups));
	/* more than fit: only the first ones count */
	if (getgrouplist(found->pw_name, found->pw_gid, groups, &count) < 0) {
		kr_log_warn("user %s has more than %d groups: the others do not count", found->pw_name, KR_GROUPS_MAX);
		count = KR_GROUPS_MAX;
	}
	_Static_assert(sizeof(gid_t) == sizeof(uint32_t), "groups are numbers of 32 bits");
	*ret_groups = groups;
	*ret_count = (uint32_t)count;
	squash_groups(server->options, groups, *ret_count);
	return 0;
}

void kr_trust_set_groups(struct kr_session *session, uint32_t *groups, uint32_t count)
{
	struct kr_former_groups *former;

	if (count == session->trust.group_count &&
		(count == 0 || memcmp(groups, session->trust.groups, count * sizeof(*groups)) == 0)) {
		free(groups);
		return;
	}
	if (session->trust.groups) {
		former = kr_xmalloc(sizeof(*former));
		*former = (struct kr_former_groups){
			.next = session->trust.former_groups, .groups = session->trust.groups};
		session->trust.former_groups = former;
	}
	session->trust.groups = groups;
	session->trust.group_count = count;
}

void kr_trust_free_groups(struct kr_session *session)
{
	struct kr_former_groups *former = session->trust.former_groups, *next;

	for (; former; former = next) {
		next = former->next;
		free(former->groups);
		free(former);
	}
	free(session->trust.groups);
}

static bool is_member(const struct kr_session *session, uint32_t gid)
{
	for (uint32_t i = 0; i < session->trust.group_count; i++)
		if (session->trust.groups[i] == gid)
			return true;
	return false;
}

/* The request's arena owns CRED's groups, so they may change here. */
static void squash(const struct kr_server_options *options, struct kr_cred *cred)
{
	bool all = options->squash == KR_SQUASH_ALL || (options->squash == KR_SQUASH_ROOT && cred->uid == 0);

	if (options->squash == KR_SQUASH_NONE)
		return;
	if (all) {
		*cred = (struct kr_cred){.uid = (uint32_t)options->anon_uid, .gid = (uint32_t)options->anon_gid};
		return;
	}
	cred->gid = squash_group(options, cred->gid);
	squash_groups(options, (uint32_t *)(uintptr_t)cred->groups, cred->group_count);
}

/* 0 if CRED is of the session's user, else -EPERM. The session's groups are squashed already. */
static int confine(const struct kr_session *session, struct kr_cred *cred)
{
	const struct kr_key *key = session->trust.key;

	if (cred->uid != key->owner.uid || !is_member(session, squash_group(session->server->options, cred->gid)))
		return kr_fail(-EPERM, "with the key of user %u it asked as uid %u, gid %u", key->owner.uid, cred->uid,
			cred->gid);
	cred->groups = session->trust.groups;
	cred->group_count = session->trust.group_count;
	return 0;
}

bool kr_trust_is_user(const struct kr_session *session)
{
	return session->trust.key && session->trust.key->owner.kind == KR_KEY_USER;
}

bool kr_trust_confined(const struct kr_session *session)
{
	return session->server->options->squash != KR_SQUASH_NONE ||
		(kr_trust_is_user(session) && session->trust.key->owner.uid != 0);
}

void kr_trust_cred(const struct kr_server *server, const struct kr_key *key, const uint32_t *groups, uint32_t count,
	struct kr_cred *ret_cred)
{
	*ret_cred = (struct kr_cred){0};
	if (!key || key->owner.kind != KR_KEY_USER || count == 0)
		return;
	*ret_cred = (struct kr_cred){.uid = key->owner.uid, .gid = groups[0], .groups = groups, .group_count = count};
	if (server->options->squash == KR_SQUASH_ALL ||
		(server->options->squash == KR_SQUASH_ROOT && ret_cred->uid == 0))
		ret_cred->uid = (uint32_t)server->options->anon_uid;
}

bool kr_trust_acts_as(const struct kr_session *session, struct kr_cred *ret_cred)
{
	const struct kr_server_options *options = session->server->options;

	kr_trust_cred(session->server, session->trust.key, session->trust.groups, session->trust.group_count, ret_cred);
	if (ret_cred->group_count)
		return true;
	*ret_cred = (struct kr_cred){.uid = (uint32_t)options->anon_uid, .gid = (uint32_t)options->anon_gid};
	return options->squash == KR_SQUASH_ALL;
}

int kr_trust_restrict(struct kr_session *session, uint16_t type, void *msg)
{
	struct kr_cred *cred = kr_msg_cred(type, msg);
	int err = 0;

	if (cred && kr_trust_is_user(session))
		err = confine(session, cred);
	if (!err && cred)
		squash(session->server->options, cred);
	/* A confined client may not keep set-id bits when it writes, whatever it sends. */
	if (type == KR_MSG_FLUSH && kr_trust_confined(session))
		((struct kr_flush_request *)msg)->clear_suid = 1;
	return err;
}

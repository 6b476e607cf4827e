/* See login.h. */
#include "fuse/session/login.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/auth/auth_munge.h"
#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/base/options.h"

struct kr_login {
	struct kr_mount *mount;
	struct kr_key *key; /* NULL: MUNGE */
	struct kr_auth auth;
	uint64_t attempt; /* number of the connection: late answers for an earlier one are dropped */
	bool started;     /* a handshake, at some time before */
	bool warned;      /* about clocks that differ */
	bool freed;
	uint32_t jobs;
	void (*done)(void *context, int err);
	void *context;
};

/* A credential on its way through the pool. */
struct credential {
	uv_work_t work;
	struct kr_login *login;
	uint64_t attempt;
	char *text; /* the credential to open; NULL until one is made */
	uint8_t payload[KR_MUNGE_PAYLOAD];
	uint32_t uid;
	int err;
	char reason[512];
};

static void warn_of_clocks(struct kr_login *login)
{
	int64_t skew = login->auth.skew_s;

	if (login->warned || (skew <= KR_KEY_SKEW_S && skew >= -KR_KEY_SKEW_S))
		return;
	login->warned = true;
	kr_log_warn(
		"the server's clock and this machine's differ by %lld s: times of files will look odd, and keys may "
		"seem expired",
		(long long)skew);
}

/* The handshake has ended, with ERR or with KEYS. */
static void accepted(struct kr_login *login, int err, struct kr_seal_keys *keys)
{
	if (!err) {
		warn_of_clocks(login);
		kr_rpc_seal(login->mount->rpc, keys);
		sodium_memzero(keys, sizeof(*keys));
	}
	login->done(login->context, err);
}

static void on_proved(void *context, int err, const void *message, struct kr_buf *data)
{
	struct kr_login *login = context;
	struct kr_seal_keys keys;

	(void)message, (void)data;
	if (err == -ECONNRESET)
		return;
	err = err < 0 ? kr_auth_client_refused(&login->auth, err) : kr_auth_client_end(&login->auth, &keys);
	accepted(login, err, &keys);
}

static void on_challenged(void *context, int err, const void *message, struct kr_buf *data)
{
	struct kr_login *login = context;
	struct kr_auth_prove_request prove;

	(void)data;
	if (err == -ECONNRESET)
		return;
	if (err < 0)
		err = kr_auth_client_refused(&login->auth, err);
	else
		err = kr_auth_client_prove(&login->auth, message, kr_clock_real_s(), &prove);
	if (err < 0)
		login->done(login->context, err);
	else
		kr_rpc_direct(login->mount->rpc, KR_MSG_AUTH_PROVE, &prove, on_proved,
			login); /* on an error the connection is ending */
}

/* Reads the key file again: the administrator may have replaced it. */
static void reread(struct kr_login *login)
{
	struct kr_key *key;

	if (kr_key_load(login->mount->options->key, &key)) {
		kr_log_warn("%s; going on with the key that was there before", kr_fail_reason());
		return;
	}
	kr_key_put(login->key);
	login->key = key;
}

/* --- MUNGE ------------------------------------------------------------------------------------ */

static void free_login(struct kr_login *login)
{
	kr_auth_fini(&login->auth);
	kr_key_put(login->key);
	free(login);
}

static void ask_munged(uv_work_t *work)
{
	struct credential *credential = KR_CONTAINER_OF(work, struct credential, work);
	const struct kr_mount_options *options = credential->login->mount->options;

	if (credential->text)
		credential->err =
			kr_munge_decode(options->munge_socket, credential->text, &credential->uid, credential->payload);
	else
		credential->err = kr_munge_encode(
			options->munge_socket, (uint32_t)options->munge_uid, credential->payload, &credential->text);
	if (credential->err)
		snprintf(credential->reason, sizeof(credential->reason), "%s", kr_fail_reason());
}

static void in_pool(struct kr_login *login, struct credential *credential, uv_after_work_cb after)
{
	credential->login = login;
	credential->attempt = login->attempt;
	login->jobs++;
	uv_queue_work(login->mount->loop, &credential->work, ask_munged, after);
}

/* The job is over.  Returns whether the login still waits for it; the caller then frees it. */
static bool still_wanted(struct credential *credential)
{
	struct kr_login *login = credential->login;
	bool wanted;

	login->jobs--;
	wanted = !login->freed && credential->attempt == login->attempt;
	if (login->freed && login->jobs == 0)
		free_login(login);
	return wanted;
}

static void free_credential(struct credential *credential)
{
	free(credential->text);
	sodium_memzero(credential, sizeof(*credential));
	free(credential);
}

static void on_opened(uv_work_t *work, int status)
{
	struct credential *credential = KR_CONTAINER_OF(work, struct credential, work);
	struct kr_login *login = credential->login;
	struct kr_seal_keys keys;
	int err = credential->err;

	(void)status;
	if (still_wanted(credential)) {
		if (err)
			err = kr_fail(err, "what the server answers: %s", credential->reason);
		else
			err = kr_auth_munge_end(&login->auth, credential->uid,
				(uint32_t)login->mount->options->munge_uid, credential->payload, &keys);
		accepted(login, err, &keys);
	}
	free_credential(credential);
}

static void on_munge_proved(void *context, int err, const void *message, struct kr_buf *data)
{
	const struct kr_auth_munge_prove_reply *reply = message;
	struct kr_login *login = context;
	struct credential *credential;

	(void)data;
	if (err == -ECONNRESET)
		return;
	if (err < 0) {
		login->done(login->context, kr_auth_munge_refused(&login->auth, err));
		return;
	}
	credential = kr_xcalloc(1, sizeof(*credential));
	credential->text = kr_xstrdup(reply->credential);
	in_pool(login, credential, on_opened);
}

static void on_made(uv_work_t *work, int status)
{
	struct credential *credential = KR_CONTAINER_OF(work, struct credential, work);
	struct kr_auth_munge_prove_request prove = {.credential = credential->text};
	struct kr_login *login = credential->login;

	(void)status;
	if (still_wanted(credential)) {
		if (credential->err)
			login->done(login->context, kr_fail(credential->err, "%s", credential->reason));
		else
			kr_rpc_direct(login->mount->rpc, KR_MSG_AUTH_MUNGE_PROVE, &prove, on_munge_proved, login);
	}
	free_credential(credential);
}

static void on_munge_challenged(void *context, int err, const void *message, struct kr_buf *data)
{
	struct kr_login *login = context;
	struct credential *credential;
	uint8_t random[KR_SECRET];

	(void)data;
	if (err == -ECONNRESET)
		return;
	credential = kr_xcalloc(1, sizeof(*credential));
	randombytes_buf(random, sizeof(random));
	if (err < 0)
		err = kr_auth_munge_refused(&login->auth, err);
	else
		err = kr_auth_munge_prove(&login->auth, message, kr_clock_real_s(), random, credential->payload);
	sodium_memzero(random, sizeof(random));
	if (!err) {
		in_pool(login, credential, on_made);
		return;
	}
	free_credential(credential);
	login->done(login->context, err);
}

static void start_munge(struct kr_login *login, const struct kr_fresh *fresh)
{
	struct kr_auth_munge_request request;
	int err = kr_auth_munge_begin(&login->auth, (enum kr_security)login->mount->options->security, fresh, &request);

	if (err < 0)
		login->done(login->context, err);
	else
		kr_rpc_direct(login->mount->rpc, KR_MSG_AUTH_MUNGE, &request, on_munge_challenged, login);
}

/* --- outside ---------------------------------------------------------------------------------- */

static void start_key(struct kr_login *login, const struct kr_fresh *fresh)
{
	struct kr_auth_request request;
	int err;

	if (login->started)
		reread(login);
	err = kr_auth_client_begin(&login->auth, login->key, (enum kr_security)login->mount->options->security, fresh,
		kr_clock_real_s(), &request);
	if (err < 0)
		login->done(login->context, err);
	else
		kr_rpc_direct(login->mount->rpc, KR_MSG_AUTH, &request, on_challenged, login);
}

void kr_login_start(struct kr_login *login, void (*done)(void *context, int err), void *context)
{
	struct kr_fresh fresh;

	login->done = done;
	login->context = context;
	login->attempt++;
	kr_auth_fini(&login->auth);
	kr_auth_init(&login->auth);
	kr_fresh_make(&fresh);
	if (login->key)
		start_key(login, &fresh);
	else
		start_munge(login, &fresh);
	login->started = true;
	sodium_memzero(&fresh, sizeof(fresh));
}

enum kr_security kr_login_unmask(const struct kr_login *login, uint8_t ring_key[32])
{
	kr_auth_mask_ring_key(&login->auth, ring_key);
	return kr_auth_security(&login->auth);
}

int kr_login_new(struct kr_mount *mount, struct kr_login **ret_login)
{
	struct kr_login *login;
	struct kr_key *key = NULL;
	int err = mount->options->key ? kr_key_load(mount->options->key, &key) : 0;

	if (err)
		return err;
	login = kr_xcalloc(1, sizeof(*login));
	login->mount = mount;
	login->key = key;
	kr_auth_init(&login->auth);
	*ret_login = login;
	return 0;
}

/* Jobs of the pool end before the loop does, and the last one frees the login. */
void kr_login_free(struct kr_login *login)
{
	if (!login)
		return;
	login->freed = true;
	if (login->jobs == 0)
		free_login(login);
}

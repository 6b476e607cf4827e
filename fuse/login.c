/* See login.h. */
#include "fuse/login.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/auth.h"
#include "common/fail.h"
#include "common/log.h"
#include "common/util.h"

struct kr_login {
	struct kr_rpc *rpc;
	const char *path;
	struct kr_key *key;
	enum kr_security least;
	struct kr_auth auth;
	bool started; /* before */
	bool warned;  /* about clocks that differ */
	void (*done)(void *context, int err);
	void *context;
};

static int64_t now_s(void)
{
	return (int64_t)(kr_clock_real_ns() / KR_NS_PER_S);
}

static void warn_of_clocks(struct kr_login *login)
{
	int64_t skew = login->auth.skew_s;

	if (login->warned || (skew <= KR_KEY_SKEW_S && skew >= -KR_KEY_SKEW_S))
		return;
	login->warned = true;
	kr_log_warn("the server's clock and this machine's differ by %lld s: times of files will look odd, and keys may seem expired",
		(long long)skew);
}

static void on_proved(void *context, int err, const void *message, struct kr_buf *data)
{
	struct kr_login *login = context;
	struct kr_seal_keys keys;

	(void)message, (void)data;
	if (err == -ECONNRESET)
		return;
	err = err < 0 ? kr_auth_client_refused(&login->auth, err) : kr_auth_client_end(&login->auth, &keys);
	if (!err) {
		warn_of_clocks(login);
		kr_rpc_seal(login->rpc, &keys);
		sodium_memzero(&keys, sizeof(keys));
	}
	login->done(login->context, err);
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
		err = kr_auth_client_prove(&login->auth, message, now_s(), &prove);
	if (err < 0)
		login->done(login->context, err);
	else
		kr_rpc_direct(login->rpc, KR_MSG_AUTH_PROVE, &prove, on_proved, login); /* an error: the connection is ending */
}

/* The file may have been replaced. */
static void reread(struct kr_login *login)
{
	struct kr_key *key;

	if (kr_key_load(login->path, &key)) {
		kr_log_warn("%s; going on with the key that was there before", kr_fail_reason());
		return;
	}
	kr_key_put(login->key);
	login->key = key;
}

void kr_login_start(struct kr_login *login, void (*done)(void *context, int err), void *context)
{
	struct kr_auth_request request;
	struct kr_fresh fresh;
	int err;

	login->done = done;
	login->context = context;
	kr_auth_fini(&login->auth);
	kr_auth_init(&login->auth);
	if (login->started)
		reread(login);
	login->started = true;
	kr_fresh_make(&fresh);
	err = kr_auth_client_begin(&login->auth, login->key, login->least, &fresh, now_s(), &request);
	sodium_memzero(&fresh, sizeof(fresh));
	if (err < 0)
		done(context, err);
	else
		kr_rpc_direct(login->rpc, KR_MSG_AUTH, &request, on_challenged, login);
}

enum kr_security kr_login_unmask(const struct kr_login *login, uint8_t ring_key[32])
{
	kr_auth_mask_ring_key(&login->auth, ring_key);
	return kr_auth_security(&login->auth);
}

int kr_login_new(struct kr_rpc *rpc, const char *path, enum kr_security least, struct kr_login **ret_login)
{
	struct kr_login *login;
	struct kr_key *key;
	int err = kr_key_load(path, &key);

	if (err)
		return err;
	login = kr_xcalloc(1, sizeof(*login));
	login->rpc = rpc;
	login->path = path;
	login->least = least;
	login->key = key;
	kr_auth_init(&login->auth);
	*ret_login = login;
	return 0;
}

void kr_login_free(struct kr_login *login)
{
	if (!login)
		return;
	kr_auth_fini(&login->auth);
	kr_key_put(login->key);
	free(login);
}

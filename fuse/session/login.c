/* See login.h. */
#include "fuse/session/login.h"

#include <stdlib.h>

#include "common/auth/conn_login.h"
#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/base/options.h"

struct kr_login {
	struct kr_mount *mount;
	struct kr_conn_login handshake;
	bool started; /* at some time before */
	bool warned;  /* about clocks that differ */
	void (*done)(void *context, int err);
	void *context;
};

static void warn_of_clocks(struct kr_login *login)
{
	int64_t skew = login->handshake.auth.skew_s;

	if (login->warned || (skew <= KR_KEY_SKEW_S && skew >= -KR_KEY_SKEW_S))
		return;
	login->warned = true;
	kr_log_warn(
		"the server's clock and this machine's differ by %lld s: times of files will look odd, and keys may "
		"seem expired",
		(long long)skew);
}

static void on_done(void *context, int err)
{
	struct kr_login *login = context;

	if (!err)
		warn_of_clocks(login);
	login->done(login->context, err);
}

/* Reads the key file again: the administrator may have replaced it. */
static void reread(struct kr_login *login)
{
	struct kr_key *key;

	if (kr_key_load(login->mount->options->key, &key)) {
		kr_log_warn("%s; going on with the key that was there before", kr_fail_reason());
		return;
	}
	kr_key_put(login->handshake.key);
	login->handshake.key = key;
}

void kr_login_start(struct kr_login *login, void (*done)(void *context, int err), void *context)
{
	login->done = done;
	login->context = context;
	if (login->handshake.key && login->started)
		reread(login);
	login->started = true;
	kr_conn_login_begin(&login->handshake, kr_rpc_conn(login->mount->rpc), on_done, login);
}

void kr_login_stop(struct kr_login *login)
{
	kr_conn_login_stop(&login->handshake);
}

enum kr_security kr_login_unmask(const struct kr_login *login, uint8_t ring_key[32])
{
	kr_auth_mask_ring_key(&login->handshake.auth, ring_key);
	return kr_auth_security(&login->handshake.auth);
}

int kr_login_new(struct kr_mount *mount, struct kr_login **ret_login)
{
	const struct kr_mount_options *options = mount->options;
	struct kr_login *login;
	struct kr_key *key = NULL;
	int err = options->key ? kr_key_load(options->key, &key) : 0;

	if (err)
		return err;
	login = kr_xcalloc(1, sizeof(*login));
	login->mount = mount;
	login->handshake = (struct kr_conn_login){.key = key,
		.munge = options->munge,
		.munge_socket = options->munge_socket,
		.munge_uid = (uint32_t)options->munge_uid,
		.least = (enum kr_security)options->security};
	*ret_login = login;
	return 0;
}

void kr_login_free(struct kr_login *login)
{
	if (!login)
		return;
	kr_conn_login_fini(&login->handshake);
	free(login);
}

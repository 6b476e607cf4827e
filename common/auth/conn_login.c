/* See conn_login.h. */
#include "common/auth/conn_login.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#include "common/auth/auth_munge.h"
#include "common/base/fail.h"
#include "common/base/util.h"

static void end(struct kr_conn_login *login, int err, struct kr_seal_keys *keys)
{
	if (!err) {
		kr_conn_seal(login->conn, keys);
		sodium_memzero(keys, sizeof(*keys));
	}
	login->done(login->context, err);
}

static void request(struct kr_conn_login *login, uint16_t type, const void *msg, kr_reply_fn fn)
{
	if (!kr_conn_request(login->conn, type, msg, NULL, 0, fn, login))
		end(login, kr_fail(-EINVAL, "the request cannot be sent"), NULL);
}

/* --- with a key ------------------------------------------------------------------------------- */

static void on_proved(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	struct kr_conn_login *login = context;
	struct kr_seal_keys keys;

	(void)message, (void)data, (void)more;
	if (err == -ECONNRESET)
		return;
	err = err < 0 ? kr_auth_client_refused(&login->auth, err) : kr_auth_client_end(&login->auth, &keys);
	end(login, err, &keys);
}

static void on_challenged(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	struct kr_auth_prove_request prove;
	struct kr_conn_login *login = context;

	(void)data, (void)more;
	if (err == -ECONNRESET)
		return;
	err = err < 0 ? kr_auth_client_refused(&login->auth, err) :
			kr_auth_client_prove(&login->auth, message, kr_clock_real_s(), &prove);
	if (err < 0)
		end(login, err, NULL);
	else
		request(login, KR_MSG_AUTH_PROVE, &prove, on_proved);
}

static void begin_key(struct kr_conn_login *login, const struct kr_fresh *fresh)
{
	struct kr_auth_request ask;
	int err = kr_auth_client_begin(&login->auth, login->key, login->least, fresh, kr_clock_real_s(), &ask);

	if (err < 0)
		end(login, err, NULL);
	else
		request(login, KR_MSG_AUTH, &ask, on_challenged);
}

/* --- by MUNGE --------------------------------------------------------------------------------- */

static void on_munge_proved(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	const struct kr_auth_munge_prove_reply *reply = message;
	struct kr_conn_login *login = context;
	uint8_t payload[KR_MUNGE_PAYLOAD];
	struct kr_seal_keys keys;
	uint32_t uid = 0;

	(void)data, (void)more;
	if (err == -ECONNRESET)
		return;
	err = err < 0 ? kr_auth_munge_refused(&login->auth, err) :
			kr_munge_decode(login->munge_socket, reply->credential, &uid, payload);
	if (!err)
		err = kr_auth_munge_end(&login->auth, uid, login->munge_uid, payload, &keys);
	sodium_memzero(payload, sizeof(payload));
	end(login, err, &keys);
}

static void on_munge_challenged(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	struct kr_conn_login *login = context;
	struct kr_auth_munge_prove_request prove;
	uint8_t payload[KR_MUNGE_PAYLOAD], random[KR_SECRET];
	char *credential = NULL;

	(void)data, (void)more;
	if (err == -ECONNRESET)
		return;
	randombytes_buf(random, sizeof(random));
	err = err < 0 ? kr_auth_munge_refused(&login->auth, err) :
			kr_auth_munge_prove(&login->auth, message, kr_clock_real_s(), random, payload);
	if (!err)
		err = kr_munge_encode(login->munge_socket, login->munge_uid, payload, &credential);
	sodium_memzero(random, sizeof(random));
	sodium_memzero(payload, sizeof(payload));
	prove.credential = credential;
	if (err < 0)
		end(login, err, NULL);
	else
		request(login, KR_MSG_AUTH_MUNGE_PROVE, &prove, on_munge_proved);
	free(credential);
}

static void begin_munge(struct kr_conn_login *login, const struct kr_fresh *fresh)
{
	struct kr_auth_munge_request ask;
	int err = kr_auth_munge_begin(&login->auth, login->least, fresh, &ask);

	if (err < 0)
		end(login, err, NULL);
	else
		request(login, KR_MSG_AUTH_MUNGE, &ask, on_munge_challenged);
}

/* --- both ------------------------------------------------------------------------------------- */

void kr_conn_login_begin(
	struct kr_conn_login *login, struct kr_conn *conn, void (*done)(void *context, int err), void *context)
{
	struct kr_fresh fresh;

	kr_auth_fini(&login->auth);
	kr_auth_init(&login->auth);
	login->conn = conn;
	login->done = done;
	login->context = context;
	kr_fresh_make(&fresh);
	if (login->key)
		begin_key(login, &fresh);
	else if (login->munge)
		begin_munge(login, &fresh);
	else
		done(context, 0);
	sodium_memzero(&fresh, sizeof(fresh));
}

void kr_conn_login_fini(struct kr_conn_login *login)
{
	kr_auth_fini(&login->auth);
	kr_key_put(login->key);
}

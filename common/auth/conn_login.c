/* See conn_login.h. */
#include "common/auth/conn_login.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
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

/* Of the login's one request at a time: no other request on the connection has it. */
static const uint64_t login_id = UINT64_MAX;

static void request(struct kr_conn_login *login, uint16_t type, const void *msg, kr_reply_fn fn)
{
	int err = kr_conn_request_as(login->conn, login_id, 0, type, msg, NULL, 0, fn, login);

	if (err < 0 && err != -ECONNRESET) /* else the connection is closing */
		end(login, kr_fail_errno(err, "the request cannot be sent"), NULL);
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

/* A credential on its way through the pool.  It stays when its login has ended, or begun anew. */
struct kr_credential {
	uv_work_t work;
	struct kr_conn_login *login; /* NULL: it does not wait for this one any more */
	void (*done)(struct kr_conn_login *login, struct kr_credential *credential);
	char *socket;
	uint32_t munge_uid;
	char *text; /* the credential to open; NULL until one is made */
	uint8_t payload[KR_MUNGE_PAYLOAD];
	uint32_t uid;
	int err;
	char reason[512];
};

static struct kr_credential *new_credential(const struct kr_conn_login *login)
{
	struct kr_credential *credential = kr_xcalloc(1, sizeof(*credential));

	credential->socket = login->munge_socket ? kr_xstrdup(login->munge_socket) : NULL;
	credential->munge_uid = login->munge_uid;
	return credential;
}

static void free_credential(struct kr_credential *credential)
{
	free(credential->socket);
	free(credential->text);
	sodium_memzero(credential, sizeof(*credential));
	free(credential);
}

static void ask_munged(uv_work_t *work)
{
	struct kr_credential *credential = KR_CONTAINER_OF(work, struct kr_credential, work);

	if (credential->text)
		credential->err =
			kr_munge_decode(credential->socket, credential->text, &credential->uid, credential->payload);
	else
		credential->err = kr_munge_encode(
			credential->socket, credential->munge_uid, credential->payload, &credential->text);
	if (credential->err)
		snprintf(credential->reason, sizeof(credential->reason), "%s", kr_fail_reason());
}

static void after_munged(uv_work_t *work, int status)
{
	struct kr_credential *credential = KR_CONTAINER_OF(work, struct kr_credential, work);
	struct kr_conn_login *login = credential->login;

	(void)status; /* nothing calls uv_cancel */
	if (login) {
		login->credential = NULL;
		credential->done(login, credential);
	}
	free_credential(credential);
}

static void in_pool(struct kr_conn_login *login, struct kr_credential *credential,
	void (*done)(struct kr_conn_login *login, struct kr_credential *credential))
{
	credential->login = login;
	credential->done = done;
	login->credential = credential;
	uv_queue_work(kr_conn_loop(login->conn), &credential->work, ask_munged, after_munged);
}

static void on_opened(struct kr_conn_login *login, struct kr_credential *credential)
{
	struct kr_seal_keys keys;
	int err = credential->err;

	if (err)
		err = kr_fail(err, "what the server answers: %s", credential->reason);
	else
		err = kr_auth_munge_end(&login->auth, credential->uid, login->munge_uid, credential->payload, &keys);
	end(login, err, &keys);
}

static void on_munge_proved(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	const struct kr_auth_munge_prove_reply *reply = message;
	struct kr_conn_login *login = context;
	struct kr_credential *credential;

	(void)data, (void)more;
	if (err == -ECONNRESET)
		return;
	if (err < 0) {
		end(login, kr_auth_munge_refused(&login->auth, err), NULL);
		return;
	}
	credential = new_credential(login);
	credential->text = kr_xstrdup(reply->credential);
	in_pool(login, credential, on_opened);
}

static void on_made(struct kr_conn_login *login, struct kr_credential *credential)
{
	const struct kr_auth_munge_prove_request prove = {.credential = credential->text};

	if (credential->err)
		end(login, kr_fail(credential->err, "%s", credential->reason), NULL);
	else
		request(login, KR_MSG_AUTH_MUNGE_PROVE, &prove, on_munge_proved);
}

static void on_munge_challenged(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	struct kr_conn_login *login = context;
	struct kr_credential *credential;
	uint8_t random[KR_SECRET];

	(void)data, (void)more;
	if (err == -ECONNRESET)
		return;
	credential = new_credential(login);
	randombytes_buf(random, sizeof(random));
	err = err < 0 ? kr_auth_munge_refused(&login->auth, err) :
			kr_auth_munge_prove(&login->auth, message, kr_clock_real_s(), random, credential->payload);
	sodium_memzero(random, sizeof(random));
	if (!err) {
		in_pool(login, credential, on_made);
		return;
	}
	free_credential(credential);
	end(login, err, NULL);
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

	kr_conn_login_stop(login);
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

void kr_conn_login_stop(struct kr_conn_login *login)
{
	if (login->credential)
		login->credential->login = NULL;
	login->credential = NULL;
}

void kr_conn_login_fini(struct kr_conn_login *login)
{
	kr_conn_login_stop(login);
	kr_auth_fini(&login->auth);
	kr_key_put(login->key);
}

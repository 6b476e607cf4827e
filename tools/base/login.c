/* See login.h. */
#include "tools/base/login.h"

#include <errno.h>
#include <getopt.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/auth/auth_munge.h"
#include "common/base/fail.h"
#include "common/base/util.h"
#include "common/config/options.h"
#include "tools/base/client.h"

int kr_tool_proof_take(struct kr_tool_proof *proof, int option, const char *usage)
{
	uint64_t number;

	if (option == 'k') {
		proof->key = optarg;
	} else if (option == 'm') {
		proof->munge = true;
	} else if (option == 's') {
		proof->munge_socket = optarg;
	} else if (option == 'u') {
		if (!kr_parse_number(optarg, 0, UINT32_MAX - 1, &number)) {
			fprintf(stderr, "kairan: --munge-uid wants a number, not '%s'\n", optarg);
			return KR_EXIT_USAGE;
		}
		proof->munge_uid = (uint32_t)number;
	} else {
		return kr_tool_usage(usage, option == 'h');
	}
	return -1;
}

int kr_tool_proof_end(const struct kr_tool_proof *proof, int count, const char *usage)
{
	if (count <= 1 && !(proof->key && proof->munge))
		return -1;
	fprintf(stderr, "kairan: %s\n",
		count > 1 ? "too many arguments" : "--key and --munge are two ways to the same: choose one");
	return kr_tool_usage(usage, false);
}

static int64_t now_s(void)
{
	return (int64_t)(kr_clock_real_ns() / KR_NS_PER_S);
}

static void end(struct kr_tool_login *login, int err, struct kr_seal_keys *keys)
{
	if (!err) {
		kr_conn_seal(login->conn, keys);
		sodium_memzero(keys, sizeof(*keys));
	}
	login->done(login->context, err);
}

static void request(struct kr_tool_login *login, uint16_t type, const void *msg, kr_reply_fn fn)
{
	if (!kr_conn_request(login->conn, type, msg, NULL, 0, fn, login))
		end(login, kr_fail(-EINVAL, "the request cannot be sent"), NULL);
}

/* --- with a key ------------------------------------------------------------------------------- */

static void on_proved(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	struct kr_tool_login *login = context;
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
	struct kr_tool_login *login = context;

	(void)data, (void)more;
	if (err == -ECONNRESET)
		return;
	err = err < 0 ? kr_auth_client_refused(&login->auth, err) :
			kr_auth_client_prove(&login->auth, message, now_s(), &prove);
	if (err < 0)
		end(login, err, NULL);
	else
		request(login, KR_MSG_AUTH_PROVE, &prove, on_proved);
}

static void begin_key(struct kr_tool_login *login, const struct kr_fresh *fresh)
{
	struct kr_auth_request ask;
	int err = kr_auth_client_begin(&login->auth, login->key, KR_SECURITY_AUTH, fresh, now_s(), &ask);

	if (err < 0)
		end(login, err, NULL);
	else
		request(login, KR_MSG_AUTH, &ask, on_challenged);
}

/* --- by MUNGE --------------------------------------------------------------------------------- */

static void on_munge_proved(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	const struct kr_auth_munge_prove_reply *reply = message;
	struct kr_tool_login *login = context;
	uint8_t payload[KR_MUNGE_PAYLOAD];
	struct kr_seal_keys keys;
	uint32_t uid = 0;

	(void)data, (void)more;
	if (err == -ECONNRESET)
		return;
	err = err < 0 ? kr_auth_munge_refused(&login->auth, err) :
			kr_munge_decode(login->proof.munge_socket, reply->credential, &uid, payload);
	if (!err)
		err = kr_auth_munge_end(&login->auth, uid, login->proof.munge_uid, payload, &keys);
	sodium_memzero(payload, sizeof(payload));
	end(login, err, &keys);
}

static void on_munge_challenged(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	struct kr_tool_login *login = context;
	struct kr_auth_munge_prove_request prove;
	uint8_t payload[KR_MUNGE_PAYLOAD], random[KR_SECRET];
	char *credential = NULL;

	(void)data, (void)more;
	if (err == -ECONNRESET)
		return;
	randombytes_buf(random, sizeof(random));
	err = err < 0 ? kr_auth_munge_refused(&login->auth, err) :
			kr_auth_munge_prove(&login->auth, message, now_s(), random, payload);
	if (!err)
		err = kr_munge_encode(login->proof.munge_socket, login->proof.munge_uid, payload, &credential);
	sodium_memzero(random, sizeof(random));
	sodium_memzero(payload, sizeof(payload));
	prove.credential = credential;
	if (err < 0)
		end(login, err, NULL);
	else
		request(login, KR_MSG_AUTH_MUNGE_PROVE, &prove, on_munge_proved);
	free(credential);
}

static void begin_munge(struct kr_tool_login *login, const struct kr_fresh *fresh)
{
	struct kr_auth_munge_request ask;
	int err = kr_auth_munge_begin(&login->auth, KR_SECURITY_AUTH, fresh, &ask);

	if (err < 0)
		end(login, err, NULL);
	else
		request(login, KR_MSG_AUTH_MUNGE, &ask, on_munge_challenged);
}

/* --- both ------------------------------------------------------------------------------------- */

/* The proof of this machine's mounts, if there is one.  kr_options_read_file knows the daemons' options only, and an
 * error in others is not this command's to tell. */
static void take_mounts_proof(struct kr_tool_login *login)
{
	json_t *root = json_load_file(KR_OPTIONS_FILE, 0, NULL);
	const json_t *uid;

	login->options = json_incref(json_object_get(root, "mount"));
	json_decref(root);
	uid = json_object_get(login->options, "munge_uid");
	login->proof.key = json_string_value(json_object_get(login->options, "key"));
	login->proof.munge = json_is_true(json_object_get(login->options, "munge"));
	login->proof.munge_socket = json_string_value(json_object_get(login->options, "munge_socket"));
	if (json_is_integer(uid) && json_integer_value(uid) > 0 && json_integer_value(uid) < UINT32_MAX)
		login->proof.munge_uid = (uint32_t)json_integer_value(uid);
}

int kr_tool_login_init(struct kr_tool_login *login, const struct kr_tool_proof *proof)
{
	bool given = proof->key || proof->munge;
	int err;

	*login = (struct kr_tool_login){.proof = *proof};
	kr_auth_init(&login->auth);
	if (!given)
		take_mounts_proof(login);
	if (login->proof.munge && !kr_munge_is_built())
		return kr_fail(-EOPNOTSUPP, "this program is built without MUNGE");
	err = login->proof.key ? kr_key_load(login->proof.key, &login->key) : 0;
	return err == -EACCES && !given ? 0 : err;
}

void kr_tool_login_begin(
	struct kr_tool_login *login, struct kr_conn *conn, void (*done)(void *context, int err), void *context)
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
	else if (login->proof.munge)
		begin_munge(login, &fresh);
	else
		done(context, 0);
	sodium_memzero(&fresh, sizeof(fresh));
}

void kr_tool_login_fini(struct kr_tool_login *login)
{
	kr_auth_fini(&login->auth);
	kr_key_put(login->key);
	json_decref(login->options);
}

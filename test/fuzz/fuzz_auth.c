/* Fuzz target: the messages of the handshake.
 *
 * Bit 0 of byte 0 of the input chooses.  Either the rest is a list of messages that a stranger without the key sends to
 * a client and to a server, in any order: { what, length, fields }.  Or an honest handshake runs, and the rest changes
 * its messages on their way: { which message, position, xor }.  Only an unchanged one may succeed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/auth/auth.h"
#include "common/base/fail.h"
#include "test/fuzz/fuzz.h"

enum { NOW = 1795291508 };
enum { TO_SERVER_ASK, TO_CLIENT_ANSWER, TO_SERVER_PROVE, TO_CLIENT_END, STEPS };

static const struct kr_fresh client_fresh = {{1}, {3}}, server_fresh = {{2}, {4}};
static struct kr_seal_keys keys;
static struct kr_keyring *ring;
static struct kr_auth client, server;

static void require(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "%s (%s)\n", what, kr_fail_reason());
		abort();
	}
}

static void make_ring(void)
{
	const struct kr_key_owner owner = {.kind = KR_KEY_USER, .uid = 1000};
	char dir[] = "/tmp/kr-fuzz-XXXXXX", path[40];
	char *const paths[] = {path};
	struct kr_key *key;

	require(mkdtemp(dir) != NULL, "no directory");
	snprintf(path, sizeof(path), "%s/key", dir);
	require(kr_key_new(&owner, "alice", NOW, 0, &key) == 0, "no key");
	require(kr_key_save(key, path) == 0, "no key file");
	require(kr_keyring_load(paths, 1, &ring) == 0, "no ring");
	kr_key_put(key);
	unlink(path);
	rmdir(dir);
}

static void begin(struct kr_auth_request *ret_ask)
{
	kr_auth_init(&client);
	kr_auth_init(&server);
	require(kr_auth_client_begin(
			&client, kr_keyring_at(ring, 0), KR_SECURITY_INTEGRITY, &client_fresh, NOW, ret_ask) == 0,
		"cannot begin");
}

static int answer(const struct kr_auth_request *ask, struct kr_auth_reply *ret_answer)
{
	return kr_auth_server_challenge(
		&server, ring, KR_SECURITY_AUTH, ask, &server_fresh, (struct kr_time){.sec = NOW}, ret_answer);
}

static void stranger_sends(unsigned what, const uint8_t *fields, size_t length)
{
	static const struct {
		uint16_t type;
		bool reply;
	} messages[] = {
		[TO_SERVER_ASK] = {KR_MSG_AUTH, false},
		[TO_CLIENT_ANSWER] = {KR_MSG_AUTH, true},
		[TO_SERVER_PROVE] = {KR_MSG_AUTH_PROVE, false},
		[TO_CLIENT_END] = {KR_MSG_AUTH_PROVE, true},
	};
	struct kr_auth_prove_request prove;
	struct kr_arena arena = {0};
	struct kr_auth_reply reply;
	union kr_any_msg msg;

	if (kr_msg_decode(messages[what].type, messages[what].reply, fields, length, &msg, &arena) == 0) {
		if (what == TO_SERVER_ASK)
			(void)answer(&msg.auth_request, &reply);
		else if (what == TO_CLIENT_ANSWER)
			(void)kr_auth_client_prove(&client, &msg.auth_reply, NOW, &prove);
		else if (what == TO_SERVER_PROVE)
			(void)kr_auth_server_verify(&server, &msg.auth_prove_request, &keys);
		else
			(void)kr_auth_client_end(&client, &keys);
	}
	kr_arena_fini(&arena);
	require(client.state != KR_AUTH_DONE && server.state != KR_AUTH_DONE, "a stranger came in");
}

static void run_stranger(const uint8_t *bytes, size_t length)
{
	struct kr_auth_request ask;

	begin(&ask);
	while (length >= 2) {
		size_t size = bytes[1] < length - 2 ? bytes[1] : length - 2;

		stranger_sends(bytes[0] % STEPS, bytes + 2, size);
		bytes += 2 + size;
		length -= 2 + size;
	}
}

/* Applies the changes to message WHICH. True if it is another one now. */
static bool change(unsigned which, void *message, size_t size, const uint8_t *changes, size_t length)
{
	uint8_t *original = malloc(size), *bytes = message;
	bool changed;

	require(original != NULL, "no memory");
	memcpy(original, message, size);
	for (; length >= 3; length -= 3, changes += 3)
		if (changes[0] % 3 == which)
			bytes[changes[1] % size] ^= changes[2];
	changed = memcmp(original, message, size) != 0;
	free(original);
	return changed;
}

/* Field by field, here and below: the wire has no padding. */
static bool change_ask(struct kr_auth_request *ask, const uint8_t *changes, size_t length)
{
	bool changed = change(TO_SERVER_ASK, &ask->proto_min, sizeof(ask->proto_min), changes, length);

	changed |= change(TO_SERVER_ASK, &ask->proto_max, sizeof(ask->proto_max), changes, length);
	changed |= change(TO_SERVER_ASK, ask->key, sizeof(ask->key), changes, length);
	changed |= change(TO_SERVER_ASK, ask->nonce, sizeof(ask->nonce), changes, length);
	changed |= change(TO_SERVER_ASK, ask->public, sizeof(ask->public), changes, length);
	changed |= change(TO_SERVER_ASK, &ask->security, sizeof(ask->security), changes, length);
	changed |= change(TO_SERVER_ASK, &ask->ciphers, sizeof(ask->ciphers), changes, length);
	return changed;
}

static void run_changed(const uint8_t *changes, size_t length)
{
	struct kr_auth_prove_request prove;
	struct kr_auth_request ask;
	struct kr_auth_reply reply;
	bool changed;
	int err;

	begin(&ask);
	changed = change_ask(&ask, changes, length);
	err = answer(&ask, &reply);
	if (!err) {
		struct kr_time now = reply.now;

		changed |= change(TO_CLIENT_ANSWER, reply.nonce, sizeof(reply.nonce), changes, length);
		changed |= change(TO_CLIENT_ANSWER, reply.public, sizeof(reply.public), changes, length);
		changed |= change(TO_CLIENT_ANSWER, &reply.security, sizeof(reply.security), changes, length);
		changed |= change(TO_CLIENT_ANSWER, &reply.cipher, sizeof(reply.cipher), changes, length);
		changed |= change(TO_CLIENT_ANSWER, reply.proof, sizeof(reply.proof), changes, length);
		changed |= change(TO_CLIENT_ANSWER, &now.sec, sizeof(now.sec), changes, length);
		changed |= change(TO_CLIENT_ANSWER, &now.nsec, sizeof(now.nsec), changes, length);
		reply.now = now;
		err = kr_auth_client_prove(&client, &reply, NOW, &prove);
	}
	if (!err) {
		changed |= change(TO_SERVER_PROVE, &prove, sizeof(prove), changes, length);
		err = kr_auth_server_verify(&server, &prove, &keys);
	}
	require(!err == !changed, "a changed handshake succeeds, or an unchanged one fails");
	require(!err == (server.state == KR_AUTH_DONE), "a session key without an authenticated peer");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	if (!ring)
		make_ring();
	if (length == 0)
		return 0;
	if (bytes[0] & 1)
		run_changed(bytes + 1, length - 1);
	else
		run_stranger(bytes + 1, length - 1);
	kr_auth_fini(&client);
	kr_auth_fini(&server);
	return 0;
}

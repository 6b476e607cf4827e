/* Both sides of a handshake.  Messages pass through the protocol's encoding, so that each bit of each can be flipped on
 * its way. */
#ifndef KR_TEST_UNIT_AUTH_FIXTURE_H
#define KR_TEST_UNIT_AUTH_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/auth/auth.h"
#include "common/base/fail.h"
#include "common/base/util.h"

#define SECRET "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
static const char node_text[] =
	"kairan-key 1\nid db316863cac308b850d8258d73e662cd\nidentity node\ncreated 2026-11-21T20:05:08Z\n"
	"expires never\nsecret " SECRET "\n";
static const char user_text[] = "kairan-key 1\nid 7670d6b21d85cf978d8aa91f76b9227c\nidentity user 1000 alice\n"
				"created 2026-11-21T20:05:08Z\nexpires 2026-12-21T20:05:08Z\nsecret " SECRET "\n";
enum { CREATED = 1795291508, NOW = CREATED + 5, EXPIRES = CREATED + 86400 * 30 };

enum flip { FLIP_NONE, FLIP_ASK, FLIP_ANSWER, FLIP_PROVE };

/* Both sides of one connection, and what crosses it. */
struct pair {
	struct kr_auth client, server;
	struct kr_keyring *ring;
	struct kr_key *node, *user;
	struct kr_fresh client_fresh, server_fresh;
	struct kr_seal_keys client_keys, server_keys;
	enum kr_security wanted, given; /* the least, of client and server */
	int64_t client_clock, server_clock;
	struct kr_auth_request ask;
	struct kr_auth_reply answer;
	struct kr_auth_prove_request prove;
	enum flip flip; /* the message of which a bit is flipped */
	size_t flip_bit;
};

static char dir[] = "/tmp/kr-auth-XXXXXX";
static char paths[2][40];

static inline int setup_files(void **state)
{
	const char *const texts[] = {node_text, user_text};

	(void)state;
	assert_non_null(mkdtemp(dir));
	for (int i = 0; i < 2; i++) {
		struct kr_key *key;

		snprintf(paths[i], sizeof(paths[i]), "%s/%d", dir, i);
		assert_int_equal(kr_key_parse(texts[i], strlen(texts[i]), "k", &key), 0);
		assert_int_equal(kr_key_save(key, paths[i]), 0);
		kr_key_put(key);
	}
	return 0;
}

static inline int remove_files(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		unlink(paths[i]);
	return rmdir(dir);
}

static inline int setup(void **state)
{
	struct pair *p = kr_xcalloc(1, sizeof(*p));
	char *const names[] = {paths[0], paths[1]};

	assert_int_equal(kr_keyring_load(names, 2, &p->ring), 0);
	p->node = kr_key_get(kr_keyring_at(p->ring, 0));
	p->user = kr_key_get(kr_keyring_at(p->ring, 1));
	for (unsigned i = 0; i < KR_NONCE; i++) {
		p->client_fresh.nonce[i] = (uint8_t)(0x40 + i);
		p->server_fresh.nonce[i] = (uint8_t)(0x80 + i);
		p->client_fresh.private[i] = (uint8_t)(0x10 + i);
		p->server_fresh.private[i] = (uint8_t)(0x20 + i);
	}
	p->given = KR_SECURITY_INTEGRITY;
	p->client_clock = p->server_clock = NOW;
	*state = p;
	return 0;
}

/* As a new connection; the random bytes change. */
static inline void hang_up(struct pair *p)
{
	kr_auth_fini(&p->client);
	kr_auth_fini(&p->server);
	p->client_fresh.nonce[0]++;
	p->server_fresh.nonce[0]++;
	p->client_fresh.private[5]++;
	p->server_fresh.private[5]++;
}

static inline int teardown(void **state)
{
	struct pair *p = *state;

	hang_up(p);
	kr_key_put(p->node);
	kr_key_put(p->user);
	kr_keyring_free(p->ring);
	free(p);
	return 0;
}

/* Carries a message over the wire into RET, with a bit flipped if asked. Returns its bits. */
static inline size_t carry(
	const struct pair *p, enum flip flip, uint16_t type, bool reply, const void *msg, void *ret, size_t size)
{
	struct kr_arena arena = {0};
	union kr_any_msg any;
	struct kr_writer w;
	size_t bits;

	kr_writer_init(&w);
	assert_int_equal(kr_msg_encode(type, reply, msg, &w), 0);
	bits = 8 * w.length;
	if (flip != FLIP_NONE && p->flip == flip && p->flip_bit < bits)
		w.bytes[p->flip_bit / 8] ^= (uint8_t)(1 << p->flip_bit % 8);
	if (kr_msg_decode(type, reply, w.bytes, w.length, &any, &arena) == 0)
		memcpy(ret, &any, size);
	else
		memset(ret, 0, size); /* a time of 2^30 nanoseconds or more: refused before the handshake sees it */
	kr_arena_fini(&arena);
	kr_writer_fini(&w);
	return bits;
}

static inline int challenge(struct pair *p)
{
	const struct kr_time now = {.sec = p->server_clock, .nsec = 123456789};

	return kr_auth_server_challenge(&p->server, p->ring, p->given, &p->ask, &p->server_fresh, now, &p->answer);
}

/* The whole handshake with KEY; the first error of either side. */
static inline int shake(struct pair *p, struct kr_key *key)
{
	struct kr_auth_request ask;
	struct kr_auth_reply answer;
	struct kr_auth_prove_request prove;
	int err = kr_auth_client_begin(&p->client, key, p->wanted, &p->client_fresh, p->client_clock, &ask);

	if (err)
		return err;
	carry(p, FLIP_ASK, KR_MSG_AUTH, false, &ask, &p->ask, sizeof(p->ask));
	err = challenge(p);
	if (err)
		return err;
	answer = p->answer;
	carry(p, FLIP_ANSWER, KR_MSG_AUTH, true, &answer, &p->answer, sizeof(p->answer));
	err = kr_auth_client_prove(&p->client, &p->answer, p->client_clock, &prove);
	if (err)
		return err;
	carry(p, FLIP_PROVE, KR_MSG_AUTH_PROVE, false, &prove, &p->prove, sizeof(p->prove));
	err = kr_auth_server_verify(&p->server, &p->prove, &p->server_keys);
	return err ? err : kr_auth_client_end(&p->client, &p->client_keys);
}

#endif

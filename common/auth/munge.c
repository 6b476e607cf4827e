/* Credentials of MUNGE; see munge.h.  No state. */
#include "common/auth/munge.h"

#include <errno.h>

#include "common/base/fail.h"

#ifdef KR_MUNGE

#include <munge.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

bool kr_munge_is_built(void)
{
	return true;
}

static munge_ctx_t new_context(const char *socket)
{
	munge_ctx_t context = munge_ctx_create();

	if (context && socket && munge_ctx_set(context, MUNGE_OPT_SOCKET, socket) != EMUNGE_SUCCESS) {
		munge_ctx_destroy(context);
		return NULL;
	}
	return context;
}

/* MUNGE's error, with advice. */
static int explain(munge_ctx_t context, munge_err_t err)
{
	const char *said = munge_ctx_strerror(context);

	if (!said)
		said = munge_strerror(err);
	switch (err) {
	case EMUNGE_SOCKET:
		return kr_fail(-EHOSTDOWN,
			"munged on this machine does not answer: %s (is it running, and is this its socket?)", said);
	case EMUNGE_CRED_EXPIRED:
		return kr_fail(-EKEYEXPIRED,
			"its MUNGE credential has expired: %s (do the clocks of both machines agree?)", said);
	case EMUNGE_CRED_REWOUND:
		return kr_fail(-EKEYEXPIRED, "its MUNGE credential is of the future: %s (set the clocks)", said);
	case EMUNGE_CRED_REPLAYED:
		return kr_fail(-EKEYREJECTED, "its MUNGE credential has been used before: %s", said);
	case EMUNGE_CRED_UNAUTHORIZED:
		return kr_fail(-EKEYREJECTED,
			"its MUNGE credential is not for the user that this daemon runs as: %s (munge_uid says whom "
			"it is for)",
			said);
	case EMUNGE_CRED_INVALID:
		return kr_fail(-EKEYREJECTED,
			"its MUNGE credential does not fit our MUNGE key: %s (do both machines have the same "
			"munge.key?)",
			said);
	case EMUNGE_BAD_CRED:
	case EMUNGE_BAD_VERSION:
	case EMUNGE_BAD_CIPHER:
	case EMUNGE_BAD_MAC:
	case EMUNGE_BAD_ZIP:
	case EMUNGE_BAD_REALM:
		return kr_fail(-EKEYREJECTED, "what it sent is no MUNGE credential of this realm: %s", said);
	default:
		return kr_fail(-EIO, "MUNGE: %s", said);
	}
}

int kr_munge_encode(const char *socket, uint32_t uid, const uint8_t payload[KR_MUNGE_PAYLOAD], char **ret_credential)
{
	munge_ctx_t context = new_context(socket);
	munge_err_t err = context ? EMUNGE_SUCCESS : EMUNGE_NO_MEMORY;
	char *credential = NULL;
	int result = 0;

	if (!err)
		err = munge_ctx_set(context, MUNGE_OPT_UID_RESTRICTION, (uid_t)uid);
	if (!err)
		err = munge_ctx_set(context, MUNGE_OPT_TTL, (int)KR_MUNGE_TTL_S);
	if (!err)
		err = munge_encode(&credential, context, payload, KR_MUNGE_PAYLOAD);
	if (err)
		result = explain(context, err);
	else if (strlen(credential) > KR_MUNGE_CREDENTIAL_MAX)
		result = kr_fail(-EIO, "MUNGE: a credential of %zu bytes is too long", strlen(credential));
	munge_ctx_destroy(context);
	if (result)
		free(credential);
	else
		*ret_credential = credential;
	return result;
}

int kr_munge_decode(
	const char *socket, const char *credential, uint32_t *ret_uid, uint8_t ret_payload[KR_MUNGE_PAYLOAD])
{
	munge_ctx_t context = new_context(socket);
	munge_err_t err = EMUNGE_NO_MEMORY;
	void *payload = NULL;
	int length = 0, result;
	uid_t uid = 0;
	gid_t gid;

	if (context)
		err = munge_decode(credential, context, &payload, &length, &uid, &gid);
	if (err)
		result = explain(context, err);
	else if (length != KR_MUNGE_PAYLOAD)
		result = kr_fail(-EKEYREJECTED, "its MUNGE credential was made for something else");
	else
		result = 0;
	if (result == 0) {
		memcpy(ret_payload, payload, KR_MUNGE_PAYLOAD);
		*ret_uid = uid;
	}
	if (payload)
		sodium_memzero(payload, (size_t)length);
	free(payload);
	munge_ctx_destroy(context);
	return result;
}

#else

bool kr_munge_is_built(void)
{
	return false;
}

int kr_munge_encode(const char *socket, uint32_t uid, const uint8_t payload[KR_MUNGE_PAYLOAD], char **ret_credential)
{
	(void)socket, (void)uid, (void)payload, (void)ret_credential;
	return kr_fail(-EOPNOTSUPP, "this kairan is built without MUNGE");
}

int kr_munge_decode(
	const char *socket, const char *credential, uint32_t *ret_uid, uint8_t ret_payload[KR_MUNGE_PAYLOAD])
{
	(void)socket, (void)credential, (void)ret_uid, (void)ret_payload;
	return kr_fail(-EOPNOTSUPP, "this kairan is built without MUNGE");
}

#endif

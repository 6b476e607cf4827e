/* Credentials of MUNGE (libmunge, and the munged that runs on each host).  Every host of the realm can tell which user
 * made a credential, and only the given user can open it.  Blocks until munged answers.
 *
 * In a build without libmunge both functions fail with -EOPNOTSUPP.
 */
#ifndef KR_COMMON_MUNGE_H
#define KR_COMMON_MUNGE_H

#include <stdbool.h>
#include <stdint.h>

enum { KR_MUNGE_PAYLOAD = 64, KR_MUNGE_TTL_S = 60, KR_MUNGE_CREDENTIAL_MAX = 4095 };

bool kr_munge_is_built(void);
/* SOCKET: munged's; NULL: the usual one.  Only UID can open the credential; *RET_CREDENTIAL owned (free).  -EHOSTDOWN:
 * munged does not answer; -EIO. */
int kr_munge_encode(const char *socket, uint32_t uid, const uint8_t payload[KR_MUNGE_PAYLOAD], char **ret_credential);
/* The credential's maker and payload.  -EKEYREJECTED: made with another MUNGE key, damaged, for another user, or used
 * before; -EKEYEXPIRED: too old, or from the future; -EHOSTDOWN. */
int kr_munge_decode(
	const char *socket, const char *credential, uint32_t *ret_uid, uint8_t ret_payload[KR_MUNGE_PAYLOAD]);

#endif

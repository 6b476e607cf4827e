/* Credentials of MUNGE (libmunge, and the munged that runs on each host): who has made one can be told by every host of
 * the realm, and nobody but the given user can open it.  Blocks, while munged answers.
 *
 * In a build without libmunge both fail with -EOPNOTSUPP.
 */
#ifndef KR_COMMON_MUNGE_H
#define KR_COMMON_MUNGE_H

#include <stdbool.h>
#include <stdint.h>

enum { KR_MUNGE_PAYLOAD = 64, KR_MUNGE_TTL_S = 60, KR_MUNGE_CREDENTIAL_MAX = 4095 };

bool kr_munge_is_built(void);
/* SOCKET: of munged; NULL: where it usually is. The credential can be opened by UID only; *RET_CREDENTIAL owned (free).
 * -EHOSTDOWN: munged does not answer; -EIO. */
int kr_munge_encode(const char *socket, uint32_t uid, const uint8_t payload[KR_MUNGE_PAYLOAD], char **ret_credential);
/* Who made it, and what is in it. -EKEYREJECTED: made with another MUNGE key, damaged, for another user, or used
 * before; -EKEYEXPIRED: too old, or of the future; -EHOSTDOWN. */
int kr_munge_decode(
	const char *socket, const char *credential, uint32_t *ret_uid, uint8_t ret_payload[KR_MUNGE_PAYLOAD]);

#endif

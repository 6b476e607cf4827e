/* .kairan in the export: the server's own directory. Of several gateways each has its own, .kairan-gateway-ID.
 *
 * A user of the server's machine can remove it while the server runs: the server makes it again when needed. The
 * descriptors keep their numbers, so a thread that uses one needs no lock. */
#ifndef KR_SERVER_PRIVATE_DIR_H
#define KR_SERVER_PRIVATE_DIR_H

#include <stdbool.h>
#include <stdint.h>

struct kr_export;

enum { KR_PRIVATE_NAME_MAX = 32 };

/* Makes or opens it, for this server alone; private_fd stays -1 where the export cannot be written. */
int kr_private_dir_open(struct kr_export *export);
/* Notes in it which SERVER (the export id in its state directory) has the export.  AWAITS: nodes of this server may
 * come back.  -ESTALE: then another one has had the export since they were here, so what they know of it is old. */
int kr_private_dir_sign(struct kr_export *export, const uint8_t server[16], bool awaits);
/* Makes it again after a removal. The caller holds export->renewing. */
int kr_private_dir_renew(struct kr_export *export);
/* Whether NAME in the root is this server's directory, or another gateway's. */
bool kr_private_dir_is(const struct kr_export *export, const char *name);
/* Whether the directory FD has been removed. */
bool kr_private_dir_is_removed(int fd);

#endif

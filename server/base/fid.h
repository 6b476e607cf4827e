/* File identities on the wire: what a struct kr_fid holds, and the code that keeps clients from inventing one.
 *
 *   offset  size  field
 *        0     1  kind     1 HANDLE: the kernel's file handle;  2 INODE: inode number and birth time
 *                  (without privileges, and on FUSE)
 *        1     n  HANDLE: u32 handle type, then 1..128 bytes of handle;  INODE: u64 ino, u64 seconds, u32 nanoseconds
 *                  (without a birth time: the generation, 0)
 *      1+n     8  SipHash-2-4 of all bytes before, under the export's secret
 *
 * Integers big-endian.  The secret lies in the server's state directory, so identities outlive the process.  A client
 * without it cannot name a file outside the export, though a kernel handle reaches the whole filesystem; nor can it use
 * another export's identities.  No state, any thread.
 */
#ifndef KR_SERVER_FID_H
#define KR_SERVER_FID_H

#include "common/base/types.h"

enum { KR_FID_SECRET = 16, KR_FID_HANDLE_MAX = 128 };
enum kr_fid_kind { KR_FID_HANDLE = 1, KR_FID_INODE = 2 };

/* A fid in the clear. */
struct kr_identity {
	enum kr_fid_kind kind;
	/* HANDLE */
	int32_t handle_type;
	uint32_t handle_length;
	uint8_t handle[KR_FID_HANDLE_MAX];
	/* INODE */
	uint64_t ino;
	struct kr_time birth;
};

void kr_fid_seal(const uint8_t secret[KR_FID_SECRET], const struct kr_identity *identity, struct kr_fid *ret_fid);
/* -ESTALE when the code does not match (forged, damaged, or of another export) or the kind is unknown. */
int kr_fid_unseal(const uint8_t secret[KR_FID_SECRET], const struct kr_fid *fid, struct kr_identity *ret_identity);
/* SipHash-2-4 of bytes under the export's secret. */
uint64_t kr_fid_code(const uint8_t secret[KR_FID_SECRET], const void *bytes, size_t length);

#endif

/* Requests of local programs to a kairan mount beyond POSIX: ioctl(2) on an open file of the mount, and batched writes
 * and reads.  Host byte order: both sides are one machine.  For libraries such as the MPI-IO layer.
 *
 * A batch writes many extents of one file in one system call:
 *   1. KR_IOC_BATCH on a handle open for writing (without O_APPEND, O_SYNC, O_DSYNC) gives a token for the handle,
 *      valid until the handle is closed or has lost a lock;
 *   2. open(".kairan" in the mount's root, O_WRONLY) opens the batch file, a file that no listing shows;
 *   3. one write(2) to the batch file per batch: struct kr_batch_head, `count` struct kr_batch_extent, then the
 *      extents' bytes, one after the other, nothing else; at most kr_mount_info.batch_max bytes together, in
 *      page-aligned memory.
 * The write returns its size when all extents are written, as by pwrite(2) on the handle in their order.  Errors:
 * EINVAL (not a batch), EBADF (no such token), EFBIG (an offset), else as pwrite; then any number of the extents may
 * have been written.  close and fsync of the handle report the errors of a later flush.
 *
 * Two system calls read a batch, on a batch file opened O_RDWR that has no other user meanwhile:
 *   1. a write as above, but with KR_BATCH_READ_MAGIC and without the bytes (`data` is their number, at most
 *      batch_max); the token is of a relaxed handle that is open for reading too;
 *   2. pread(2) from the batch file: the extents' bytes, one after the other, are its bytes 0... until the next such
 *      write.
 * It reads the node's own unflushed bytes and never waits.  ENODATA: an extent has other bytes; then the program reads
 * the handle itself.
 */
#ifndef KR_COMMON_KAIRAN_IOCTL_H
#define KR_COMMON_KAIRAN_IOCTL_H

#include <stdint.h>
#include <sys/ioctl.h>

#define KR_BATCH_FILE ".kairan"

enum { KR_BATCH_TOKEN = 16, KR_MOUNT_INFO_NAME = 256 };

struct kr_mount_info {
	uint32_t version;              /* of these structures: 2 */
	uint32_t block_size;           /* of transfers, in bytes: reads and stripes should be multiples of it */
	uint64_t batch_max;            /* bytes of one batch */
	uint64_t stripe_size;          /* the stripe for programs that distribute a file over nodes; 0: no advice */
	char node[KR_MOUNT_INFO_NAME]; /* this node's name, which decides its place in the ring */
	char ring[KR_MOUNT_INFO_NAME]; /* the ring's */
};

struct kr_batch_token {
	uint8_t bytes[KR_BATCH_TOKEN];
};

struct kr_batch_head {
	uint32_t magic; /* KR_BATCH_MAGIC, KR_BATCH_READ_MAGIC */
	uint32_t count; /* of extents, at least 1 */
	struct kr_batch_token token;
	uint64_t data; /* bytes after the extents: the sum of their lengths */
};

struct kr_batch_extent {
	uint64_t offset;
	uint64_t length; /* at least 1 */
};

struct kr_stage_state {
	uint32_t wait_ms; /* the only input; all else is output */
	uint32_t nodes;   /* of the ring, this one included */
	uint32_t done;    /* nodes that have the whole file */
	uint32_t failed;  /* nodes that cannot have it ... */
	uint32_t error;   /* ... errno of the first of them, `node` */
	uint32_t unused;
	uint64_t size;  /* of the file */
	uint64_t bytes; /* that the nodes have, together */
	uint64_t room;  /* the capacity of the smallest of their caches */
	char node[KR_MOUNT_INFO_NAME];
};

#define KR_BATCH_MAGIC UINT32_C(0x6b726231)
#define KR_BATCH_READ_MAGIC UINT32_C(0x6b726232)

/* Tells whether an open file is on a kairan mount, and which; ENOTTY elsewhere. */
#define KR_IOC_INFO _IOR('k', 0x70, struct kr_mount_info)
/* Turns relaxed coherence of this handle on (1) or off (0).  A relaxed handle reads this node's unflushed bytes without
 * asking for newer ones of other nodes.  It meets other nodes' writes at open, fsync and close.  EINVAL for a handle
 * that reads through the kernel's pages (without O_DIRECT: O_RDONLY, and on kernels before 6.6 O_RDWR). */
#define KR_IOC_RELAXED _IOW('k', 0x71, uint32_t)
#define KR_IOC_BATCH _IOR('k', 0x72, struct kr_batch_token)
/* Makes every node of the ring stage the whole file in its cache.  The handle is open for reading, else EBADF.  The
 * call waits for wait_ms at most; the nodes go on after it, and a repeated call tells their progress. */
#define KR_IOC_STAGE _IOWR('k', 0x73, struct kr_stage_state)

#endif

/* Plain value types that the protocol, the server and the nodes share. */
#ifndef KR_COMMON_TYPES_H
#define KR_COMMON_TYPES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
	KR_BLOCK_SIZE = 128 * 1024, /* unit of staging, of pulls and of data frames */
	KR_NAME_MAX = 255,
	KR_PATH_MAX = 4095,   /* a symbolic link's target */
	KR_XATTR_MAX = 65536, /* one value, or one list of names */
	KR_FID_MAX = 152,     /* see server/base/fid.h: kind, file handle, authentication code */
	KR_RING_NAME_MAX = 63,
	KR_JOB_NAME_MAX = 64,                /* of jobs and nodes, and of numeric addresses */
	KR_INLINE_MAX = 1 << 20,             /* bytes that a FLUSH or an OPEN reply carries in its own frame */
	KR_LEND_DATA_MAX = (1 << 20) + 8192, /* a FUSE message */
	KR_DEFAULT_PORT = 7440,
};

/* A file's identity on the wire: opaque to nodes, outlives the server's process, unique within an export. */
struct kr_fid {
	uint8_t length;
	uint8_t bytes[KR_FID_MAX];
};

static inline bool kr_fid_equal(const struct kr_fid *a, const struct kr_fid *b)
{
	return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

struct kr_time {
	int64_t sec;
	uint32_t nsec; /* < 1e9 */
};

static inline int kr_time_compare(struct kr_time a, struct kr_time b)
{
	if (a.sec != b.sec)
		return a.sec < b.sec ? -1 : 1;
	return a.nsec < b.nsec ? -1 : a.nsec > b.nsec;
}

/* Bits of SETATTR's `valid` (msgs.def).  The first six, ATIME_NOW and MTIME_NOW have libfuse's numbers. */
enum kr_setattr_valid {
	KR_SET_MODE = 1,
	KR_SET_UID = 2,
	KR_SET_GID = 4,
	KR_SET_SIZE = 8,
	KR_SET_ATIME = 16,
	KR_SET_MTIME = 32,
	KR_SET_ATIME_NOW = 64,
	KR_SET_MTIME_NOW = 128,
	KR_SET_CLEAR_SUID = 256, /* drop set-uid, and set-gid if group-executable, as a write does */
	KR_SET_BY_HANDLE = 512,  /* size: through a handle that is open for writing */
	KR_SET_BEHIND = 1024     /* the request waits for the session's latest FLUSH of the file */
};

/* A file's attributes as the server's filesystem gives them. */
struct kr_attr {
	uint64_t ino;
	uint32_t mode, nlink, uid, gid;
	uint32_t rdev_major, rdev_minor;
	uint64_t size, blocks; /* blocks of 512 bytes */
	uint32_t blksize;
	struct kr_time atime, mtime, ctime;
	uint64_t version; /* of the data: equal versions mean equal bytes; 0: valid under the present lease only */
};

/* The caller of an operation.  GROUPS borrows; NULL when group_count is 0. */
struct kr_cred {
	uint32_t uid, gid;
	uint32_t group_count; /* at most KR_GROUPS_MAX */
	const uint32_t *groups;
};
enum { KR_GROUPS_MAX = 1024 };

struct kr_range {
	uint64_t offset, length;
};

/* Flags of FSYNC. */
enum kr_fsync_flag {
	KR_FSYNC_DATA = 1,
	KR_FSYNC_SEEN = 2,
	KR_FSYNC_APPLIED = 4,
	KR_FSYNC_BEHIND = 8,
	KR_FSYNC_ALL = 15
};

/* Lease kinds, a bit set: READ allows to cache and serve the data, WRITE to journal writes. */
enum kr_lease_kind { KR_LEASE_READ = 1, KR_LEASE_WRITE = 2, KR_LEASE_ALL = 3 };
/* REPARENT's `complaint` of the upstream. */
enum kr_complaint { KR_COMPLAINT_FAILED, KR_COMPLAINT_SILENT, KR_COMPLAINT_SLOW };
enum { KR_RECLAIM_UNCOVERED = 4 };                            /* added to the kinds of RECLAIM */
enum { KR_RECALL_GONE = 4, KR_RECALL_DISCARD = 8 };           /* added to the kinds of RECALL */
enum { KR_HELLO_REPLAY = 1, KR_HELLO_POWER_LOST = 2 };        /* flags of HELLO */
enum { KR_INTRODUCE_LEAVE = 1, KR_INTRODUCE_UNANSWERED = 2 }; /* flags of INTRODUCE */
enum { KR_FLUSH_INLINE = 1, KR_FLUSH_RESEND = 2 };            /* flags of FLUSH */

#endif

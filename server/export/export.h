/* The exported directory: every operation on it, as one blocking function each.
 *
 * Threads: all functions may be called from any thread and may block in the filesystem, so never from the event loop,
 * except where "does not block" is said.  The calling thread is made ready on its first call (its own umask; without
 * CAP_SYS_RESOURCE, so that quotas hold for what the server does for others).
 * Results: 0, or -errno exactly as the filesystem gave it, with the reason in kr_fail_reason().  Out-parameters are
 * written on success only; pointers marked "may be NULL" may be.
 *
 * Access is by identity and one name at a time; a path is never built, and nothing is followed: not symbolic links, not
 * "..", not mounts.  A directory on which another filesystem (or a bind mount) lies answers -EXDEV: an export is one
 * filesystem.  Names are 1 to 255 bytes without '/' and NUL, not "." or ".." (-EINVAL, -ENAMETOOLONG).
 * An identity that was not made by this export, or whose file is gone, is -ESTALE.  Once the export directory itself
 * has been removed, replaced or unmounted everything is -EIO until it is back: nodes keep what they have, and nothing
 * is ever written to what lies at its path instead.  `.kairan` in the root is the server's own: it is not found, not
 * listed, and cannot be made (-EPERM).
 *
 * HOLDS.  kr_export_open and kr_export_create count one hold on the file, kr_export_hold another, until
 * kr_export_release.  A held file whose name is removed, or replaced by a rename, lives on in .kairan/orphans (also
 * over a restart of the server) and shows one link less than it has; when its last hold ends it is gone.  Removal and
 * open exclude each other inside, so a successful open never loses its file.  A former instance's orphans stay until
 * kr_export_sweep_orphans: nodes that reclaim their opens take a hold before.
 *
 * IDENTITY OF THE CALLER.  Where the server has the capabilities for it, everything with a CRED is done as that user,
 * with his groups and without the server's privileges (cred.h): owners, permission bits, ACLs, sticky and set-gid
 * rules, quotas are the kernel's here.  Else everything is done as the server's user.  CRED NULL: by the server itself,
 * unchecked. A name needs the right to search its directory, not those above it, which were searched when their names
 * were looked up (as NFS has it).  Data (pread, pwritev, truncate, seek, fallocate, copy) is not checked here:
 * kr_export_open did, for the session that opened it (open_rights.h), so that a later chmod takes nothing away from who
 * has it open.
 */
#ifndef KR_SERVER_EXPORT_H
#define KR_SERVER_EXPORT_H

#include <stddef.h>

#include "server/base/fid.h"
#include "server/export/last_stat.h"

struct kr_doubts;
struct kr_export;

struct kr_export_options {
	const char *path;              /* borrowed during kr_export_new */
	uint8_t secret[KR_FID_SECRET]; /* from the state directory, the same in every instance */
	uint32_t max_fds;              /* descriptors kept open between calls; 0: KR_EXPORT_FDS */
	bool read_only;                /* changes of what is exported are refused with -EROFS */
	bool identity_by_inode;        /* do without kernel handles although they work (tests) */
};
enum { KR_EXPORT_FDS = 512 };

/* -ENOENT, -ENOTDIR, -EACCES...: the reason names the directory. Lists the orphans of the former instance. */
int kr_export_new(const struct kr_export_options *options, struct kr_export **ret_export);
/* Nobody may be inside. Orphans stay for the next instance. */
void kr_export_free(struct kr_export *export);

struct kr_export_info {
	bool by_handle;    /* false: identities are inode numbers; after a restart they are found again by a walk */
	int no_handles;    /* why: -errno; 0: so wanted */
	bool callers_ids;  /* false: everything belongs to the server's user */
	bool read_only;    /* cannot be written by this server */
	uint64_t file_max; /* the longest file that the filesystem can hold; INT64_MAX also if that cannot be found out
			    */
	bool exact_ctime;  /* the filesystem never gives two changes, one of them seen, the same ctime */
	uint64_t reads, read_bytes, writes,
		write_bytes; /* system calls on file data since the start, and their bytes */
	uint32_t orphans, fds;
};
/* Does not block. */
void kr_export_info(struct kr_export *export, struct kr_export_info *ret_info);

/* Once a second or so: closes descriptors that have been idle, and finds out whether the export is still where it was
 * (-EIO). Operations do the same when nobody calls this. */
int kr_export_tick(struct kr_export *export);

/* ATTR's data version: equal versions mean equal bytes, also across restarts; 0 while a further change could go unseen
 * (the last one was less than 50 ms ago on a filesystem with coarse clocks, or kr_export_doubt_ctime). COUNTER > 0 is
 * the caller's count of its own changes to the file in this instance: it makes the version good at once, and different
 * from the one that the same bytes have later, so keep what was handed out while ctime, size and counter stay.
 * Operations fill attr->version with COUNTER 0. Does not block. */
uint64_t kr_export_attr_version(const struct kr_export *export, const struct kr_attr *attr, uint64_t counter);
/* Which ctimes of former instances are doubtful: before the first version; borrowed. */
void kr_export_doubt_past(struct kr_export *export, const struct kr_doubts *doubts);
/* What changed less than YOUNG_NS ago can be still changing under the same ctime, and nobody tells of it. */
void kr_export_doubt_ctime(struct kr_export *export, uint64_t young_ns);

/* The identity of the file with this kernel handle, which need not be in the export. -ESTALE: files here are not
 * identified by handles, or this is none. Does not block. */
int kr_export_identify_handle(
	const struct kr_export *export, int type, const void *handle, uint32_t length, struct kr_fid *ret_fid);

/* --- names ------------------------------------------------------------------------------------ */

/* The root, or the directory SUBDIR below it ("" or "a/b"; each component as kr_export_lookup). */
int kr_export_walk(struct kr_export *export, const struct kr_cred *cred, const char *subdir, struct kr_fid *ret_fid,
	struct kr_attr *ret_attr);
int kr_export_lookup(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, struct kr_fid *ret_fid, struct kr_attr *ret_attr);
/* What one of many lookups has found. */
struct kr_looked {
	int err;
	bool bare; /* as kr_export_bare */
	struct kr_fid fid;
	struct kr_attr attr;
};
/* COUNT names in one directory, each as kr_export_lookup would, into LOOKED. An error is one of all of them. */
int kr_export_lookup_many(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *const *names, size_t count, struct kr_looked *looked);
/* TARGET has room for KR_PATH_MAX + 1 bytes. */
int kr_export_readlink(struct kr_export *export, const struct kr_fid *fid, char *target);

/* mkdir, mknod (fifo, socket, device, empty regular file) or symlink by the type in MODE (no type: regular). UMASK
 * counts unless the parent has a default ACL. TARGET only for a symbolic link. */
struct kr_make {
	const char *name;
	uint32_t mode, umask, rdev_major, rdev_minor;
	const char *target;
};
int kr_export_make(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const struct kr_make *make, struct kr_fid *ret_fid, struct kr_attr *ret_attr);
/* -ENOENT for a file whose last name is gone, unless kr_export_create made it without one. */
int kr_export_link(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid,
	const struct kr_fid *parent, const char *name, struct kr_attr *ret_attr);

/* What a removal has done to the file that had the name. */
struct kr_removed {
	bool valid;    /* a file or directory lost the name (rename: one was replaced) */
	bool orphaned; /* it had holds, and lives on until they end (or longer, by other names) */
	bool named;    /* it has another name */
	bool gone;     /* neither a name nor a hold is left */
	bool lingers;  /* one of its holds is the caller's now, to be ended by kr_export_release */
	struct kr_fid fid;
	struct kr_fid moved, exchanged;                     /* rename: what has other names now; length 0: nothing */
	struct kr_own_change own, moved_own, exchanged_own; /* of these three: before and after, where known */
};
/* unlink, or rmdir if DIRECTORY. With LINGER_MAX a regular file of up to so many bytes lives on by a hold of the
 * caller's, unless space or inodes run short there. RET_REMOVED may be NULL without. */
int kr_export_remove(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, bool directory, uint64_t linger_max, struct kr_removed *ret_removed);
/* FLAGS: 1 NOREPLACE, 2 EXCHANGE. LINGER_MAX: as for kr_export_remove, of a target that is replaced. RET_REPLACED (may
 * be NULL without) tells of that. */
int kr_export_rename(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, const struct kr_fid *new_parent, const char *new_name, uint32_t flags, uint64_t linger_max,
	struct kr_removed *ret_replaced);

/* Entries from COOKIE (0: the start), encoded as msgs.def has it for READDIR, into BUFFER of SIZE >= KR_READDIR_MIN
 * bytes. "." and ".." are among them. *RET_END: nothing follows. Cookies are the filesystem's own and stay good while
 * the directory changes. */
enum { KR_READDIR_MIN = 512 };
int kr_export_readdir(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, uint64_t cookie,
	void *buffer, size_t size, size_t *ret_length, bool *ret_end);

/* --- attributes ------------------------------------------------------------------------------- */

int kr_export_getattr(struct kr_export *export, const struct kr_fid *fid, struct kr_attr *ret_attr);
/* Of directory FID (RET_ATTR may be NULL); *RET_FOLDS: several names may stand for one of its entries (upper and lower
 * case), or nobody can tell. */
int kr_export_look_at_dir(
	struct kr_export *export, const struct kr_fid *fid, struct kr_attr *ret_attr, bool *ret_folds);
/* Gives the file another ctime, and changes nothing else, if it has CTIME now: 1; 0 if it has not. */
int kr_export_touch(struct kr_export *export, const struct kr_fid *fid, struct kr_time ctime);

enum kr_setattr_valid {
	KR_SET_MODE = 1 << 0,
	KR_SET_UID = 1 << 1,
	KR_SET_GID = 1 << 2,
	KR_SET_SIZE = 1 << 3,
	KR_SET_ATIME = 1 << 4,
	KR_SET_MTIME = 1 << 5,
	KR_SET_ATIME_NOW = 1 << 6,
	KR_SET_MTIME_NOW = 1 << 7,
	KR_SET_CLEAR_SUID = 1 << 8, /* drop set-uid, and set-gid if group-executable, as a write does */
	KR_SET_BEHIND = 1 << 10,    /* of the wire: see after_flush.h */
	KR_SET_BY_HANDLE =
		1 << 9, /* size: through a handle that is open for writing (of the wire; see through_handle) */
};
struct kr_setattr {
	uint32_t valid, mode, uid, gid;
	uint64_t size;
	struct kr_time atime, mtime; /* a time not in VALID stays as it is (UTIME_OMIT) */
	bool through_handle;         /* who asks has the file open for writing: what a write may do needs no right */
};
/* As the caller, who needs what the kernel wants of chown, chmod and utimensat, and for a size the right to write; a
 * user other than root thereby clears set-id bits. A mode that differs in lost set-id bits only is what the kernel of a
 * node asks for before a write, and needs no more than that. In the order owner, mode, size, times: so times are what
 * was asked for even if the size changes too. */
int kr_export_setattr(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid,
	const struct kr_setattr *set, struct kr_attr *ret_attr);
/* By the caller's own rights; MASK as access(2). */
int kr_export_access(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, uint32_t mask);

struct kr_statfs {
	uint64_t blocks, bfree, bavail, files, ffree;
	uint32_t bsize, frsize, namelen;
};
int kr_export_statfs(struct kr_export *export, const struct kr_fid *fid, struct kr_statfs *ret_statfs);

/* SIZE 0 asks for the length only; -ERANGE when SIZE is too small, -E2BIG above KR_XATTR_MAX. By the caller's rights.
 */
int kr_export_getxattr(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, const char *name,
	void *value, size_t size, size_t *ret_length);
int kr_export_listxattr(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, void *names,
	size_t size, size_t *ret_length);
/* FLAGS: XATTR_CREATE, XATTR_REPLACE. */
int kr_export_setxattr(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, const char *name,
	const void *value, size_t size, uint32_t flags);
int kr_export_removexattr(
	struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, const char *name);
/* Whether the file has no extended attributes, thus no ACL either, on a filesystem that could. */
bool kr_export_bare(struct kr_export *export, const struct kr_fid *fid);

/* --- open files ------------------------------------------------------------------------------- */

enum kr_open_flag {
	KR_OPEN_READ = 0,
	KR_OPEN_WRITE = 1,
	KR_OPEN_BOTH = 2,
	KR_OPEN_ACCESS = 3,
	KR_OPEN_TRUNC = 4,
	KR_OPEN_EXECUTE = 8 /* to run it: needs the right to execute, not that to read */,
	KR_OPEN_NOATIME = 16 /* its time of access stays */,
	KR_OPEN_CACHED = 32 /* the node has the bytes: they need not come along */
};

/* Checks that CRED may open a regular file so (-EACCES), and that it can be (-EISDIR, -ETXTBSY, -EROFS...; -ENXIO for
 * what is not a regular file), truncates it if asked (leases are the caller's business, before), and counts a hold. */
int kr_export_open(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, uint32_t flags,
	struct kr_attr *ret_attr);

/* Creates a regular file, or opens what is there unless EXCLUSIVE; NAME "" makes one without a name that kr_export_link
 * can give one (O_TMPFILE). Counts a hold. KR_OPEN_TRUNC is NOT done on a file that existed (*RET_CREATED false): its
 * leases have to be recalled first; then kr_export_setattr. -ELOOP when the name is a symbolic link. */
struct kr_create {
	const char *name;
	uint32_t mode, umask, flags;
	bool exclusive;
	bool unchecked; /* what exists and is the caller's is opened without a look at his rights: it may be what he has
			   made before */
};
int kr_export_create(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const struct kr_create *create, bool *ret_created, struct kr_fid *ret_fid, struct kr_attr *ret_attr);

/* COUNT holds on a file that a node has open since before this instance. -ESTALE: it is gone. */
int kr_export_hold(struct kr_export *export, const struct kr_fid *fid, uint32_t count);
/* COUNT holds end; the last one removes an orphan and closes kept descriptors. */
void kr_export_release(struct kr_export *export, const struct kr_fid *fid, uint32_t count);
/* Removes the orphans that nobody holds: once, when the grace period is over. */
void kr_export_sweep_orphans(struct kr_export *export);

/* --- data ------------------------------------------------------------------------------------- */

/* Short only at the end of the file. */
int kr_export_pread(struct kr_export *export, const struct kr_fid *fid, uint64_t offset, void *buffer, size_t length,
	size_t *ret_length);

struct kr_piece {
	uint64_t offset;
	const void *data;
	size_t length;
};
/* Writes PIECES (ascending, without overlap), neighbours together in one system call, gaps never filled. On an error
 * some of the pieces may be written. */
int kr_export_pwritev(struct kr_export *export, const struct kr_fid *fid, const struct kr_piece *pieces, size_t count);
/* After the last pwritev of a flush: set-id bits cleared if CLEAR_SUID, mtime as the writer had it. MTIME may be NULL.
 */
int kr_export_written(struct kr_export *export, const struct kr_fid *fid, const struct kr_time *mtime, bool clear_suid,
	struct kr_attr *ret_attr);
/* Of a file or a directory; DATA_ONLY: fdatasync. */
int kr_export_fsync(struct kr_export *export, const struct kr_fid *fid, bool data_only);
/* MODE: FALLOC_FL_* of grow (0), keep size, punch hole, zero range; others -EOPNOTSUPP. */
int kr_export_fallocate(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, uint32_t mode,
	uint64_t offset, uint64_t length, struct kr_attr *ret_attr);
/* WHENCE: SEEK_DATA or SEEK_HOLE. -ENXIO beyond the end. */
int kr_export_seek(
	struct kr_export *export, const struct kr_fid *fid, uint64_t offset, uint32_t whence, uint64_t *ret_offset);
/* copy_file_range, or a copy through memory where the filesystem has none. Stops after KR_COPY_MAX bytes: the caller
 * comes again. *RET_COPIED is short at the end of FROM. */
#define KR_COPY_MAX (UINT64_C(256) << 20)
int kr_export_copy(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *from,
	uint64_t from_offset, const struct kr_fid *to, uint64_t to_offset, uint64_t length, uint64_t *ret_copied);

/* --- late bytes ------------------------------------------------------------------------------- */

/* A file for the late bytes of FILE (see CONFLICT in msgs.def). */
struct kr_conflict_make {
	const struct kr_cred *cred; /* NULL: by the server itself */
	const struct kr_fid *file, *root;
	const char *path; /* of FILE as it was known last, from ROOT; "": not known */
	const char *node; /* its name */
	struct kr_time written;
	uint32_t mode, uid, gid; /* of FILE as they were known last; mode 0: not known */
	/* Keeps durably that the bytes go to TARGET, before it has a name. 0 or -errno. */
	int (*record)(void *context, const struct kr_fid *target);
	void *context;
};
struct kr_conflict_made {
	struct kr_fid target;
	struct kr_attr attr;
	char *place; /* from the export's root; owned by the caller */
};
/* Makes it, and counts a hold. */
int kr_export_conflict(
	struct kr_export *export, const struct kr_conflict_make *make, struct kr_conflict_made *ret_made);
/* The same of one that was recorded before; -ESTALE: it never got its name, or has been removed. */
int kr_export_conflict_again(struct kr_export *export, const struct kr_fid *target, struct kr_conflict_made *ret_made);
/* NAME.conflict-NODE-TIME, for NUMBER > 1 with it at the end; of a long NAME less. Does not block. */
void kr_export_conflict_name(
	const struct kr_conflict_make *make, const char *name, unsigned number, char ret_name[KR_NAME_MAX + 1]);

#endif

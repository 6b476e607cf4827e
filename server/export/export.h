/* The exported directory: every operation on it, as one blocking function each.
 *
 * Threads: any thread may call these functions. They may block in the filesystem, so the event loop must not, except
 * where a comment says "does not block". The first call prepares the thread (own umask; without CAP_SYS_RESOURCE, so
 * that quotas hold for clients). Results: 0, or -errno exactly as from the filesystem, with the reason in
 * kr_fail_reason(). Out-parameters are written on success only.
 *
 * Access is by identity and one name at a time. The server never builds a path and follows neither symbolic links, nor
 * "..", nor mounts. A directory under another mount is -EXDEV: an export is one filesystem. Names are 1 to 255 bytes
 * without '/' and NUL, not "." or ".." (-EINVAL, -ENAMETOOLONG). A foreign identity, or that of a removed file, is
 * -ESTALE. While the export directory itself is removed, replaced or unmounted, every operation is -EIO. Nodes keep
 * their state, and the server never writes to another directory at that path. `.kairan` in the root is the server's
 * own: hidden, and clients cannot make it (-EPERM).
 *
 * HOLDS. kr_export_open and kr_export_create count one hold on the file, kr_export_hold another, until
 * kr_export_release. If a held file loses its name it lives on in .kairan/orphans (also over a restart) and shows one
 * link less; the last release removes it. Removal and open exclude each other, so a successful open never loses its
 * file. A former instance's orphans stay until kr_export_sweep_orphans: nodes that reclaim their opens take a hold
 * before.
 *
 * IDENTITY OF THE CALLER. With the capabilities for it, the server does operations with a CRED as that user, with the
 * user's groups and without its own privileges (cred.h). So the kernel applies owners, permission bits, ACLs, sticky
 * and set-gid rules, and quotas. Else all operations run as the server's user. CRED NULL: the server itself, unchecked.
 * A name needs the right to search its directory, not those above, which were searched at their lookups (as in NFS).
 * Data operations (pread, pwritev, truncate, seek, fallocate, copy) are unchecked: kr_export_open checked the session
 * (open_rights.h), so a later chmod takes nothing from an open file. */
#ifndef KR_SERVER_EXPORT_H
#define KR_SERVER_EXPORT_H

#include <stddef.h>

#include "server/base/fid.h"
#include "server/base/last_stat.h"

struct kr_doubts;
struct kr_export;
struct kr_fd;
struct kr_fid_aliases;

struct kr_export_options {
	const char *path;               /* borrowed during kr_export_new */
	uint8_t secret[KR_FID_SECRET];  /* from the state directory, the same in every instance */
	uint32_t max_fds;               /* descriptors kept open between calls; 0: KR_EXPORT_FDS */
	bool read_only;                 /* refuse changes with -EROFS */
	bool gateway;                   /* other servers export the directory, too: a private directory for each */
	bool identity_by_inode;         /* use no kernel handles (tests) */
	struct kr_fid_aliases *aliases; /* borrowed for ever; NULL: nothing can be restored */
	const uint8_t *server;          /* its export id, 16 bytes, for kr_private_dir_sign; NULL: is not signed */
	bool awaits;                    /* nodes, which were here before */
};
enum { KR_EXPORT_FDS = 512 };

/* -ENOENT, -ENOTDIR, -EACCES...: the reason names the directory. Lists the orphans of the former instance. */
int kr_export_new(const struct kr_export_options *options, struct kr_export **ret_export);
/* No other call may run. Orphans stay for the next instance. */
void kr_export_free(struct kr_export *export);

struct kr_export_info {
	bool by_handle;    /* false: identities are inode numbers; after a restart a walk finds the files */
	bool is_fuse;      /* so not by_handle: its handles are good until the daemon or the kernel forgets the file */
	int no_handles;    /* why: -errno; 0: by option, or is_fuse */
	bool callers_ids;  /* false: everything belongs to the server's user */
	bool read_only;    /* cannot be written by this server */
	uint64_t file_max; /* of the filesystem; INT64_MAX also if unknown */
	bool exact_ctime;  /* two changes with a stat in between never get the same ctime */
	uint64_t reads, read_bytes, writes,
		write_bytes; /* system calls on file data since the start, and their bytes */
	uint32_t orphans, fds;
};
/* Does not block. */
void kr_export_info(struct kr_export *export, struct kr_export_info *ret_info);

/* About once a second: closes idle descriptors and checks that the export is still there (-EIO). Ends the
 * process if the daemon of a FUSE export has ended. Operations do the same when the caller does not. */
int kr_export_tick(struct kr_export *export);
/* Before nodes hear of ERR (0: of success): ends the process, as kr_export_tick, if ERR comes from such an end. */
void kr_export_failed(struct kr_export *export, int err);

/* ATTR's data version: equal versions mean equal bytes, also across restarts. 0 while a change could go unseen: the
 * last one is less than 50 ms old on a filesystem with coarse clocks, or kr_export_doubt_ctime. COUNTER > 0 is the
 * caller's count of its own changes to the file in this instance. It makes the version valid at once, but different
 * from the later one of the same bytes. The caller keeps it while ctime, size and counter stay. Operations fill
 * attr->version with COUNTER 0. Does not block.
 */
uint64_t kr_export_attr_version(const struct kr_export *export, const struct kr_attr *attr, uint64_t counter);
/* Sets the doubtful ctimes of former instances, before the first version; borrowed. */
void kr_export_doubt_past(struct kr_export *export, const struct kr_doubts *doubts);
/* A file changed less than YOUNG_NS ago may still change under the same ctime, because no kernel events come. */
void kr_export_doubt_ctime(struct kr_export *export, uint64_t young_ns);

/* The identity of the file with this kernel handle, which need not be in the export. -ESTALE: identities here are not
 * handles, or the handle is invalid. Does not block. */
int kr_export_identify_handle(
	const struct kr_export *export, int type, const void *handle, uint32_t length, struct kr_fid *ret_fid);

/* --- names ------------------------------------------------------------------------------------ */

/* The root, or the directory SUBDIR below it ("" or "a/b"; each component as kr_export_lookup). */
int kr_export_walk(struct kr_export *export, const struct kr_cred *cred, const char *subdir, struct kr_fid *ret_fid,
	struct kr_attr *ret_attr);
int kr_export_lookup(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, struct kr_fid *ret_fid, struct kr_attr *ret_attr);
/* The result of one of many lookups. */
struct kr_looked {
	int err;
	bool bare; /* as kr_export_bare */
	struct kr_fid fid;
	struct kr_attr attr;
};
/* Looks COUNT names up in one directory, each as kr_export_lookup, into LOOKED. An error concerns all of them. */
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

/* The effect of a removal on the file that had the name. */
struct kr_removed {
	bool valid;    /* a file or directory lost the name (rename: one was replaced) */
	bool orphaned; /* it had holds and lives on until they end, or longer by other names */
	bool named;    /* it has another name */
	bool gone;     /* neither a name nor a hold is left */
	bool delayed;  /* delayed unlink: one hold is the caller's, which ends it by kr_export_release */
	struct kr_fid fid;
	struct kr_fid moved, exchanged;                     /* rename: the files with other names now; length 0: none */
	struct kr_own_change own, moved_own, exchanged_own; /* of these three, where known */
};
enum { KR_EXPORT_YOUNG_S = 10 };
/* unlink, or rmdir if DIRECTORY. A regular file of up to DELAYED_MAX bytes, with a ctime of the last
 * KR_EXPORT_YOUNG_S, gets a delayed unlink by a hold of the caller's. It does not if space or inodes run short.
 * RET_REMOVED may be NULL if DELAYED_MAX is 0. */
int kr_export_remove(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, bool directory, uint64_t delayed_max, struct kr_removed *ret_removed);
/* FLAGS: 1 NOREPLACE, 2 EXCHANGE. DELAYED_MAX and RET_REPLACED (may be NULL without) as for kr_export_remove, of a
 * replaced target. */
int kr_export_rename(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, const struct kr_fid *new_parent, const char *new_name, uint32_t flags, uint64_t delayed_max,
	struct kr_removed *ret_replaced);

/* Entries from COOKIE (0: the start), encoded as READDIR in msgs.def, into BUFFER of SIZE >= KR_READDIR_MIN bytes, "."
 * and ".." included. *RET_END: no entry follows. Cookies are the filesystem's own and stay valid while the directory
 * changes. */
enum { KR_READDIR_MIN = 512 };
int kr_export_readdir(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, uint64_t cookie,
	void *buffer, size_t size, size_t *ret_length, bool *ret_end);

/* --- attributes ------------------------------------------------------------------------------- */

int kr_export_getattr(struct kr_export *export, const struct kr_fid *fid, struct kr_attr *ret_attr);
/* Attributes of directory FID (RET_ATTR may be NULL). *RET_FOLDS: several spellings may name one entry (case folding),
 * or that is unknown. */
int kr_export_look_at_dir(
	struct kr_export *export, const struct kr_fid *fid, struct kr_attr *ret_attr, bool *ret_folds);
/* Gives the file another ctime, and changes nothing else, if its ctime is CTIME: 1; else 0. */
int kr_export_touch(struct kr_export *export, const struct kr_fid *fid, struct kr_time ctime);

struct kr_setattr {
	uint32_t valid, mode, uid, gid;
	uint64_t size;
	struct kr_time atime, mtime; /* a time not in VALID stays as it is (UTIME_OMIT) */
	/* the client has the file open for writing: it needs no right for what a write may do */
	bool through_handle;
};
/* As the caller, with the kernel's checks for chown, chmod and utimensat, and the right to write for a size. A user
 * other than root thereby clears set-id bits. A mode that only clears set-id bits, or with a size the file's mode,
 * comes from a node's kernel before a write and needs no more right than that. Order: owner, mode, size, times, so the
 * times last even if the size changes. */
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
/* Whether the file has no extended attributes, thus no ACL, on a filesystem that could have them. */
bool kr_export_bare(struct kr_export *export, const struct kr_fid *fid);

/* --- open files ------------------------------------------------------------------------------- */

enum kr_open_flag {
	KR_OPEN_READ = 0,
	KR_OPEN_WRITE = 1,
	KR_OPEN_BOTH = 2,
	KR_OPEN_ACCESS = 3,
	KR_OPEN_TRUNC = 4,
	KR_OPEN_EXECUTE = 8 /* to run it: needs the right to execute, not to read */,
	KR_OPEN_NOATIME = 16 /* leaves atime */,
	KR_OPEN_CACHED = 32 /* the node has the bytes: the reply needs none */
};

/* Checks that CRED may open a regular file so (-EACCES) and that the file allows it (-EISDIR, -ETXTBSY, -EROFS...;
 * -ENXIO: not a regular file). Truncates it if asked (the caller has recalled leases), and counts a hold. */
int kr_export_open(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, uint32_t flags,
	struct kr_attr *ret_attr);

/* Creates a regular file, or opens an existing one unless EXCLUSIVE; NAME "" makes one without a name that
 * kr_export_link can name (O_TMPFILE). Counts a hold. KR_OPEN_TRUNC is NOT done on an existing file (*RET_CREATED
 * false): recall its leases first, then kr_export_setattr. -ELOOP: the name is a symbolic link. */
struct kr_create {
	const char *name;
	uint32_t mode, umask, flags;
	bool exclusive;
	bool unchecked; /* an existing file of the caller's is opened unchecked: the caller may have just made it */
};
int kr_export_create(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const struct kr_create *create, bool *ret_created, struct kr_fid *ret_fid, struct kr_attr *ret_attr);

/* COUNT holds on a file that a node has open since before this instance. -ESTALE: the file is gone. */
int kr_export_hold(struct kr_export *export, const struct kr_fid *fid, uint32_t count);
/* COUNT holds end; the last one removes an orphan and closes kept descriptors. */
void kr_export_release(struct kr_export *export, const struct kr_fid *fid, uint32_t count);
/* Removes the orphans without holds: once, at the end of the grace period. */
void kr_export_sweep_orphans(struct kr_export *export);

/* --- data ------------------------------------------------------------------------------------- */

/* Short only at the end of the file. */
int kr_export_pread(struct kr_export *export, const struct kr_fid *fid, uint64_t offset, void *buffer, size_t length,
	size_t *ret_length);

struct kr_write_piece {
	uint64_t offset;
	const void *data;
	size_t length;
};
/* Writes PIECES (ascending, without overlap), neighbours in one system call; never fills gaps. After an error some of
 * the pieces may be written. */
int kr_export_pwritev(
	struct kr_export *export, const struct kr_fid *fid, const struct kr_write_piece *pieces, size_t count);
/* After the last pwritev of a flush: clears set-id bits if CLEAR_SUID and sets the writer's MTIME (may be NULL). */
int kr_export_written(struct kr_export *export, const struct kr_fid *fid, const struct kr_time *mtime, bool clear_suid,
	struct kr_attr *ret_attr);
/* Of a file or a directory; DATA_ONLY: fdatasync. */
int kr_export_fsync(struct kr_export *export, const struct kr_fid *fid, bool data_only);
/* Begins to write the file's bytes to the disk: kr_export_fsync follows. */
void kr_export_write_back(struct kr_export *export, const struct kr_fid *fid);
/* The caller is about to call syncfs instead.  Returns the descriptor with the file's unsynced writes, which stays open
 * until kr_export_sync_ends: it knows which of them has failed.  NULL: there is none.  Does not block long. */
struct kr_fd *kr_export_sync_begins(struct kr_export *export, const struct kr_fid *fid);
/* KEPT: NULL is fine. */
void kr_export_sync_ends(struct kr_export *export, struct kr_fd *kept, bool failed);
/* MODE: FALLOC_FL_* of grow (0), keep size, punch hole, zero range; others -EOPNOTSUPP. */
int kr_export_fallocate(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, uint32_t mode,
	uint64_t offset, uint64_t length, struct kr_attr *ret_attr);
/* WHENCE: SEEK_DATA or SEEK_HOLE. -ENXIO beyond the end. */
int kr_export_seek(
	struct kr_export *export, const struct kr_fid *fid, uint64_t offset, uint32_t whence, uint64_t *ret_offset);
/* copy_file_range, or a copy through memory where the filesystem has none. Stops after KR_COPY_MAX bytes: the caller
 * repeats. *RET_COPIED is short at the end of FROM. */
#define KR_COPY_MAX (UINT64_C(256) << 20)
int kr_export_copy(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *from,
	uint64_t from_offset, const struct kr_fid *to, uint64_t to_offset, uint64_t length, uint64_t *ret_copied);

/* --- late bytes ------------------------------------------------------------------------------- */

/* A file for the late bytes of FILE (see CONFLICT in msgs.def). */
struct kr_conflict_make {
	const struct kr_cred *cred; /* NULL: by the server itself */
	const struct kr_fid *file, *root;
	const char *path; /* FILE's last known path from ROOT; "": unknown */
	const char *node; /* its name */
	struct kr_time written;
	uint32_t mode, uid, gid; /* FILE's last known ones; mode 0: unknown */
	/* Records durably that the bytes go to TARGET, before it has a name. 0 or -errno. */
	int (*record)(void *context, const struct kr_fid *target);
	void *context;
};
struct kr_conflict_made {
	struct kr_fid target;
	struct kr_attr attr;
	char *place; /* from the export's root; owned by the caller */
};
/* Makes the file and counts a hold. */
int kr_export_conflict(
	struct kr_export *export, const struct kr_conflict_make *make, struct kr_conflict_made *ret_made);
/* The same for a recorded file; -ESTALE: it never got its name, or was removed. */
int kr_export_conflict_again(struct kr_export *export, const struct kr_fid *target, struct kr_conflict_made *ret_made);
/* NAME.conflict-NODE-TIME, with NUMBER > 1 at the end; cuts a long NAME. Does not block. */
void kr_export_conflict_name(
	const struct kr_conflict_make *make, const char *name, unsigned number, char ret_name[KR_NAME_MAX + 1]);

/* --- files that a loss of power un-created (restore.c) ---------------------------------------- */

/* A regular file or directory, as the node that made it remembers it. */
struct kr_restore {
	const struct kr_fid *file;   /* the file keeps this identity (fid_aliases.h) */
	const struct kr_fid *parent; /* the directory where it has NAME */
	const char *name;            /* "": it has no name any more, and the node has it open */
	uint32_t mode, uid, gid;
	struct kr_time made; /* its ctime when it was made */
};
/* Makes FILE anew if a loss of power has un-created it: empty, under NAME, durably.  A nameless one lives until
 * kr_export_sweep_orphans unless it is held by then.  If FILE was made anew before, it gets NAME as another name.
 * 0: FILE is there (*RET_MADE: it was made anew under NAME); -ESTALE: it may have been removed; -EEXIST: NAME stands
 * for something else; others: nothing could be made.  One call at a time, and before nodes change names. */
int kr_export_restore(struct kr_export *export, const struct kr_restore *restore, bool *ret_made);
/* At the start: forgets the identities of restored files that are gone.  0 or -errno. */
int kr_export_prune_aliases(struct kr_export *export);

#endif

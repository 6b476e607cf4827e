/* Holds on files, and delayed unlink: files that have lost their last name while held.
 *
 * An orphan lies in .kairan/orphans as a hard link: "o" and 16 hex digits (of its identity's code). An orphan made
 * without a name (O_TMPFILE) begins with "t" and may get a name. The link is made before the name is removed, so no
 * crash loses a held file. Where the filesystem has no room for a link, a descriptor keeps the orphan, and the end of
 * the server loses it. A held file with another name is no orphan. Thread-safe. A hold waits while the file is being
 * removed (and then finds it gone); the removal looks for holds when it begins: so one of the two wins. */
#ifndef KR_SERVER_ORPHANS_H
#define KR_SERVER_ORPHANS_H

#include "common/base/types.h"

struct kr_export;
struct kr_orphans;

/* Lists the former instance's orphans. Without .kairan there are none. */
int kr_orphans_new(struct kr_export *export, struct kr_orphans **ret_orphans);
void kr_orphans_free(struct kr_orphans *orphans);

void kr_orphans_hold(struct kr_orphans *orphans, const struct kr_fid *fid, uint32_t count);
/* True when the last hold has ended. */
bool kr_orphans_release(struct kr_orphans *orphans, const struct kr_fid *fid, uint32_t count);
/* Takes FD, an O_PATH descriptor of the file, which kr_orphans_open_held doubles while FID is held. */
void kr_orphans_pin(struct kr_orphans *orphans, const struct kr_fid *fid, int fd);
/* Finds a pinned file, also when others have moved it; the caller owns *RET_FD. -ESTALE: it is not pinned. */
int kr_orphans_open_held(struct kr_orphans *orphans, const struct kr_fid *fid, int *ret_fd);
void kr_orphans_sweep(struct kr_orphans *orphans);

/* Around the removal of a name of FID. */
struct kr_removal {
	struct kr_orphans *orphans;
	struct kr_fid fid;
	int dirfd;        /* borrowed */
	const char *name; /* borrowed */
	bool begun, made, moved;
	bool opened;   /* a descriptor keeps the file, which has no name any more */
	bool orphaned; /* the file is an orphan, now or from before */
	bool delayed;  /* the caller gets one more hold at the end */
};
/* FD names the file that is NAME in DIRFD. If the file is held it becomes an orphan; where no hard link can be made,
 * its name is moved, and `moved` says that nothing is left to unlink; where there is no room for one, it is kept open,
 * unless it has other names. DELAY: it becomes one in any case, if a hard link can be made. */
int kr_orphans_begin_removal(struct kr_orphans *orphans, const struct kr_fid *fid, int fd, int dirfd, const char *name,
	bool delay, struct kr_removal *removal);
/* The name is gone. SUCCESS false: it stays, and what begin did is undone. Nothing on a removal not begun. */
void kr_orphans_end_removal(struct kr_removal *removal, bool success);

/* For filesystems without O_TMPFILE (FUSE): an empty file of the server's user under a TEMPORARY name among the
 * orphans, where a restart finds it. */
enum { KR_ORPHAN_NAME_SIZE = 18 };
int kr_orphans_make(struct kr_orphans *orphans, char temporary[KR_ORPHAN_NAME_SIZE], int *ret_fd);
/* FD names a file without a name but TEMPORARY ("": none): it becomes an orphan that may get a name, with one hold. */
int kr_orphans_adopt(struct kr_orphans *orphans, const struct kr_fid *fid, int fd, const char *temporary);
/* Ends the hold of kr_orphans_adopt, and leaves the file to kr_orphans_sweep. */
void kr_orphans_leave(struct kr_orphans *orphans, const struct kr_fid *fid);
/* Whether FID is an orphan with a link; *RET_NAMEABLE: one that may get a name. */
bool kr_orphans_find(struct kr_orphans *orphans, const struct kr_fid *fid, bool *ret_nameable);
/* Whether FID is an orphan that only a descriptor keeps. */
bool kr_orphans_keeps_open(struct kr_orphans *orphans, const struct kr_fid *fid);
/* Doubles that descriptor (O_PATH); the caller owns *RET_FD. -ESTALE: FID has none. */
int kr_orphans_open(struct kr_orphans *orphans, const struct kr_fid *fid, int *ret_fd);
/* A nameable orphan has got a name: it is an orphan no more. */
int kr_orphans_named(struct kr_orphans *orphans, const struct kr_fid *fid);
uint32_t kr_orphans_count(struct kr_orphans *orphans);

#endif

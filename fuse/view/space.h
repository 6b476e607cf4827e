/* How much a view holds, and whether more fits: a pure state machine.  The caller serialises all calls.
 *
 * Bytes are counted as the disk counts them (st_blocks).  A write first reserves the most that it can add.  When it is
 * done, the file's charge becomes what the disk says, and the reservation goes.  So writers at the same time cannot
 * pass the limit.  Inodes are counted, too: a view may have one for each 16 KiB of its limit, as mke2fs gives them to
 * disks.
 */
#ifndef KR_FUSE_VIEW_SPACE_H
#define KR_FUSE_VIEW_SPACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum { KR_SPACE_BLOCK = 4096, KR_SPACE_PER_INODE = 16384 };

struct kr_space {
	uint64_t limit; /* bytes; 0: none, and nothing is counted */
	uint64_t used, reserved;
	uint64_t inodes;
	/* XFS allocates ahead behind a file's end, and takes that back at times of its own: it is not counted. */
	bool not_behind_end;
};

/* The charge of a file.  WHOLE: as if it had no holes, because programs may fill them by stores into a mapping, which
 * the daemon does not see. */
uint64_t kr_space_charge(const struct kr_space *space, const struct stat *stat, bool whole);
/* The most that LENGTH bytes at OFFSET can add to a file.  HOLES: kr_space_blocks of the holes before its end in which
 * they lie. */
uint64_t kr_space_growth(const struct stat *stat, uint64_t offset, uint64_t length, uint64_t holes);
/* How many of LENGTH bytes at OFFSET, from the first on, make the file grow by ROOM at most. */
uint64_t kr_space_fitting(const struct stat *stat, uint64_t offset, uint64_t length, uint64_t room,
	uint64_t (*holes)(void *context, uint64_t offset, uint64_t length), void *context);
/* The bytes of the blocks that FROM to TO touches. */
uint64_t kr_space_blocks(uint64_t from, uint64_t to);

uint64_t kr_space_room(const struct kr_space *space);
/* False: there is no room for BYTES more, and nothing is reserved.  Without a limit there always is. */
bool kr_space_reserve(struct kr_space *space, uint64_t bytes);
void kr_space_release(struct kr_space *space, uint64_t bytes);
/* A file's charge was WAS, and is NOW. */
void kr_space_settle(struct kr_space *space, uint64_t was, uint64_t now);
/* False: there are as many inodes as the limit allows. */
bool kr_space_add_inode(struct kr_space *space);
void kr_space_drop_inode(struct kr_space *space);
/* UINT64_MAX without a limit. */
uint64_t kr_space_inodes_max(const struct kr_space *space);

#endif

/* See space.h. */
#include "fuse/view/space.h"

#include <assert.h>

#include "common/base/util.h"

enum { SECTOR = 512 };

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + KR_SPACE_BLOCK - 1) / KR_SPACE_BLOCK * KR_SPACE_BLOCK;
}

uint64_t kr_space_charge(const struct kr_space *space, const struct stat *stat, bool whole)
{
	uint64_t blocks = (uint64_t)stat->st_blocks * SECTOR;

	if (S_ISDIR(stat->st_mode)) /* it may be of any size by names of one file, and keep the size when they go */
		return KR_MAX(KR_MAX(blocks, round_up((uint64_t)stat->st_size)), (uint64_t)KR_SPACE_BLOCK);
	if (!S_ISREG(stat->st_mode))
		return S_ISLNK(stat->st_mode) ? KR_SPACE_BLOCK : 0;
	if (whole)
		return KR_MAX(blocks, round_up((uint64_t)stat->st_size));
	return space->not_behind_end ? KR_MIN(blocks, round_up((uint64_t)stat->st_size)) : blocks;
}

uint64_t kr_space_growth(const struct stat *stat, uint64_t offset, uint64_t length, uint64_t holes)
{
	uint64_t end = round_up((uint64_t)stat->st_size), from = KR_MAX(offset / KR_SPACE_BLOCK * KR_SPACE_BLOCK, end);
	uint64_t to = round_up(offset + length);

	return (to > from ? to - from : 0) + holes;
}

uint64_t kr_space_blocks(uint64_t from, uint64_t to)
{
	return round_up(to) - from / KR_SPACE_BLOCK * KR_SPACE_BLOCK;
}

uint64_t kr_space_fitting(const struct stat *stat, uint64_t offset, uint64_t length, uint64_t room,
	uint64_t (*holes)(void *context, uint64_t offset, uint64_t length), void *context)
{
	uint64_t fit = 0, most = length;

	while (fit < most) {
		uint64_t middle = most - (most - fit) / 2;

		if (kr_space_growth(stat, offset, middle, holes(context, offset, middle)) <= room)
			fit = middle;
		else
			most = middle - 1;
	}
	return fit;
}

uint64_t kr_space_room(const struct kr_space *space)
{
	uint64_t taken = space->used + space->reserved;

	if (!space->limit)
		return UINT64_MAX;
	return taken < space->limit ? space->limit - taken : 0;
}

bool kr_space_reserve(struct kr_space *space, uint64_t bytes)
{
	if (!space->limit)
		return true;
	if (bytes > kr_space_room(space))
		return false;
	space->reserved += bytes;
	return true;
}

void kr_space_release(struct kr_space *space, uint64_t bytes)
{
	if (!space->limit)
		return;
	assert(space->reserved >= bytes);
	space->reserved -= bytes;
}

void kr_space_settle(struct kr_space *space, uint64_t was, uint64_t now)
{
	/* The disk may count more for a file without any program's doing: its tree of extents has grown, say. */
	space->used = space->used + now > was ? space->used + now - was : 0;
}

uint64_t kr_space_inodes_max(const struct kr_space *space)
{
	return space->limit ? KR_MAX(space->limit / KR_SPACE_PER_INODE, UINT64_C(16)) : UINT64_MAX;
}

bool kr_space_add_inode(struct kr_space *space)
{
	if (space->inodes >= kr_space_inodes_max(space))
		return false;
	space->inodes++;
	return true;
}

void kr_space_drop_inode(struct kr_space *space)
{
	assert(space->inodes > 0);
	space->inodes--;
}

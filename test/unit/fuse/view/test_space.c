/* Counting what a view holds. */
#include "fuse/view/space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/base/util.h"

enum { BLOCK = KR_SPACE_BLOCK, SECTOR = 512 };

static struct stat file_of(uint64_t size, uint64_t allocated)
{
	return (struct stat){.st_mode = S_IFREG, .st_size = (off_t)size, .st_blocks = (blkcnt_t)(allocated / SECTOR)};
}

static void a_file_is_charged_with_what_the_disk_says(void **state)
{
	struct kr_space space = {.limit = 1 << 20};
	struct stat sparse = file_of(10 * BLOCK, BLOCK), ahead = file_of(BLOCK, 16 * BLOCK);
	struct stat directory = {.st_mode = S_IFDIR}, fifo = {.st_mode = S_IFIFO};
	struct stat wide = {.st_mode = S_IFDIR, .st_size = 9 * BLOCK - 1};

	(void)state;
	assert_int_equal(kr_space_charge(&space, &sparse, false), BLOCK);
	assert_int_equal(kr_space_charge(&space, &sparse, true), 10 * BLOCK);
	assert_int_equal(kr_space_charge(&space, &ahead, false), 16 * BLOCK);
	assert_int_equal(kr_space_charge(&space, &directory, false), BLOCK);
	assert_int_equal(kr_space_charge(&space, &wide, false), 9 * BLOCK);
	assert_int_equal(kr_space_charge(&space, &fifo, false), 0);
	space.not_behind_end = true;
	assert_int_equal(kr_space_charge(&space, &ahead, false), BLOCK);
}

static void a_write_grows_a_file_by_the_blocks_behind_its_end(void **state)
{
	struct stat file = file_of(5000, 2 * BLOCK), empty = file_of(0, 0);

	(void)state;
	assert_int_equal(kr_space_growth(&file, 0, 8192, 0), 0);
	assert_int_equal(kr_space_growth(&file, 8191, 1, 0), 0);
	assert_int_equal(kr_space_growth(&file, 8191, 2, 0), BLOCK);
	assert_int_equal(kr_space_growth(&file, 100 * BLOCK + 1, 1, 0), BLOCK);
	assert_int_equal(kr_space_growth(&empty, 0, 1, 0), BLOCK);
	assert_int_equal(kr_space_growth(&file, 0, 4096, BLOCK), BLOCK);
	assert_int_equal(kr_space_blocks(BLOCK, 2 * BLOCK), BLOCK);
	assert_int_equal(kr_space_blocks(BLOCK + 1, 2 * BLOCK + 1), 2 * BLOCK);
}

static void writers_at_once_do_not_pass_the_limit(void **state)
{
	struct kr_space space = {.limit = 10 * BLOCK};

	(void)state;
	assert_true(kr_space_reserve(&space, 6 * BLOCK));
	assert_false(kr_space_reserve(&space, 5 * BLOCK));
	assert_true(kr_space_reserve(&space, 4 * BLOCK));
	kr_space_release(&space, 6 * BLOCK);
	kr_space_settle(&space, 0, BLOCK);
	assert_int_equal(kr_space_room(&space), 5 * BLOCK);
	kr_space_settle(&space, BLOCK, 9 * BLOCK);
	assert_int_equal(kr_space_room(&space), 0);
	kr_space_settle(&space, 9 * BLOCK, 20 * BLOCK); /* the disk needs more than was thought */
	assert_int_equal(kr_space_room(&space), 0);
	kr_space_settle(&space, 30 * BLOCK, 0);
	assert_int_equal(space.used, 0);
}

static void without_a_limit_all_fits(void **state)
{
	struct kr_space space = {0};

	(void)state;
	assert_true(kr_space_reserve(&space, UINT64_MAX));
	kr_space_release(&space, UINT64_MAX);
	assert_true(kr_space_add_inode(&space));
	assert_int_equal(kr_space_inodes_max(&space), UINT64_MAX);
}

static void inodes_have_a_limit_of_their_own(void **state)
{
	struct kr_space space = {.limit = 20 * KR_SPACE_PER_INODE};

	(void)state;
	for (int i = 0; i < 20; i++)
		assert_true(kr_space_add_inode(&space));
	assert_false(kr_space_add_inode(&space));
	kr_space_drop_inode(&space);
	assert_true(kr_space_add_inode(&space));
}

enum { BLOCKS = 64 };

struct blocks {
	bool has[BLOCKS];
	uint64_t size;
};

/* As a file system tells: block by block. */
static uint64_t holes_of(void *context, uint64_t offset, uint64_t length)
{
	const struct blocks *blocks = context;
	uint64_t end = KR_MIN(offset + length, blocks->size), holes = 0;

	for (uint64_t at = offset; at < end; at = (at / BLOCK + 1) * BLOCK)
		holes += blocks->has[at / BLOCK] ? 0 : BLOCK;
	return holes;
}

/* A model of blocks beside random writes: what growth promises is never less than what they take, and what fits
 * takes no more than there is. */
static void growth_is_never_less_than_what_a_write_takes(void **state)
{
	enum { ROUNDS = 20000 };
	struct blocks blocks = {0};
	bool *has = blocks.has;
	uint64_t allocated = 0;

	(void)state;
	srandom(7);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t offset = (uint64_t)random() % (BLOCKS * BLOCK - 1);
		uint64_t length = 1 + (uint64_t)random() % KR_MIN((uint64_t)5 * BLOCK, BLOCKS * BLOCK - offset);
		uint64_t room = (uint64_t)random() % (6 * BLOCK), takes = 0, fits;
		struct stat file = file_of(blocks.size, allocated);

		fits = kr_space_fitting(&file, offset, length, room, holes_of, &blocks);
		assert_true(fits == length ||
			kr_space_growth(&file, offset, fits + 1, holes_of(&blocks, offset, fits + 1)) > room);
		for (uint64_t block = offset / BLOCK; block <= (offset + length - 1) / BLOCK; block++)
			takes += has[block] ? 0 : BLOCK;
		assert_true(kr_space_growth(&file, offset, length, holes_of(&blocks, offset, length)) >= takes);
		takes = 0;
		for (uint64_t block = offset / BLOCK; fits && block <= (offset + fits - 1) / BLOCK; block++)
			takes += has[block] ? 0 : BLOCK;
		assert_true(takes <= room && fits <= length);
		if (round % 100 == 0) {
			for (int block = 0; block < BLOCKS; block++)
				has[block] = false;
			blocks.size = allocated = 0;
			continue;
		}
		for (uint64_t block = offset / BLOCK; fits && block <= (offset + fits - 1) / BLOCK; block++) {
			allocated += has[block] ? 0 : BLOCK;
			has[block] = true;
		}
		blocks.size = fits ? KR_MAX(blocks.size, offset + fits) : blocks.size;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_charged_with_what_the_disk_says),
		cmocka_unit_test(a_write_grows_a_file_by_the_blocks_behind_its_end),
		cmocka_unit_test(writers_at_once_do_not_pass_the_limit),
		cmocka_unit_test(without_a_limit_all_fits),
		cmocka_unit_test(inodes_have_a_limit_of_their_own),
		cmocka_unit_test(growth_is_never_less_than_what_a_write_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Directories that tests have made, and what is in them: away with it. */
#ifndef KR_TEST_UNIT_DIRECTORY_H
#define KR_TEST_UNIT_DIRECTORY_H

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static inline int directory_entry_away(const char *path, const struct stat *stat, int type, struct FTW *walk)
{
	(void)stat, (void)type, (void)walk;
	return remove(path);
}

static inline int directory_content_away(const char *path, const struct stat *stat, int type, struct FTW *walk)
{
	return walk->level ? directory_entry_away(path, stat, type, walk) : 0;
}

/* With all below it. */
static inline void directory_remove(const char *path)
{
	nftw(path, directory_entry_away, 16, FTW_DEPTH | FTW_PHYS);
}

/* All below it. */
static inline void directory_empty(const char *path)
{
	nftw(path, directory_content_away, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void directory_copy_file(int from, int to, const char *name)
{
	static const uint8_t zeros[4096];
	uint8_t block[sizeof(zeros)];
	const int in = openat(from, name, O_RDONLY), out = openat(to, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	off_t offset = 0;
	ssize_t got;

	assert(in >= 0 && out >= 0);
	for (; (got = pread(in, block, sizeof(block), offset)) > 0; offset += got)
		if (memcmp(block, zeros, (size_t)got) != 0 && pwrite(out, block, (size_t)got, offset) != got)
			assert(!"written");
	if (got < 0 || ftruncate(out, offset) != 0)
		assert(!"read and cut");
	close(in);
	close(out);
}

/* The files in FROM, of which none is hidden, to TO.  Holes stay holes. */
static inline void directory_copy(const char *from, const char *to)
{
	DIR *directory = opendir(from);
	const int target = open(to, O_RDONLY | O_DIRECTORY);
	struct dirent *entry;

	assert(directory && target >= 0);
	while ((entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			directory_copy_file(dirfd(directory), target, entry->d_name);
	close(target);
	closedir(directory);
}

#endif

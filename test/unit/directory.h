/* Directories that tests have made, and what is in them: away with it. */
#ifndef KR_TEST_UNIT_DIRECTORY_H
#define KR_TEST_UNIT_DIRECTORY_H

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

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

#endif

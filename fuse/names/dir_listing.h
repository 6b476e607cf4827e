/* The names of one directory, as one caller listed it last, and which of them a program will look up next.  A pure
 * state machine.  Not thread-safe.
 *
 * Programs walk a directory in the order of its entries (find, tar, ls -l), of the inode numbers (cp -r), or of the
 * names (a shell's *, programs that sort).  A sequence begins with the first name, or with a name near behind the one
 * before in one of these orders.  Each further step doubles the number of names to prefetch, from KR_DIR_LISTING_FIRST
 * to KR_LOOKUPS_MAX.  A prefetched name that was invalidated before its lookup lowers that number, down to nothing: the
 * directory is changing.  The names are hints; the server says what they stand for.  Times are milliseconds of a clock
 * that does not go back.
 */
#ifndef KR_FUSE_DIR_LISTING_H
#define KR_FUSE_DIR_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KR_DIR_LISTING_FIRST = 8, KR_DIR_LISTING_NAMES_MAX = 32768 };

struct kr_dir_listing;

struct kr_dir_listing *kr_dir_listing_new(void);
void kr_dir_listing_free(struct kr_dir_listing *listing);
/* A page of entries as READDIR's reply has them, from position COOKIE: 0 begins anew.  The listing ignores entries that
 * do not follow its last one, and drops its first ones beyond KR_DIR_LISTING_NAMES_MAX.  A malformed entry ends the
 * page. */
void kr_dir_listing_add(struct kr_dir_listing *listing, uint64_t cookie, const void *entries, size_t length);
/* The position behind the last entry. */
uint64_t kr_dir_listing_end(const struct kr_dir_listing *listing);
/* A program asks for NAME, which is not cached.  Fills RET_NAMES with NAME and the names to ask for together with it,
 * except those that are KNOWN.  They are borrowed until the next kr_dir_listing_add.  Returns their number; 0: ask for
 * NAME alone. */
size_t kr_dir_listing_ahead(struct kr_dir_listing *listing, const char *name, uint64_t now_ms,
	bool (*known)(void *context, const char *name), void *context, const char **ret_names);
/* The same before any name is asked for: the first names in the order of the directory, as many as may be. */
size_t kr_dir_listing_first(struct kr_dir_listing *listing, bool (*known)(void *context, const char *name),
	void *context, const char **ret_names);
/* NAME, of a kr_dir_listing_ahead, has been brought, or could not be. */
void kr_dir_listing_brought(struct kr_dir_listing *listing, const char *name, bool good, uint64_t now_ms);
/* Nothing of a kr_dir_listing_ahead could be brought: the directory is changed just now, or nothing may be noted at
 * all. */
void kr_dir_listing_restrain(struct kr_dir_listing *listing);
/* Memory in use, about. */
size_t kr_dir_listing_bytes(const struct kr_dir_listing *listing);

#endif

/* What a disk may hold after a loss of power: records the system calls of the code under test, and makes directories as
 * a power failure at this moment could have left them.
 *
 * The calls are caught by the linker (--wrap, see wrap.c), stores into shared mappings by comparing them before and
 * after each call.  The model is weaker than what ext4, XFS or btrfs do, as POSIX is:
 *  - the page cache is written back by pages of 4096 bytes, each on its own: of the writes to a page since its last
 *    sync any prefix may be there, and sectors of 512 bytes of the one after it;
 *  - the size of a file is any that it had since the last sync;
 *  - of the changes to names since the last sync of their directory any subset is there (a rename as a whole); or, with
 *    `ordered`, a prefix of them, and the fsync of a file makes all changes of names before it durable, as journaling
 *    filesystems do.
 * Single-threaded.
 */
#ifndef KR_TEST_CRASH_DISK_H
#define KR_TEST_CRASH_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins with the empty directory PATH; HOOK is called before each recorded call is made (recording is off in it). */
void disk_begin(const char *path, bool ordered, void (*hook)(void));
void disk_end(void);
/* Stores into mappings become events now, and HOOK is called; as before each recorded call.  False: recording is off.
 */
bool disk_before_call(void);
/* From now on also before the code under test takes a lock: between stores that no system call divides. */
void disk_look_at_locks(void);
bool disk_looks_at_locks(void);
/* What is done is not the code under test's. */
void disk_pause(bool paused);
/* The mappings of a daemon that was killed are not watched any more. */
void disk_forget_mappings(void);
/* The kernel writes some pages back, as it does now and then. */
void disk_write_back(void);
/* The kernel has written everything back: a power failure long after. */
void disk_settle(void);

enum disk_style {
	DISK_WHOLE,   /* no loss of power: a killed process */
	DISK_NOTHING, /* nothing that was not synced */
	DISK_PAGES,   /* each page at a random age */
	DISK_MOST,    /* a few pages and names are missing */
	DISK_FEW,     /* a few are there */
	DISK_STYLES,
};
/* Makes PATH (an empty directory) what the disk may hold when only the events up to CUT had happened. */
void disk_make(const char *path, enum disk_style style, uint64_t cut);
/* How many events were recorded. */
uint64_t disk_events(void);

/* --- random numbers, seeded --- */
void chance_seed(uint64_t seed);
uint64_t chance(uint64_t below);
static inline bool one_in(uint64_t n)
{
	return chance(n) == 0;
}

#endif

/* Inside of the cache: cache.c (entries, descriptors, eviction), cache_io.c (blocks), cache_memory.c and
 * cache_rekey.c. */
#ifndef KR_FUSE_CACHE_PRIV_H
#define KR_FUSE_CACHE_PRIV_H

#include <pthread.h>

#include "common/base/list.h"
#include "common/base/table.h"
#include "fuse/readcache/cache.h"
#include "fuse/readcache/cache_format.h"
#include "ring/blockset.h"

enum {
	KR_CACHE_PATH = KR_CACHE_NAME + 2, /* with the 'x' of a volatile one, and NUL */
	KR_CACHE_DROPPED = 1 << 16
};

struct kr_cache {
	pthread_mutex_t lock;   /* guards everything here and in entries; never held during I/O */
	pthread_cond_t changed; /* an entry's creating, busy, users or writers; `evicting` */
	int dirfd;
	uint8_t export_id[16], boot_id[16];
	struct kr_table entries;
	struct kr_list lru;       /* entries with a file on disk or users, least recently used first */
	struct kr_list fds;       /* entries with an open descriptor, likewise */
	struct kr_list in_memory; /* entries with their bytes in memory, likewise */
	uint32_t fd_count;
	uint64_t volatile_count;
	uint64_t target; /* after the disk was full: evict down to this; else UINT64_MAX */
	uint64_t doomed; /* useless entries (kr_cache_is_doomed), at the head of `lru` */
	int dying_fd;    /* of an unlinked file that is being cut down; -1 */
	uint64_t dying_size;
	bool evicting;
	uint32_t dropped[KR_CACHE_DROPPED]; /* marks of entries whose bytes memory had no room for (cache_memory.c) */
	uint64_t full_until_ns;             /* nothing could go: no use in looking again before */
	struct kr_cache_counters counters;
};

struct kr_cache_entry {
	struct kr_cache *cache;
	struct kr_table_link by_name;
	struct kr_link lru, fds, in_memory;
	char name[KR_CACHE_PATH];
	struct kr_fid fid; /* length 0: no reader has asked for it since the start */
	uint64_t version, size;
	uint32_t references;
	uint32_t users;   /* threads that use `fd` now */
	uint32_t writers; /* ... to put blocks */
	int fd;
	bool on_disk, loaded;
	bool creating;       /* one thread makes the file */
	bool busy;           /* being renamed or removed: no I/O by others */
	bool abandoned;      /* of no use to any reader */
	bool detached;       /* not in the table any more: another entry has its name, and it makes no file any more */
	uint64_t edition;    /* counts kr_cache_rekey */
	uint64_t generation; /* changes when blocks are given up */
	uint64_t bytes;      /* on disk, about */
	uint64_t used_ns;
	struct kr_blockset present, verified;
	struct kr_buf *memory; /* block 0, which is the whole file; NULL: the blocks are in the file */
	uint64_t memory_checksum;

	char old_name[KR_CACHE_PATH]; /* between kr_cache_rekey and kr_cache_rekey_disk */
	struct kr_cache_replaced *replaced;
	size_t replaced_count;
	struct kr_buf *replaced_memory; /* the former bytes of block 0, until they are read */
	bool discard;
	struct kr_cache_entry *displaced; /* a reference: had the new name before, and maybe still has its file */
};

/* cache.c */
/* The entry's descriptor for I/O, counted as a user; CREATE: makes the file. -EBUSY: renamed or removed just now;
 * -ENODATA: there is no file. To be given back with kr_cache_release. Takes the lock itself. */
int kr_cache_acquire(struct kr_cache_entry *entry, bool create, int *ret_fd);
void kr_cache_release(struct kr_cache_entry *entry);
/* With the lock held: forgets all blocks. */
void kr_cache_forget_blocks(struct kr_cache_entry *entry);
/* With the lock held: forgets one block; whether it was here. */
bool kr_cache_forget_block(struct kr_cache_entry *entry, uint64_t block);
/* With the lock held: closes the descriptor if there is one and no thread uses it. */
void kr_cache_drop_fd(struct kr_cache_entry *entry);
/* With the lock held: frees an entry without a reference and without a file. */
void kr_cache_free_if_unused(struct kr_cache_entry *entry);
/* With the lock held: a file that no reader will ask for again. */
bool kr_cache_is_doomed(const struct kr_cache_entry *entry);
/* With the lock held: a disk error, or 0 for a success. */
void kr_cache_note_error(struct kr_cache *cache, int err);
/* "ab/abcdef..." below the cache's directory. */
void kr_cache_path(const char name[KR_CACHE_PATH], char ret_path[KR_CACHE_PATH + 4]);
/* With the lock held: gives ENTRY the name for its fid and VERSION and puts it into the table. */
void kr_cache_enter(struct kr_cache_entry *entry, uint64_t version);
/* With the lock held: the entry of that name, or NULL. */
struct kr_cache_entry *kr_cache_find(struct kr_cache *cache, const char *name);
/* The header of the entry's file. With the lock held, or while the entry is busy. */
void kr_cache_make_header(const struct kr_cache_entry *entry, bool patched, uint8_t bytes[KR_CACHE_HEADER_USED]);
/* The disk space of a block of LENGTH bytes, about. */
uint64_t kr_cache_cost(uint64_t length);

/* cache_memory.c */
/* With the lock held: the bytes in memory (owned by the caller), which the entry has no more; NULL: there are none. */
struct kr_buf *kr_cache_memory_take(struct kr_cache_entry *entry);
/* BLOCK, if it is in memory, which counts as a use: a reference; else NULL. Takes the lock itself. */
struct kr_buf *kr_cache_memory_get(struct kr_cache_entry *entry, uint64_t block, uint64_t *ret_checksum);

#endif

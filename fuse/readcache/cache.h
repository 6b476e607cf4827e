/* The node's read cache: staged blocks on the local disk, with what is present of each file (format: cache_format.h).
 *
 * An entry is one version of one file. Entries with a version survive the mount; those with version 0 (volatile) end
 * with their last user. Functions marked BLOCKS do disk I/O and belong in the pool or in a FUSE worker; the others may
 * be called from the loop. All are thread-safe, under one lock that is never held during I/O.
 *
 * A failing or full local disk costs only the keeping: kr_cache_put says so, and the caller serves from memory.  At
 * cache_max the cache removes the least recently used entries, in steps.  It never removes a referenced entry that was
 * used during the last KR_CACHE_IN_USE_S seconds, but for the journal (kr_cache_make_room).  At most KR_CACHE_FDS
 * descriptors are open, plus one for each thread that does I/O.
 */
#ifndef KR_FUSE_CACHE_H
#define KR_FUSE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/types.h"

enum {
	KR_CACHE_FDS = 256,
	KR_CACHE_IN_USE_S = 10,
	KR_CACHE_HIGH = 95,              /* percent of the limit */
	KR_CACHE_LOW = 85,               /* the same */
	KR_CACHE_MEMORY = 16 << 20,      /* bytes of small files in memory, at most, with what they cost besides */
	KR_CACHE_MEMORY_FILE = 32 * 1024 /* of one file, with what its buffer has to spare */
};

struct kr_cache;
struct kr_cache_entry;

struct kr_cache_counters {
	uint64_t bytes, max_bytes; /* kept on disk; the limit */
	uint64_t files;
	uint64_t memory_bytes;  /* of small files, which have no file here */
	uint64_t evicted_bytes; /* since the start */
	uint64_t bad_blocks;    /* checksums that did not match */
	int error;              /* last error of the local disk as -errno, 0 if none since the last success */
};

/* The cache below LOCAL_DIRFD (the name "cache" is made if need be) of the given export; knows all entries when it
 * returns.  MAX_BYTES 0: half of the free space.  BLOCKS. */
int kr_cache_new(int local_dirfd, const uint8_t export_id[16], uint64_t max_bytes, struct kr_cache **ret_cache);
void kr_cache_free(struct kr_cache *cache);
void kr_cache_counters(struct kr_cache *cache, struct kr_cache_counters *ret_counters);

/* The entry, with a reference; made in memory if it is not known.  SIZE: of the file in that version. */
struct kr_cache_entry *kr_cache_entry_get(
	struct kr_cache *cache, const struct kr_fid *fid, uint64_t version, uint64_t size);
/* One more reference. */
struct kr_cache_entry *kr_cache_entry_ref(struct kr_cache_entry *entry);
void kr_cache_entry_put(struct kr_cache_entry *entry);
/* The file has another version now, or is gone, and no reader will ask for this one again.  Its blocks go first, once
 * the last reference is gone. */
void kr_cache_entry_abandon(struct kr_cache_entry *entry);
/* The same of a version that may be without a reference, or not here. */
void kr_cache_abandon(struct kr_cache *cache, const struct kr_fid *fid, uint64_t version);
/* Whether kr_cache_load has something to do: a file on disk that has not been looked at. */
bool kr_cache_needs_load(struct kr_cache_entry *entry);
/* Reads the map of an entry's file, and discards invalid parts without a message.  BLOCKS. */
void kr_cache_load(struct kr_cache_entry *entry);

bool kr_cache_has(struct kr_cache_entry *entry, uint64_t block);
/* Whether that version of the file has the block here.  A file whose map is not read yet counts as having it. */
bool kr_cache_may_have(struct kr_cache *cache, const struct kr_fid *fid, uint64_t version, uint64_t block);
/* The first block in [FROM, END) that is not here, or END. */
uint64_t kr_cache_next_absent(struct kr_cache_entry *entry, uint64_t from, uint64_t end);
/* The bytes of all blocks that are here. */
uint64_t kr_cache_present(struct kr_cache_entry *entry);
/* LENGTH bytes of BLOCK from START on, verified. -ENODATA: not here (any more), or it turned out to be damaged. BLOCKS
 * on the local disk only. */
int kr_cache_read(struct kr_cache_entry *entry, uint64_t block, size_t start, void *buffer, size_t length);
/* The whole block with its checksum, verified; *RET_BUF is owned by the caller. -ENODATA as above, -ENOMEM. BLOCKS. */
int kr_cache_read_block(struct kr_cache_entry *entry, uint64_t block, struct kr_buf **ret_buf, uint64_t *ret_checksum);
/* Counts the entry's changes of version (kr_cache_rekey). */
uint64_t kr_cache_edition(struct kr_cache_entry *entry);
/* Keeps a whole block whose CHECKSUM has been verified. -ESTALE: the entry's edition is not EDITION any more; -ENOSPC:
 * the limit is reached and nothing can go, or the disk is full; any other error of the disk. BLOCKS. */
int kr_cache_put(
	struct kr_cache_entry *entry, uint64_t edition, uint64_t block, const struct kr_buf *buf, uint64_t checksum);
/* Keeps the whole of a small file that this node has just written or read: in memory, as long as no more than
 * KR_CACHE_MEMORY are written or read after it.  One more reference to BUF.  Errors as for kr_cache_put, which can keep
 * it then; -EBUSY: the entry has a file, or had better have one, because memory has dropped these bytes before. */
int kr_cache_put_memory(struct kr_cache_entry *entry, uint64_t edition, struct kr_buf *buf, uint64_t checksum);
/* Takes the entry's bytes out of memory, for kr_cache_put: bytes on disk outlast those that programs read later.
 * Returns owned; NULL: there are none. */
struct kr_buf *kr_cache_unload_memory(struct kr_cache_entry *entry, uint64_t *ret_checksum);

/* A block whose bytes change with the file's version. */
struct kr_cache_replaced {
	uint64_t block;
	uint32_t length; /* of the former bytes; 0: they were not here. Filled in by kr_cache_rekey_disk */
	uint64_t checksum;
};
/* ENTRY goes on as VERSION with SIZE bytes: the COUNT blocks (ascending) are no longer here, nor are those whose length
 * is another now.  An entry of that version that exists is given up.  At once in memory; kr_cache_rekey_disk brings the
 * disk after and must be called exactly once; until then puts fail with -EBUSY.  BLOCKS is borrowed until then. */
void kr_cache_rekey(
	struct kr_cache_entry *entry, uint64_t version, uint64_t size, struct kr_cache_replaced *blocks, size_t count);
/* Whether kr_cache_rekey_disk has nothing to do or to wait for, so that any thread may call it. */
bool kr_cache_rekey_is_done(struct kr_cache_entry *entry);
/* A failure costs the entry's blocks, no more.  BLOCKS. */
void kr_cache_rekey_disk(struct kr_cache_entry *entry);
/* The former bytes of a block of kr_cache_rekey, until the block is put again. -ENODATA: not here, or damaged. BLOCKS.
 */
int kr_cache_read_replaced(struct kr_cache_entry *entry, const struct kr_cache_replaced *replaced, void *buffer);

/* Whether removing should begin: the cache is above KR_CACHE_HIGH. */
bool kr_cache_wants_eviction(struct kr_cache *cache);
/* One step of removing, until the cache is below KR_CACHE_LOW or nothing can go.  True: call again.  BLOCKS. */
bool kr_cache_evict_step(struct kr_cache *cache);
/* The disk is full, and the journal needs it more: removes BYTES, or what can go, also of files that are open.  Whether
 * anything went.  BLOCKS. */
bool kr_cache_make_room(struct kr_cache *cache, uint64_t bytes);

#endif

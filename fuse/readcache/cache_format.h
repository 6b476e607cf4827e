/* The cache file: the staged blocks of one version of one file.  This comment is the specification, format 1.
 *
 * PLACE.  LOCAL/cache/XX/NAME, where NAME is 32 hex digits: XXH3-128 of { export id, fid, version (8 bytes) }, low half
 * first, and XX its first two. Files of version 0 (volatile: good for the present lease only) lie beside them with an
 * 'x' before their digits, and are removed at the next start. Integers are little-endian. Offsets are in bytes.
 *
 *   offset              size        what
 *        0              4096        header
 *   131072 + g * GROUP  131072      block map of group g: 8192 entries of 16 bytes, for blocks g * 8192 ...
 *   ... + 131072        8192 x 128 KiB   the blocks of group g
 *   GROUP = 131072 + 8192 * 131072 bytes
 *
 * So map and data grow together, and the file is as sparse as what has been staged.  Block b's bytes lie at 131072 + (b
 * / 8192) * GROUP + 131072 + (b % 8192) * 131072.
 *
 * HEADER
 *        0    8  magic            "kaircach"
 *        8    4  format           1
 *       12    4  flags            0; a reader that meets any other value discards the file
 *       16   16  export id
 *       32    8  version          of the data
 *       40    8  size             of the whole file in that version
 *       48   16  boot id          zeros, or: blocks were patched in place during this boot of the machine
 *       64    1  fid length, 152 fid bytes (padded with zeros)
 *      217    7  zeros
 *      224    8  checksum         XXH3-64 of bytes 0 to 223
 *      232       zeros up to 4096
 *
 * MAP ENTRY
 *        0    8  checksum         XXH3-64 of the block's bytes
 *        8    4  length           bytes of the block: 131072, or less for the last one of the file; 0 = not here
 *       12    4  check            low half of XXH3-64 of { bytes 0 to 11, block number (8 bytes) }
 *
 * VALIDITY.  A file counts if and only if all of these hold.  The header's checksum, magic, format and flags are right.
 * Export id, fid and version are those that its name stands for.  Its boot id is zero or this boot's.  A block is here
 * if and only if three conditions hold: its entry's length is what the header's size demands; `check` is right; the
 * bytes have the entry's checksum.  Each mount checks the bytes on their first use.
 *
 * ORDER.  A block's bytes are written before its entry; an entry is cleared before its block's bytes change.  The node
 * syncs nothing: after kill -9 the page cache keeps that order.  After a power failure pages may be missing in any
 * combination, which the checksums find.  The checksums cannot find one case: a patch replaced a block in place, and
 * old bytes and old entry came back together under the new header. (A patch: own bytes were flushed, and the file goes
 * on under a new version.) The boot id excludes this case.
 *
 * A patch works in this order.  It clears the entries of touched blocks, and writes the header (new version, size, boot
 * id).  It gives the file its new name, writes the touched blocks, and sets their entries.  A crash between header and
 * name leaves a file whose name is not its header's: the file does not count.
 */
#ifndef KR_FUSE_CACHE_FORMAT_H
#define KR_FUSE_CACHE_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/types.h"

enum {
	KR_CACHE_FORMAT = 1,
	KR_CACHE_HEADER_USED = 232,
	KR_CACHE_ENTRY = 16,
	KR_CACHE_GROUP_BLOCKS = 8192,
	KR_CACHE_MAP_BYTES = KR_CACHE_GROUP_BLOCKS * KR_CACHE_ENTRY,
	KR_CACHE_NAME = 32,
};
#define KR_CACHE_MAGIC "kaircach"
#define KR_CACHE_GROUP_BYTES (KR_CACHE_MAP_BYTES + (uint64_t)KR_CACHE_GROUP_BLOCKS * KR_BLOCK_SIZE)

_Static_assert((int)KR_CACHE_MAP_BYTES == (int)KR_BLOCK_SIZE, "a group's map is as large as a block");

struct kr_cache_header {
	uint8_t export_id[16];
	uint64_t version, size;
	uint8_t boot_id[16];
	struct kr_fid fid;
};
struct kr_cache_map_entry {
	uint64_t checksum;
	uint32_t length; /* 0: the block is not here */
};

/* Number of blocks of a file of SIZE bytes, and the length that block BLOCK must have (0 beyond the end). */
uint64_t kr_cache_block_count(uint64_t size);
uint32_t kr_cache_block_length(uint64_t size, uint64_t block);
/* Where block BLOCK and its entry lie in the cache file. */
uint64_t kr_cache_block_offset(uint64_t block);
uint64_t kr_cache_entry_offset(uint64_t block);

void kr_cache_header_encode(const struct kr_cache_header *header, uint8_t bytes[KR_CACHE_HEADER_USED]);
/* 0, or -EBADMSG with a reason. */
int kr_cache_header_decode(const uint8_t bytes[KR_CACHE_HEADER_USED], struct kr_cache_header *ret_header);
void kr_cache_entry_encode(const struct kr_cache_map_entry *entry, uint64_t block, uint8_t bytes[KR_CACHE_ENTRY]);
/* True and *RET_ENTRY if the bytes are a present block's valid entry. */
bool kr_cache_entry_decode(const uint8_t bytes[KR_CACHE_ENTRY], uint64_t block, struct kr_cache_map_entry *ret_entry);
/* The file's name, NUL-terminated. */
void kr_cache_name(
	const uint8_t export_id[16], const struct kr_fid *fid, uint64_t version, char ret_name[KR_CACHE_NAME + 1]);

#endif

/* Encoding and decoding of cache_format.h; pure. */
#include "fuse/readcache/cache_format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/buf.h"
#include "common/base/fail.h"

static void put_u32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

static void put_u64(uint8_t *at, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t take_u32(const uint8_t *at)
{
	uint32_t value = 0;

	for (int i = 3; i >= 0; i--)
		value = value << 8 | at[i];
	return value;
}

static uint64_t take_u64(const uint8_t *at)
{
	return (uint64_t)take_u32(at + 4) << 32 | take_u32(at);
}

uint64_t kr_cache_block_count(uint64_t size)
{
	return size / KR_BLOCK_SIZE + (size % KR_BLOCK_SIZE != 0);
}

uint32_t kr_cache_block_length(uint64_t size, uint64_t block)
{
	if (block >= kr_cache_block_count(size))
		return 0;
	size -= block * KR_BLOCK_SIZE;
	return size < KR_BLOCK_SIZE ? (uint32_t)size : KR_BLOCK_SIZE;
}

uint64_t kr_cache_entry_offset(uint64_t block)
{
	return KR_BLOCK_SIZE + block / KR_CACHE_GROUP_BLOCKS * KR_CACHE_GROUP_BYTES +
		block % KR_CACHE_GROUP_BLOCKS * KR_CACHE_ENTRY;
}

uint64_t kr_cache_block_offset(uint64_t block)
{
	return KR_BLOCK_SIZE + block / KR_CACHE_GROUP_BLOCKS * KR_CACHE_GROUP_BYTES + KR_CACHE_MAP_BYTES +
		block % KR_CACHE_GROUP_BLOCKS * KR_BLOCK_SIZE;
}

void kr_cache_header_encode(const struct kr_cache_header *header, uint8_t bytes[KR_CACHE_HEADER_USED])
{
	memset(bytes, 0, KR_CACHE_HEADER_USED);
	memcpy(bytes, KR_CACHE_MAGIC, 8);
	put_u32(bytes + 8, KR_CACHE_FORMAT);
	memcpy(bytes + 16, header->export_id, 16);
	put_u64(bytes + 32, header->version);
	put_u64(bytes + 40, header->size);
	memcpy(bytes + 48, header->boot_id, 16);
	bytes[64] = header->fid.length;
	memcpy(bytes + 65, header->fid.bytes, header->fid.length);
	put_u64(bytes + 224, kr_checksum(bytes, 224));
}

int kr_cache_header_decode(const uint8_t bytes[KR_CACHE_HEADER_USED], struct kr_cache_header *ret_header)
{
	struct kr_cache_header header = {0};

	if (memcmp(bytes, KR_CACHE_MAGIC, 8) != 0 || take_u64(bytes + 224) != kr_checksum(bytes, 224))
		return kr_fail(-EBADMSG, "no cache file's header");
	if (take_u32(bytes + 8) != KR_CACHE_FORMAT || take_u32(bytes + 12) != 0)
		return kr_fail(
			-EBADMSG, "cache file of format %u, flags %u", take_u32(bytes + 8), take_u32(bytes + 12));
	if (bytes[64] == 0 || bytes[64] > KR_FID_MAX)
		return kr_fail(-EBADMSG, "cache file's identity is %u bytes long", bytes[64]);
	memcpy(header.export_id, bytes + 16, 16);
	header.version = take_u64(bytes + 32);
	header.size = take_u64(bytes + 40);
	memcpy(header.boot_id, bytes + 48, 16);
	header.fid.length = bytes[64];
	memcpy(header.fid.bytes, bytes + 65, bytes[64]);
	*ret_header = header;
	return 0;
}

static uint32_t entry_check(const uint8_t bytes[12], uint64_t block)
{
	uint8_t input[20];

	memcpy(input, bytes, 12);
	put_u64(input + 12, block);
	return (uint32_t)kr_checksum(input, sizeof(input));
}

void kr_cache_entry_encode(const struct kr_cache_map_entry *entry, uint64_t block, uint8_t bytes[KR_CACHE_ENTRY])
{
	put_u64(bytes, entry->checksum);
	put_u32(bytes + 8, entry->length);
	put_u32(bytes + 12, entry_check(bytes, block));
}

bool kr_cache_entry_decode(const uint8_t bytes[KR_CACHE_ENTRY], uint64_t block, struct kr_cache_map_entry *ret_entry)
{
	uint32_t length = take_u32(bytes + 8);

	if (length == 0 || length > KR_BLOCK_SIZE || take_u32(bytes + 12) != entry_check(bytes, block))
		return false;
	*ret_entry = (struct kr_cache_map_entry){take_u64(bytes), length};
	return true;
}

void kr_cache_name(
	const uint8_t export_id[16], const struct kr_fid *fid, uint64_t version, char ret_name[KR_CACHE_NAME + 1])
{
	uint8_t input[16 + KR_FID_MAX + 8];
	XXH128_hash_t hash;

	memcpy(input, export_id, 16);
	memcpy(input + 16, fid->bytes, fid->length);
	put_u64(input + 16 + fid->length, version);
	hash = XXH3_128bits(input, (size_t)16 + fid->length + 8);
	snprintf(ret_name, KR_CACHE_NAME + 1, "%016llx%016llx", (unsigned long long)hash.low64,
		(unsigned long long)hash.high64);
}

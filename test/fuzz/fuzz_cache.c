/* Fuzz target: a cache file that holds anything.
 *
 * The input changes the header and the block map of a sensible file, seals both again or not, and cuts the file.  What
 * the cache then gives is what its map promises, and it takes every block anew.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuse/readcache/cache.h"
#include "fuse/readcache/cache_format.h"
#include "test/fuzz/fuzz.h"

enum { BLOCKS = 4, LAST = 1000 };
enum { SEAL_HEADER = 1, SEAL_ENTRIES = 2, CUT = 4, OTHER_SIZE = 8 };

static const uint8_t export_id[16] = "an export's id.";
static const struct kr_fid fid = {.length = 4, .bytes = "fuzz"};
static char directory[64], group[128], path[192];
static int directory_fd = -1;
static uint8_t contents[KR_BLOCK_SIZE];

static void remove_directory(void)
{
	unlink(path);
	rmdir(group);
	unlinkat(directory_fd, "cache", AT_REMOVEDIR);
	rmdir(directory);
}

static void make_directory(void)
{
	char name[KR_CACHE_NAME + 1];

	strcpy(directory, access("/dev/shm", W_OK) == 0 ? "/dev/shm/kr-fuzz-XXXXXX" : "/tmp/kr-fuzz-XXXXXX");
	assert(mkdtemp(directory));
	directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(directory_fd >= 0 && mkdirat(directory_fd, "cache", 0700) == 0);
	kr_cache_name(export_id, &fid, 7, name);
	snprintf(group, sizeof(group), "%s/cache/%.2s", directory, name);
	snprintf(path, sizeof(path), "%s/%s", group, name);
	assert(mkdir(group, 0700) == 0);
	for (size_t i = 0; i < sizeof(contents); i++)
		contents[i] = (uint8_t)(i * 7 ^ i >> 8);
	atexit(remove_directory);
}

/* Changes BYTES as the input says: a count, then position and value of each. */
static void change(const uint8_t **in, size_t *left, uint8_t *bytes, size_t length)
{
	unsigned count = *left ? **in % 32 : 0;

	for (*in += *left > 0, *left -= *left > 0; count > 0 && *left >= 2; count--, *in += 2, *left -= 2)
		bytes[(*in)[0] % length] = (*in)[1];
}

static void put(int fd, const void *bytes, size_t length, uint64_t offset)
{
	assert(pwrite(fd, bytes, length, (off_t)offset) == (ssize_t)length);
}

static void seal_header(uint8_t bytes[KR_CACHE_HEADER_USED])
{
	uint64_t check = kr_checksum(bytes, 224);

	for (int i = 0; i < 8; i++)
		bytes[224 + i] = (uint8_t)(check >> (8 * i));
}

/* Entries as they come, with the right check. */
static void seal_entries(uint8_t *map)
{
	for (uint64_t block = 0; block < BLOCKS; block++) {
		struct kr_cache_map_entry entry = {0};

		for (int i = 7; i >= 0; i--)
			entry.checksum = entry.checksum << 8 | map[block * KR_CACHE_ENTRY + i];
		for (int i = 3; i >= 0; i--)
			entry.length = entry.length << 8 | map[block * KR_CACHE_ENTRY + 8 + i];
		kr_cache_entry_encode(&entry, block, map + block * KR_CACHE_ENTRY);
	}
}

static void make_file(uint8_t mode, uint64_t size, const uint8_t *in, size_t left)
{
	struct kr_cache_header header = {.version = 7, .size = size, .fid = fid};
	uint8_t bytes[KR_CACHE_HEADER_USED], map[BLOCKS * KR_CACHE_ENTRY];
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert(fd >= 0);
	memcpy(header.export_id, export_id, 16);
	kr_cache_header_encode(&header, bytes);
	for (uint64_t block = 0; block < BLOCKS; block++) {
		uint32_t length = kr_cache_block_length(size, block);
		struct kr_cache_map_entry entry = {kr_checksum(contents, length), length};

		kr_cache_entry_encode(&entry, block, map + block * KR_CACHE_ENTRY);
		put(fd, contents, length, kr_cache_block_offset(block));
	}
	change(&in, &left, bytes, sizeof(bytes));
	if (mode & SEAL_HEADER)
		seal_header(bytes);
	change(&in, &left, map, sizeof(map));
	if (mode & SEAL_ENTRIES)
		seal_entries(map);
	put(fd, bytes, sizeof(bytes), 0);
	put(fd, map, sizeof(map), kr_cache_entry_offset(0));
	if (mode & CUT && left >= 2)
		assert(ftruncate(fd, (in[0] << 8 | in[1]) * 16) == 0);
	close(fd);
}

static void use(struct kr_cache *cache, uint64_t size)
{
	struct kr_cache_entry *entry = kr_cache_entry_get(cache, &fid, 7, size);
	struct kr_buf *buf = kr_buf_new(KR_BLOCK_SIZE);

	memcpy(buf->data, contents, KR_BLOCK_SIZE);
	if (kr_cache_needs_load(entry))
		kr_cache_load(entry);
	for (uint64_t block = 0; block < BLOCKS + 1; block++) {
		struct kr_buf *found;
		uint64_t checksum;

		if (kr_cache_read_block(entry, block, &found, &checksum) == 0) {
			assert(found->length == kr_cache_block_length(size, block));
			assert(checksum == kr_checksum(found->data, found->length));
			assert(memcmp(found->data, contents, found->length) == 0);
			kr_buf_put(found);
		}
		buf->length = kr_cache_block_length(size, block);
		if (buf->length > 0)
			assert(kr_cache_put(entry, kr_cache_edition(entry), block, buf,
				       kr_checksum(buf->data, buf->length)) == 0 &&
				kr_cache_read(entry, block, buf->length - 1, &(uint8_t){0}, 1) == 0);
	}
	kr_buf_put(buf);
	kr_cache_entry_put(entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	uint64_t size = (BLOCKS - 1) * (uint64_t)KR_BLOCK_SIZE + LAST;
	struct kr_cache *cache;

	if (length == 0)
		return 0;
	if (directory_fd < 0)
		make_directory();
	make_file(bytes[0], size, bytes + 1, length - 1);
	if (bytes[0] & OTHER_SIZE)
		size -= LAST - 1;
	assert(kr_cache_new(directory_fd, export_id, UINT64_C(1) << 24, &cache) == 0);
	use(cache, size);
	kr_cache_free(cache);
	return 0;
}

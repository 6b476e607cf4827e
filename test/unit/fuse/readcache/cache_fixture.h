/* A cache in a directory of its own, and blocks whose bytes follow from a seed. */
#ifndef KR_TEST_UNIT_CACHE_FIXTURE_H
#define KR_TEST_UNIT_CACHE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"
#include "fuse/readcache/cache.h"
#include "fuse/readcache/cache_format.h"
#include "test/unit/directory.h"

enum { BLOCK = KR_BLOCK_SIZE };
#define LARGE (UINT64_C(1) << 30)

static const uint8_t export_id[16] = "an export's id.";

struct place {
	char path[64];
	int fd;
};

static inline int setup(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	strcpy(place->path, "/tmp/kairan-cache-XXXXXX");
	if (!mkdtemp(place->path))
		return -1;
	place->fd = open(place->path, O_RDONLY | O_DIRECTORY);
	*state = place;
	return 0;
}

static inline int teardown(void **state)
{
	struct place *place = *state;

	close(place->fd);
	directory_remove(place->path);
	free(place);
	return 0;
}

static inline struct kr_fid fid_of(uint32_t number)
{
	struct kr_fid fid = {.length = 8};

	memcpy(fid.bytes, &number, sizeof(number));
	return fid;
}

static inline struct kr_cache *open_cache(const struct place *place, uint64_t max)
{
	struct kr_cache *cache;

	assert_int_equal(kr_cache_new(place->fd, export_id, max, &cache), 0);
	return cache;
}

static inline struct kr_cache_entry *open_entry(
	struct kr_cache *cache, uint32_t number, uint64_t version, uint64_t size)
{
	struct kr_fid fid = fid_of(number);
	struct kr_cache_entry *entry = kr_cache_entry_get(cache, &fid, version, size);

	if (kr_cache_needs_load(entry))
		kr_cache_load(entry);
	return entry;
}

static inline void fill(uint8_t *bytes, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)((i * 7 + seed * 131) ^ (i >> 8));
}

static inline int put(struct kr_cache_entry *entry, uint64_t block, size_t length, unsigned seed)
{
	struct kr_buf *buf = kr_buf_new(BLOCK);
	int err;

	fill(buf->data, length, seed);
	buf->length = length;
	err = kr_cache_put(entry, kr_cache_edition(entry), block, buf, kr_checksum(buf->data, length));
	kr_buf_put(buf);
	return err;
}

/* The whole of a small file that was just written. */
static inline int put_memory(struct kr_cache_entry *entry, size_t length, unsigned seed)
{
	struct kr_buf *buf = kr_buf_new(length);
	int err;

	fill(buf->data, length, seed);
	buf->length = length;
	err = kr_cache_put_memory(entry, kr_cache_edition(entry), buf, kr_checksum(buf->data, length));
	kr_buf_put(buf);
	return err;
}

static inline void expect(struct kr_cache_entry *entry, uint64_t block, size_t length, unsigned seed)
{
	uint8_t *want = malloc(length), *got = malloc(length);
	struct kr_buf *buf;
	uint64_t checksum;

	fill(want, length, seed);
	assert_true(kr_cache_has(entry, block));
	assert_int_equal(kr_cache_read(entry, block, 3, got, length - 5), 0);
	assert_memory_equal(got, want + 3, length - 5);
	assert_int_equal(kr_cache_read_block(entry, block, &buf, &checksum), 0);
	assert_int_equal(buf->length, length);
	assert_memory_equal(buf->data, want, length);
	assert_int_equal(checksum, kr_checksum(want, length));
	kr_buf_put(buf);
	free(want);
	free(got);
}

/* Opens the file of that version. */
static inline int open_file(const struct place *place, uint32_t number, uint64_t version)
{
	char name[KR_CACHE_NAME + 1], path[128];
	struct kr_fid fid = fid_of(number);

	kr_cache_name(export_id, &fid, version, name);
	snprintf(path, sizeof(path), "%s/cache/%.2s/%s", place->path, name, name);
	return open(path, O_RDWR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif

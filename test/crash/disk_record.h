/* What disk.c has recorded, of which disk_make.c makes states. */
#ifndef KR_TEST_CRASH_DISK_RECORD_H
#define KR_TEST_CRASH_DISK_RECORD_H

#include <sys/types.h>

#include "test/crash/disk_priv.h"

enum { PAGE = 4096, SECTOR = 512, STORE = 64 };

/* A write to a page that may not be on the disk yet. */
struct patch {
	uint64_t event;
	uint32_t from, length;
	uint8_t *bytes; /* NULL: zeros */
};

struct page {
	uint8_t *durable; /* NULL: zeros */
	struct patch *patches;
	size_t count, capacity;
};

struct size_change {
	uint64_t event, size;
};

struct object {
	ino_t ino;
	bool directory;
	struct page *pages;
	size_t page_count;
	uint64_t size, durable_size;
	struct size_change *sizes;
	size_t size_count, size_capacity;
};

enum name_kind { NAME_SET, NAME_REMOVE, NAME_MOVE, NAME_EXCHANGE };

struct name_change {
	uint64_t event;
	enum name_kind kind;
	struct object *dir, *to_dir, *object;
	char name[64], to_name[64];
	bool durable;
};

struct mapping {
	struct object *object;
	uint8_t *at, *shadow;
	size_t length;
};

struct recorded {
	struct object **objects;
	size_t object_count;
	struct name_change *names;
	size_t name_count, name_capacity;
	struct mapping mappings[256];
	size_t mapping_count;
	struct object *root;
	dev_t device;
	uint64_t event, synced; /* the last one; the last one before a sync or a write-back */
	bool on, ordered, locks;
	void (*hook)(void);
};
extern struct recorded disk;

/* ARRAY with room for one more than COUNT. */
void *disk_grow(void *array, size_t count, size_t *capacity, size_t size);
void disk_apply_patch(uint8_t *bytes, const struct patch *patch);

#endif

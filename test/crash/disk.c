/* What the code under test does to files, as it is recorded.  See disk.h. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/util.h"
#include "test/crash/disk_record.h"

struct recorded disk;

/* --- random numbers --------------------------------------------------------------------------- */

static uint64_t chance_state = 1;

void chance_seed(uint64_t seed)
{
	chance_state = seed * 2 + 1;
	for (int i = 0; i < 4; i++)
		chance(2);
}

uint64_t chance(uint64_t below)
{
	chance_state = chance_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (chance_state >> 33) % below;
}

/* --- recording -------------------------------------------------------------------------------- */

/* Room for one more of SIZE bytes. */
void *disk_grow(void *array, size_t count, size_t *capacity, size_t size)
{
	if (count < *capacity)
		return array;
	*capacity = *capacity ? *capacity * 2 : 4;
	array = realloc(array, *capacity * size);
	assert(array);
	return array;
}

static struct object *new_object(ino_t ino, bool directory)
{
	struct object *object = kr_xcalloc(1, sizeof(*object));

	*object = (struct object){.ino = ino, .directory = directory};
	disk.objects = realloc(disk.objects, (disk.object_count + 1) * sizeof(struct object *));
	assert(disk.objects);
	disk.objects[disk.object_count++] = object;
	return object;
}

/* The newest one: numbers of removed files are used again. */
static struct object *find_object(const struct stat *st)
{
	if (!disk.on || st->st_dev != disk.device)
		return NULL;
	for (size_t i = disk.object_count; i-- > 0;)
		if (disk.objects[i]->ino == st->st_ino)
			return disk.objects[i];
	return NULL;
}

struct object *disk_object(int fd)
{
	struct stat st;

	return disk.on && fstat(fd, &st) == 0 ? find_object(&st) : NULL;
}

bool disk_has(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static struct page *page_at(struct object *object, size_t number)
{
	if (number >= object->page_count) {
		size_t count = number + 16;

		object->pages = realloc(object->pages, count * sizeof(*object->pages));
		assert(object->pages);
		memset(object->pages + object->page_count, 0, (count - object->page_count) * sizeof(*object->pages));
		object->page_count = count;
	}
	return &object->pages[number];
}

static void add_patch(struct object *object, uint64_t offset, const uint8_t *bytes, uint32_t length)
{
	struct page *page = page_at(object, offset / PAGE);
	struct patch patch = {.event = disk.event, .from = (uint32_t)(offset % PAGE), .length = length};

	if (bytes) {
		patch.bytes = kr_xmalloc(length);
		memcpy(patch.bytes, bytes, length);
	}
	page->patches = disk_grow(page->patches, page->count, &page->capacity, sizeof(patch));
	page->patches[page->count++] = patch;
}

static void set_size(struct object *object, uint64_t size)
{
	if (size == object->size)
		return;
	object->size = size;
	object->sizes = disk_grow(object->sizes, object->size_count, &object->size_capacity, sizeof(*object->sizes));
	object->sizes[object->size_count++] = (struct size_change){disk.event, size};
}

void disk_wrote(struct object *object, uint64_t offset, const void *bytes, size_t length)
{
	const uint8_t *from = bytes;

	if (!object || length == 0)
		return;
	disk.event++;
	for (size_t done = 0; done < length;) {
		uint32_t piece = (uint32_t)KR_MIN(length - done, PAGE - (offset + done) % PAGE);

		add_patch(object, offset + done, from ? from + done : NULL, piece);
		done += piece;
	}
	if (bytes && offset + length > object->size)
		set_size(object, offset + length);
}

void disk_resized(struct object *object, uint64_t size)
{
	if (!object)
		return;
	if (size < object->size)
		disk_wrote(object, size, NULL, object->size - size);
	disk.event++;
	set_size(object, size);
}

void disk_apply_patch(uint8_t *bytes, const struct patch *patch)
{
	if (patch->bytes)
		memcpy(bytes + patch->from, patch->bytes, patch->length);
	else
		memset(bytes + patch->from, 0, patch->length);
}

/* The first COUNT writes to PAGE are on the disk. */
static void write_page(struct page *page, size_t count)
{
	if (count == 0)
		return;
	if (!page->durable)
		page->durable = kr_xcalloc(1, PAGE);
	for (size_t i = 0; i < count; i++) {
		disk_apply_patch(page->durable, &page->patches[i]);
		free(page->patches[i].bytes);
	}
	page->count -= count;
	memmove(page->patches, page->patches + count, page->count * sizeof(*page->patches));
}

static void sync_names(const struct object *dir)
{
	for (size_t i = 0; i < disk.name_count; i++) {
		struct name_change *change = &disk.names[i];

		change->durable |= !dir || change->dir == dir || change->to_dir == dir;
	}
}

void disk_synced(struct object *object)
{
	if (!object)
		return;
	disk.synced = disk.event;
	for (size_t i = 0; i < object->page_count; i++)
		write_page(&object->pages[i], object->pages[i].count);
	object->durable_size = object->size;
	object->size_count = 0;
	if (object->directory || disk.ordered)
		sync_names(disk.ordered ? NULL : object);
}

static struct name_change *add_name(enum name_kind kind, struct object *dir, const char *name, struct object *object)
{
	struct name_change *change;

	disk.event++;
	disk.names = disk_grow(disk.names, disk.name_count, &disk.name_capacity, sizeof(*disk.names));
	change = &disk.names[disk.name_count++];
	*change = (struct name_change){.event = disk.event, .kind = kind, .dir = dir, .object = object};
	snprintf(change->name, sizeof(change->name), "%s", name);
	return change;
}

/* The directory of *NAME, which may be a path; *NAME is its last part then. */
static struct object *directory_of(int dirfd, const char **name)
{
	const char *slash = strrchr(*name, '/');
	char path[256];
	struct stat st;

	if (!slash)
		return disk_object(dirfd);
	snprintf(path, sizeof(path), "%.*s", (int)(slash - *name), *name);
	*name = slash + 1;
	return disk.on && fstatat(dirfd, path, &st, 0) == 0 ? find_object(&st) : NULL;
}

void disk_named(int dirfd, const char *path, bool fresh)
{
	const char *name = path;
	struct object *dir = directory_of(dirfd, &name), *object;
	struct stat st;

	if (!dir || fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	object = fresh ? new_object(st.st_ino, S_ISDIR(st.st_mode)) : find_object(&st);
	if (object)
		add_name(NAME_SET, dir, name, object);
}

void disk_removed(int dirfd, const char *name)
{
	struct object *dir = disk_object(dirfd);

	if (dir)
		add_name(NAME_REMOVE, dir, name, NULL);
}

void disk_renamed(int dirfd, const char *name, int to_dirfd, const char *to_name, bool exchange)
{
	struct object *dir = disk_object(dirfd), *to_dir = disk_object(to_dirfd);
	struct name_change *change;
	struct stat st;

	if (!dir || !to_dir || fstatat(to_dirfd, to_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	change = add_name(exchange ? NAME_EXCHANGE : NAME_MOVE, dir, name, find_object(&st));
	change->to_dir = to_dir;
	snprintf(change->to_name, sizeof(change->to_name), "%s", to_name);
}

void disk_mapped(int fd, void *at, size_t length)
{
	struct object *object = disk_object(fd);
	struct mapping *mapping;

	if (!object)
		return;
	assert(disk.mapping_count < KR_ARRAY_SIZE(disk.mappings));
	mapping = &disk.mappings[disk.mapping_count++];
	*mapping = (struct mapping){.object = object, .at = at, .length = length, .shadow = kr_xmalloc(length)};
	memcpy(mapping->shadow, at, length);
}

static void forget_mapping(struct mapping *mapping)
{
	free(mapping->shadow);
	*mapping = disk.mappings[--disk.mapping_count];
}

void disk_unmapped(void *at)
{
	for (size_t i = 0; i < disk.mapping_count; i++)
		if (disk.mappings[i].at == at)
			forget_mapping(&disk.mappings[i--]);
}

struct object *disk_mapped_object(void *at)
{
	for (size_t i = 0; i < disk.mapping_count; i++)
		if (disk.mappings[i].at == at)
			return disk.mappings[i].object;
	return NULL;
}

void disk_forget_mappings(void)
{
	while (disk.mapping_count)
		forget_mapping(&disk.mappings[0]);
}

static uint64_t look(void)
{
	for (size_t i = 0; i < disk.mapping_count; i++) {
		struct mapping *mapping = &disk.mappings[i];

		for (size_t at = 0; at < mapping->length; at += STORE) {
			size_t length = KR_MIN((size_t)STORE, mapping->length - at);

			if (memcmp(mapping->at + at, mapping->shadow + at, length) == 0)
				continue;
			memcpy(mapping->shadow + at, mapping->at + at, length);
			disk_wrote(mapping->object, at, mapping->shadow + at, length);
		}
	}
	return disk.event;
}

bool disk_before_call(void)
{
	if (!disk.on)
		return false;
	look();
	disk.on = false;
	if (disk.hook)
		disk.hook();
	disk.on = true;
	return true;
}

void disk_look_at_locks(void)
{
	disk.locks = true;
}

bool disk_looks_at_locks(void)
{
	return disk.locks;
}

void disk_pause(bool paused)
{
	disk.on = !paused;
}

void disk_write_back(void)
{
	disk.synced = look();
	for (size_t i = 0; i < disk.object_count; i++) {
		struct object *object = disk.objects[i];
		bool all = one_in(4);

		for (size_t j = 0; j < object->page_count; j++)
			if (object->pages[j].count && (all || one_in(3)))
				write_page(&object->pages[j], object->pages[j].count);
		if (all) {
			object->durable_size = object->size;
			object->size_count = 0;
		}
	}
}

void disk_settle(void)
{
	look();
	for (size_t i = 0; i < disk.object_count; i++)
		disk_synced(disk.objects[i]);
	sync_names(NULL);
}

uint64_t disk_events(void)
{
	return disk.event;
}

void disk_begin(const char *path, bool ordered, void (*hook)(void))
{
	struct stat st;
	int r = stat(path, &st);

	assert(r == 0);
	memset(&disk, 0, sizeof(disk));
	disk.device = st.st_dev;
	disk.root = new_object(st.st_ino, true);
	disk.ordered = ordered;
	disk.hook = hook;
	disk.on = true;
}

void disk_end(void)
{
	disk.on = false;
	disk_forget_mappings();
	for (size_t i = 0; i < disk.object_count; i++) {
		struct object *object = disk.objects[i];

		for (size_t j = 0; j < object->page_count; j++) {
			for (size_t k = 0; k < object->pages[j].count; k++)
				free(object->pages[j].patches[k].bytes);
			free(object->pages[j].patches);
			free(object->pages[j].durable);
		}
		free(object->pages);
		free(object->sizes);
		free(object);
	}
	free(disk.objects);
	free(disk.names);
	memset(&disk, 0, sizeof(disk));
}

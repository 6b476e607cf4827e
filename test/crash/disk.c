/* See disk.h. */
#include "test/crash/disk.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util.h"
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

static struct {
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
} disk;

/* --- random numbers ------------------------------------------------------------------------------------------------- */

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

/* --- recording ------------------------------------------------------------------------------------------------------ */

/* Room for one more of SIZE bytes. */
static void *grow(void *array, size_t count, size_t *capacity, size_t size)
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
	page->patches = grow(page->patches, page->count, &page->capacity, sizeof(patch));
	page->patches[page->count++] = patch;
}

static void set_size(struct object *object, uint64_t size)
{
	if (size == object->size)
		return;
	object->size = size;
	object->sizes = grow(object->sizes, object->size_count, &object->size_capacity, sizeof(*object->sizes));
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

static void apply_patch(uint8_t *bytes, const struct patch *patch)
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
		apply_patch(page->durable, &page->patches[i]);
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
	disk.names = grow(disk.names, disk.name_count, &disk.name_capacity, sizeof(*disk.names));
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

/* --- making a state ------------------------------------------------------------------------------------------------- */

/* How many of COUNT things that may be there are. */
static size_t how_many(enum disk_style style, size_t count)
{
	switch (style) {
	case DISK_WHOLE: return count;
	case DISK_NOTHING: return 0;
	case DISK_MOST: return one_in(8) ? chance(count + 1) : count;
	case DISK_FEW: return one_in(8) ? chance(count + 1) : 0;
	default: return chance(count + 1);
	}
}

/* The page as the disk has it; false: zeros. */
static bool make_page(const struct page *page, enum disk_style style, uint64_t cut, uint8_t bytes[PAGE])
{
	size_t count = 0, there;

	while (count < page->count && page->patches[count].event <= cut)
		count++;
	there = how_many(style, count);
	if (!page->durable && there == 0 && count == 0)
		return false;
	if (page->durable)
		memcpy(bytes, page->durable, PAGE);
	else
		memset(bytes, 0, PAGE);
	for (size_t i = 0; i < there; i++)
		apply_patch(bytes, &page->patches[i]);
	if (there < count && one_in(3)) { /* the page was on its way */
		uint8_t next[PAGE];

		memcpy(next, bytes, PAGE);
		apply_patch(next, &page->patches[there]);
		for (size_t at = 0; at < PAGE; at += SECTOR)
			if (one_in(2))
				memcpy(bytes + at, next + at, SECTOR);
	}
	return true;
}

static uint64_t make_size(const struct object *object, enum disk_style style, uint64_t cut)
{
	size_t count = 0, there;

	while (count < object->size_count && object->sizes[count].event <= cut)
		count++;
	there = how_many(style, count);
	return there ? object->sizes[there - 1].size : object->durable_size;
}

static void make_file(int dirfd, const char *name, const struct object *object, enum disk_style style, uint64_t cut)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	uint64_t size = make_size(object, style, cut);
	uint8_t bytes[PAGE];

	assert(fd >= 0);
	for (size_t i = 0; i < object->page_count && i * PAGE < size; i++) {
		size_t length = KR_MIN((uint64_t)PAGE, size - i * PAGE);

		if (make_page(&object->pages[i], style, cut, bytes))
			kr_pwrite_full(fd, bytes, length, i * PAGE);
	}
	if (ftruncate(fd, (off_t)size) < 0)
		abort();
	close(fd);
}

/* The names as the disk has them. */
struct entry {
	const struct object *dir, *object;
	const char *name;
	bool made;
	int fd;              /* of the file once it is made, for its other names; else 0 */
};
struct entries {
	struct entry *list;
	size_t count, capacity;
};

static struct entry *find_entry(struct entries *entries, const struct object *dir, const char *name)
{
	for (size_t i = 0; i < entries->count; i++)
		if (entries->list[i].dir == dir && strcmp(entries->list[i].name, name) == 0)
			return &entries->list[i];
	return NULL;
}

static void set_entry(struct entries *entries, const struct object *dir, const char *name, const struct object *object)
{
	struct entry *entry = find_entry(entries, dir, name);

	if (!entry) {
		entries->list = grow(entries->list, entries->count, &entries->capacity, sizeof(*entry));
		entry = &entries->list[entries->count++];
	}
	*entry = (struct entry){.dir = dir, .object = object, .name = name};
}

static void drop_entry(struct entries *entries, const struct object *dir, const char *name)
{
	struct entry *entry = find_entry(entries, dir, name);

	if (entry)
		*entry = entries->list[--entries->count];
}

static void change_name(struct entries *entries, const struct name_change *change)
{
	const struct entry *old;

	switch (change->kind) {
	case NAME_SET:
		set_entry(entries, change->dir, change->name, change->object);
		break;
	case NAME_REMOVE:
		drop_entry(entries, change->dir, change->name);
		break;
	case NAME_MOVE:
		drop_entry(entries, change->dir, change->name);
		set_entry(entries, change->to_dir, change->to_name, change->object);
		break;
	case NAME_EXCHANGE:
		old = find_entry(entries, change->to_dir, change->to_name);
		if (old)
			set_entry(entries, change->dir, change->name, old->object);
		set_entry(entries, change->to_dir, change->to_name, change->object);
		break;
	}
}

static void choose_names(struct entries *entries, enum disk_style style, uint64_t cut)
{
	size_t possible = 0, there;

	for (size_t i = 0; i < disk.name_count; i++)
		possible += !disk.names[i].durable && disk.names[i].event <= cut;
	there = style == DISK_PAGES && one_in(2) ? possible : how_many(style, possible);
	for (size_t i = 0; i < disk.name_count; i++) {
		const struct name_change *change = &disk.names[i];
		bool kept = change->durable;

		if (change->event > cut)
			break;
		if (!kept && (disk.ordered || style == DISK_WHOLE)) {
			kept = there > 0;
			there -= there > 0;
		} else if (!kept) {
			kept = how_many(style, 1) == 1;
		}
		if (kept)
			change_name(entries, change);
	}
}

static void make_directory(int fd, const struct object *dir, struct entries *entries, enum disk_style style, uint64_t cut);

static void make_entry(int fd, struct entry *entry, struct entries *entries, enum disk_style style, uint64_t cut)
{
	entry->made = true;
	if (entry->object->directory) {
		int below;

		if (mkdirat(fd, entry->name, 0700) < 0)
			abort();
		below = openat(fd, entry->name, O_RDONLY | O_DIRECTORY);
		assert(below >= 0);
		make_directory(below, entry->object, entries, style, cut);
		close(below);
		return;
	}
	for (size_t i = 0; i < entries->count; i++) {
		const struct entry *other = &entries->list[i];
		char path[32];

		if (other == entry || other->object != entry->object || other->fd == 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", other->fd);
		if (linkat(AT_FDCWD, path, fd, entry->name, AT_SYMLINK_FOLLOW) < 0)
			abort();
		return;
	}
	make_file(fd, entry->name, entry->object, style, cut);
	entry->fd = openat(fd, entry->name, O_RDONLY);
}

static void make_directory(int fd, const struct object *dir, struct entries *entries, enum disk_style style, uint64_t cut)
{
	for (size_t i = 0; i < entries->count; i++)
		if (entries->list[i].dir == dir && !entries->list[i].made)
			make_entry(fd, &entries->list[i], entries, style, cut);
}

void disk_make(const char *path, enum disk_style style, uint64_t cut)
{
	struct entries entries = {0};
	bool on = disk.on;
	int fd = open(path, O_RDONLY | O_DIRECTORY);

	assert(fd >= 0);
	cut = KR_MAX(cut, disk.synced);
	disk.on = false;
	choose_names(&entries, style, cut);
	make_directory(fd, disk.root, &entries, style, cut);
	for (size_t i = 0; i < entries.count; i++)
		if (entries.list[i].fd > 0)
			close(entries.list[i].fd);
	disk.on = on;
	close(fd);
	free(entries.list);
}

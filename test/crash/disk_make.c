/* Makes directories as a power failure could have left them (see disk.h), of what disk.c has recorded. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/util.h"
#include "test/crash/disk_record.h"

/* How many of COUNT things that may be there are. */
static size_t how_many(enum disk_style style, size_t count)
{
	switch (style) {
	case DISK_WHOLE:
		return count;
	case DISK_NOTHING:
		return 0;
	case DISK_MOST:
		return one_in(8) ? chance(count + 1) : count;
	case DISK_FEW:
		return one_in(8) ? chance(count + 1) : 0;
	default:
		return chance(count + 1);
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
		disk_apply_patch(bytes, &page->patches[i]);
	if (there < count && one_in(3)) { /* the page was on its way */
		uint8_t next[PAGE];

		memcpy(next, bytes, PAGE);
		disk_apply_patch(next, &page->patches[there]);
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
	int fd; /* of the file once it is made, for its other names; else 0 */
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
		entries->list = disk_grow(entries->list, entries->count, &entries->capacity, sizeof(*entry));
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

static void make_directory(
	int fd, const struct object *dir, struct entries *entries, enum disk_style style, uint64_t cut);

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

static void make_directory(
	int fd, const struct object *dir, struct entries *entries, enum disk_style style, uint64_t cut)
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

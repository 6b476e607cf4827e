/* See dir_listing.h.  Entries have numbers in the order of the directory; for each order `nth` has the numbers in it,
 * `place` an entry's place in it.  Both are made when they are first needed after the entries have changed. */
#include "fuse/names/dir_listing.h"

#include <stdlib.h>
#include <string.h>

#include "common/rpc/lookups.h"
#include "common/base/util.h"
#include "common/rpc/wire.h"

enum { NEAR = 8, SLACK = 16, SCAN_MAX = 2048, NOWHERE = -1, OLD_MS = 10000 };
enum order { AS_LISTED, BY_INODE, BY_NAME, ORDERS };
enum state { ASIDE, ASKED, BROUGHT, REFUSED };

struct entry {
	uint64_t ino;
	uint32_t name; /* where it begins in `names` */
	uint8_t state;
};

struct kr_dir_listing {
	struct entry *entries;
	uint32_t count, room;
	char *names;
	size_t length, names_room;
	uint64_t cookie; /* what follows the last entry */
	bool sorted;
	uint32_t *nth[ORDERS], *place[ORDERS];
	/* The sequence: in `order`, goes on at place `next`; NOWHERE: there is none, `last` was asked for. */
	int order;
	uint32_t next, last, size, size_max;
	uint32_t vain;
	bool any; /* `last` is valid */
	uint64_t brought_ms;
};

struct kr_dir_listing *kr_dir_listing_new(void)
{
	return kr_xcalloc(1, sizeof(struct kr_dir_listing));
}

static void unsort(struct kr_dir_listing *listing)
{
	for (int order = 0; order < ORDERS; order++) {
		free(listing->nth[order]);
		free(listing->place[order]);
		listing->nth[order] = listing->place[order] = NULL;
	}
	listing->sorted = false;
	if (listing->order != AS_LISTED) /* its places stay */
		listing->order = NOWHERE;
}

static void clear(struct kr_dir_listing *listing)
{
	unsort(listing);
	listing->order = NOWHERE;
	listing->any = false;
	listing->vain = 0;
	listing->count = 0;
	listing->length = 0;
	listing->size_max = KR_LOOKUPS_MAX;
}

void kr_dir_listing_free(struct kr_dir_listing *listing)
{
	if (!listing)
		return;
	unsort(listing);
	free(listing->entries);
	free(listing->names);
	free(listing);
}

uint64_t kr_dir_listing_end(const struct kr_dir_listing *listing)
{
	return listing->cookie;
}

void kr_dir_listing_restrain(struct kr_dir_listing *listing)
{
	listing->size_max /= 4;
}

size_t kr_dir_listing_bytes(const struct kr_dir_listing *listing)
{
	return sizeof(*listing) + listing->room * (sizeof(struct entry) + ORDERS * 2 * sizeof(uint32_t)) +
		listing->names_room;
}

/* --- entries ---------------------------------------------------------------------------------- */

static bool grow(struct kr_dir_listing *listing, size_t length)
{
	if (listing->count == listing->room) {
		uint32_t room = listing->room ? listing->room * 2 : 16;
		struct entry *entries = realloc(listing->entries, room * sizeof(*entries));

		if (!entries)
			return false;
		listing->entries = entries;
		listing->room = room;
	}
	if (listing->length + length > listing->names_room) {
		size_t room = (listing->length + length) * 2;
		char *names = realloc(listing->names, room);

		if (!names)
			return false;
		listing->names = names;
		listing->names_room = room;
	}
	return true;
}

static void append(struct kr_dir_listing *listing, uint64_t ino, const uint8_t *name, size_t length)
{
	if (listing->count == KR_DIR_LISTING_NAMES_MAX)
		clear(listing);
	if (!grow(listing, length + 1))
		return;
	listing->entries[listing->count++] = (struct entry){.ino = ino, .name = (uint32_t)listing->length};
	memcpy(listing->names + listing->length, name, length);
	listing->names[listing->length + length] = '\0';
	listing->length += length + 1;
}

static bool is_dot(const uint8_t *name, size_t length)
{
	return name[0] == '.' && (length == 1 || (length == 2 && name[1] == '.'));
}

void kr_dir_listing_add(struct kr_dir_listing *listing, uint64_t cookie, const void *entries, size_t length)
{
	struct kr_reader r;

	if (cookie == 0)
		clear(listing);
	else if (cookie != listing->cookie)
		return;
	else
		unsort(listing);
	kr_reader_init(&r, entries, length);
	while (kr_reader_left(&r) > 0) {
		uint64_t ino = kr_take_u64(&r), next = kr_take_u64(&r);
		size_t name_length = (kr_take_u8(&r), kr_take_u8(&r));
		const uint8_t *name = kr_take_bytes(&r, name_length);

		if (!name || name_length == 0 || memchr(name, '\0', name_length) || memchr(name, '/', name_length))
			return;
		listing->cookie = next;
		if (!is_dot(name, name_length))
			append(listing, ino, name, name_length);
	}
}

/* --- orders ----------------------------------------------------------------------------------- */

static const char *name_of(const struct kr_dir_listing *listing, uint32_t number)
{
	return listing->names + listing->entries[number].name;
}

static int compare_inodes(const void *a, const void *b, void *context)
{
	const struct kr_dir_listing *listing = context;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (listing->entries[x].ino != listing->entries[y].ino)
		return listing->entries[x].ino < listing->entries[y].ino ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int compare_names(const void *a, const void *b, void *context)
{
	const struct kr_dir_listing *listing = context;

	return strcmp(name_of(listing, *(const uint32_t *)a), name_of(listing, *(const uint32_t *)b));
}

static bool sort(struct kr_dir_listing *listing)
{
	uint32_t count = listing->count;

	if (listing->sorted)
		return true;
	for (int order = 0; order < ORDERS; order++) {
		listing->nth[order] = calloc(count, sizeof(uint32_t));
		listing->place[order] = calloc(count, sizeof(uint32_t));
		if (!listing->nth[order] || !listing->place[order]) {
			unsort(listing);
			return false;
		}
		for (uint32_t i = 0; i < count; i++)
			listing->nth[order][i] = i;
	}
	qsort_r(listing->nth[BY_INODE], count, sizeof(uint32_t), compare_inodes, listing);
	qsort_r(listing->nth[BY_NAME], count, sizeof(uint32_t), compare_names, listing);
	for (int order = 0; order < ORDERS; order++) {
		for (uint32_t i = 0; i < count; i++)
			listing->place[order][listing->nth[order][i]] = i;
	}
	listing->sorted = true;
	return true;
}

/* -1: it is not listed. */
static int64_t find(const struct kr_dir_listing *listing, const char *name)
{
	uint32_t low = 0, high = listing->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2, number = listing->nth[BY_NAME][middle];
		int difference = strcmp(name, name_of(listing, number));

		if (difference == 0)
			return number;
		if (difference < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return -1;
}

/* --- sequences -------------------------------------------------------------------------------- */

static void set_aside(struct kr_dir_listing *listing)
{
	for (uint32_t i = 0; i < listing->count; i++) {
		if (listing->entries[i].state == BROUGHT)
			listing->entries[i].state = ASIDE;
	}
	listing->vain = 0;
	listing->order = NOWHERE;
	listing->any = false;
}

/* ENTRY had been brought, and is gone again: because all has become too old, or because it had to be forgotten. A few
 * of the latter are no matter (files whose slots are one). */
static void brought_in_vain(struct kr_dir_listing *listing, struct entry *entry, uint64_t now_ms)
{
	if (now_ms - listing->brought_ms >= OLD_MS) {
		set_aside(listing);
		return;
	}
	entry->state = REFUSED;
	if (++listing->vain > listing->size / 8 + 1) {
		kr_dir_listing_restrain(listing);
		set_aside(listing);
	}
}

/* How far NUMBER is behind the one before in ORDER, from 1; 0: not near. The first of all is as near as can be. */
static uint32_t distance(const struct kr_dir_listing *listing, int order, uint32_t number)
{
	uint32_t place = listing->place[order][number], before;

	if (place == 0)
		return 1;
	if (!listing->any)
		return 0;
	before = listing->place[order][listing->last];
	return place > before && place - before <= NEAR ? place - before : 0;
}

static void begin_sequence(struct kr_dir_listing *listing, uint32_t number)
{
	uint32_t nearest = 0;

	listing->order = NOWHERE;
	for (int order = 0; order < ORDERS; order++) {
		uint32_t far = distance(listing, order, number);

		if (far && (!nearest || far < nearest)) {
			nearest = far;
			listing->order = order;
		}
	}
	listing->size = KR_DIR_LISTING_FIRST;
}

/* Whether NUMBER is where its sequence was expected to go on. */
static bool goes_on(const struct kr_dir_listing *listing, uint32_t number)
{
	uint32_t place;

	if (listing->order == NOWHERE)
		return false;
	place = listing->place[listing->order][number];
	return place >= listing->next && place - listing->next < SLACK;
}

/* The sequence's next names, from NUMBER on. */
static size_t gather(struct kr_dir_listing *listing, uint32_t number, bool (*known)(void *, const char *),
	void *context, const char **ret_names)
{
	const uint32_t *nth = listing->nth[listing->order];
	uint32_t first = listing->place[listing->order][number],
		 end = KR_MIN(listing->count - first, (uint32_t)SCAN_MAX) + first, place;
	size_t count = 0;

	for (place = first; place < end && count < listing->size; place++) {
		const char *name = name_of(listing, nth[place]);

		if (place == first || (listing->entries[nth[place]].state == ASIDE && !known(context, name)))
			ret_names[count++] = name;
	}
	listing->next = place;
	return count;
}

static void mark_asked(struct kr_dir_listing *listing, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		listing->entries[find(listing, names[i])].state = ASKED;
}

size_t kr_dir_listing_first(struct kr_dir_listing *listing, bool (*known)(void *context, const char *name),
	void *context, const char **ret_names)
{
	size_t count;

	if (listing->count < 2 || !sort(listing) || listing->entries[0].state != ASIDE ||
		listing->size_max < KR_DIR_LISTING_FIRST)
		return 0;
	listing->order = AS_LISTED;
	listing->size = listing->size_max;
	listing->last = 0;
	listing->any = true;
	count = gather(listing, 0, known, context, ret_names);
	if (count < 2)
		return 0;
	mark_asked(listing, ret_names, count);
	return count;
}

size_t kr_dir_listing_ahead(struct kr_dir_listing *listing, const char *name, uint64_t now_ms,
	bool (*known)(void *context, const char *name), void *context, const char **ret_names)
{
	struct entry *entry;
	int64_t found;
	uint32_t number;
	size_t count;

	if (listing->count < 2 || !sort(listing) || (found = find(listing, name)) < 0)
		return 0;
	number = (uint32_t)found;
	entry = &listing->entries[number];
	if (entry->state == BROUGHT)
		brought_in_vain(listing, entry, now_ms);
	if (entry->state != ASIDE || listing->size_max < KR_DIR_LISTING_FIRST)
		return 0;
	listing->vain = 0;
	if (goes_on(listing, number))
		listing->size *= 2;
	else
		begin_sequence(listing, number);
	listing->size = KR_MIN(listing->size, listing->size_max);
	listing->last = number;
	listing->any = true;
	if (listing->order == NOWHERE)
		return 0;
	count = gather(listing, number, known, context, ret_names);
	if (count < 2)
		return 0;
	mark_asked(listing, ret_names, count);
	return count;
}

void kr_dir_listing_brought(struct kr_dir_listing *listing, const char *name, bool good, uint64_t now_ms)
{
	int64_t number = listing->count && sort(listing) ? find(listing, name) : -1;

	if (number >= 0)
		listing->entries[number].state = good ? BROUGHT : REFUSED;
	listing->brought_ms = now_ms;
}

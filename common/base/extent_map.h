/* Which bytes of a file lie where in the journal: a treap of extents, ordered by offset, never overlapping.
 *
 * An insertion wins over what is there ("later wins"); what it pushes out is handed to a callback, so that whoever
 * counts the journal's bytes can give them back.  The position of an extent grows with its offset: cutting n bytes off
 * its front adds n to its position.  Neighbours are never joined, because each keeps the sequence number of its own
 * write. No locks: the owner's lock guards the map.  Memory exhaustion is reported and leaves the map as it was, unless
 * said otherwise.
 */
#ifndef KR_COMMON_EXTENT_MAP_H
#define KR_COMMON_EXTENT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_extent {
	uint64_t offset, length; /* in the file; length > 0 */
	uint64_t position;       /* in the journal, of the first byte */
	uint64_t seq;            /* of the write; extents of one map that overlapped had different ones */
};

struct kr_extent_node;
struct kr_extent_map {
	struct kr_extent_node *root;
	size_t count;
	uint64_t bytes;  /* sum of the lengths */
	uint64_t random; /* state of the treap's priorities */
};

/* Sees a piece that leaves the map (or is walked over); must not touch the map. */
typedef void (*kr_extent_fn)(void *context, const struct kr_extent *piece);

void kr_extent_map_init(struct kr_extent_map *map);
/* Forgets everything without calling anybody; the map may be used again. */
void kr_extent_map_fini(struct kr_extent_map *map);
static inline bool kr_extent_map_empty(const struct kr_extent_map *map)
{
	return map->count == 0;
}

/* EXTENT is the newest for its bytes; DISPLACED (may be NULL) gets each piece it covers.  0 or -ENOMEM. */
int kr_extent_map_insert(
	struct kr_extent_map *map, const struct kr_extent *extent, kr_extent_fn displaced, void *context);
/* EXTENT is the oldest for its bytes: only what no other covers goes in; COVERED (may be NULL) gets each piece that
 * does not.  0 or -ENOMEM, with some of the pieces in. */
int kr_extent_map_insert_under(
	struct kr_extent_map *map, const struct kr_extent *extent, kr_extent_fn covered, void *context);
/* Takes [offset, offset + length) out.  0 or -ENOMEM. */
int kr_extent_map_remove(
	struct kr_extent_map *map, uint64_t offset, uint64_t length, kr_extent_fn removed, void *context);
/* Takes all from OFFSET on out: a truncate. */
void kr_extent_map_truncate(struct kr_extent_map *map, uint64_t offset, kr_extent_fn removed, void *context);
/* Takes out every extent whose seq is at most SEQ. */
void kr_extent_map_drop_until(struct kr_extent_map *map, uint64_t seq, kr_extent_fn removed, void *context);

/* The first extent that ends after OFFSET (so it covers OFFSET or begins behind it); false when there is none. */
bool kr_extent_map_find(const struct kr_extent_map *map, uint64_t offset, struct kr_extent *ret_extent);
/* Each extent in ascending order. */
void kr_extent_map_for_each(const struct kr_extent_map *map, kr_extent_fn visit, void *context);
/* End of the last extent; 0 when empty. */
uint64_t kr_extent_map_end(const struct kr_extent_map *map);
/* The highest seq; 0 when empty. */
uint64_t kr_extent_map_max_seq(const struct kr_extent_map *map);
/* Adds to the empty map TO a copy of every extent.  0 or -ENOMEM, then TO is empty. */
int kr_extent_map_copy(const struct kr_extent_map *from, struct kr_extent_map *to);
/* Moves everything to the initialised, empty map TO. */
void kr_extent_map_move(struct kr_extent_map *from, struct kr_extent_map *to);

#endif

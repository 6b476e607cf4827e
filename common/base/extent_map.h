/* Which bytes of a file lie where in the journal: a treap of extents, ordered by offset, never overlapping.
 *
 * A new extent replaces older ones ("later wins"); the map passes the replaced pieces to a callback, so that the
 * journal can count its bytes.  The position of an extent grows with its offset: cutting n bytes off its front adds n
 * to its position.  The map never joins neighbours, because each extent keeps the sequence number of its own write.
 * No locks: the owner's lock guards the map.  A function that fails with -ENOMEM leaves the map unchanged, unless its
 * comment says otherwise.
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

/* Gets a piece that leaves the map, or that a walk visits.  Must not change the map. */
typedef void (*kr_extent_fn)(void *context, const struct kr_extent *piece);

void kr_extent_map_init(struct kr_extent_map *map);
/* Frees all extents without a callback; the map may be used again. */
void kr_extent_map_fini(struct kr_extent_map *map);
static inline bool kr_extent_map_empty(const struct kr_extent_map *map)
{
	return map->count == 0;
}

/* Inserts EXTENT as the newest for its bytes.  DISPLACED (may be NULL) gets each piece that it covers.  0 or -ENOMEM.
 */
int kr_extent_map_insert(
	struct kr_extent_map *map, const struct kr_extent *extent, kr_extent_fn displaced, void *context);
/* Inserts EXTENT as the oldest for its bytes: only pieces that no other extent covers go in.  COVERED (may be NULL)
 * gets each other piece.  0, or -ENOMEM with some of the pieces in. */
int kr_extent_map_insert_under(
	struct kr_extent_map *map, const struct kr_extent *extent, kr_extent_fn covered, void *context);
/* Removes [offset, offset + length).  0 or -ENOMEM. */
int kr_extent_map_remove(
	struct kr_extent_map *map, uint64_t offset, uint64_t length, kr_extent_fn removed, void *context);
/* Removes all from OFFSET on, for a truncate. */
void kr_extent_map_truncate(struct kr_extent_map *map, uint64_t offset, kr_extent_fn removed, void *context);
/* Removes every extent whose seq is at most SEQ. */
void kr_extent_map_drop_until(struct kr_extent_map *map, uint64_t seq, kr_extent_fn removed, void *context);

/* Finds the first extent that ends after OFFSET: it covers OFFSET or begins behind it.  False: there is none. */
bool kr_extent_map_find(const struct kr_extent_map *map, uint64_t offset, struct kr_extent *ret_extent);
/* Visits each extent in ascending order. */
void kr_extent_map_for_each(const struct kr_extent_map *map, kr_extent_fn visit, void *context);
/* The end of the last extent; 0 when the map is empty. */
uint64_t kr_extent_map_end(const struct kr_extent_map *map);
/* The highest seq, or the highest that is at most UP_TO; 0: there is none. */
uint64_t kr_extent_map_max_seq(const struct kr_extent_map *map);
uint64_t kr_extent_map_seq_until(const struct kr_extent_map *map, uint64_t up_to);
/* The lowest seq; UINT64_MAX: there is none. */
uint64_t kr_extent_map_min_seq(const struct kr_extent_map *map);
/* Copies every extent to the empty map TO.  0, or -ENOMEM with TO empty. */
int kr_extent_map_copy(const struct kr_extent_map *from, struct kr_extent_map *to);
/* Moves all extents to the initialised, empty map TO. */
void kr_extent_map_move(struct kr_extent_map *from, struct kr_extent_map *to);

#endif

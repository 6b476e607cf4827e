/* A walk over the runs of a typemap that is tiled from a displacement. The copies lie at displacement, displacement +
 * extent, ...; the walk covers their data bytes [start, start + count).
 *
 * Data bytes are numbered from 0 at the first byte of copy 0.  "Offset" is the position of a byte, in the file or
 * relative to a buffer's address.  The cursor joins neighbouring runs.  A step costs constant time (amortised), a seek
 * O(depth * log of the longest list).  Nothing is allocated, and a cursor may be copied by assignment.
 *
 * The cursor borrows the map, which must stay alive.  Only POSITION and END are for other modules.  One thread at a
 * time.
 */
#ifndef KR_MPIIO_CURSOR_H
#define KR_MPIIO_CURSOR_H

#include "mpiio/datatype/typemap.h"

struct kr_run {
	int64_t offset;
	uint64_t length; /* > 0 */
};

struct kr_cursor_level {
	const struct kr_typenode *layout; /* a repeat or a list */
	int64_t base;                     /* offset of its first data byte */
	uint64_t index;                   /* the copy or part that the walk is in */
};

struct kr_cursor {
	uint64_t position, end; /* next data byte; the one after the last */
	const struct kr_typemap *map;
	int64_t displacement;
	uint64_t start; /* as given to init */
	uint64_t tile;
	int64_t leaf_offset;  /* of data byte POSITION */
	uint64_t leaf_left;   /* bytes until the run of the innermost layout ends */
	uint64_t leaf_length; /* of a whole such run */
	int64_t leaf_stride;  /* to the next run of the innermost repeat */
	uint64_t leaf_more;   /* runs that the innermost repeat still has */
	unsigned depth;
	struct kr_cursor_level levels[KR_TYPEMAP_DEPTH];
};

/* COUNT bytes from data byte START, copy 0 of MAP (borrowed) with its 0 at DISPLACEMENT.  -EINVAL: COUNT > 0 and MAP
 * has no data; -EOVERFLOW: the last byte's offset does not fit. */
int kr_cursor_init(
	struct kr_cursor *cursor, const struct kr_typemap *map, int64_t displacement, uint64_t start, uint64_t count);
/* The next run below offset LIMIT (INT64_MAX: no limit), joined with its neighbours and cut at LIMIT.  False at the
 * end, or when the next byte lies at or above LIMIT: then the cursor has not moved. */
bool kr_cursor_next(struct kr_cursor *cursor, int64_t limit, struct kr_run *ret_run);
/* The next run, of at most MAX bytes (> 0); false at the end. */
bool kr_cursor_take(struct kr_cursor *cursor, uint64_t max, struct kr_run *ret_run);
/* The offset of the next byte; false at the end. */
bool kr_cursor_peek(const struct kr_cursor *cursor, int64_t *ret_offset);
/* Makes DATA, a data byte in [start, end], the next one. */
void kr_cursor_seek_data(struct kr_cursor *cursor, uint64_t data);
/* The offset of data byte DATA of MAP tiled from DISPLACEMENT; -EINVAL when MAP is empty, -EOVERFLOW. */
int kr_typemap_offset_of(const struct kr_typemap *map, int64_t displacement, uint64_t data, int64_t *ret_offset);
/* How many data bytes of MAP, tiled endlessly from DISPLACEMENT, lie below OFFSET.  Only if kr_typemap_monotonic_tiles;
 * 0 when MAP is empty. */
uint64_t kr_typemap_bytes_below(const struct kr_typemap *map, int64_t displacement, int64_t offset);

#endif

/* A cursor's data bytes below an offset. */
#ifndef TEST_CURSOR_BYTES_H
#define TEST_CURSOR_BYTES_H

#include "common/base/util.h"
#include "mpiio/datatype/cursor.h"

/* How many of the bytes [start, end) lie below OFFSET.  Only if kr_typemap_monotonic_tiles. */
static inline uint64_t cursor_bytes_before(const struct kr_cursor *cursor, int64_t offset)
{
	uint64_t below = kr_typemap_bytes_below(cursor->map, cursor->displacement, offset);
	return KR_MIN(KR_MAX(below, cursor->start), cursor->end) - cursor->start;
}

#endif

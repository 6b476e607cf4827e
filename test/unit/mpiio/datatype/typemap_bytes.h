/* A typemap alone as bytes, and back. */
#ifndef TEST_TYPEMAP_BYTES_H
#define TEST_TYPEMAP_BYTES_H

#include <errno.h>
#include <stdlib.h>

#include "common/base/util.h"
#include "mpiio/datatype/cursor.h"
#include "mpiio/datatype/leb128.h"
#include "mpiio/datatype/typemap_priv.h"

static inline int typemap_to_bytes(const struct kr_typemap *map, uint8_t **ret_bytes, size_t *ret_length)
{
	struct kr_leb_writer w = {0};
	*ret_bytes = NULL;
	*ret_length = 0;
	int error = kr_typemap_put_bytes(&w, map);
	if (error < 0) {
		free(w.bytes);
		return error;
	}
	*ret_bytes = w.bytes;
	*ret_length = w.length;
	return 0;
}

static inline int typemap_from_bytes(const uint8_t *bytes, size_t length, struct kr_typemap **ret_map)
{
	struct kr_leb_reader r = {bytes, bytes + length};
	struct kr_typemap *map = NULL;
	int error = kr_typemap_get_bytes(&r, &map);
	if (error == 0 && kr_leb_left(&r) > 0) {
		kr_typemap_put(map);
		error = -EBADMSG;
	}
	if (error == 0)
		*ret_map = map;
	return error;
}

/* How many of the bytes [start, end) lie below OFFSET.  Only if kr_typemap_monotonic_tiles. */
static inline uint64_t cursor_bytes_before(const struct kr_cursor *cursor, int64_t offset)
{
	uint64_t below = kr_typemap_bytes_below(cursor->map, cursor->displacement, offset);
	return KR_MIN(KR_MAX(below, cursor->start), cursor->end) - cursor->start;
}

#endif

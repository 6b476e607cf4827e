/* A file view as the program set it, and the view (view.h) that serves an access to it.
 *
 * An exchange needs views whose data order is the file's order over any number of tiles.  Programs set others as well:
 * HDF5's filetypes are often right by themselves, but a second tile, which is never used, would overlap the first.  So
 * an access within one tile gets a view of that tile alone.  All other views (which MPI allows only for reading) are
 * not `ordered`: their accesses go run by run.
 */
#ifndef KR_MPIIO_SHAPE_H
#define KR_MPIIO_SHAPE_H

#include "mpiio/datatype/view.h"

struct kr_shape {
	enum { KR_SHAPE_UNKNOWN, KR_SHAPE_TILES, KR_SHAPE_ONE_TILE, KR_SHAPE_UNORDERED } kind;
	struct kr_view view;      /* TILES */
	struct kr_typemap *map;   /* of one tile; NULL when UNKNOWN */
	struct kr_typemap *alone; /* ONE_TILE: the same bytes, in an extent that contains them */
	int64_t displacement;
	uint64_t etype_size; /* > 0 */
};

/* Keeps its own reference to MAP.  MAP NULL: the filetype could not be read, and only the etype's size is known.  Never
 * fails: without memory the shape is unknown. */
void kr_shape_init(struct kr_shape *shape, int64_t displacement, uint64_t etype_size, struct kr_typemap *map);
/* The view of bytes that a newly opened file has. */
void kr_shape_init_bytes(struct kr_shape *shape);
void kr_shape_fini(struct kr_shape *shape);

/* The view for COUNT data bytes from START.  The caller owns *RET_VIEW; *RET_START is the same byte in it.  The
 * functions of view.h other than kr_view_cursor hold only if it is ordered.  0, or -ENOENT (unknown), -EOVERFLOW,
 * -ENOMEM. */
int kr_shape_view(const struct kr_shape *shape, uint64_t start, uint64_t count, struct kr_view *ret_view,
	uint64_t *ret_start, bool *ret_ordered);

#endif

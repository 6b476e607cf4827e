/* A file view as the program set it, and the view (view.h) that serves an access to it.
 *
 * An exchange needs views whose data order is the file's order over any number of tiles.  Programs set others as well:
 * HDF5's filetypes are often right by themselves, while a second tile would overlap the first, which is never used. So
 * an access within one tile gets a view of that tile alone.  What is left (views that only reading allows) is not
 * `ordered`: it is done run by run.
 */
#ifndef KR_MPIIO_SHAPE_H
#define KR_MPIIO_SHAPE_H

#include "mpiio/datatype/view.h"

struct kr_shape {
	enum { KR_SHAPE_UNKNOWN, KR_SHAPE_TILES, KR_SHAPE_ONE_TILE, KR_SHAPE_UNORDERED } kind;
	struct kr_view view;      /* TILES */
	struct kr_typemap *map;   /* of one tile; NULL when UNKNOWN */
	struct kr_typemap *alone; /* ONE_TILE: the same bytes, in an extent that they do not leave */
	int64_t displacement;
	uint64_t etype_size; /* > 0 */
};

/* Keeps a reference of its own to MAP (NULL: a filetype that could not be read; nothing but the etype's size is known
 * then). Never fails: without memory the shape is unknown. */
void kr_shape_init(struct kr_shape *shape, int64_t displacement, uint64_t etype_size, struct kr_typemap *map);
/* The view of bytes that a file has when it is opened. */
void kr_shape_init_bytes(struct kr_shape *shape);
void kr_shape_fini(struct kr_shape *shape);

/* The view for COUNT data bytes from START: *RET_VIEW is the caller's, *RET_START the same byte in it.  Whether it is
 * ordered (only then the functions of view.h hold; kr_view_cursor always does).  0, or -ENOENT (unknown), -EOVERFLOW,
 * -ENOMEM. */
int kr_shape_view(const struct kr_shape *shape, uint64_t start, uint64_t count, struct kr_view *ret_view,
	uint64_t *ret_start, bool *ret_ordered);

#endif

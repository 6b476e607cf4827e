/* A file view: displacement, etype and filetype; the arithmetic between etype offsets, data bytes of the view and bytes
 * of the file.  Pure; a view never changes after init, so any thread may use it.
 *
 * Data byte 0 of a view is the first byte of the filetype's first copy at the displacement; etype offset e is data byte
 * e * etype_size.
 */
#ifndef KR_MPIIO_VIEW_H
#define KR_MPIIO_VIEW_H

#include "mpiio/datatype/cursor.h"

struct kr_view {
	int64_t displacement; /* >= 0 */
	uint64_t etype_size;  /* > 0 */
	struct kr_typemap
		*filetype; /* reduced to its tile (typemap.h), whose size need not be a whole number of etypes */
};

/* Takes its own reference to FILETYPE.  -EINVAL: it cannot be a view (no data, not a whole number of etypes, data below
 * the displacement, offsets that decrease or overlap); then the view is empty and fini does nothing. */
int kr_view_init(struct kr_view *view, int64_t displacement, uint64_t etype_size, struct kr_typemap *filetype);
void kr_view_fini(struct kr_view *view);

/* Every access is one run. */
bool kr_view_contiguous(const struct kr_view *view);

/* How many data bytes of the view lie below file offset OFFSET. */
uint64_t kr_view_bytes_below(const struct kr_view *view, int64_t offset);
/* MPI_SEEK_END's base for a file of FILE_SIZE bytes: the number of etypes that have a byte in the file. */
uint64_t kr_view_end(const struct kr_view *view, uint64_t file_size);
/* The file range [lo, hi) that COUNT > 0 bytes at data byte START span.  0 or -EOVERFLOW. */
int kr_view_range(const struct kr_view *view, uint64_t start, uint64_t count, int64_t *ret_lo, int64_t *ret_hi);
/* A cursor over COUNT bytes from data byte START, in file offsets; borrows the view.  0 or -EOVERFLOW. */
int kr_view_cursor(const struct kr_view *view, uint64_t start, uint64_t count, struct kr_cursor *ret_cursor);

#endif

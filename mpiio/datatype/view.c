/* File views; see view.h. */
#include "mpiio/datatype/view.h"

#include <errno.h>

#include "common/base/util.h"

int kr_view_init(struct kr_view *view, int64_t displacement, uint64_t etype_size, struct kr_typemap *filetype)
{
	*view = (struct kr_view){.displacement = displacement, .etype_size = etype_size};
	if (displacement < 0 || etype_size == 0 || kr_typemap_size(filetype) == 0 ||
		kr_typemap_size(filetype) % etype_size != 0 || !kr_typemap_monotonic_tiles(filetype) ||
		filetype->displacement < -displacement)
		return -EINVAL;
	return kr_typemap_tile(filetype, &view->filetype);
}

void kr_view_fini(struct kr_view *view)
{
	kr_typemap_put(view->filetype);
	view->filetype = NULL;
}

bool kr_view_contiguous(const struct kr_view *view)
{
	return kr_typemap_contiguous_tiles(view->filetype);
}

uint64_t kr_view_bytes_below(const struct kr_view *view, int64_t offset)
{
	return kr_typemap_bytes_below(view->filetype, view->displacement, offset);
}

uint64_t kr_view_end(const struct kr_view *view, uint64_t file_size)
{
	uint64_t bytes = kr_view_bytes_below(view, (int64_t)KR_MIN(file_size, (uint64_t)INT64_MAX));
	return bytes / view->etype_size + (bytes % view->etype_size != 0);
}

int kr_view_range(const struct kr_view *view, uint64_t start, uint64_t count, int64_t *ret_lo, int64_t *ret_hi)
{
	uint64_t last;
	int64_t lo, hi;
	if (__builtin_add_overflow(start, count - 1, &last))
		return -EOVERFLOW;
	int error = kr_typemap_offset_of(view->filetype, view->displacement, start, &lo);
	if (error == 0)
		error = kr_typemap_offset_of(view->filetype, view->displacement, last, &hi);
	if (error == 0 && hi == INT64_MAX)
		error = -EOVERFLOW;
	if (error < 0)
		return error;
	*ret_lo = lo;
	*ret_hi = hi + 1;
	return 0;
}

int kr_view_cursor(const struct kr_view *view, uint64_t start, uint64_t count, struct kr_cursor *ret_cursor)
{
	return kr_cursor_init(ret_cursor, view->filetype, view->displacement, start, count);
}

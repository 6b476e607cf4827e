/* Whether two typemaps are the same: in displacement, bounds and layout.  Layouts are compared by their hash of 128
 * bits. */
#ifndef KR_TEST_MPI_SAME_MAP_H
#define KR_TEST_MPI_SAME_MAP_H

#include "mpiio/datatype/typemap_priv.h"

static inline bool same_map(const struct kr_typemap *a, const struct kr_typemap *b)
{
	return a->displacement == b->displacement && a->lb == b->lb && a->extent == b->extent &&
		kr_typenode_equal(a->layout, b->layout);
}

#endif

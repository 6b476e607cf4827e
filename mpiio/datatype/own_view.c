/* See own_view.h. */
#include "mpiio/datatype/own_view.h"

#include <stdbool.h>

static bool is_basic(MPI_Datatype type)
{
	int integers, addresses, types, combiner;

	return PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS ||
		combiner == MPI_COMBINER_NAMED;
}

/* No dup, which would run the program's copy functions of attributes. */
static int copy(MPI_Datatype type, MPI_Datatype *ret_type)
{
	int rc;

	*ret_type = type;
	if (is_basic(type))
		return MPI_SUCCESS;
	rc = PMPI_Type_contiguous(1, type, ret_type);
	return rc == MPI_SUCCESS ? PMPI_Type_commit(ret_type) : rc;
}

static void drop(MPI_Datatype *type)
{
	if (!is_basic(*type))
		PMPI_Type_free(type);
}

static int copy_both(const struct kr_own_view *from, MPI_Datatype *ret_etype, MPI_Datatype *ret_filetype)
{
	int rc = copy(from->etype, ret_etype);

	if (rc != MPI_SUCCESS)
		return rc;
	rc = copy(from->filetype, ret_filetype);
	if (rc != MPI_SUCCESS)
		drop(ret_etype);
	return rc;
}

int kr_own_view_init(struct kr_own_view *view, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype)
{
	struct kr_own_view given = {.displacement = displacement, .etype = etype, .filetype = filetype};

	*view = given;
	return copy_both(&given, &view->etype, &view->filetype);
}

void kr_own_view_init_bytes(struct kr_own_view *view)
{
	*view = (struct kr_own_view){.etype = MPI_BYTE, .filetype = MPI_BYTE};
}

void kr_own_view_fini(struct kr_own_view *view)
{
	drop(&view->etype);
	drop(&view->filetype);
	kr_own_view_init_bytes(view);
}

int kr_own_view_get(const struct kr_own_view *view, MPI_Offset *ret_displacement, MPI_Datatype *ret_etype,
	MPI_Datatype *ret_filetype)
{
	*ret_displacement = view->displacement;
	return copy_both(view, ret_etype, ret_filetype);
}

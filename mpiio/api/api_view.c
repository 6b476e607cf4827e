/* The calls of MPI-IO that set and get the file view. */
#include <string.h>

#include "common/base/util.h"
#include "mpiio/api/api.h"
#include "mpiio/api/call.h"
#include "mpiio/twophase/file.h"
#include "mpiio/schedule/hints_mpi.h"
#include "mpiio/datatype/plain_view.h"
#include "mpiio/datatype/typemap_mpi.h"

/* The filetype's map.  NULL: the layer cannot read it, or MPI will refuse the arguments. */
static struct kr_typemap *map_of(MPI_Datatype etype, MPI_Datatype filetype)
{
	struct kr_typemap *map = NULL;

	if (etype == MPI_DATATYPE_NULL || filetype == MPI_DATATYPE_NULL || kr_typemap_of_mpi(filetype, &map) < 0)
		return NULL;
	return map;
}

static bool is_native(const char *datarep)
{
	return datarep && strcmp(datarep, "native") == 0;
}

static void change_view(struct kr_mpifile *file, const struct kr_own_view *own, struct kr_typemap *map, bool foreign)
{
	struct kr_own_view before;
	MPI_Count size = 1;

	PMPI_Type_size_x(own->etype, &size);
	pthread_mutex_lock(&file->lock);
	kr_shape_fini(&file->shape);
	kr_shape_init(&file->shape, own->displacement, (uint64_t)size, map);
	before = file->view;
	file->view = *own;
	file->position = 0;
	if (foreign)
		kr_write_order_unseen(file);
	file->foreign = foreign;
	pthread_mutex_unlock(&file->lock);
	kr_own_view_fini(&before);
}

static int set_view(struct kr_mpifile *file, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype,
	const char *datarep, MPI_Info info)
{
	struct kr_typemap *map = map_of(etype, filetype);
	bool native = is_native(datarep);
	struct kr_plain_view plain;
	struct kr_own_view own;
	int rc;

	/* Other representations count by the program's basic types. */
	kr_plain_view_init(&plain, disp, etype, filetype, native ? map : NULL);
	rc = kr_real()->File_set_view(file->fh, plain.displacement, plain.etype, plain.filetype, datarep, info);
	if (rc == MPI_SUCCESS && disp < 0) /* OMPIO accepts it */
		rc = kr_mpi_return(file->fh, MPI_ERR_ARG);
	if (rc == MPI_SUCCESS && (rc = kr_own_view_init(&own, disp, etype, filetype)) == MPI_SUCCESS) {
		change_view(file, &own, map, !native);
		kr_info_read(info, &file->wanted);
	}
	kr_plain_view_fini(&plain);
	kr_typemap_put(map);
	return rc;
}

int PMPI_File_set_view(
	MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char *datarep, MPI_Info info)
{
	struct kr_mpifile *file = kr_file_find(fh);

	if (!file)
		return kr_real()->File_set_view(fh, disp, etype, filetype, datarep, info);
	kr_file_quiesce(file);
	return set_view(file, disp, etype, filetype, datarep, info);
}

int PMPI_File_get_view(MPI_File fh, MPI_Offset *disp, MPI_Datatype *etype, MPI_Datatype *filetype, char *datarep)
{
	struct kr_mpifile *file = kr_file_find(fh);

	if (!file || file->foreign)
		return kr_real()->File_get_view(fh, disp, etype, filetype, datarep);
	strcpy(datarep, "native");
	KR_SCOPED_LOCK(&file->lock);
	return kr_own_view_get(&file->view, disp, etype, filetype);
}

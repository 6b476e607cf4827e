/* See hints_mpi.h. */
#include "mpiio/schedule/hints_mpi.h"

#include <string.h>

bool kr_info_read(MPI_Info info, struct kr_hints *hints)
{
	char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
	int keys = 0, found;
	bool any = false;

	if (info == MPI_INFO_NULL || PMPI_Info_get_nkeys(info, &keys) != MPI_SUCCESS)
		return false;
	for (int i = 0; i < keys; i++) {
		if (PMPI_Info_get_nthkey(info, i, key) != MPI_SUCCESS)
			continue;
		if (PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found) == MPI_SUCCESS && found)
			any |= kr_hints_set(hints, key, value);
	}
	return any;
}

void kr_info_write(const struct kr_hints *hints, MPI_Info info)
{
	char value[KR_HINT_TEXT_MAX];
	const char *key;

	for (size_t i = 0; (key = kr_hints_get(hints, i, value)) != NULL; i++)
		if (value[0] && strlen(value) < MPI_MAX_INFO_VAL)
			PMPI_Info_set(info, key, value);
}

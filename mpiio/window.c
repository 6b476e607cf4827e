#include "mpiio/window.h"

#include <errno.h>
#include <stdlib.h>

#include "common/fail.h"

int kr_window_init(struct kr_window *window, MPI_Comm comm, int size)
{
	*window = (struct kr_window){.comm = comm, .size = size};
	window->requests = calloc((size_t)size, sizeof(*window->requests));
	window->buffers = calloc((size_t)size, sizeof(*window->buffers));
	window->capacities = calloc((size_t)size, sizeof(*window->capacities));
	if (!window->requests || !window->buffers || !window->capacities) {
		kr_window_fini(window);
		return kr_fail(-ENOMEM, "no memory for %d sends", size);
	}
	for (int i = 0; i < size; i++)
		window->requests[i] = MPI_REQUEST_NULL;
	return 0;
}

void kr_window_fini(struct kr_window *window)
{
	for (int i = 0; window->buffers && i < window->size; i++)
		free(window->buffers[i]);
	free(window->requests);
	free(window->buffers);
	free(window->capacities);
	*window = (struct kr_window){0};
}

static void note(struct kr_window *window, int rc)
{
	if (rc != MPI_SUCCESS && window->failed == MPI_SUCCESS)
		PMPI_Error_class(rc, &window->failed);
}

int kr_window_place(struct kr_window *window)
{
	int place;

	for (place = 0; place < window->size; place++)
		if (window->requests[place] == MPI_REQUEST_NULL)
			return place;
	note(window, PMPI_Waitany(window->size, window->requests, &place, MPI_STATUS_IGNORE));
	return place == MPI_UNDEFINED ? 0 : place;
}

int kr_window_reserve(struct kr_window *window, uint64_t n, char **ret_buffer)
{
	int place = kr_window_place(window);

	if (window->capacities[place] < n) {
		free(window->buffers[place]);
		window->buffers[place] = malloc(n);
		window->capacities[place] = window->buffers[place] ? n : 0;
	}
	*ret_buffer = window->buffers[place];
	return place;
}

void kr_window_send(struct kr_window *window, int place, const char *bytes, uint64_t n, int to, int tag)
{
	note(window, PMPI_Isend(bytes, (int)n, MPI_BYTE, to, tag, window->comm, &window->requests[place]));
}

void kr_window_drain(struct kr_window *window)
{
	note(window, PMPI_Waitall(window->size, window->requests, MPI_STATUSES_IGNORE));
}

/* See window.h. */
#include "mpiio/twophase/window.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fail.h"

int kr_window_init(struct kr_window *window, MPI_Comm comm, int size)
{
	*window = (struct kr_window){.comm = comm, .size = size};
	window->requests = calloc((size_t)size + 1, sizeof(*window->requests));
	window->rounds = calloc((size_t)size, sizeof(*window->rounds));
	window->buffers = calloc((size_t)size, sizeof(*window->buffers));
	if (!window->requests || !window->rounds || !window->buffers) {
		kr_window_fini(window);
		return kr_fail(-ENOMEM, "no memory for %d sends", size);
	}
	for (int i = 0; i <= size; i++)
		window->requests[i] = MPI_REQUEST_NULL;
	return 0;
}

void kr_window_fini(struct kr_window *window)
{
	for (int i = 0; window->buffers && i < window->size; i++)
		free(window->buffers[i].bytes);
	free(window->requests);
	free(window->rounds);
	free(window->buffers);
	*window = (struct kr_window){0};
}

static void record_error(struct kr_window *window, int rc)
{
	if (rc != MPI_SUCCESS && window->failed == MPI_SUCCESS)
		PMPI_Error_class(rc, &window->failed);
}

int kr_window_place(const struct kr_window *window)
{
	for (int place = 0; place < window->size; place++)
		if (window->requests[place] == MPI_REQUEST_NULL)
			return place;
	return -1;
}

char *kr_window_buffer(struct kr_window *window, int place, uint64_t n)
{
	return kr_buffer_fit(&window->buffers[place], n) < 0 ? NULL : window->buffers[place].bytes;
}

void kr_window_send(struct kr_window *window, int place, uint64_t round, const char *bytes, uint64_t n, int to, int tag)
{
	window->rounds[place] = round;
	record_error(window, PMPI_Issend(bytes, (int)n, MPI_BYTE, to, tag, window->comm, &window->requests[place]));
}

bool kr_window_busy(const struct kr_window *window, uint64_t round)
{
	for (int place = 0; place < window->size; place++)
		if (window->requests[place] != MPI_REQUEST_NULL && window->rounds[place] <= round)
			return true;
	return false;
}

/* The index of the completed request, MPI_UNDEFINED if there is none, -1 if SLOT was first. */
static int wait_for_one(struct kr_window *window, MPI_Status *status, int *ret_rc, struct kr_slot *slot)
{
	int index = MPI_UNDEFINED, flag = 0;

	if (!slot) {
		*ret_rc = PMPI_Waitany(window->size + 1, window->requests, &index, status);
		return index;
	}
	do {
		*ret_rc = PMPI_Testany(window->size + 1, window->requests, &index, &flag, status);
		if (flag && index != MPI_UNDEFINED)
			return index;
	} while (!kr_slot_wait_briefly(slot));
	return -1;
}

bool kr_window_wait(
	struct kr_window *window, MPI_Request *receive, MPI_Status *status, int *ret_rc, struct kr_slot *slot)
{
	int index;

	if (receive)
		window->requests[window->size] = *receive;
	index = wait_for_one(window, status, ret_rc, slot);
	if (receive)
		*receive = window->requests[window->size];
	window->requests[window->size] = MPI_REQUEST_NULL;
	if (receive && index == window->size)
		return true;
	if (index >= 0 && index < window->size)
		record_error(window, *ret_rc);
	return false;
}

void kr_window_drain(struct kr_window *window)
{
	record_error(window, PMPI_Waitall(window->size, window->requests, MPI_STATUSES_IGNORE));
}

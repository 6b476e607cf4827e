/* Sends in a bounded window: at most so many are under way, the next one waits until one has been taken.
 *
 * What is sent is either the program's own memory or a packed copy in the window's buffers.  All on the caller's thread.
 */
#ifndef KR_MPIIO_WINDOW_H
#define KR_MPIIO_WINDOW_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

struct kr_window {
	MPI_Comm comm;
	int size;
	MPI_Request *requests;
	char **buffers;
	uint64_t *capacities;
	int failed; /* first MPI error class of a send; MPI_SUCCESS when all went well */
};

/* 0 or -ENOMEM; SIZE > 0. */
int kr_window_init(struct kr_window *window, MPI_Comm comm, int size);
/* All sends must be complete (kr_window_drain). */
void kr_window_fini(struct kr_window *window);

/* Waits for a place in the window and gives it a buffer of N bytes to be packed.  *RET_BUFFER is NULL without memory for it.
 * Returns the place, for kr_window_send. */
int kr_window_reserve(struct kr_window *window, uint64_t n, char **ret_buffer);
/* The same without a buffer. */
int kr_window_place(struct kr_window *window);
/* Sends N bytes, which stay untouched until the window is drained or the place is given again. */
void kr_window_send(struct kr_window *window, int place, const char *bytes, uint64_t n, int to, int tag);
/* Waits for all. */
void kr_window_drain(struct kr_window *window);

#endif

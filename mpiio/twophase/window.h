/* Sends in a bounded window: at most so many are under way, and the next one goes out when one has been received.  They
 * are synchronous: MPI would copy a short message at once, and a rank ahead of an aggregator would fill the
 * aggregator's memory with unexpected messages.
 *
 * A send uses memory that stays unchanged, or a packed copy in the window's buffers.  All on the caller's thread.
 */
#ifndef KR_MPIIO_WINDOW_H
#define KR_MPIIO_WINDOW_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mpiio/twophase/slots.h"

struct kr_window {
	MPI_Comm comm;
	int size;
	MPI_Request *requests; /* of the sends; one more for a receive under wait */
	uint64_t *rounds;      /* of each send under way */
	struct kr_buffer *buffers;
	int failed; /* first MPI error class of a send, else MPI_SUCCESS */
};

/* 0 or -ENOMEM; SIZE > 0. */
int kr_window_init(struct kr_window *window, MPI_Comm comm, int size);
/* All sends must be complete (kr_window_drain). */
void kr_window_fini(struct kr_window *window);

/* A free place for kr_window_send; -1: the window is full. */
int kr_window_place(const struct kr_window *window);
/* A buffer of N bytes for a free place; NULL: out of memory. */
char *kr_window_buffer(struct kr_window *window, int place, uint64_t n);
/* Sends N bytes of ROUND, which must not change until the send has ended. */
void kr_window_send(
	struct kr_window *window, int place, uint64_t round, const char *bytes, uint64_t n, int to, int tag);
/* Whether a send of ROUND or of an earlier one is under way. */
bool kr_window_busy(const struct kr_window *window, uint64_t round);

/* Waits until a send ends, *RECEIVE (NULL: none) is complete, or the file I/O of SLOT (NULL: none) is done.  True: the
 * receive is complete; it is MPI_REQUEST_NULL, with its STATUS, and *RET_RC is MPI's result.  Without anything to wait
 * for it returns at once. */
bool kr_window_wait(
	struct kr_window *window, MPI_Request *receive, MPI_Status *status, int *ret_rc, struct kr_slot *slot);
/* Waits for all sends. */
void kr_window_drain(struct kr_window *window);

#endif

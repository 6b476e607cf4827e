/* Sends in a bounded window: at most so many are under way, the next one goes out when one of them has been taken. They
 * are synchronous, so that "taken" is true: of a short message MPI would make a copy at once, and a rank that is ahead
 * of an aggregator would fill the aggregator's memory with messages that it has no receives for.
 *
 * What is sent is either memory that stays as it is, or a packed copy in the window's buffers.  All on the caller's
 * thread.
 */
#ifndef KR_MPIIO_WINDOW_H
#define KR_MPIIO_WINDOW_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_slot;

struct kr_window {
	MPI_Comm comm;
	int size;
	MPI_Request *requests; /* of the sends; one more place is for the receive that is waited for beside them */
	uint64_t *rounds;      /* of each send under way */
	char **buffers;
	uint64_t *capacities;
	int failed; /* first MPI error class of a send; MPI_SUCCESS when all went well */
};

/* 0 or -ENOMEM; SIZE > 0. */
int kr_window_init(struct kr_window *window, MPI_Comm comm, int size);
/* All sends must be complete (kr_window_drain). */
void kr_window_fini(struct kr_window *window);

/* A free place for kr_window_send; -1: so many are under way. */
int kr_window_place(const struct kr_window *window);
/* A buffer of N bytes to be packed, of a free place; NULL without memory for it. */
char *kr_window_buffer(struct kr_window *window, int place, uint64_t n);
/* Sends N bytes of ROUND, which stay untouched until the send has ended. */
void kr_window_send(
	struct kr_window *window, int place, uint64_t round, const char *bytes, uint64_t n, int to, int tag);
/* Whether a send of ROUND or of an earlier one is under way. */
bool kr_window_busy(const struct kr_window *window, uint64_t round);

/* Waits until a send ends, *RECEIVE (NULL: none) is complete, or the file I/O of SLOT (NULL: none) is done.  True if it
 * was the receive: then it is MPI_REQUEST_NULL, with its STATUS, and *RET_RC what MPI said.  With nothing to wait for
 * it returns at once. */
bool kr_window_wait(
	struct kr_window *window, MPI_Request *receive, MPI_Status *status, int *ret_rc, struct kr_slot *slot);
/* Waits for all sends. */
void kr_window_drain(struct kr_window *window);

#endif

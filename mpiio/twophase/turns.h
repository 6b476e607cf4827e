/* In which order bytes count that different nodes wrote to one place of a file on a kairan mount.
 *
 * There writes of different nodes have no order unless something between them gives one (a flush of the first, or a
 * read by another node, which makes the writers flush).  The same process's writes must keep theirs though some go by
 * an aggregator on another node and some do not, and HDF5 counts on more: on a collective write being over, for
 * everybody, when it returns.
 *
 *   before a rank writes alone after a collective write   it reads a byte of the file, strictly
 *   before a collective write without an exchange, after one with an exchange   the same
 *   before an exchange, if some rank wrote alone          these ranks flush, and all wait for it
 *
 * What ranks write alone to the same place is the program's to order, by MPI_File_sync.  On other filesystems every
 * write is over when it returns, and nothing of this is done.
 */
#ifndef KR_MPIIO_TURNS_H
#define KR_MPIIO_TURNS_H

#include <stdbool.h>

struct kr_mpifile;

/* Atomic: independent calls of several threads come here. */
struct kr_turns {
	bool needed;    /* a kairan mount on all ranks; never changes */
	bool alone;     /* this rank wrote past the aggregators since the last sync, or exchange */
	bool exchanged; /* aggregators wrote since */
	bool collected; /* any collective write was done since */
};

/* Before, and at, an independent write of this rank; and one as part of a collective call.  0 or -errno. */
int kr_intent_alone(struct kr_mpifile *file);
int kr_intent_direct(struct kr_mpifile *file);
/* Writes that we do not see, or other aggregators than before: as if this rank had written alone. */
void kr_intent_unseen(struct kr_mpifile *file);
bool kr_intent_was_alone(struct kr_mpifile *file);
/* An aggregator's node may still have what it wrote. */
bool kr_intent_was_exchanged(struct kr_mpifile *file);
/* Before a write by exchange; ANY: some rank was alone.  Collective; an MPI error class, the same on all ranks. */
int kr_intent_exchange(struct kr_mpifile *file, bool any);
/* Everything is at its place: after MPI_File_sync. */
void kr_intent_synced(struct kr_mpifile *file);

#endif

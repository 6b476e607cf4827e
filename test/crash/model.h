/* The server that the node of the journal's life talks to: what it has applied of this node and of another, and what of
 * it is on its disk.  Pure, but for the numbers by chance.
 *
 * Files are handed over by commit on share: at any time, one of the two nodes alone has bytes that are not committed.
 */
#ifndef KR_TEST_CRASH_MODEL_H
#define KR_TEST_CRASH_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { FILES = 4, CELLS = 192 };

struct model_file {
	uint32_t content[CELLS], durable[CELLS]; /* numbers of writes */
	uint32_t promised[CELLS];                /* what must not become older, if the node loses its journal now */
	bool lost[CELLS];                        /* a sync of it failed: the next one does not bring it to the disk */
	uint64_t applied_seq;                    /* of the node, as far as this instance remembers */
	uint64_t stable;                         /* rounds up to this one are durable */
	uint64_t changed, durable_changed;       /* when, by life.time */
	uint64_t foreign;                        /* ... but for what this instance knows to be the node's */
	bool theirs; /* uncommitted bytes are the other node's, which sends them again whenever it must */
};

struct model {
	struct model_file files[FILES];
	uint64_t round, now;
};

/* Applies CELLS (0: not that one) of the node, up to its SEQ, or of the other node (SEQ 0). */
void model_apply(struct model *model, int file, const uint32_t cells[CELLS], uint64_t seq);
void model_sync(struct model *model, int file);
/* A sync fails: what was not on the disk is not, and the memory of the file is lost. */
void model_fail_sync(struct model *model, int file);
/* A restart of its process, or (REBOOT) a loss of its machine's power: of what was not synced any part is gone. */
void model_restart(struct model *model, bool reboot);

#endif

/* The instant of a change of names, as the request that makes it has to know it (once.h).
 *
 * Changes of names in one directory are made one after the other, under kr_export_lock_of.  Under it the change says when it is about to be made
 * and when it has been, so that this is written down in the order in which it happened: kill -9 between the two leaves one request of the
 * directory in doubt, with nothing after it in that instance.  A pool thread's own; without a turn (tests, the server's own changes) nothing is said.
 */
#ifndef KR_SERVER_TURN_H
#define KR_SERVER_TURN_H

#include <stdbool.h>
#include <stdint.h>

struct kr_turn {
	void (*begin)(struct kr_turn *turn, uint64_t before);
	void (*end)(struct kr_turn *turn, int err, uint64_t after);
	uint64_t expected; /* what the change is for: hash of the file (kr_fid_hash) that has the name before; 0: whatever has it */
};

/* This thread's from now on; NULL: none. */
void kr_turn_take(struct kr_turn *turn);

/* Whether the change is for the file with hash BEFORE, which has the name now. */
bool kr_turn_is_for(uint64_t before);
/* Just before the change, which takes its name from the file with hash BEFORE (0: there is none). */
void kr_turn_begin(uint64_t before);
/* Just after it: ERR, nothing has changed (which is not said of what has not begun); or 0, and the file with hash AFTER has been made (0: none
 * has, or it is not known). */
void kr_turn_end(int err, uint64_t after);

#endif

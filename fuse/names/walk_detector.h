/* Directories that programs go through without listing them: a pure state machine.  The programs know the names from
 * elsewhere (rsync, git status, make), or look for names that are not there (cp, compilers, Python's imports).
 * Not thread-safe.
 *
 * Each name that had to be asked for by itself counts; after KR_WALK_DETECTOR_FIRST in one place it is worth listing,
 * so that the next ones can be asked for together (dir_listing.h), and absent ones need not be asked for.  Where that
 * has not helped, 16 times as many as before have to come before it is tried again.  Only the latest KR_WALK_DETECTOR
 * places are remembered.  A place is a number made of the directory and its caller; two that share one share what it is
 * taken for, which costs a request.
 */
#ifndef KR_FUSE_WALK_DETECTOR_H
#define KR_FUSE_WALK_DETECTOR_H

#include <stdbool.h>
#include <stdint.h>

enum {
	KR_WALK_DETECTOR = 16,
	KR_WALK_DETECTOR_FIRST = 4,
	KR_WALK_DETECTOR_GROWTH = 16,
	KR_WALK_DETECTOR_LAST = 1 << 20
};

struct kr_walk_detector {
	struct kr_walk {
		uint64_t place;
		uint32_t asked, until; /* 0: nothing is here */
	} walks[KR_WALK_DETECTOR];
	uint32_t next;
};

/* A name in PLACE was asked for by itself. Whether the place is to be listed now. */
bool kr_walk_detector_asked(struct kr_walk_detector *walks, uint64_t place);

#endif

/* The instant of a change of names, as the request that makes it has to know it (request_cache.h).
 *
 * Changes of names in one directory are made one after the other, under kr_export_lock_of.  Under it the change says
 * when it is about to be made and when it has been, so that this is written down in the order in which it happened:
 * kill -9 between the two leaves one request of the directory in doubt, with nothing after it in that instance, and
 * what it was about to do is known: the next instance looks (intent_recovery.h). A pool thread's own; without a turn
 * (tests, the server's own changes) nothing is said.
 */
#ifndef KR_SERVER_INTENT_H
#define KR_SERVER_INTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/types.h"

enum kr_intent_kind { KR_INTENT_MAKE, KR_INTENT_LINK, KR_INTENT_REMOVE, KR_INTENT_RENAME };

/* What is about to be done.  Files are told by their hashes (kr_fid_hash); 0: there is none. */
struct kr_intent_change {
	enum kr_intent_kind kind;
	uint32_t type; /* MAKE: S_IFMT of what will be there */
	const struct kr_fid *parent;
	const char *name;                /* "": none, and nobody can look for it */
	uint64_t before;                 /* the file that has the name */
	uint64_t other;                  /* LINK: the file that is to have it; RENAME: the one that has the new name */
	const struct kr_fid *new_parent; /* RENAME; else NULL */
	const char *new_name;
};

struct kr_intent {
	void (*begin)(struct kr_intent *turn, const struct kr_intent_change *change);
	void (*end)(struct kr_intent *turn, int err, uint64_t after);
	uint64_t expected; /* what the change is for: hash of the file (kr_fid_hash) that has the name before; 0:
			      whatever has it */
};

/* What who has taken NAME away from PARENT (REMOVE, RENAME), or given it to a file (LINK), is remembered with
 * (request_cache.h). PURE. */
uint64_t kr_intent_value(enum kr_intent_kind kind, const struct kr_fid *parent, const char *name);

/* This thread's from now on; NULL: none. */
void kr_intent_take(struct kr_intent *turn);

/* Whether the change is for the file with hash BEFORE, which has the name now. */
bool kr_intent_is_for(uint64_t before);
/* Just before CHANGE, which is borrowed. */
void kr_intent_begin(const struct kr_intent_change *change);
/* Just after it: ERR, nothing has changed (which is not said of what has not begun); or 0, and the file with hash AFTER
 * has been made (0: none has, or it is not known). */
void kr_intent_end(int err, uint64_t after);

#endif

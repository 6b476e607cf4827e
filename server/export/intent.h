/* The intent of a change of names, for the duplicate request cache (recovery/request_cache.h).
 *
 * Changes of names in one directory run one after the other, under kr_export_lock_of. Under that lock the change
 * reports its beginning and its end, so that the cache records both in the right order. A kill -9 in between leaves one
 * request of the directory in doubt, and no later one; the next instance reads its intent record and looks
 * (recovery/intent_recovery.h). Per pool thread; without an intent (tests, the server's own changes) nothing is
 * reported. */
#ifndef KR_SERVER_INTENT_H
#define KR_SERVER_INTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/types.h"

enum kr_intent_kind { KR_INTENT_MAKE, KR_INTENT_LINK, KR_INTENT_REMOVE, KR_INTENT_RENAME };

/* The change. Hashes of files are kr_fid_hash; 0: no file. */
struct kr_intent_change {
	enum kr_intent_kind kind;
	uint32_t type; /* MAKE: S_IFMT of the new file */
	const struct kr_fid *parent;
	const char *name;                /* "": none, so recovery cannot look for it */
	uint64_t before;                 /* the file with that name */
	uint64_t other;                  /* LINK: the file that gets the name; RENAME: the one that had the new name */
	const struct kr_fid *new_parent; /* RENAME; else NULL */
	const char *new_name;
};

struct kr_intent {
	void (*begin)(struct kr_intent *intent, const struct kr_intent_change *change);
	void (*end)(struct kr_intent *intent, int err, uint64_t after);
	uint64_t expected; /* hash of the file that must have the name before; 0: any */
};

/* The value under which the cache remembers that a request took NAME from PARENT (REMOVE, RENAME) or gave NAME to a
 * file (LINK). PURE. */
uint64_t kr_intent_value(enum kr_intent_kind kind, const struct kr_fid *parent, const char *name);

/* Sets this thread's intent; NULL: none. */
void kr_intent_take(struct kr_intent *intent);

/* Whether the change may go on: the file with hash BEFORE has the name now. */
bool kr_intent_is_for(uint64_t before);
/* Reports that CHANGE (borrowed) begins. */
void kr_intent_begin(const struct kr_intent_change *change);
/* Reports its end. ERR: the names are unchanged (only after a begin). 0: AFTER is the hash of the new file (0: none, or
 * unknown). */
void kr_intent_end(int err, uint64_t after);

#endif

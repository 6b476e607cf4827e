/* Whether a node's unflushed bytes of a file are covered by its leases: pure, one per session and file.
 *
 * A node gives a lease back when what it has unflushed is applied; then whoever comes next comes after it.  But bytes
 * that the server refused (no space, say) stay with the node when it gives its lease back, and others may write newer
 * ones before these are taken: from that moment on they are like those of a late node, and are judged as such (late.h).
 */
#ifndef KR_SERVER_COVER_H
#define KR_SERVER_COVER_H

#include <stdbool.h>
#include <stdint.h>

struct kr_cover {
	bool refused;  /* the last flush was: the node has bytes still */
	uint64_t lost; /* the server's epoch when it gave a lease back with such bytes the first time; 0: it has not */
};

/* A flush of the node's (but no replay) is answered with ERR. */
void kr_cover_flushed(struct kr_cover *cover, int err);
/* The node gives a lease back, at EPOCH (> 0): before anybody else gets it. */
void kr_cover_gave_up(struct kr_cover *cover, uint64_t epoch);
/* It has been said whether its bytes may go in: then nobody else can write until they have, or they are in CONFLICT,
 * and leave the file. */
void kr_cover_judged(struct kr_cover *cover, bool conflict);

#endif

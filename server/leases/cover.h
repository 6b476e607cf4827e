/* Whether a node's leases cover its unflushed bytes of a file: pure, one per session and file.
 *
 * A node gives a lease back when the server has applied its unflushed bytes.  So the next holder comes after them.
 * But bytes that the server refused (no space) stay at the node when it gives its lease back.  Other nodes may then
 * write newer ones.  From that moment the refused bytes are like those of a late node, and the server judges them
 * (late.h).
 */
#ifndef KR_SERVER_COVER_H
#define KR_SERVER_COVER_H

#include <stdbool.h>
#include <stdint.h>

struct kr_cover {
	bool refused;  /* the server refused the last flush: the node still has the bytes */
	uint64_t lost; /* the server's epoch when the node first gave a lease back with such bytes; 0: never */
};

/* The server answers a flush of the node, which is no replay, with ERR. */
void kr_cover_flushed(struct kr_cover *cover, int err);
/* The node gives a lease back, at EPOCH (> 0), before any other node gets the lease. */
void kr_cover_gave_up(struct kr_cover *cover, uint64_t epoch);
/* The server has judged the bytes.  Either no other node can write until they are applied, or they go to a CONFLICT
 * file. */
void kr_cover_judged(struct kr_cover *cover, bool conflict);

#endif

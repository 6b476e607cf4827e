/* Requests that a node sends right behind a FLUSH, to be carried out when that has been answered (BEHIND, msgs.def).
 *
 * Loop thread.  A request waits for one FLUSH of its own session and file, the last that came before it, and FLUSH
 * waits for no request: so there are no cycles.  It has not begun meanwhile: it can be withdrawn, and no note has been
 * asked back for it.
 */
#ifndef KR_SERVER_AFTER_FLUSH_H
#define KR_SERVER_AFTER_FLUSH_H

struct kr_request;

/* A request has come, and is decoded. */
void kr_after_flush_arrived(struct kr_request *request);
/* NEXT at once, or when the FLUSH that REQUEST is behind has been answered; or it is answered with AGAIN, as msgs.def
 * says. */
void kr_after_flush_wait(struct kr_request *request, void (*next)(struct kr_request *));
/* REQUEST has been answered, with ERR: those behind it go on. */
void kr_after_flush_answered(struct kr_request *request, int err);
/* REQUEST ends without an answer, and so does all of its session. */
void kr_after_flush_drop(struct kr_request *request);

#endif

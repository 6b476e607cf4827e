/* The node's half of one file's lease, as a pure state machine: events in, actions out; no locks, sockets or clocks.
 *
 * The file's code reports what happened (kr_lease_state_granted, _recalled, _dirtied...).  Then lease.c carries out
 * what kr_lease_state_next returns, until that is KR_LEASE_STATE_NOTHING.  All calls are made under the file's lock.
 *
 * Invariants:
 *  - an operation that acts on the file under a lease enters (kr_lease_state_enter), and leaves when done; to enter,
 *    all its kinds must be held and none of them being given up; so a recall waits for the operations inside and for no
 *    others;
 *  - a RECALL is answered when no operation of its kinds is inside; for WRITE, unflushed bytes must be applied or
 *    refused; for READ, the kernel's pages must be gone, together with what mapped stores left dirty in them;
 *  - pages that programs may store into (kr_lease_state_stored) are there under READ and WRITE both: then no other node
 *    has a lease.  So neither lease goes before these pages are gone, and what was stored is flushed before either
 *    goes.  The kernel does not tell of a store into a page that it has;
 *  - the node asks for no lease while it gives up or returns one, and returns none while it asks for one or another
 *    RETURN is on its way.  So the server's and the node's view agree after the same frames, in whatever order they
 *    cross.  Leases that come with OPEN and CREATE may cross a RETURN, see kr_lease_state_gained;
 *  - what is dirty when READ is recalled, or given back, is flushed before READ goes: a program of this node may have
 *    read it, and what another node writes after that must win (P3); whole pages that a mapping wrote would cover other
 *    nodes' bytes later.
 */
#ifndef KR_FUSE_LEASE_STATE_H
#define KR_FUSE_LEASE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/types.h"

enum kr_lease_state_action {
	KR_LEASE_STATE_NOTHING,
	KR_LEASE_STATE_ASK,    /* send LEASE{kinds}; then kr_lease_state_granted or kr_lease_state_ask_failed */
	KR_LEASE_STATE_FLUSH,  /* flush all that is dirty; then kr_lease_state_flushed */
	KR_LEASE_STATE_DROP,   /* invalidate the kernel's pages; then kr_lease_state_dropped */
	KR_LEASE_STATE_ANSWER, /* answer every RECALL there is: the kinds are no longer held */
	KR_LEASE_STATE_RETURN, /* send RETURN{kinds}: no longer held; then kr_lease_state_returned */
};

struct kr_lease_state {
	uint8_t held;                  /* kinds that the server counts for us, as far as its frames have been read */
	uint8_t want;                  /* kinds that waiting operations need now */
	uint8_t asked;                 /* of the LEASE on its way; 0: none */
	uint8_t recalled;              /* kinds that the server wants back */
	uint8_t leaving;               /* kinds that we give back by ourselves */
	uint8_t returning;             /* of the RETURN on its way */
	bool recall_open;              /* a RECALL waits for its answer */
	bool dirty;                    /* there are unflushed bytes */
	bool mapped;                   /* ... and whole pages of a mapping among them */
	bool flush_before_giving_read; /* there were unflushed bytes when READ was recalled, or given back by us: they
					  are flushed first; later writes are not waited for */
	bool keeps_leases;             /* nothing is given up now: kr_lease_state_keep */
	bool flushing;                 /* KR_LEASE_STATE_FLUSH on its way */
	bool refused;                  /* the server refused the flush; nothing new has been written or asked since */
	bool pages;                    /* the kernel may have pages of the file */
	bool pages_writable;           /* ... and programs may store into them through a mapping */
	bool lingering;                /* they came a moment ago: the program shall use them before they go */
	bool dropping;                 /* KR_LEASE_STATE_DROP on its way */
	bool drop_again;               /* a read was let through while dropping */
	bool suspect;              /* the pages may be older than READ is: no program reads before they are dropped */
	bool write_unconfirmed;    /* the server refused a flush for want of WRITE: not used before the next LEASE is
				   granted */
	uint32_t readers, writers; /* inside */
	uint32_t epoch;            /* of the session; operations entered in an older one do not count */
};

void kr_lease_state_init(struct kr_lease_state *holder);

/* Enters with KINDS; false: not held, or being given up. */
bool kr_lease_state_enter(struct kr_lease_state *holder, uint8_t kinds);
/* Enters with KINDS, READ among them, although they are being given up: a page lock that the dropping waits for may
 * depend on it.  False: they are not held, or nothing is being dropped.  READ alone will do where the pages are
 * suspect, since nothing else may ever end that. (The session was lost, and READ, which came back, is recalled
 * already.) What is stored then is in no writer's page. */
bool kr_lease_state_enter_through(struct kr_lease_state *holder, uint8_t kinds);
/* The same for a write that the server is to have before READ goes; it does not enter. */
bool kr_lease_state_write_through(struct kr_lease_state *holder);
/* EPOCH: holder->epoch at the time of entering. */
void kr_lease_state_leave(struct kr_lease_state *holder, uint8_t kinds, uint32_t epoch);
/* The kinds that are being given up. */
uint8_t kr_lease_state_giving_up(const struct kr_lease_state *holder);
/* Whether KINDS are held and not being given up. */
bool kr_lease_state_has(const struct kr_lease_state *holder, uint8_t kinds);
/* Whether bytes may go to the server now: WRITE is held (recalled or not), or READ is held and being recalled: then the
 * server takes READ from all nodes. */
bool kr_lease_state_may_flush(const struct kr_lease_state *holder);

/* The server refused a flush for want of WRITE: the node asks for WRITE again.  WRITE stays held meanwhile, so that no
 * RECALL is answered before the flush.  False: WRITE was not held, or is being recalled; then nothing is asked. */
bool kr_lease_state_confirm_write(struct kr_lease_state *holder);

/* The kinds that waiting operations need, all of them together; replaces what was wanted before. */
void kr_lease_state_want(struct kr_lease_state *holder, uint8_t kinds);
/* The LEASE was answered. VALID false: the connection broke since it was asked, so the grant may be an old one that has
 * been recalled; it does not count. (On one connection a grant is never older than a RECALL that came before it: the
 * server grants nothing that it waits to get back.) */
void kr_lease_state_granted(struct kr_lease_state *holder, bool valid);
/* The LEASE failed (the file is gone, interrupted...); it is asked again if still wanted. */
void kr_lease_state_ask_failed(struct kr_lease_state *holder);
/* KINDS came with OPEN or CREATE, asked and answered on one connection: those that the server counted for this node
 * when it answered, except those that it takes back when it reads our RETURN.  It does no harm if the server counts
 * more kinds for a node than the node knows of. */
void kr_lease_state_gained(struct kr_lease_state *holder, uint8_t kinds);
/* A RECALL arrived. Repeated ones join. */
void kr_lease_state_recalled(struct kr_lease_state *holder, uint8_t kinds);
/* Give KINDS back unasked (idle file, or bytes that changed while the session was away). */
void kr_lease_state_release(struct kr_lease_state *holder, uint8_t kinds);
void kr_lease_state_returned(struct kr_lease_state *holder);

/* Bytes were journaled; MAPPED: a page of a mapping, whatever was held. */
void kr_lease_state_dirtied(struct kr_lease_state *holder, bool mapped);
/* A flush (asked by KR_LEASE_STATE_FLUSH or by other code) ended. OK: applied; CLEAN: nothing is left unflushed. */
void kr_lease_state_flushed(struct kr_lease_state *holder, bool ok, bool clean);
/* The dirty bytes are gone without a flush (truncated, discarded). */
void kr_lease_state_cleaned(struct kr_lease_state *holder);
/* The flush scheduler wants to send the refused bytes again. */
void kr_lease_state_retry(struct kr_lease_state *holder);
/* The kernel may cache pages from now on. */
void kr_lease_state_cached(struct kr_lease_state *holder);
/* ... for programs that may store into them: their reader has entered with READ and WRITE. */
void kr_lease_state_stored(struct kr_lease_state *holder);
/* Programs can no longer store into the pages, and the kernel has written back their stores: they are ordinary
 * pages. */
void kr_lease_state_sealed(struct kr_lease_state *holder);
/* Whether the pages have come a moment ago. */
void kr_lease_state_linger(struct kr_lease_state *holder, bool lingering);
/* The pages asked to be dropped are gone. */
void kr_lease_state_dropped(struct kr_lease_state *holder);

/* The server may believe us dead (the mount is fenced): the kernel's pages have to go before the next read. */
void kr_lease_state_distrust(struct kr_lease_state *holder);
/* The session is gone with its leases. Returns the kinds to reclaim (what was held, and WRITE for unflushed bytes). */
uint8_t kr_lease_state_lost(struct kr_lease_state *holder);
/* The server gave KINDS back. SAME: the bytes are those that were cached; else READ and the kernel's pages go. */
void kr_lease_state_reclaimed(struct kr_lease_state *holder, uint8_t kinds, bool same);

/* KEEPS: the node gives up no lease for now, because bytes that the server must have before are on their way to it. */
void kr_lease_state_keep(struct kr_lease_state *holder, bool keeps);

/* The next action, which counts as begun.  Sets RET_KINDS for ASK, ANSWER and RETURN. */
enum kr_lease_state_action kr_lease_state_next(struct kr_lease_state *holder, uint8_t *ret_kinds);
/* Whether the kernel's pages must go, because a kind that covers them is being given up. */
bool kr_lease_state_must_drop(const struct kr_lease_state *holder);
/* Nothing held, wanted, asked, dirty or on its way: the file can be forgotten. */
bool kr_lease_state_idle(const struct kr_lease_state *holder);

#endif

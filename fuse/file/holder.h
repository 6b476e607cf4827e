/* The node's half of one file's lease, as a pure state machine: events in, actions out; no locks, sockets or clocks.
 *
 * The owner (fuse/file/file.c) tells what happened (kr_holder_granted, _recalled, _dirtied...) and then asks kr_holder_next
 * what to do until it says KR_HOLDER_NOTHING.  All calls under the file's lock.
 *
 * Invariants:
 *  - who acts on the file under a lease has entered (kr_holder_enter) and leaves when done; entering needs all its kinds
 *    held and none of them being given up, so that a recall waits for those inside and for nobody else;
 *  - a RECALL is answered when nobody is inside, unflushed bytes are applied or refused (WRITE), and the kernel's pages
 *    are gone together with what mapped stores left dirty in them (READ);
 *  - pages that programs may store into (kr_holder_stored) are there under READ and WRITE both, which is to be alone with the file,
 *    so neither of the two goes before they are gone, and what was stored is flushed before either goes: the kernel does not tell of a
 *    store into a page that it has;
 *  - nothing is asked while something is being given up or returned, and nothing is returned while something is asked or
 *    another RETURN is on its way, so that the server's and the node's view agree after the same frames, in whatever order
 *    they cross; what comes with OPEN and CREATE may cross a RETURN, see kr_holder_gained;
 *  - what is dirty when READ is recalled, or given back, is flushed before READ goes: somebody here may have read it, and what another node
 *    writes after that must win (P3); whole pages that a mapping wrote would cover other nodes' bytes later.
 */
#ifndef KR_FUSE_HOLDER_H
#define KR_FUSE_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/types.h"

enum kr_holder_action {
	KR_HOLDER_NOTHING,
	KR_HOLDER_ASK,    /* send LEASE{kinds}; then kr_holder_granted or kr_holder_ask_failed */
	KR_HOLDER_FLUSH,  /* flush all that is dirty; then kr_holder_flushed */
	KR_HOLDER_DROP,   /* invalidate the kernel's pages; then kr_holder_dropped */
	KR_HOLDER_ANSWER, /* answer every RECALL there is: the kinds are no longer held */
	KR_HOLDER_RETURN, /* send RETURN{kinds}: no longer held; then kr_holder_returned */
};

struct kr_holder {
	uint8_t held;      /* kinds that the server counts for us, as far as its frames have been read */
	uint8_t want;      /* kinds that waiting operations need now */
	uint8_t asked;     /* of the LEASE on its way; 0: none */
	uint8_t recalled;  /* kinds that the server wants back */
	uint8_t leaving;   /* kinds that we give back by ourselves */
	uint8_t returning; /* of the RETURN on its way */
	bool recall_open;  /* a RECALL waits for its answer */
	bool dirty;        /* there are unflushed bytes */
	bool mapped;       /* ... and whole pages of a mapping among them */
	bool owed;         /* what was dirty when READ was recalled, or is given back, is to be flushed first; later writes are not waited for */
	bool bound;        /* bytes are on their way that are to go in first: nothing is given up before */
	bool flushing;     /* KR_HOLDER_FLUSH on its way */
	bool refused;      /* the server refused the flush; nothing new has been written or asked since */
	bool pages;        /* the kernel may have pages of the file */
	bool stores;       /* ... into which programs may store */
	bool lingering;    /* they came a moment ago: whoever wanted them shall get to use them before they go */
	bool dropping;     /* KR_HOLDER_DROP on its way */
	bool drop_again;   /* a read was let through while dropping */
	bool suspect;      /* the pages may be older than READ is: nobody reads before they are dropped */
	bool doubted;      /* the server does not seem to count our WRITE: nobody uses it before LEASE has been answered again */
	uint32_t readers, writers; /* inside */
	uint32_t epoch;    /* of the session; who entered in an older one is not counted any more */
};

void kr_holder_init(struct kr_holder *holder);

/* Enters with KINDS; false: not held, or being given up. */
bool kr_holder_enter(struct kr_holder *holder, uint8_t kinds);
/* Enters with KINDS, READ among them, although they are being given up, because a page lock that the dropping waits for may depend on it.
 * False: they are not held, or nothing is being dropped.  READ alone will do where the pages are suspect, since nothing else may ever end
 * that (the session was lost, and READ, which came back, is recalled already): what is stored then is in the page of nobody who writes. */
bool kr_holder_enter_through(struct kr_holder *holder, uint8_t kinds);
/* The same for a write that the server is to have before READ goes; it does not enter. */
bool kr_holder_write_through(struct kr_holder *holder);
/* EPOCH: holder->epoch at the time of entering. */
void kr_holder_leave(struct kr_holder *holder, uint8_t kinds, uint32_t epoch);
/* The kinds that are being given up. */
uint8_t kr_holder_giving_up(const struct kr_holder *holder);
/* Whether KINDS are held and not being given up. */
bool kr_holder_has(const struct kr_holder *holder, uint8_t kinds);
/* Whether bytes may go to the server now: WRITE is held (recalled or not), or READ is held and being given up: then the
 * server takes READ from everybody. */
bool kr_holder_may_flush(const struct kr_holder *holder);

/* The server took a flush for one of a node without WRITE: it is asked for again.  It stays held meanwhile, so that a RECALL is
 * not answered before the flush.  Whether it was held, and is not being recalled. */
bool kr_holder_doubt(struct kr_holder *holder);

/* The kinds that waiting operations need, all of them together; replaces what was wanted before. */
void kr_holder_want(struct kr_holder *holder, uint8_t kinds);
/* The LEASE was answered. VALID false: the connection broke since it was asked, so the grant may be an old one that has been
 * recalled; it does not count. (On one connection a grant is never older than a RECALL that came before it: the server
 * grants nothing that it waits to get back.) */
void kr_holder_granted(struct kr_holder *holder, bool valid);
/* The LEASE failed (the file is gone, interrupted...); it is asked again if still wanted. */
void kr_holder_ask_failed(struct kr_holder *holder);
/* Kinds that came with OPEN or CREATE, asked and answered on one connection: what the server held for us when it answered. But
 * for those that it gives away when it reads our RETURN.  What it holds for us beyond what we know does no harm. */
void kr_holder_gained(struct kr_holder *holder, uint8_t kinds);
/* A RECALL arrived. Repeated ones join. */
void kr_holder_recalled(struct kr_holder *holder, uint8_t kinds);
/* Give KINDS back unasked (idle file, or bytes that changed while the session was away). */
void kr_holder_release(struct kr_holder *holder, uint8_t kinds);
void kr_holder_returned(struct kr_holder *holder);

/* Bytes were journaled; MAPPED: a page of a mapping, whatever was held. */
void kr_holder_dirtied(struct kr_holder *holder, bool mapped);
/* A flush (asked by KR_HOLDER_FLUSH or by anyone else) ended. OK: applied; CLEAN: nothing is left unflushed. */
void kr_holder_flushed(struct kr_holder *holder, bool ok, bool clean);
/* What was dirty is gone without a flush (truncated, discarded). */
void kr_holder_cleaned(struct kr_holder *holder);
/* Somebody asks for the refused bytes again. */
void kr_holder_retry(struct kr_holder *holder);
/* The kernel may cache pages from now on. */
void kr_holder_cached(struct kr_holder *holder);
/* ... for programs that may store into them: who reads them has entered with READ and WRITE. */
void kr_holder_stored(struct kr_holder *holder);
/* Nobody can store into them any more, and what was stored has come as writes: they are pages as others are. */
void kr_holder_sealed(struct kr_holder *holder);
/* Whether those have come a moment ago. */
void kr_holder_linger(struct kr_holder *holder, bool lingering);
/* The pages asked to be dropped are gone. */
void kr_holder_dropped(struct kr_holder *holder);

/* The server may believe us dead (the mount is fenced): the kernel's pages have to go before anybody reads again. */
void kr_holder_distrust(struct kr_holder *holder);
/* The session is gone with its leases. Returns the kinds to reclaim (what was held, and WRITE for unflushed bytes). */
uint8_t kr_holder_lost(struct kr_holder *holder);
/* The server gave KINDS back. SAME: the bytes are those that were cached; else READ and the kernel's pages go. */
void kr_holder_reclaimed(struct kr_holder *holder, uint8_t kinds, bool same);

/* Whether nothing can be given up, because bytes are on their way to the server that it would be given up without. */
void kr_holder_bind(struct kr_holder *holder, bool bound);

/* What to do next; the holder counts it as begun. RET_KINDS is set for ASK, ANSWER and RETURN. */
enum kr_holder_action kr_holder_next(struct kr_holder *holder, uint8_t *ret_kinds);
/* Whether the kernel's pages have to go, because of what is being given up. */
bool kr_holder_must_drop(const struct kr_holder *holder);
/* Nothing held, wanted, asked, dirty or on its way: the file can be forgotten. */
bool kr_holder_idle(const struct kr_holder *holder);

#endif

/* Leases for sessions: handlers of LEASE and RETURN, RECALLs to nodes, and the server's own exclusive operations. */
#ifndef KR_SERVER_LEASES_H
#define KR_SERVER_LEASES_H

#include "server/leases/file_table.h"

struct kr_request;

/* An operation of the server on a file: while it holds, no other node has a lease that excludes the operation. */
struct kr_operation {
	struct kr_lease_waiter waiter;
	struct kr_sfile *file; /* reference while asked or held; NULL otherwise */
	bool held;
	void (*granted)(struct kr_operation *operation);
};
/* Asks for KINDS for NODE, whose own leases stay (0: all nodes give theirs up).  READ: no other node writes;
 * READ|WRITE: no other node reads or writes.  0: waits only until what is applied now is committed.  COMMITMENT: the
 * bytes that are to be committed before.  GRANTED follows, possibly from inside this call.  The caller owns the
 * memory. */
void kr_operation_start(struct kr_operation *operation, struct kr_sfile *file, uint32_t node, uint8_t kinds,
	enum kr_lease_commitment commitment, void (*granted)(struct kr_operation *operation));
/* Withdraws or ends OPERATION; also fine on a zeroed one. */
void kr_operation_end(struct kr_operation *operation);
/* The `cancel` of a REQUEST whose state begins with its operation: ends that. */
void kr_operation_cancel(struct kr_request *request);

/* A wait until other nodes have given back the READ that they had when the bytes of FILE changed. */
struct kr_readers_gone {
	struct kr_lease_await await;
	struct kr_sfile *file; /* reference while it waits; NULL otherwise */
	void (*happened)(struct kr_readers_gone *gone);
};
/* HAPPENED follows, possibly from inside this call; the READ of SESSION does not count.  The caller owns the memory. */
void kr_readers_gone_start(struct kr_readers_gone *gone, struct kr_sfile *file, struct kr_session *session,
	void (*happened)(struct kr_readers_gone *gone));
/* Ends the wait; also fine on a zeroed one. */
void kr_readers_gone_end(struct kr_readers_gone *gone);

/* OPERATION is held for SESSION and excludes all other nodes.  Grants SESSION KINDS, before all waiters.  Returns as
 * kr_leases_try. */
uint8_t kr_operation_leave(const struct kr_operation *operation, struct kr_session *session, uint8_t kinds);
/* Grants SESSION those of KINDS that are free now.  The caller must call kr_leases_announced after its reply. */
uint8_t kr_leases_try(struct kr_sfile *file, struct kr_session *session, uint8_t kinds);
void kr_leases_announced(struct kr_sfile *file, struct kr_session *session);
/* FILE has no name any more.  Recalls READ, without a wait, from nodes that cache FILE and do not have it open.  If it
 * is gone, recalls WRITE, too, and nodes discard what they have not flushed. */
void kr_leases_gone(struct kr_sfile *file);
/* A local program has changed FILE: its version goes on, and nodes drop what they cache of it. */
void kr_leases_changed_behind(struct kr_sfile *file);

/* SESSION has uncommitted bytes in FILE from ROUND on (0: of before all rounds). */
void kr_leases_uncommitted(struct kr_sfile *file, struct kr_session *session, uint64_t round);
/* The same for bytes of ended sessions. */
void kr_leases_uncommitted_of_ended(struct kr_sfile *file, uint64_t round);
/* NODE (0: ended sessions) has none before the round NEXT any more; NEXT 0: none at all. */
void kr_leases_committed(struct kr_sfile *file, uint32_t node, uint64_t next);

/* SUCCESSOR takes the place of SESSION, which is ending, and is uncommitted as SESSION was.  If SESSION held WRITE,
 * SUCCESSOR gets its leases: the node's journal may hold bytes.  No other node may read past these bytes or write under
 * them.  The server does not recall these leases until SUCCESSOR has reclaimed them or declined. */
void kr_leases_inherit(struct kr_sfile *file, struct kr_session *session, struct kr_session *successor);
/* The kinds that SESSION took over for this file, and has not settled yet. */
uint8_t kr_leases_inherited(const struct kr_sfile *file, const struct kr_session *session);
/* The server has told SESSION that it keeps KINDS of the leases that it took over; the rest is free. */
void kr_leases_settle(struct kr_sfile *file, struct kr_session *session, uint8_t kinds);
/* Initialises file->leases. */
void kr_leases_file_init(struct kr_sfile *file);

void kr_leases_register(struct kr_server *server);

#endif

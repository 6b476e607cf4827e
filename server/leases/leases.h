/* Leases wired to sessions: handlers of LEASE and RETURN, RECALLs to nodes, and the server's own exclusive operations.
 */
#ifndef KR_SERVER_LEASES_H
#define KR_SERVER_LEASES_H

#include "server/leases/file_table.h"

struct kr_request;

/* An operation of the server on a file: while it holds, other nodes' leases that are in the way are gone. */
struct kr_operation {
	struct kr_lease_waiter waiter;
	struct kr_sfile *file; /* reference while asked or held; NULL otherwise */
	bool held;
	void (*granted)(struct kr_operation *operation);
};
/* Asks for KINDS (READ: nobody else writes; READ|WRITE: nobody else reads or writes) on behalf of NODE, whose own
 * leases stay (0: nobody's stay). GRANTED follows, possibly from inside this call. The caller owns the memory. */
void kr_operation_start(struct kr_operation *operation, struct kr_sfile *file, uint32_t node, uint8_t kinds,
	void (*granted)(struct kr_operation *operation));
/* Withdraws or ends it, whichever it needs; also fine on a zeroed one. */
void kr_operation_end(struct kr_operation *operation);

/* Somebody waits until others have given READ back that they had when FILE's bytes were changed under it. */
struct kr_readers_gone {
	struct kr_lease_await await;
	struct kr_sfile *file; /* reference while it waits; NULL otherwise */
	void (*happened)(struct kr_readers_gone *gone);
};
/* HAPPENED follows, possibly from inside this call; SESSION's own READ does not matter. The caller owns the memory. */
void kr_readers_gone_start(struct kr_readers_gone *gone, struct kr_sfile *file, struct kr_session *session,
	void (*happened)(struct kr_readers_gone *gone));
/* Waits no longer; also fine on a zeroed one. */
void kr_readers_gone_end(struct kr_readers_gone *gone);

/* OPERATION is held, for SESSION, and keeps everybody else out: that gets KINDS, before all that wait. As
 * kr_leases_try. */
uint8_t kr_operation_leave(const struct kr_operation *operation, struct kr_session *session, uint8_t kinds);
/* Gives the request's session of KINDS what is free at once. The caller must call kr_leases_announced after its reply.
 */
uint8_t kr_leases_try(struct kr_sfile *file, struct kr_session *session, uint8_t kinds);
void kr_leases_announced(struct kr_sfile *file, struct kr_session *session);
/* FILE has no name any more: what nodes have cached of it that do not have it open goes, which holds nobody up. */
void kr_leases_gone(struct kr_sfile *file);
/* Somebody who is no node has changed FILE: its version goes on, and what nodes have cached of it goes. */
void kr_leases_changed_behind(struct kr_sfile *file);

/* SUCCESSOR takes the place of SESSION, which is ending. If that held WRITE, SUCCESSOR gets its leases, because there
 * are bytes in its node's journal perhaps that nobody may read past, nor write under those that were read there. Until
 * SUCCESSOR has reclaimed them or told that it does not need them, they are not recalled. */
void kr_leases_inherit(struct kr_sfile *file, struct kr_session *session, struct kr_session *successor);
/* What SESSION inherited of this file and has not settled yet. */
uint8_t kr_leases_inherited(const struct kr_sfile *file, const struct kr_session *session);
/* SESSION has been told that it keeps KINDS of what it inherited, the rest is free. */
void kr_leases_settle(struct kr_sfile *file, struct kr_session *session, uint8_t kinds);
/* Initialises file->leases. */
void kr_leases_file_init(struct kr_sfile *file);

void kr_leases_register(struct kr_server *server);

#endif

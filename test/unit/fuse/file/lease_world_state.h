/* What lease_world.h is made of: frames in channels, requests, nodes.  It only holds them; the rules are in
 * lease_world_server.h and lease_world_node.h.
 */
#ifndef KR_TEST_UNIT_LEASE_WORLD_STATE_H
#define KR_TEST_UNIT_LEASE_WORLD_STATE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/util.h"
#include "fuse/file/lease_state.h"
#include "server/leases/lease_table.h"

enum { NODES = 2, FRAMES = 16, REQUESTS = 12, RECALLS = 8, EVENTS = 64 };
enum frame_type { LEASE, RETURN, OPEN, CREATE, FLUSH, OPERATE, RECLAIM, DONE, ANSWER, REPLY, RECALL };
/* What programs do, each as often as the scenario allows; SHRINK: an idle file's lease is returned; DROP: READ is, by
 * command; BREAK: of the connection; LOSE: the server forgets WRITE, by a bug; EXPIRE, REPLACE: of the session. */
enum deed {
	DO_OPEN,
	DO_CREATE,
	DO_CLOSE,
	DO_WRITE,
	DO_READ,
	DO_OPERATE,
	DO_SHRINK,
	DO_DROP,
	DO_BREAK,
	DO_LOSE,
	DO_EXPIRE,
	DO_REPLACE,
	DEEDS
};
enum event_type { DEED, STEP, SEND_FLUSH, SERVER_TAKES, NODE_TAKES, JOB, DROPPED, RETURNS };

struct event {
	enum event_type type;
	unsigned node, what;
};
struct frame {
	enum frame_type type;
	uint8_t kinds;
	uint64_t number; /* of the request in its node, or of a recall */
	bool failed, resent;
	bool claims;        /* of a RECLAIM: there are bytes not flushed */
	bool applied, same; /* of its answer: the last FLUSH is there; nobody has written */
};
#include "test/unit/fuse/file/lease_channel.h"
struct request {
	bool open;    /* at the node: unanswered */
	bool waits;   /* ... and not sent yet: there is no session */
	bool applied; /* a FLUSH of a session that is lost */
	enum frame_type type;
	uint8_t kinds;
	uint32_t generation;
	/* at the server */
	bool claims;
	enum { AWAY, PARKED, IN_POOL, WAITING, ANSWERED } state;
	uint8_t granted;
	bool failed;
	struct kr_lease_waiter waiter;
};
struct node {
	struct kr_lease_state holder;
	struct channel up, down;
	struct request requests[REQUESTS];
	struct frame asked[RECALLS], heard[RECALLS]; /* recalls: unanswered as the server knows; to be answered */
	unsigned asked_count, heard_count;
	unsigned left[DEEDS];
	unsigned handles, opening, writes, reads; /* writes and reads that wait */
	unsigned refused;                         /* flushes */
	unsigned aside;                           /* times that bytes had to go to a conflict file */
	uint32_t generation;
	uint32_t number;               /* of its session at the server */
	uint8_t reclaiming, inherited; /* kinds; as the node says; as the server knows */
	bool lost, recovering; /* the session, and it has not come back; it has, and waits for the server's answers */
	bool late, overtaken;  /* at the server: it was lost; another node has flushed since */
	bool unjudged;         /* bytes of before that */
	bool astray;           /* such bytes went into the file */
	bool judged;           /* such bytes may go in, and are not there yet ... */
	bool outrun;           /* ... and another node's went in before */
	bool stepping, flushing, written_since, dropping;
};
struct world {
	struct kr_lease_table table;
	struct node node[NODES];
	uint32_t last_number;
};

static inline struct node *node_of(struct world *world, uint32_t number)
{
	unsigned n = 0;

	while (world->node[n].number != number)
		assert_true(++n < NODES);
	return &world->node[n];
}

#endif

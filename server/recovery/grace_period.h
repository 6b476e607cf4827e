/* The beginning and the end of the grace period (session/grace.h).  Loop thread.
 *
 * What another node has seen is on the disk.  So, beside the nodes' reclaiming, the server makes durable what the
 * former instance applied, unless that stopped cleanly: it syncs the export, and the flush room writes the files again
 * whose sync had failed (flush/commit.h).  So the bytes of nodes that do not come back are durable, too, before others
 * read them.
 *
 * After the grace period, other nodes may get what a missing node held.  So the server first removes the missing nodes'
 * records, durably, and only then lets the parked requests go on.  Otherwise the next instance would take such a node
 * for one that has lost nothing, and its late bytes would cover newer ones (P7).  The next tick repeats a step that
 * failed. */
#ifndef KR_SERVER_GRACE_PERIOD_H
#define KR_SERVER_GRACE_PERIOD_H

struct kr_server;

void kr_grace_period_register(struct kr_server *server);
/* The server has started: its clients of before may reclaim. */
void kr_grace_period_start(struct kr_server *server);

#endif

/* The beginning and the end of the grace period (session/grace.h).  Loop thread.
 *
 * What another node has seen is on the disk.  So, beside the nodes' reclaiming, the server makes durable what the
 * former instance applied, unless that stopped cleanly: it syncs the export, and the flush room writes the files again
 * whose sync had failed (flush/commit.h).  So the bytes of nodes that do not come back are durable, too, before others
 * read them.
 *
 * From the end on others may get what a node that did not come back has held.  If this server ended while that node's
 * record was still there, the next instance would take the node for one that has lost nothing.  Its late bytes would
 * cover what others have written since (P7).  So first the server removes the records, durably.  Only then what waited
 * goes on.  What fails is tried again with the next tick. */
#ifndef KR_SERVER_GRACE_PERIOD_H
#define KR_SERVER_GRACE_PERIOD_H

struct kr_server;

void kr_grace_period_register(struct kr_server *server);
/* The server has started: its clients of before may reclaim. */
void kr_grace_period_start(struct kr_server *server);

#endif

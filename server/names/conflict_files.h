/* CONFLICT: makes the file that a node's late bytes go to, when they have been declared to be in conflict (late.h), or
 * finds the one that has been made.
 *
 * One after the other, so that what is asked twice, perhaps in two sessions, finds what was made the first time.  It
 * may take long to find the original (locate.h): so the turn is that of the session that has waited longest since its
 * last. Loop thread; what blocks runs in the pool.
 */
#ifndef KR_SERVER_CONFLICT_FILES_H
#define KR_SERVER_CONFLICT_FILES_H

struct kr_server;

/* Registers CONFLICT. */
void kr_conflict_files_register(struct kr_server *server);

#endif

/* Requests on names wait until the names that other nodes have changed are on the disk (name_commits.h).
 *
 * A request that changes a name waits before its job: what its node has seen of the name by then is committed.  A
 * request that reads names waits after its job: what the job may have seen is committed before the node is told.
 * Loop thread. */
#ifndef KR_SERVER_NAME_SYNC_H
#define KR_SERVER_NAME_SYNC_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct kr_fid;
struct kr_request;
struct kr_server;

/* Borrowed from the request's message. */
struct kr_name_of_dir {
	const struct kr_fid *dir;
	const char *name; /* NULL: all names; "": none */
};

/* REQUEST is about to change one or two names.  Goes on with FN, at once or later, unless REQUEST is withdrawn before.
 * After that kr_name_sync_changed must follow, in the loop, when the job has ended. */
void kr_name_sync_before(struct kr_request *request, void (*fn)(struct kr_request *request));
void kr_name_sync_changed(struct kr_request *request);
/* The job of REQUEST has read its name, or all names.  Goes on with FN, unless REQUEST is withdrawn before;
 * request->err is the job's, or that of the sync. */
void kr_name_sync_seen(struct kr_request *request, void (*fn)(struct kr_request *request));

void kr_name_sync_init(struct kr_server *server);
/* Begins to sync directories whose changes are a second old. */
void kr_name_sync_tick(struct kr_server *server, uint64_t now_ns);
/* No request is left, and no job. */
void kr_name_sync_fini(struct kr_server *server);
/* For STATUS; owned by the caller. */
json_t *kr_name_sync_status(const struct kr_server *server);

#endif

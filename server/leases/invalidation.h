/* Notes of names and attributes (msgs.def, NOTES) between the pure table (invalidation_table.h) and requests.  Loop
 * thread.
 *
 * Every request that changes something passes through here twice: before its handler runs, all other nodes with notes
 * in the slots that it names have forgotten them (kr_invalidation_wait); before its reply, its own node is told to
 * forget (kr_invalidation_reply: the frames of a connection are in order), unless it knows better itself what it has
 * changed of names.  What a handler finds out later to be changed as well (the file behind a removed name) it adds with
 * kr_invalidation_also.  Changes of data, and those from behind our back, tell everybody without waiting: nodes that
 * wait for them hold WRITE, under which nobody else has notes of the file.
 *
 * A node that does not answer holds others up until its notes are too old, KR_ATTR_CACHE_GRANT_MS.
 */
#ifndef KR_SERVER_INVALIDATION_H
#define KR_SERVER_INVALIDATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/list.h"

struct kr_fid;
struct kr_invalidation;
struct kr_request;
struct kr_server;

void kr_invalidation_init(struct kr_server *server);
void kr_invalidation_fini(struct kr_server *server);
/* Whether changes behind our back are heard of, so that notes may be taken at all. */
void kr_invalidation_allow(struct kr_server *server, bool allow);

/* For the handler of TYPE (kr_server_on has been called): CHANGES says, by kr_invalidation_change, what a request is
 * about to change; GRANTS what its reply (ERR; the message, or NULL) lets the node note: flags of the reply's frame.
 * Either may be NULL. */
void kr_invalidation_on(struct kr_server *server, uint16_t type, void (*changes)(struct kr_request *request),
	uint16_t (*grants)(struct kr_request *request, int err, const void *reply));
/* From CHANGES: what belongs to FID is changed; others who may have noted it are asked to forget. */
void kr_invalidation_change(struct kr_request *request, const struct kr_fid *fid);
/* From GRANTS: KR_FRAME_CACHEABLE if the node may cache the reply as that of FID, else 0.  Attributes: kr_attrs_grant. */
uint16_t kr_invalidation_grant(struct kr_request *request, const struct kr_fid *fid);

/* The same, in the midst of it, for FID.  It cannot be withdrawn any more, and waits even when its session has ended:
 * its repetition waits for it (request_cache.h), and what that answers must be so for all. */
void kr_invalidation_also(
	struct kr_request *request, const struct kr_fid *fid, void (*next)(struct kr_request *request));

/* Around a change of FID that is no request's, or more than its own. */
void kr_invalidation_change_begins(struct kr_server *server, const struct kr_fid *fid);
void kr_invalidation_change_ends(struct kr_server *server, const struct kr_fid *fid);
/* Anything may have changed. */
void kr_invalidation_all_changed(struct kr_server *server);
/* Whether any node but NODE may have noted attributes of FID: then it cannot be given WRITE at once. */
bool kr_invalidation_others_cache(struct kr_server *server, const struct kr_fid *fid, uint32_t node);
/* Every tick: those that have not answered for too long have forgotten by themselves. */
void kr_invalidation_tick(struct kr_server *server, uint64_t now_ns);
/* For STATUS; owned by the caller. */
json_t *kr_invalidation_status(const struct kr_server *server);

#endif

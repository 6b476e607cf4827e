/* Names and what hangs on them: LOOKUP, READLINK, MAKE, LINK, REMOVE, RENAME, READDIR, STATFS, xattrs, ACCESS. */
#ifndef KR_SERVER_NAMES_H
#define KR_SERVER_NAMES_H

#include <stdbool.h>
#include <stdint.h>

struct kr_attr;
struct kr_cred;
struct kr_fid;
struct kr_request;
struct kr_server;

/* Each registers the handlers of its file. */
void kr_names_register(struct kr_server *server);
void kr_setattr_register(struct kr_server *server);
void kr_opens_register(struct kr_server *server);
void kr_create_register(struct kr_server *server);
void kr_reclaims_register(struct kr_server *server);
void kr_file_space_register(struct kr_server *server);
void kr_readdir_xattr_register(struct kr_server *server);
void kr_lookups_register(struct kr_server *server);
void kr_conflict_files_register(struct kr_server *server);
void kr_restores_register(struct kr_server *server);

/* In the job of REQUEST, which has changed DIR if request->err is 0.  Reads the present attributes of DIR (RET_ATTR
 * may be NULL), left alone if unknown, and whether the node can know which names are concerned. */
void kr_names_look(struct kr_request *request, const struct kr_fid *dir, struct kr_attr *ret_attr);

/* --- names.c: requests that may have been executed already -------------------------------------
 * A former instance of the server, or a lost session, may have executed a request and its answer may be lost
 * (request_cache.h).  Then "exists already" and "is not there" can mean success, unless the server remembers that
 * another request did it.  What is there must look like what the request would have made, and be recent.  Within one
 * session this is not needed: the server keeps replies (reply_cache.h). */
/* Whether FID with ATTR is what REQUEST made.  If the server does not remember: whether that is possible.  Then FID is
 * of TYPE (S_IF*), belongs to UID, and its ctime is at most two lease times old.  Any thread. */
bool kr_resent_is_ours(const struct kr_request *request, const struct kr_fid *fid, const struct kr_attr *attr,
	uint32_t type, uint32_t uid);
/* Looks for what an earlier execution of REQUEST made, which must not be made again: another node may have moved it.
 * -ENOENT: the name is free; -EEXIST: the name is another file's.  Any thread. */
int kr_resent_look(const struct kr_request *request, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, struct kr_fid *ret_fid, struct kr_attr *ret_attr);

#endif

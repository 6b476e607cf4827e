/* Names and what hangs on them: LOOKUP, READLINK, MAKE, LINK, REMOVE, RENAME, READDIR, STATFS, xattrs, ACCESS. */
#ifndef KR_SERVER_NAMES_H
#define KR_SERVER_NAMES_H

struct kr_attr;
struct kr_fid;
struct kr_request;
struct kr_server;

void kr_names_register(struct kr_server *server);
void kr_setattr_register(struct kr_server *server);
/* In the job of REQUEST, which has changed DIR if request->err is 0: its attributes as they are now (RET_ATTR may be
 * NULL), left alone if they are not known; and whether the node can know which names that concerns. */
void kr_names_look(struct kr_request *request, const struct kr_fid *dir, struct kr_attr *ret_attr);
/* READDIR, STATFS, xattrs, ACCESS (readdir_xattr.c). */
void kr_readdir_xattr_register(struct kr_server *server);
/* LOOKUPS (lookups.c). */
void kr_lookups_register(struct kr_server *server);

#endif

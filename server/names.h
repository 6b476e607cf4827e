/* Names and what hangs on them: LOOKUP, READLINK, MAKE, LINK, REMOVE, RENAME, READDIR, STATFS, xattrs, ACCESS. */
#ifndef KR_SERVER_NAMES_H
#define KR_SERVER_NAMES_H

struct kr_server;

void kr_names_register(struct kr_server *server);
/* READDIR, STATFS, xattrs, ACCESS (lists.c). */
void kr_lists_register(struct kr_server *server);
/* LOOKUPS (lookups.c). */
void kr_lookups_register(struct kr_server *server);

#endif

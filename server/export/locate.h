/* Where a file of the export is just now: its directory and its name there.
 *
 * An identity does not tell, and no path is kept; so it is looked for where it was known last, then where this
 * machine's kernel still knows it, then in its last directory, then everywhere (at most KR_LOCATE_ENTRIES entries).
 * Only for what is rare.  Any thread; blocks.
 */
#ifndef KR_SERVER_LOCATE_H
#define KR_SERVER_LOCATE_H

#include "server/export/export_priv.h"

enum { KR_LOCATE_ENTRIES = 2000000, KR_LOCATE_DEPTH = 200 };

struct kr_locate {
	struct kr_fid parent;
	char name[KR_NAME_MAX + 1];
};

/* The directory that PATH (components and '/') names below ROOT, but for its last component: that goes to NAME, of
 * KR_NAME_MAX + 1 bytes. -ENOENT: PATH names nothing in a directory; else as kr_export_lookup, as CRED. */
int kr_locate_last(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *root, const char *path,
	struct kr_fid *ret_parent, char *name);
/* A place of FID. HINT: where it was (its `parent` length 0: not known). -ESTALE: it has no name any more; -ENOENT: it
 * has one, but was not found. */
int kr_locate_find(
	struct kr_export *export, const struct kr_fid *fid, const struct kr_locate *hint, struct kr_locate *ret_place);
/* NAME in DIRECTORY as a path from the export's root, for people; owned. */
char *kr_locate_text(struct kr_export *export, const struct kr_fid *directory, const char *name);

#endif

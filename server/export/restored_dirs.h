/* Directories in which, or as which, something was restored (restore.c), with their ctimes after that.
 * The caller serializes. */
#ifndef KR_SERVER_RESTORED_DIRS_H
#define KR_SERVER_RESTORED_DIRS_H

#include "common/base/table.h"
#include "common/base/types.h"

void kr_restored_dirs_fini(struct kr_table *dirs);
void kr_restored_dirs_note(struct kr_table *dirs, const struct kr_fid *dir, struct kr_time ctime);
/* NULL: nothing was restored there. */
const struct kr_time *kr_restored_dirs_ctime(const struct kr_table *dirs, const struct kr_fid *dir);

#endif

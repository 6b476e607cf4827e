/* The start of a journal: shared by journal_recover.c and journal_uncovered.c. */
#ifndef KR_FUSE_JOURNAL_RECOVER_PRIV_H
#define KR_FUSE_JOURNAL_RECOVER_PRIV_H

#include "common/base/table.h"
#include "fuse/journal/journal_priv.h"
#include "fuse/journal/journal_scan.h"

/* A file being rebuilt. */
struct kr_rebuilt {
	struct kr_table_link by_fid;
	struct kr_recovered_file *file;
};

struct kr_rebuild {
	struct kr_journal *journal;
	struct kr_scan *scan;
	struct kr_recovery *recovery;
	struct kr_segment **segments; /* by the scan's index */
	struct kr_rebuilt **by_name;  /* by the index in scan->names */
	struct kr_rebuilt *files;
	size_t file_count;
	struct kr_table by_fid;
};

/* NULL: the journal has nothing of it. */
struct kr_rebuilt *kr_rebuilt_find(const struct kr_rebuild *r, const struct kr_fid *fid);

/* When all records are taken: which files' dirty bytes are uncovered.  A list that cannot be read is damage. */
void kr_reopen_uncovered(struct kr_rebuild *r);

#endif

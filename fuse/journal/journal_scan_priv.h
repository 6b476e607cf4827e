/* Shared by the files that read a journal: journal_scan.c, journal_files.c. */
#ifndef KR_FUSE_JOURNAL_SCAN_PRIV_H
#define KR_FUSE_JOURNAL_SCAN_PRIV_H

#include "fuse/journal/journal_scan.h"

/* --- journal_files.c -------------------------------------------------------------------------- */
/* Opens every segment that is OWNER's, finds the newest.  0; -ENOMEM, or the error of the directory. */
int kr_scan_open_segments(struct kr_scan *scan, const struct kr_scan_owner *owner);
void kr_scan_close_segment(struct kr_scan_segment *segment);

/* --- journal_scan.c -------------------------------------------------------------------------------- */
/* With nothing read; kr_scan_free. */
struct kr_scan *kr_scan_new(int dir_fd);
/* Adds a damage; borrowed until the scan is freed. */
struct kr_journal_damage *kr_scan_add_damage(struct kr_scan *scan, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif

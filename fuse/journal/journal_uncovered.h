/* Bytes that the server refused, and whose lease their node has given back: what the journal's directory says of them
 * (UNCOVERED in journal_format.h).  The text is pure; the rest blocks, any thread, one at a time.
 */
#ifndef KR_FUSE_JOURNAL_UNCOVERED_H
#define KR_FUSE_JOURNAL_UNCOVERED_H

#include "fuse/journal/journal.h"

#define KR_JOURNAL_UNCOVERED "uncovered"

enum { KR_UNCOVERED_LINE_MAX = 2 * KR_FID_MAX + 64 };

/* The text's first line. */
#define KR_UNCOVERED_HEAD "uncovered 1\n"
/* Writes its line, NUL-terminated, to LINE. Returns its length. */
size_t kr_uncovered_format(const struct kr_uncovered *uncovered, char line[KR_UNCOVERED_LINE_MAX]);
/* The file of the line at *REST, which goes on to the next one. 0; -ENODATA: there is no more; -EBADMSG: it is none. */
int kr_uncovered_next(const char **rest, struct kr_uncovered *ret_uncovered);
/* Reads the list in DIR_FD: *RET_TEXT (the caller's, also with an error), of which *RET_LINES are the lines. 0,
 * -ENOENT, -EBADMSG (damaged) or -errno. */
int kr_uncovered_read(int dir_fd, char **ret_text, const char **ret_lines);

/* Replaces the list by TEXT, which is durable then; an empty TEXT removes it. 0 or -errno with a reason: then the
 * former text is there, whole.  Where only the sync of the directory failed, TEXT is there already, and a loss of power
 * may bring the former text back. */
int kr_journal_write_uncovered(struct kr_journal *journal, const char *text, size_t length);

#endif

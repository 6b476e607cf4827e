/* The logs of the state directory: text files of lines, each followed by a blank and its checksum (XXH3-64 of the text
 * before the blank, 16 hexadecimal digits).  A line begins with its type: "boot", "back" (recovery/clock_setbacks.h),
 * "doubt" (export/doubtful_times.h), "alias" (export/fid_aliases.h), "file" (flush/failed_syncs.h), or is a JSON object
 * (recovery/conflict_log.h).
 *
 * A line is valid if and only if its checksum is right.  A reader skips all others: a crash or a full disk has cut them
 * short.  A writer appends lines durably before it tells anybody what they say; or it replaces the log, atomically
 * and durably.  So a line that was told to anybody is read by every later instance, unless the disk has changed it.
 * `kairan journal` prints the logs and counts invalid lines.  Any thread. */
#ifndef KR_SERVER_LINE_LOG_H
#define KR_SERVER_LINE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "common/rpc/wire.h"

enum { KR_LINE_LOG_MAX = 64 << 20 }; /* of a longer log only the end is read, so that the server starts */

/* Adds a line, of any length and without a newline, to LINES, which are to be written. */
void kr_line_log_add(struct kr_writer *lines, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends the lines to the log FD (O_APPEND), durably. 0 or -errno; then some of them may be there. Blocks. */
int kr_line_log_append(const struct kr_writer *lines, int fd);
/* Replaces DIR/NAME by the lines, durably. 0 or -errno with a reason. Blocks. */
int kr_line_log_write(const struct kr_writer *lines, int dir, const char *name);

/* Gives FN each valid line of TEXT (LENGTH bytes, then a 0; changed) without its checksum; FN may write into it. How
 * many invalid lines there are. PURE. */
size_t kr_line_log_parse(char *text, size_t length, void (*fn)(void *context, char *line), void *context);
/* The same for DIR/NAME. A missing log has no lines. *RET_DAMAGED (unless NULL): how many are invalid. 0, or -errno
 * with a reason. Blocks. */
int kr_line_log_read(
	int dir, const char *name, void (*fn)(void *context, char *line), void *context, size_t *ret_damaged);

#endif

/* Logs of the state directory that are lines of text, each with a checksum (hexadecimal, after a blank) of what stands
 * before it: synced.c, replayed.c, setbacks.c, doubts.c.  What was cut short by the end of the process or of the space
 * is no line, and spoils none.  Any thread.
 */
#ifndef KR_SERVER_LINE_LOG_H
#define KR_SERVER_LINE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/types.h"

enum { KR_LINE_MAX = 2 * KR_FID_MAX + 128 }; /* without its checksum */

/* Lines to be written; zeros: none yet. BYTES are the caller's to free. */
struct kr_line_log {
	char *bytes;
	size_t length, capacity;
	bool failed; /* there was no memory for all */
};

void kr_line_log_add(struct kr_line_log *lines, const char *line);
/* Appends them to the log FD (O_APPEND). 0 or -errno; then part of them may be there. Blocks. */
int kr_line_log_append(const struct kr_line_log *lines, int fd);

/* Whatever bytes are in the log DIR/NAME: FN gets each line that is whole, without its checksum, and may write into it.
 * Of a log that is not there none. 0 or -errno with a reason: it cannot be read, or has more than LIMIT bytes. Blocks.
 */
int kr_line_log_read(int dir, const char *name, size_t limit, void (*fn)(void *context, char *line), void *context);

#endif

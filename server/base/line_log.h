/* Logs of the state directory in lines of text, each with a checksum (hexadecimal, after a blank) of the text before
 * it: clock_setbacks.c, doubtful_times.c, fid_aliases.c. A reader skips lines that a crash or a full disk cut
 * short. Any thread. */
#ifndef KR_SERVER_LINE_LOG_H
#define KR_SERVER_LINE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/types.h"

enum { KR_LINE_MAX = 4 * KR_FID_MAX + 128 }; /* without its checksum */

/* Lines to write; zeros: none yet. The caller frees BYTES. */
struct kr_line_log {
	char *bytes;
	size_t length, capacity;
	bool failed; /* no memory for all lines */
};

void kr_line_log_add(struct kr_line_log *lines, const char *line);
/* Appends the lines to the log FD (O_APPEND). 0 or -errno; then some of them may be there. Blocks. */
int kr_line_log_append(const struct kr_line_log *lines, int fd);

/* Gives FN each whole line of DIR/NAME without its checksum; FN may write into it. A missing log has no lines. 0, or
 * -errno with a reason: unreadable, or larger than LIMIT bytes. Blocks. */
int kr_line_log_read(int dir, const char *name, size_t limit, void (*fn)(void *context, char *line), void *context);

#endif

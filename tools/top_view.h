/* What `kairan top` shows: text out of two statuses, of now and of a moment before.  PURE.
 *
 * A line that begins with KR_TOP_HEAD is the head of a table.  No line is longer than the width: columns that have no
 * room are left out, the least important first. */
#ifndef KR_TOOLS_TOP_VIEW_H
#define KR_TOOLS_TOP_VIEW_H

#include <jansson.h>
#include <stdio.h>

#define KR_TOP_HEAD '\1'

struct kr_top_moment {
	const json_t *now, *before; /* without a status before there are no rates */
	double seconds;             /* between both */
	unsigned width;             /* in characters; at least 20 */
};

/* Mounts: NOW and BEFORE are arrays of their statuses.  Of a single one the details follow. */
void kr_top_mounts(const struct kr_top_moment *moment, FILE *out);
/* A server, under the NAME by which it was asked. */
void kr_top_server(const struct kr_top_moment *moment, const char *name, FILE *out);

#endif

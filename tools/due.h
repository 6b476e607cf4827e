/* Which unflushed bytes a flush has to wait for: those that had been written when it began.  What programs write
 * meanwhile is not waited for, else a flush would not end before they do.
 *
 * A daemon numbers the writes of its files, and tells of each file up to which of them all is on the server's disk.
 */
#ifndef KR_TOOLS_DUE_H
#define KR_TOOLS_DUE_H

#include <jansson.h>
#include <stdbool.h>

struct kr_due;

/* STATUS: a mount's, when the flush began. Owned. */
struct kr_due *kr_due_new(const json_t *status);
void kr_due_free(struct kr_due *due);

/* Whether FILE, one of STATUS, which came later, may have bytes that were written before. */
bool kr_due_has(const struct kr_due *due, const json_t *status, const json_t *file);

#endif

/* The unflushed bytes for which a flush waits: those written before it began.  Later bytes do not count, else a flush
 * would not end before the programs do.
 *
 * A daemon numbers the writes of its files, and tells for each file up to which write all is on the server's disk.
 */
#ifndef KR_TOOLS_FLUSH_GOAL_H
#define KR_TOOLS_FLUSH_GOAL_H

#include <jansson.h>
#include <stdbool.h>

struct kr_flush_goal;

/* STATUS: the mount's, from the beginning of the flush.  Owned. */
struct kr_flush_goal *kr_flush_goal_new(const json_t *status);
void kr_flush_goal_free(struct kr_flush_goal *goal);

/* Whether FILE, of the later STATUS, may have bytes that were written before the flush began. */
bool kr_flush_goal_has(const struct kr_flush_goal *goal, const json_t *status, const json_t *file);

#endif

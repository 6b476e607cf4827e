/* What is busy while a mount is traced: the server's processors and disk, this node's processors, and the way between
 * them.  Lines "S" of the trace (io_trace_format.h). */
#ifndef KR_FUSE_LOAD_SAMPLES_H
#define KR_FUSE_LOAD_SAMPLES_H

#include "fuse/base/mount.h"

struct kr_load_samples;

/* Loop thread, as all below. */
struct kr_load_samples *kr_load_samples_new(struct kr_mount *mount);
/* From now on asks the server twice a second; lines tell times since STARTED_NS. */
void kr_load_samples_start(struct kr_load_samples *samples, uint64_t started_ns);
void kr_load_samples_stop(struct kr_load_samples *samples);
/* The lines since the last call, owned; NULL: none. */
char *kr_load_samples_take(struct kr_load_samples *samples);
/* Before the loop ends: closes the timer. */
void kr_load_samples_close(struct kr_load_samples *samples);
/* The loop has ended. */
void kr_load_samples_free(struct kr_load_samples *samples);

#endif

/* The steps of kairan envelope, as one node does them: all its processes at the same time, each with files of its own.
 * A step ends after half a second and eight files of each process, after four seconds, or if there are no more files.
 */
#ifndef KR_TOOLS_BENCH_ENVELOPE_STEPS_H
#define KR_TOOLS_BENCH_ENVELOPE_STEPS_H

#include <stdbool.h>
#include <stdint.h>

/* Smaller files are not read and written by turns: their bytes hardly fill a link. */
enum { KR_ENVELOPE_PROCESSES_MAX = 64, KR_ENVELOPE_MIXED_LEAST = 256 << 10 };

enum kr_envelope_step {
	KR_ENVELOPE_CREATE,
	KR_ENVELOPE_STAT,
	KR_ENVELOPE_OPEN,
	KR_ENVELOPE_REMOVE,
	KR_ENVELOPE_WRITE,
	KR_ENVELOPE_COPY, /* by the server, which has the copies in memory, and no node has them; to the end */
	KR_ENVELOPE_READ_SERVER,
	KR_ENVELOPE_READ_CACHE,
	KR_ENVELOPE_READ_NODE, /* copies of another node that has read them */
	KR_ENVELOPE_COPY_SHARED,
	KR_ENVELOPE_READ_SHARED, /* every node the same ones */
	KR_ENVELOPE_COPY_MIXED,
	KR_ENVELOPE_READ_WRITE, /* by turns: a copy from the server, and a new file */
	KR_ENVELOPE_STEPS
};

struct kr_envelope_task {
	enum kr_envelope_step step;
	unsigned owner; /* the number of the node whose files they are */
	unsigned processes;
	uint64_t size;
	/* With how many files at most each process does the step; then with how many it has, but for READ_WRITE. */
	uint64_t counts[KR_ENVELOPE_PROCESSES_MAX];
	double rate; /* result: files per second, all processes together */
};

/* As people read it. */
const char *kr_envelope_step_name(enum kr_envelope_step step);
/* It makes files for other steps. */
bool kr_envelope_copies(enum kr_envelope_step step);
/* Does a step in the directory DIR.  -errno with a reason; -EINTR after a signal (bench_place.h). */
int kr_envelope_do(int dir, struct kr_envelope_task *task);

#endif

/* A directory that a measurement makes and removes, for kairan bench and kairan envelope; and the signals that end a
 * measurement. */
#ifndef KR_TOOLS_BENCH_PLACE_H
#define KR_TOOLS_BENCH_PLACE_H

#include <signal.h>
#include <stdint.h>

#include "fuse/daemon/local_place.h"

enum { KR_BENCH_SHARE_OF_FREE = 8 }; /* of the free space a measurement takes this part at most */

struct kr_bench_dir {
	char *parent, *path; /* owned; path NULL: not made */
	char type[KR_PLACE_TYPE];
	int fd; /* -1: none */
};

/* Set by SIGINT, SIGTERM and SIGHUP after kr_bench_watch_signals: the signal's number.  A second one ends the program.
 */
extern volatile sig_atomic_t kr_bench_stopped;
void kr_bench_watch_signals(void);
/* The exit code of a command whose measurement ended with ERR, which it tells.  Does not return after a signal. */
int kr_bench_end(int err);

/* Makes an empty directory in PARENT.  -errno with a reason. */
int kr_bench_dir_make(struct kr_bench_dir *dir, const char *parent);
/* Removes it with the files in it. */
void kr_bench_dir_remove(struct kr_bench_dir *dir);
/* Lowers *LIMIT to what a measurement may take.  -ENOSPC with a reason: that is less than LEAST. */
int kr_bench_dir_room(const struct kr_bench_dir *dir, uint64_t least, uint64_t *limit);

#endif

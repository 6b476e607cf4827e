/* Other programs that a command runs. */
#ifndef KR_TOOLS_SPAWN_H
#define KR_TOOLS_SPAWN_H

#include <sys/types.h>

/* Starts ARGV, whose program is looked up in $PATH; IN and OUT become its standard input and output (-1: as here).
 * 0 and *RET_PID; -ENOENT: it is not installed; other errors of posix_spawnp(3). */
int kr_tool_spawn(const char *const *argv, int in, int out, pid_t *ret_pid);
/* Waits for its end.  0; -EIO: it has failed. */
int kr_tool_wait(pid_t pid);

#endif

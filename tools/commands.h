/* The commands of `kairan`.  ARGV[0] is the command's name; each returns the exit code. */
#ifndef KR_TOOLS_COMMANDS_H
#define KR_TOOLS_COMMANDS_H

#include <jansson.h>

#include "fuse/daemon/mountpoint.h"

int kr_tool_status(int argc, char **argv);
int kr_tool_top(int argc, char **argv);
int kr_tool_log(int argc, char **argv);
int kr_tool_trace(int argc, char **argv);
int kr_tool_flush(int argc, char **argv);
int kr_tool_stage(int argc, char **argv);
int kr_tool_where(int argc, char **argv);
int kr_tool_umount(int argc, char **argv);
/* 0, 1 with a message, 64 wrong arguments. */
int kr_tool_bench(int argc, char **argv);
/* 0, 1 with a message, 64 wrong arguments. */
int kr_tool_envelope(int argc, char **argv);
/* 0, 1 with a message, 64 wrong arguments. */
int kr_tool_predict(int argc, char **argv);
/* 0, 1 a problem was found, 64 wrong arguments. */
int kr_tool_doctor(int argc, char **argv);
int kr_tool_gantt(int argc, char **argv);
/* 0 sound, 1 damaged, 2 cannot be read, 64 wrong arguments. */
int kr_tool_journal(int argc, char **argv);
/* 0, 1 with a message, 64 wrong arguments. */
int kr_tool_key(int argc, char **argv);

/* Flushes all files of a mount, and unless QUIET shows progress.  Goes on, also with bytes written meanwhile, until
 * only refused bytes are left, or TIMEOUT_MS is over (0: no limit).  Prints what is not on the server.  An enum
 * kr_exit; *RET_ONLY_REFUSED: only refused bytes are left. */
int kr_flush_mount(const struct kr_mounted *mounted, unsigned long timeout_ms, bool quiet, bool *ret_only_refused);

#endif

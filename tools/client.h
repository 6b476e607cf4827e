/* The kairan command's way to a daemon: one STATUS request to a mount's control socket or to a server, and its JSON. */
#ifndef KR_TOOLS_CLIENT_H
#define KR_TOOLS_CLIENT_H

#include <jansson.h>

#include "fuse/daemon/mountpoint.h"
#include "tools/login.h"

/* Exit codes of all commands that talk to daemons. */
enum kr_exit { KR_EXIT_OK = 0, KR_EXIT_LEFT = 1, KR_EXIT_FAILED = 2, KR_EXIT_USAGE = 64 };
enum { KR_ASK_TIMEOUT_MS = 10000 };

/* Asks the daemon of a mount. 0 and *RET_STATUS (owned); -ENOENT: its control socket is not known; else what went
 * wrong, with a sentence in kr_fail_reason. */
int kr_ask_mount(const struct kr_mounted *mounted, const char *what, const char *argument, json_t **ret_status);
/* The same of the daemon whose control socket is PATH: one that is not mounted any more. */
int kr_ask_socket(const char *path, const char *what, const char *argument, json_t **ret_status);
/* Asks the server HOST[:PORT], after proving to it what PROOF has. */
int kr_ask_server(const char *text, const struct kr_tool_proof *proof, json_t **ret_status);

/* Whether the daemon of this mount still runs. PID: from its status. */
bool kr_daemon_runs(int pid);
/* A copy of VALUE, owned, in whose strings a terminal finds nothing to obey (kr_text_shown). */
json_t *kr_printable(const json_t *value);
/* Prints USAGE, because it was ASKED for, or because the arguments are wrong. The command's exit code then. */
int kr_tool_usage(const char *usage, bool asked);
/* CODE, or KR_EXIT_FAILED after saying so: what was printed has not all been taken (a full disk). For commands whose
 * product it is. */
int kr_tool_printed(int code);
/* The SECONDS of --timeout as milliseconds; -EINVAL, after saying so: TEXT is no number of seconds above 0. */
int kr_tool_timeout(const char *text, unsigned long *ret_ms);
/* "12.5 MiB" into one of a few static buffers. */
const char *kr_bytes_text(json_int_t bytes);
/* An integer somewhere below OBJECT: kr_number(status, "backlog", "bytes"); 0 when it is not there. */
json_int_t kr_number(const json_t *object, const char *section, const char *name);

#endif

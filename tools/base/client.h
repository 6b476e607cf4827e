/* The kairan command's connection to a daemon: one STATUS request to a mount's control socket or to a server, and its
 * JSON, or the lines of the access log. */
#ifndef KR_TOOLS_CLIENT_H
#define KR_TOOLS_CLIENT_H

#include <getopt.h>
#include <jansson.h>

#include "fuse/daemon/mountpoint.h"
#include "tools/base/login.h"

/* Exit codes of all commands that talk to daemons. */
enum kr_exit { KR_EXIT_OK = 0, KR_EXIT_LEFT = 1, KR_EXIT_FAILED = 2, KR_EXIT_USAGE = 64 };
enum { KR_ASK_TIMEOUT_MS = 10000 };

/* Asks the daemon of a mount.  0 and *RET_STATUS (owned); -ENOENT: its control socket is unknown; other errors with a
 * sentence in kr_fail_reason. */
int kr_ask_mount(const struct kr_mounted *mounted, const char *what, const char *argument, json_t **ret_status);
/* Reads the access log of a mount with a FILTER (fuse/ops/access_log.h): calls ON_LINES for one or more whole lines,
 * until that returns false or the daemon ends.  -EBUSY: too many programs read it; other errors as above. */
int kr_follow_log(
	const struct kr_mounted *mounted, const char *filter, bool (*on_lines)(const char *lines, size_t length));
/* As kr_ask_mount, for the daemon whose control socket is PATH, which may no longer have a mount. */
int kr_ask_socket(const char *path, const char *what, const char *argument, json_t **ret_status);
/* Asks the server HOST[:PORT], after authentication with PROOF. */
int kr_ask_server(const char *text, const struct kr_tool_proof *proof, json_t **ret_status);

/* How a server is asked to find out about the way to it. */
struct kr_probe {
	unsigned timeout_ms;
	unsigned padding;     /* bytes by which the request is longer */
	unsigned max_segment; /* of TCP, in both directions; 0: as the kernels agree */
	/* Not NULL: takes the lines of an answer that does not end; false: enough. */
	bool (*on_lines)(const char *lines, size_t length);
	/* Results: by this machine's clock, when the request was sent and when the answer had come; its bytes. */
	uint64_t sent_ns, answered_ns;
	size_t answer;
	uint64_t rtt_us; /* the connection's shortest round trip; 0: not known */
	bool begun; /* that answer without an end has */
};
/* As kr_ask_server. -ETIMEDOUT: no answer within timeout_ms. */
int kr_probe_server(const char *text, const struct kr_tool_proof *proof, struct kr_probe *probe, json_t **ret_status);

/* A copy of VALUE, owned, whose strings cannot control a terminal (kr_text_shown). */
json_t *kr_printable(const json_t *value);
/* The same of a server's status.  Nodes of one name become NAME#NUMBER: their mounts' status tells that number. */
json_t *kr_server_printable(const json_t *status);
/* Prints kr_fail_reason; KR_EXIT_FAILED. */
int kr_tool_failed(void);
/* getopt_long, which after its complaint of an unknown long option names the one that may have been meant. */
int kr_tool_option(int argc, char **argv, const char *letters, const struct option *options);
/* Prints USAGE: the user ASKED for it, or the arguments are wrong.  Returns the command's exit code. */
int kr_tool_usage(const char *usage, bool asked);
/* Returns CODE.  If standard output has not taken all (a full disk), prints that and returns KR_EXIT_FAILED.  For
 * commands whose product is their output. */
int kr_tool_printed(int code);
/* The number TEXT of OPTION, from 1 to MAX.  False, after a message: it is none. */
bool kr_tool_number(const char *option, const char *text, unsigned max, unsigned *ret_number);
/* The SECONDS of --timeout as milliseconds.  -EINVAL, after a message: TEXT is no number of seconds above 0. */
int kr_tool_timeout(const char *text, unsigned long *ret_ms);

#endif

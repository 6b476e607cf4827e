/* kairan: the administrator's and user's command. */
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/nearest.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/commands.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{"status", kr_tool_status, "what a mount or a server is doing, what is not yet on the server, errors"},
	{"top", kr_tool_top, "the same live: rates, backlog, times of operations, nodes"},
	{"log", kr_tool_log, "each operation of programs on a mount, as it happens"},
	{"trace", kr_tool_trace, "what each program asks of which files, and what it waits for"},
	{"doctor", kr_tool_doctor, "look for what makes a node or a server slow, unsafe or unreachable"},
	{"bench", kr_tool_bench, "how fast a mount is beside this machine's disk, within a minute"},
	{"envelope", kr_tool_envelope, "what a mount can do at most, by file size and processes, within minutes"},
	{"predict", kr_tool_predict, "how long the programs of a trace would spend in I/O on a mount with an envelope"},
	{"flush", kr_tool_flush, "bring unflushed bytes to the server now, or discard refused ones"},
	{"stage", kr_tool_stage, "bring files and trees to the caches of all nodes, ahead of a job"},
	{"where", kr_tool_where, "which nodes hold how much of files and trees"},
	{"umount", kr_tool_umount, "flush, unmount, wait until the daemon is gone"},
	{"journal", kr_tool_journal, "check and list what a journal's directory holds"},
	{"gantt", kr_tool_gantt, "draw the phases of collective I/O that libkairan-mpiio has traced"},
	{"key", kr_tool_key, "make a key, of a node or of one user"},
};

static void help(FILE *out)
{
	fprintf(out, "usage: kairan COMMAND [ARGUMENTS]\n");
	for (size_t i = 0; i < KR_ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
	fprintf(out, "kairan COMMAND --help says more.\n");
}

static void suggest(const char *word)
{
	struct kr_nearest nearest = {0};

	for (size_t i = 0; i < KR_ARRAY_SIZE(commands); i++)
		kr_nearest_try(&nearest, word, commands[i].name);
	if (nearest.name)
		fprintf(stderr, "; did you mean %s?", nearest.name);
	fprintf(stderr, "\n");
}

/* ARGV begins with the command; getopt complains under that name. */
static int run(size_t command, int argc, char **argv)
{
	char name[64];

	snprintf(name, sizeof(name), "kairan %s", commands[command].name);
	argv[0] = name;
	return commands[command].run(argc, argv);
}

int main(int argc, char **argv)
{
	if (kr_open_standard_fds() < 0)
		return EXIT_FAILURE;
	kr_log_init("kairan", KR_LOG_WARNING);
	if (argc < 2) {
		help(stderr);
		return KR_EXIT_USAGE;
	}
	for (size_t i = 0; i < KR_ARRAY_SIZE(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return run(i, argc - 1, argv + 1);
	if (strcmp(argv[1], "--version") == 0) {
		printf("kairan %s\n", KR_VERSION);
	} else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0 || strcmp(argv[1], "-h") == 0) {
		help(stdout);
	} else {
		fprintf(stderr, "kairan: %s: no such %s", argv[1], argv[1][0] == '-' ? "option" : "command");
		suggest(argv[1]);
		help(stderr);
		return KR_EXIT_USAGE;
	}
	return KR_EXIT_OK;
}

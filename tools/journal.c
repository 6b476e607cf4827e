#include "tools/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#include "common/fail.h"
#include "common/util.h"
#include "fuse/journal_read.h"
#include "tools/replay.h"

static const char usage[] = "usage: kairan journal [--dump | --dump-all] DIR\n"
	"       kairan journal DIR --replay HOST[:PORT] [--key FILE] [--timeout SECONDS]\n"
	"Checks the journal in DIR (or in DIR/journal) and says which files it has bytes of.\n"
	"  --dump      list the records that count as well\n"
	"  --dump-all  ... and the dead ones\n"
	"Nothing is changed. Exit code: 0 sound, 1 damaged, 2 cannot be read.\n"
	"  --replay S  brings those bytes to the server S, as the mount that wrote them would if it came back:\n"
	"              into files that nobody has changed since, else into conflict files; says what went where.\n"
	"              DIR is a mount's local directory that nobody uses. May be repeated after any end.\n"
	"  --key FILE  the key to present; --timeout: give up after so many seconds (default: a day)\n"
	"Exit code then: 0 all is on the server's disk, 1 some is not (it stays in DIR), 2 it could not be done.\n";

/* DIR is the local directory of a mount, or the journal itself. */
static int open_directory(const char *path, bool *ret_local)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), inner;

	if (fd < 0)
		return -errno;
	inner = openat(fd, "journal", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*ret_local = inner >= 0;
	if (inner < 0)
		return fd;
	close(fd);
	return inner;
}

static int open_journal(const char *path, int *ret_fd, struct kr_scan **ret_scan)
{
	static const struct kr_scan_owner anybody;
	bool local = false;
	int err;

	*ret_fd = open_directory(path, &local);
	if (*ret_fd < 0)
		return kr_fail_errno(*ret_fd, "%s", path);
	err = kr_scan_open(*ret_fd, &anybody, ret_scan);
	if (err || local || (*ret_scan)->segment_count || (*ret_scan)->blank_count)
		return err;
	kr_scan_free(*ret_scan);
	return kr_fail(-ENOENT, "%s holds no journal (it should be what local= of the mount named)", path);
}

int kr_tool_journal(int argc, char **argv)
{
	static const struct option options[] = {
		{"dump", no_argument, NULL, 'd'},
		{"dump-all", no_argument, NULL, 'a'},
		{"replay", required_argument, NULL, 'r'},
		{"key", required_argument, NULL, 'k'},
		{"timeout", required_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	KR_AUTO_FD int dir_fd = -1;
	struct kr_replay replay = {0};
	struct kr_scan *scan;
	bool dump = false, all = false, sound;
	int option, err;

	optind = 1;
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'h')
			return fputs(usage, stdout) < 0;
		if (option == '?')
			return fputs(usage, stderr), 64;
		if (option == 'r')
			replay.server = optarg;
		else if (option == 'k')
			replay.key = optarg;
		else if (option == 't')
			replay.timeout = optarg;
		else
			dump = true;
		all |= option == 'a';
	}
	if (optind + 1 != argc || (replay.server ? dump : replay.key || replay.timeout))
		return fputs(usage, stderr), 64;
	replay.directory = argv[optind];
	if (replay.server)
		return kr_replay(&replay);
	err = open_journal(argv[optind], &dir_fd, &scan);
	if (err) {
		fprintf(stderr, "kairan: %s\n", kr_fail_reason());
		return 2;
	}
	if (dump)
		kr_scan_dump(scan, all, stdout);
	sound = kr_scan_verify(scan, stdout);
	kr_scan_free(scan);
	return sound ? 0 : 1;
}

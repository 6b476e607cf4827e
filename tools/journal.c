/* `kairan journal DIR`: shows and checks a journal's directory, also a dead node's disk on another machine. */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "fuse/journal/journal_scan.h"
#include "server/recovery/state_dump.h"
#include "tools/base/client.h"
#include "tools/commands.h"
#include "tools/replay.h"

static const char usage[] =
	"usage: kairan journal [--dump | --dump-all] DIR\n"
	"       kairan journal DIR --replay HOST[:PORT] [--key FILE | --munge [--munge-socket PATH] [--munge-uid "
	"UID]]\n"
	"                          [--security auth|integrity|privacy] [--timeout SECONDS]\n"
	"Checks the journal in DIR (or in DIR/journal) and says which files it has bytes of.  If DIR is a server's\n"
	"state directory: prints and checks what it says.\n"
	"  --dump      list the records that count as well\n"
	"  --dump-all  ... and the dead ones; of a state directory the executed requests as well\n"
	"Nothing is changed. Exit code: 0 sound, 1 damaged, 2 cannot be read.\n"
	"  --replay S  brings those bytes to the server S, as the mount that wrote them would if it came back:\n"
	"              into files that nobody has changed since, else into conflict files; says what went where.\n"
	"              DIR is a mount's local directory that nobody uses. May be repeated after any end.\n"
	"  --key FILE  the key to present; --munge, --munge-socket, --munge-uid, --security: as the mount's options;\n"
	"              without them, as the section \"mount\" of /etc/kairan/kairan.json says\n"
	"  --timeout   give up after so many seconds (default, and at most: a day)\n"
	"Exit code then: 0 all is on the server's disk, 1 some is not (it stays in DIR), 2 it could not be done.\n";

/* DIR is the local directory of a mount, or the journal itself. */
static int open_directory(const char *path, bool *ret_local)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), inner, err;

	if (fd < 0)
		return -errno;
	inner = openat(fd, "journal", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*ret_local = inner >= 0;
	if (inner < 0 && (errno == ENOENT || errno == ENOTDIR))
		return fd;
	err = inner < 0 ? -errno : 0;
	close(fd);
	return err < 0 ? err : inner;
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
	if (err || local || (*ret_scan)->segment_count || (*ret_scan)->blank_count || (*ret_scan)->refused)
		return err;
	kr_scan_free(*ret_scan);
	if (faccessat(*ret_fd, "kairan-job/mount/journal", F_OK, 0) == 0)
		return kr_fail(
			-ENOENT, "%s is of a mount with view=job, whose journal is in %s/kairan-job/mount", path, path);
	return kr_fail(-ENOENT, "%s holds no journal (it should be what local= of the mount named)", path);
}

struct request {
	struct kr_replay replay;
	bool dump, all, proves;
};

static int take_timeout(const char *text, unsigned long *ret_ms)
{
	if (kr_tool_timeout(text, ret_ms) < 0)
		return KR_EXIT_USAGE;
	if (*ret_ms <= KR_REPLAY_MAX_S * 1000UL)
		return -1;
	fprintf(stderr, "kairan: --timeout: at most %d seconds (a day); the command may be repeated after any end\n",
		KR_REPLAY_MAX_S);
	return KR_EXIT_USAGE;
}

/* As kr_tool_proof_take. */
static int take(struct request *request, int option)
{
	int code = -1;

	if (option == 'r') {
		request->replay.server = optarg;
	} else if (option == 't') {
		code = take_timeout(optarg, &request->replay.timeout_ms);
	} else if (option == 'S') {
		request->replay.security = optarg;
	} else if (option == 'd' || option == 'a') {
		request->dump = true;
		request->all |= option == 'a';
	} else {
		code = kr_tool_proof_take(&request->replay.proof, option, usage);
		request->proves = true;
	}
	return code;
}

/* Why the arguments, of which COUNT are no options, are wrong; NULL: they are not. */
static const char *nonsense(const struct request *request, int count)
{
	const struct kr_replay *replay = &request->replay;

	if (count != 1)
		return count ? "too many arguments" : "no directory is given";
	if (!replay->server && (request->proves || replay->security || replay->timeout_ms))
		return "a key, MUNGE, --security and --timeout are for --replay";
	if (replay->server && request->dump)
		return "--dump and --replay exclude each other";
	return replay->proof.key && replay->proof.munge ? "--key and --munge are two ways to the same: choose one" :
							  NULL;
}

static int check_state(int dir, bool all)
{
	size_t damaged;

	if (kr_state_dump(dir, all, stdout, &damaged)) {
		fprintf(stderr, "kairan: %s\n", kr_fail_reason());
		return 2;
	}
	return kr_tool_printed(damaged ? KR_EXIT_LEFT : KR_EXIT_OK);
}

static int check(const char *path, bool dump, bool all)
{
	KR_AUTO_FD int dir_fd = -1, state_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct kr_scan *scan;
	bool sound;

	if (state_fd >= 0 && kr_state_dump_knows(state_fd))
		return check_state(state_fd, all);
	if (open_journal(path, &dir_fd, &scan)) {
		fprintf(stderr, "kairan: %s\n", kr_fail_reason());
		return 2;
	}
	if (dump)
		kr_scan_dump(scan, all, stdout);
	sound = kr_scan_verify(scan, stdout);
	kr_scan_free(scan);
	return kr_tool_printed(sound ? KR_EXIT_OK : KR_EXIT_LEFT);
}

int kr_tool_journal(int argc, char **argv)
{
	static const struct option options[] = {
		{"dump", no_argument, NULL, 'd'},
		{"dump-all", no_argument, NULL, 'a'},
		{"replay", required_argument, NULL, 'r'},
		{"security", required_argument, NULL, 'S'},
		{"timeout", required_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},
		KR_TOOL_PROOF_OPTIONS,
		{0},
	};
	struct request request = {0};
	const char *wrong;
	int option, code = -1;

	optind = 1;
	while (code < 0 && (option = kr_tool_option(argc, argv, "h", options)) != -1)
		code = take(&request, option);
	if (code >= 0)
		return code;
	wrong = nonsense(&request, argc - optind);
	if (wrong) {
		fprintf(stderr, "kairan: %s\n", wrong);
		return kr_tool_usage(usage, false);
	}
	request.replay.directory = argv[optind];
	return request.replay.server ? kr_replay(&request.replay) : check(argv[optind], request.dump, request.all);
}

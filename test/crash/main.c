/* The power-loss checker: lives of a journal and of a server's directories, with thousands of states that a crash could
 * have left on the way, each recovered by the real code and checked (see journal.c, server.c, disk.h).
 *
 * crash_check [--points N] [--seed S] [--journal | --server] [--broken WHAT]
 * Exit code 0: all is well.  With --broken (see broken_names) something is wrong on purpose, and
 * the exit code is 0 when that has been noticed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "test/crash/crash.h"
#include "test/crash/disk.h"

static const char *const broken_names[] = {
	"", "since", "power", "checksum", "tail", "sync", "state", "release", "share"};

void crash_failed(struct crash *crash, const char *format, ...)
{
	va_list arguments;

	if (crash->failure)
		return;
	va_start(arguments, format);
	vsnprintf(crash->text, sizeof(crash->text), format, arguments);
	va_end(arguments);
	crash->failure = crash->text;
}

static void empty_at(int fd)
{
	DIR *directory = fdopendir(fd);
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (unlinkat(fd, entry->d_name, 0) == 0)
			continue;
		empty_at(openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
		unlinkat(fd, entry->d_name, AT_REMOVEDIR);
	}
	if (directory)
		closedir(directory);
}

void crash_empty(const char *path)
{
	empty_at(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static enum crash_broken parse_broken(const char *text)
{
	for (size_t i = 1; i < KR_ARRAY_SIZE(broken_names); i++)
		if (strcmp(text, broken_names[i]) == 0)
			return (enum crash_broken)i;
	fprintf(stderr, "crash_check: nothing is called '%s'\n", text);
	exit(2);
}

static void make_directories(struct crash *crash)
{
	snprintf(crash->directory, sizeof(crash->directory), "%s/kairan-crash-XXXXXX",
		access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(crash->directory)) {
		perror("crash_check");
		exit(2);
	}
	snprintf(crash->state, sizeof(crash->state), "%s/state", crash->directory);
	snprintf(crash->live, sizeof(crash->live), "%s/live", crash->directory);
	if (mkdir(crash->state, 0700) < 0 || mkdir(crash->live, 0700) < 0)
		exit(2);
}

/* Every life has a seed of its own, so that a failure can be had again alone. */
static void run(struct crash *crash, uint64_t seed, uint64_t points, void (*half)(struct crash *), const char *what)
{
	uint64_t began = kr_clock_ns();

	crash->points = crash->powers = crash->records = crash->damages = crash->lates = 0;
	crash->wanted = points;
	while (crash->points < points && !crash->failure) {
		chance_seed(seed);
		crash->ordered = seed % 4 == 3;
		half(crash);
		if (crash->failure)
			printf("%s, seed %llu: %s\n", what, (unsigned long long)seed, crash->failure);
		seed++;
	}
	printf("%s: %llu crash points, %llu of them losses of power; %llu with damage, %llu of a late node; %.1f s\n",
		what, (unsigned long long)crash->points, (unsigned long long)crash->powers,
		(unsigned long long)crash->damages, (unsigned long long)crash->lates,
		(double)(kr_clock_ns() - began) / 1e9);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"points", 1, NULL, 'p'}, {"seed", 1, NULL, 's'},
		{"journal", 0, NULL, 'j'}, {"server", 0, NULL, 'd'}, {"broken", 1, NULL, 'b'}, {0}};
	uint64_t points = 1000, seed = 1;
	bool journal = true, server = true;
	struct crash crash = {0};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (option) {
		case 'p':
			points = strtoull(optarg, NULL, 10);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 10);
			break;
		case 'j':
			server = false;
			break;
		case 'd':
			journal = false;
			break;
		case 'b':
			crash.broken = parse_broken(optarg);
			break;
		default:
			return 2;
		}
	}
	make_directories(&crash);
	if (journal)
		run(&crash, seed, points, crash_journal, "journal");
	if (server && !crash.failure)
		run(&crash, seed, points, crash_server, "server");
	crash_empty(crash.directory);
	rmdir(crash.directory);
	return (crash.failure != NULL) != (crash.broken != BROKEN_NOTHING);
}

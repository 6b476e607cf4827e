/* kairan envelope: what a mount can do, at most: rates of names and of whole files of several sizes, with one process
 * and with more.
 *
 * A step is what all processes do at the same time, each with files of its own, for ROUND_MS or until there are no more
 * files.  Each step is done ROUNDS times.  The processes tell their results in memory that they share. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/base/find_mount.h"
#include "tools/base/units.h"
#include "tools/bench/bench_measure.h"
#include "tools/bench/bench_place.h"
#include "tools/bench/envelope_page.h"
#include "tools/commands.h"
#include "tools/bench/envelope_view.h"

static const char usage[] =
	"usage: kairan envelope [--processes P] [--max-size MIB] [--json FILE] [--html FILE] DIRECTORY\n"
	"       kairan envelope [--html FILE] FILE\n"
	"       kairan envelope [--html FILE] --compare FILE FILE\n"
	"Measures, within minutes, what a mount can do at most: names, and whole files of 1 KiB to 64 MiB that are\n"
	"written, read from the server, and read again from this node's cache, by 1, 2, 4... processes.\n"
	"DIRECTORY: a mount point, or a directory of yours below it. An eighth of its free space at most is used;\n"
	"all is removed, also after Ctrl-C. Others who use the server meanwhile share its link and its disk with\n"
	"this.\n"
	"  --processes P    at most so many (the number of processors without it)\n"
	"  --max-size MIB   no files larger than that\n"
	"  --json FILE      writes the result there, with a description of the machine\n"
	"  --html FILE      writes a page with charts there\n"
	"  --compare        prints two such results beside each other\n"
	"FILE alone: such a result, which is shown again.\n"
	"Exit code: 0, 1 with a message, 64 wrong arguments.\n";

enum { PROCESSES_MAX = 64, ROUNDS = 3, ROUND_MS = 400, FILES_MAX = 4000, PIECE = 1 << 20 };
#define ROUND_BYTES (UINT64_C(64) << 20) /* that one process writes, or one file */

enum step { CREATE, STAT, OPEN, REMOVE, WRITE, READ_SERVER, READ_CACHE, COPY, STEPS };

static const char *const step_names[STEPS] = {
	"create", "stat", "open", "remove", "write", "read from the server", "read from the cache", "copy"};

struct shared {
	_Atomic bool go, stop;
	struct result {
		uint64_t done, ns;
		int err;
	} results[PROCESSES_MAX];
};

struct envelope {
	struct kr_bench_dir dir;
	struct shared *shared;
	uint64_t limit; /* bytes that files may take together */
	unsigned processes_max;
	uint64_t size_max;
	json_t *points;
};

static char piece[PIECE];

/* --- in a process ----------------------------------------------------------------------------- */

static int write_one(int dir, const char *name, uint64_t size, bool create_only)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), err = 0;

	if (fd < 0)
		return -errno;
	for (uint64_t at = 0; !create_only && at < size && err == 0; at += PIECE)
		err = kr_pwrite_full(fd, piece, KR_MIN((uint64_t)PIECE, size - at), at);
	if (kr_close(fd) < 0 && err == 0)
		err = -errno;
	return err;
}

static int read_one(int dir, const char *name, bool open_only)
{
	KR_AUTO_FD int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t count = open_only ? 0 : 1;

	if (fd < 0)
		return -errno;
	while (count > 0)
		count = read(fd, piece, PIECE);
	return count < 0 ? -errno : 0;
}

/* No byte of what the server has copied is on this node. */
static int copy_one(int dir, const char *from, const char *to, uint64_t size)
{
	KR_AUTO_FD int in = openat(dir, from, O_RDONLY | O_CLOEXEC);
	KR_AUTO_FD int out = openat(dir, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (in < 0 || out < 0)
		return -errno;
	for (uint64_t done = 0; done < size;) {
		ssize_t count = copy_file_range(in, NULL, out, NULL, size - done, 0);

		if (count <= 0)
			return count < 0 ? -errno : -EIO;
		done += (uint64_t)count;
	}
	return 0;
}

static void drop_pages(int dir, const char *name)
{
	KR_AUTO_FD int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

struct name {
	char text[40];
};

static struct name name_of(char kind, unsigned process, uint64_t number)
{
	struct name name;

	snprintf(name.text, sizeof(name.text), "%c%u.%llu", kind, process, (unsigned long long)number);
	return name;
}

static int do_one(const struct envelope *envelope, enum step step, unsigned process, uint64_t number, uint64_t size)
{
	const struct name made = name_of('w', process, number), copied = name_of('c', process, number);
	const int dir = envelope->dir.fd;
	struct stat ignored;

	switch (step) {
	case CREATE:
	case WRITE:
		return write_one(dir, made.text, size, step == CREATE);
	case STAT:
		return fstatat(dir, made.text, &ignored, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
	case OPEN:
		return read_one(dir, made.text, true);
	case REMOVE:
		return unlinkat(dir, made.text, 0) < 0 ? -errno : 0;
	case COPY:
		return copy_one(dir, made.text, copied.text, size);
	default:
		return read_one(dir, copied.text, false);
	}
}

/* A step of one process: with up to COUNT files. */
static void work(const struct envelope *envelope, enum step step, unsigned process, uint64_t count, uint64_t size)
{
	struct shared *shared = envelope->shared;
	struct result *result = &shared->results[process];
	uint64_t begin_ns, i;

	for (i = 0; step == READ_CACHE && i < count; i++)
		drop_pages(envelope->dir.fd, name_of('c', process, i).text);
	while (!atomic_load(&shared->go) && !atomic_load(&shared->stop))
		kr_sleep_ms(1);
	begin_ns = kr_clock_ns();
	for (i = 0; i < count && result->err == 0; i++) {
		if (atomic_load(&shared->stop) || (step != COPY && kr_clock_ns() - begin_ns > ROUND_MS * KR_NS_PER_MS))
			break;
		result->err = do_one(envelope, step, process, i, size);
	}
	result->done = i;
	result->ns = kr_clock_ns() - begin_ns;
}

/* --- all processes ---------------------------------------------------------------------------- */

static void show(enum step step, unsigned processes, uint64_t size)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%u processes: %s %s          ", processes, step_names[step],
			size ? kr_bytes_text((json_int_t)size) : "");
}

static int reap(const struct envelope *envelope, const pid_t *children, unsigned started)
{
	int err = 0;

	for (unsigned i = 0; i < started; i++) {
		int status = 0;

		while (waitpid(children[i], &status, 0) < 0 && errno == EINTR)
			atomic_store(&envelope->shared->stop, kr_bench_stopped != 0);
		if (status && err == 0)
			err = kr_fail(-EINTR, "a process has ended early");
	}
	return err;
}

/* Does STEP.  COUNTS says for each process with how many files at most; then with how many it was done.
 * *RET_RATE: files per second, all processes together. */
static int do_step(struct envelope *envelope, enum step step, unsigned processes, uint64_t *counts, uint64_t size,
	double *ret_rate)
{
	struct shared *shared = envelope->shared;
	pid_t children[PROCESSES_MAX];
	unsigned started = 0;
	int err = 0;

	show(step, processes, size);
	memset(shared, 0, sizeof(*shared));
	for (; started < processes && err == 0; started++) {
		children[started] = fork();
		if (children[started] == 0) {
			work(envelope, step, started, counts[started], size);
			_exit(0);
		}
		if (children[started] < 0) {
			err = kr_fail_errno(-errno, "cannot start a process");
			break;
		}
	}
	atomic_store(err ? &shared->stop : &shared->go, true);
	if (reap(envelope, children, started) < 0 && err == 0)
		err = -EINTR;
	*ret_rate = 0;
	for (unsigned i = 0; i < started && err == 0; i++) {
		const struct result *result = &shared->results[i];

		if (result->err)
			err = kr_fail_errno(
				result->err, "%s: cannot %s a file", envelope->dir.parent, step_names[step]);
		counts[i] = result->done;
		*ret_rate += (double)result->done * (double)KR_NS_PER_S / (double)KR_MAX(result->ns, UINT64_C(1));
	}
	return kr_bench_stopped ? kr_fail(-EINTR, "interrupted") : err;
}

/* The steps of one round; a step's RATES[ROUND] is set. */
static int do_round(struct envelope *envelope, const enum step *steps, unsigned count, unsigned processes,
	uint64_t size, double rates[STEPS][ROUNDS], unsigned round)
{
	uint64_t counts[PROCESSES_MAX];
	int err = 0;

	for (unsigned i = 0; i < processes; i++)
		counts[i] = size ? KR_MAX(KR_MIN(ROUND_BYTES / size, (uint64_t)FILES_MAX), UINT64_C(1)) : FILES_MAX;
	for (unsigned i = 0; i < count && err == 0; i++)
		err = do_step(envelope, steps[i], processes, counts, size, &rates[steps[i]][round]);
	kr_bench_clear(envelope->dir.fd);
	return err;
}

static int measure_points(
	struct envelope *envelope, const enum step *steps, unsigned count, unsigned processes, uint64_t size)
{
	double rates[STEPS][ROUNDS];
	int err = 0;

	for (unsigned round = 0; round < ROUNDS && err == 0; round++)
		err = do_round(envelope, steps, count, processes, size, rates, round);
	for (unsigned i = 0; i < count && err == 0; i++)
		if (steps[i] != COPY)
			json_array_append_new(envelope->points,
				kr_envelope_point(
					step_names[steps[i]], processes, (json_int_t)size, rates[steps[i]], ROUNDS));
	return err;
}

static int measure(struct envelope *envelope)
{
	static const enum step names[] = {CREATE, STAT, OPEN, REMOVE}, files[] = {WRITE, COPY, READ_SERVER, READ_CACHE};
	static const uint64_t sizes[] = {1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20};
	const unsigned most = envelope->processes_max;
	int err = 0;

	for (unsigned n = 1; n <= most && err == 0; n = n < most && 2 * n > most ? most : 2 * n) {
		err = measure_points(envelope, names, KR_ARRAY_SIZE(names), n, 0);
		for (size_t i = 0; i < KR_ARRAY_SIZE(sizes) && err == 0; i++)
			if (sizes[i] <= envelope->size_max && 2 * n * KR_MAX(sizes[i], ROUND_BYTES) <= envelope->limit)
				err = measure_points(envelope, files, KR_ARRAY_SIZE(files), n, sizes[i]);
	}
	return err;
}

/* --- the command ------------------------------------------------------------------------------ */

static json_t *machine_json(void)
{
	struct utsname uname_now;

	if (uname(&uname_now) < 0)
		return json_object();
	return json_pack("{so so sI sI}", "node", kr_text_json(uname_now.nodename), "kernel",
		kr_text_json(uname_now.release), "processors", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),
		"memory_bytes", (json_int_t)sysconf(_SC_PHYS_PAGES) * (json_int_t)sysconf(_SC_PAGESIZE));
}

static int save(const json_t *result, const char *path)
{
	return json_dump_file(result, path, JSON_INDENT(1) | JSON_REAL_PRECISION(8)) < 0 ?
		kr_fail_errno(-EIO, "cannot write %s", path) :
		0;
}

static int save_page(const json_t *a, const json_t *b, const char *path)
{
	FILE *out = fopen(path, "we");

	if (out)
		kr_envelope_page(a, b, out);
	return !out || fclose(out) != 0 ? kr_fail_errno(-errno, "cannot write %s", path) : 0;
}

/* Where results go besides standard output; NULL: not. */
struct output {
	const char *json, *html;
};

static int measure_mount(struct envelope *envelope, const char *directory, const struct output *output)
{
	struct kr_mounted mounted;
	json_t *result = NULL;
	int err = kr_find_mount(directory, &mounted, NULL);

	if (err < 0)
		return err;
	kr_bench_watch_signals();
	for (size_t done = 0; done < sizeof(piece);) /* what cannot be compressed */
		done += (size_t)KR_MAX(getrandom(piece + done, sizeof(piece) - done, 0), (ssize_t)0);
	err = kr_bench_dir_make(&envelope->dir, directory);
	if (err == 0)
		err = kr_bench_dir_room(&envelope->dir, 2 * ROUND_BYTES, &envelope->limit);
	if (err == 0)
		err = measure(envelope);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%50s\r", "");
	kr_bench_dir_remove(&envelope->dir);
	if (err == 0) {
		result = json_pack("{si sI so so so sO}", "kairan envelope", KR_ENVELOPE_FORMAT, "time",
			(json_int_t)time(NULL), "machine", machine_json(), "mount", kr_text_json(mounted.path),
			"source", kr_text_json(mounted.source), "points", envelope->points);
		kr_envelope_print(result, stdout);
	}
	if (err == 0 && output->json)
		err = save(result, output->json);
	if (err == 0 && output->html)
		err = save_page(result, NULL, output->html);
	json_decref(result);
	kr_mounted_fini(&mounted);
	return err;
}

/* SECOND NULL: there is one envelope. */
static int show_saved(const char *first, const char *second, const struct output *output)
{
	json_t *a = kr_envelope_load(first), *b = a && second ? kr_envelope_load(second) : NULL;
	int err = a && (b || !second) ? 0 : -EBADMSG;

	if (err == 0 && !second)
		kr_envelope_print(a, stdout);
	else if (err == 0 && !kr_envelope_compare(a, b, stdout))
		err = kr_fail(-EBADMSG, "they have no point in common");
	if (err == 0 && output->html)
		err = save_page(a, b, output->html);
	json_decref(a);
	json_decref(b);
	return err;
}

static int run(unsigned processes, unsigned max_mib, const char *directory, const struct output *output)
{
	struct envelope envelope = {.dir.fd = -1,
		.limit = UINT64_MAX,
		.processes_max = processes,
		.size_max = (uint64_t)max_mib << 20,
		.points = json_array()};
	int err;

	envelope.shared =
		mmap(NULL, sizeof(*envelope.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	err = envelope.shared == MAP_FAILED ? kr_fail_errno(-errno, "no memory") :
					      measure_mount(&envelope, directory, output);
	json_decref(envelope.points);
	return kr_bench_end(err);
}

int kr_tool_envelope(int argc, char **argv)
{
	static const struct option options[] = {{"processes", required_argument, NULL, 'p'},
		{"max-size", required_argument, NULL, 'm'}, {"json", required_argument, NULL, 'j'},
		{"html", required_argument, NULL, 'H'}, {"compare", no_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'}, {0}};
	unsigned processes = (unsigned)KR_MIN(KR_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L), (long)PROCESSES_MAX),
		 max_mib = 64;
	struct output output = {0};
	struct stat facts;
	bool compares = false;
	int option;

	while ((option = kr_tool_option(argc, argv, "h", options)) != -1) {
		if (option == 'p' && !kr_tool_number("--processes", optarg, PROCESSES_MAX, &processes))
			return KR_EXIT_USAGE;
		if (option == 'm' && !kr_tool_number("--max-size", optarg, 64, &max_mib))
			return KR_EXIT_USAGE;
		if (option == 'h' || option == '?')
			return kr_tool_usage(usage, option == 'h');
		compares |= option == 'c';
		output.json = option == 'j' ? optarg : output.json;
		output.html = option == 'H' ? optarg : output.html;
	}
	if (argc - optind != (compares ? 2 : 1))
		return kr_tool_usage(usage, false);
	if (compares || (stat(argv[optind], &facts) == 0 && S_ISREG(facts.st_mode)))
		return kr_bench_end(show_saved(argv[optind], compares ? argv[optind + 1] : NULL, &output));
	return run(processes, max_mib, argv[optind], &output);
}

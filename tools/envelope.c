/* kairan envelope: what a mount can do, at most: rates of names and of whole files of several sizes, with one process
 * and with more, on this node or on several at a time.
 *
 * A round is a sequence of steps (tools/bench/envelope_steps.h), after which the directory is empty again. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/base/find_mount.h"
#include "tools/base/units.h"
#include "tools/bench/bench_measure.h"
#include "tools/bench/bench_place.h"
#include "tools/bench/envelope_nodes.h"
#include "tools/bench/envelope_page.h"
#include "tools/bench/envelope_steps.h"
#include "tools/bench/envelope_view.h"
#include "tools/commands.h"

static const char usage[] =
	"usage: kairan envelope [--nodes LIST [--rsh COMMAND]] [--processes P] [--max-size MIB] [--rounds N]\n"
	"                       [--json FILE] [--html FILE] DIRECTORY\n"
	"       kairan envelope [--html FILE] FILE\n"
	"       kairan envelope [--html FILE] --compare FILE FILE\n"
	"Measures, within minutes, what a mount can do at most: names, and whole files of 1 KiB to 64 MiB that are\n"
	"written, read from the server, and read again from this node's cache, by 1, 2, 4... processes.\n"
	"DIRECTORY: a mount point, or a directory of yours below it. An eighth of its free space at most is used;\n"
	"all is removed, also after Ctrl-C. Others who use the server meanwhile share its link and its disk with\n"
	"this.\n"
	"  --nodes LIST     on the first 1, 2, 4... of these nodes (n1,n2,...), which mount it at the same place; on\n"
	"                   several also files that another node has read, and the same files on all of them\n"
	"  --rsh COMMAND    runs the command COMMAND NODE kairan envelope --worker on them (ssh without it)\n"
	"  --processes P    at most so many on a node (the number of processors without it)\n"
	"  --max-size MIB   no files larger than that\n"
	"  --rounds N       each figure is the median of so many (3 without it)\n"
	"  --json FILE      writes the result there, with a description of the machine\n"
	"  --html FILE      writes a page with charts there\n"
	"  --compare        prints two such results beside each other\n"
	"FILE alone: such a result, which is shown again.\n"
	"Exit code: 0, 1 with a message, 64 wrong arguments.\n";

enum { ROUNDS = 3, ROUNDS_MAX = 100, FILES_MAX = 4000 };
#define ROUND_BYTES (UINT64_C(64) << 20) /* that one process writes, or one file */

struct envelope {
	struct kr_bench_dir dir;
	struct kr_envelope_nodes nodes; /* none: this one */
	uint64_t limit;                 /* bytes that files may take together */
	unsigned processes_max, rounds;
	uint64_t size_max;
	json_t *points;
};

/* Steps with so many nodes, processes on each, and bytes of a file. */
struct round {
	size_t nodes;
	unsigned processes;
	uint64_t size;
	const enum kr_envelope_step *steps;
	size_t step_count;
};

/* --- one round --------------------------------------------------------------------------------- */

static bool is_left_out(const struct round *round, enum kr_envelope_step step)
{
	return (step == KR_ENVELOPE_COPY_MIXED || step == KR_ENVELOPE_READ_WRITE) &&
		round->size < KR_ENVELOPE_MIXED_LEAST;
}

static void show(enum kr_envelope_step step, const struct round *round)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\rnodes: %zu, processes: %u, %s %s          ", round->nodes, round->processes,
			kr_envelope_step_name(step), round->size ? kr_bytes_text((json_int_t)round->size) : "");
}

static struct kr_envelope_task *new_tasks(const struct round *round)
{
	struct kr_envelope_task *tasks = kr_xcalloc(round->nodes, sizeof(*tasks));
	const uint64_t files = round->size ? KR_MIN(ROUND_BYTES / round->size, (uint64_t)FILES_MAX) : FILES_MAX;

	for (size_t i = 0; i < round->nodes; i++) {
		tasks[i].processes = round->processes;
		tasks[i].size = round->size;
		for (unsigned process = 0; process < round->processes; process++)
			tasks[i].counts[process] = KR_MAX(files, UINT64_C(1));
	}
	return tasks;
}

/* Whose files each node uses next, and how many there are: its own, the next node's, or the first one's. */
static void choose_files(
	struct kr_envelope_task *tasks, size_t nodes, enum kr_envelope_step step, const struct kr_envelope_task *shared)
{
	const struct kr_envelope_task first = tasks[0];

	for (size_t i = 0; i < nodes; i++) {
		tasks[i].step = step;
		tasks[i].owner = (unsigned)i;
		if (step == KR_ENVELOPE_READ_NODE) {
			tasks[i] = i + 1 < nodes ? tasks[i + 1] : first;
			tasks[i].step = step;
			tasks[i].owner = (unsigned)((i + 1) % nodes);
		} else if (step == KR_ENVELOPE_READ_SHARED) {
			tasks[i] = *shared;
			tasks[i].step = step;
		}
	}
}

static int do_step(struct envelope *envelope, const struct round *round, enum kr_envelope_step step,
	struct kr_envelope_task *tasks, struct kr_envelope_task *shared)
{
	const bool by_first = step == KR_ENVELOPE_COPY_SHARED;
	int err;

	show(step, round);
	choose_files(tasks, round->nodes, step, shared);
	if (envelope->nodes.count)
		err = kr_envelope_nodes_do(&envelope->nodes, by_first ? 1 : round->nodes, tasks);
	else
		err = kr_envelope_do(envelope->dir.fd, tasks);
	if (by_first)
		*shared = tasks[0];
	return err;
}

/* A step's RATES[NUMBER] is set. */
static int do_round(struct envelope *envelope, const struct round *round, double rates[KR_ENVELOPE_STEPS][ROUNDS_MAX],
	unsigned number)
{
	struct kr_envelope_task *tasks = new_tasks(round), shared = {0};
	int err = 0;

	for (size_t i = 0; i < round->step_count && err == 0; i++) {
		if (is_left_out(round, round->steps[i]))
			continue;
		err = do_step(envelope, round, round->steps[i], tasks, &shared);
		rates[round->steps[i]][number] = 0;
		for (size_t node = 0; node < round->nodes; node++)
			rates[round->steps[i]][number] += tasks[node].rate;
	}
	free(tasks);
	kr_bench_clear(envelope->dir.fd);
	return err;
}

/* --- all rounds -------------------------------------------------------------------------------- */

static int measure_points(struct envelope *envelope, const struct round *round)
{
	double rates[KR_ENVELOPE_STEPS][ROUNDS_MAX];
	int err = 0;

	for (unsigned number = 0; number < envelope->rounds && err == 0; number++)
		err = do_round(envelope, round, rates, number);
	for (size_t i = 0; i < round->step_count && err == 0; i++)
		if (!kr_envelope_copies(round->steps[i]) && !is_left_out(round, round->steps[i]))
			json_array_append_new(envelope->points,
				kr_envelope_point(kr_envelope_step_name(round->steps[i]), (json_int_t)round->nodes,
					round->processes, (json_int_t)round->size, rates[round->steps[i]],
					envelope->rounds));
	return err;
}

static int measure_with(struct envelope *envelope, size_t nodes, unsigned processes)
{
	static const enum kr_envelope_step names[] = {KR_ENVELOPE_CREATE, KR_ENVELOPE_STAT, KR_ENVELOPE_OPEN,
		KR_ENVELOPE_REMOVE},
					   files[] = {KR_ENVELOPE_WRITE, KR_ENVELOPE_COPY_MIXED, KR_ENVELOPE_READ_WRITE,
						   KR_ENVELOPE_COPY, KR_ENVELOPE_READ_SERVER, KR_ENVELOPE_READ_CACHE},
					   several[] = {KR_ENVELOPE_WRITE, KR_ENVELOPE_COPY_MIXED,
						   KR_ENVELOPE_READ_WRITE, KR_ENVELOPE_COPY_SHARED, KR_ENVELOPE_COPY,
						   KR_ENVELOPE_READ_SERVER, KR_ENVELOPE_READ_NODE,
						   KR_ENVELOPE_READ_SHARED};
	static const uint64_t sizes[] = {1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20};
	/* Written, copied, copied to be shared; for READ_WRITE copied and written. */
	const uint64_t files_of_a_process = nodes > 1 ? 5 : 4;
	struct round round = {nodes, processes, 0, names, KR_ARRAY_SIZE(names)};
	int err = measure_points(envelope, &round);

	round.steps = nodes > 1 ? several : files;
	round.step_count = nodes > 1 ? KR_ARRAY_SIZE(several) : KR_ARRAY_SIZE(files);
	for (size_t i = 0; i < KR_ARRAY_SIZE(sizes) && err == 0; i++) {
		round.size = sizes[i];
		if (round.size <= envelope->size_max &&
			files_of_a_process * nodes * processes * KR_MAX(round.size, ROUND_BYTES) <= envelope->limit)
			err = measure_points(envelope, &round);
	}
	return err;
}

/* 1, 2, 4... MOST. */
static size_t next(size_t number, size_t most)
{
	return number < most && 2 * number > most ? most : 2 * number;
}

static int measure(struct envelope *envelope)
{
	const size_t nodes = KR_MAX(envelope->nodes.count, (size_t)1);
	int err = 0;

	for (size_t n = 1; n <= nodes && err == 0; n = next(n, nodes))
		for (size_t p = 1; p <= envelope->processes_max && err == 0; p = next(p, envelope->processes_max))
			if (n == 1 || p == 1 || p == envelope->processes_max) /* else it takes too long */
				err = measure_with(envelope, n, (unsigned)p);
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
	return json_dump_file(result, path, JSON_INDENT(1)) < 0 ? kr_fail_errno(-EIO, "cannot write %s", path) : 0;
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

struct request {
	const char *nodes, *rsh, *directory;
	unsigned processes, max_mib, rounds;
	bool compares, is_worker;
	struct output output;
};

static int prepare(struct envelope *envelope, const struct request *request)
{
	int err;

	kr_bench_watch_signals();
	err = kr_bench_dir_make(&envelope->dir, request->directory);
	if (err == 0)
		err = kr_bench_dir_room(&envelope->dir, 2 * ROUND_BYTES, &envelope->limit);
	if (err == 0 && request->nodes)
		err = kr_envelope_nodes_start(&envelope->nodes, request->nodes, request->rsh, envelope->dir.path);
	return err;
}

static json_t *result_of(const struct envelope *envelope, const struct kr_mounted *mounted)
{
	json_t *nodes = json_array();

	for (size_t i = 0; i < envelope->nodes.count; i++)
		json_array_append_new(nodes, kr_text_json(envelope->nodes.nodes[i].name));
	return json_pack("{si sI so so so so sO}", "kairan envelope", KR_ENVELOPE_FORMAT, "time",
		(json_int_t)time(NULL), "machine", machine_json(), "nodes", nodes, "mount", kr_text_json(mounted->path),
		"source", kr_text_json(mounted->source), "points", envelope->points);
}

static int measure_mount(struct envelope *envelope, const struct request *request)
{
	struct kr_mounted mounted;
	json_t *result = NULL;
	int err = kr_find_mount(request->directory, &mounted, NULL);

	if (err < 0)
		return err;
	err = prepare(envelope, request);
	if (err == 0)
		err = measure(envelope);
	if (err == 0)
		result = result_of(envelope, &mounted);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%70s\r", "");
	kr_envelope_nodes_stop(&envelope->nodes);
	kr_bench_dir_remove(&envelope->dir);
	if (err == 0)
		kr_envelope_print(result, stdout);
	if (err == 0 && request->output.json)
		err = save(result, request->output.json);
	if (err == 0 && request->output.html)
		err = save_page(result, NULL, request->output.html);
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

static int run(const struct request *request)
{
	struct envelope envelope = {.dir.fd = -1,
		.limit = UINT64_MAX,
		.processes_max = request->processes,
		.rounds = request->rounds,
		.size_max = (uint64_t)request->max_mib << 20,
		.points = json_array()};
	int err = measure_mount(&envelope, request);

	json_decref(envelope.points);
	return kr_bench_end(err);
}

/* False, after a message: the number is wrong. */
static bool take_option(int option, struct request *request)
{
	switch (option) {
	case 'n':
		request->nodes = optarg;
		return true;
	case 'r':
		request->rsh = optarg;
		return true;
	case 'p':
		return kr_tool_number("--processes", optarg, KR_ENVELOPE_PROCESSES_MAX, &request->processes);
	case 'm':
		return kr_tool_number("--max-size", optarg, 64, &request->max_mib);
	case 'R':
		return kr_tool_number("--rounds", optarg, ROUNDS_MAX, &request->rounds);
	case 'j':
		request->output.json = optarg;
		return true;
	case 'H':
		request->output.html = optarg;
		return true;
	case 'c':
		request->compares = true;
		return true;
	default:
		request->is_worker = true;
		return true;
	}
}

int kr_tool_envelope(int argc, char **argv)
{
	static const struct option options[] = {{"nodes", required_argument, NULL, 'n'},
		{"rsh", required_argument, NULL, 'r'}, {"processes", required_argument, NULL, 'p'},
		{"max-size", required_argument, NULL, 'm'}, {"rounds", required_argument, NULL, 'R'},
		{"json", required_argument, NULL, 'j'}, {"html", required_argument, NULL, 'H'},
		{"compare", no_argument, NULL, 'c'}, {"worker", no_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'h'}, {0}};
	const long processors = KR_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
	struct request request = {.rsh = "ssh",
		.processes = (unsigned)KR_MIN(processors, (long)KR_ENVELOPE_PROCESSES_MAX),
		.max_mib = 64,
		.rounds = ROUNDS};
	struct stat facts;
	int option;

	while ((option = kr_tool_option(argc, argv, "h", options)) != -1) {
		if (option == 'h' || option == '?')
			return kr_tool_usage(usage, option == 'h');
		if (!take_option(option, &request))
			return KR_EXIT_USAGE;
	}
	if (argc - optind != (request.is_worker ? 0 : request.compares ? 2 : 1))
		return kr_tool_usage(usage, false);
	if (request.is_worker)
		return kr_envelope_serve(stdin, stdout) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	request.directory = argv[optind];
	if (request.compares || (stat(argv[optind], &facts) == 0 && S_ISREG(facts.st_mode)))
		return kr_bench_end(
			show_saved(argv[optind], request.compares ? argv[optind + 1] : NULL, &request.output));
	return run(&request);
}

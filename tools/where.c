/* kairan where: which nodes hold how much of files, by the extended attribute user.kairan.nodes.json, so with the
 * caller's own rights and without opening the files.
 *
 * A few threads ask about file after file; they share struct survey, under its lock.
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/base/files.h"
#include "tools/base/units.h"
#include "tools/commands.h"

static const char usage[] =
	"usage: kairan where [--files] [--json] PATH...\n"
	"       kairan where --nodes PATH...\n"
	"Says which nodes hold how much of a file, or of all files below a directory: blocks in the read cache, and\n"
	"bytes that are not on the server yet. It asks the nodes of this node's ring, and moves no byte of a file.\n"
	"  --files   says so of each file, not of each PATH\n"
	"  --json    prints a JSON array\n"
	"  --nodes   prints one line for all PATHs together, as a scheduler wants it, the node with most bytes first:\n"
	"            n1=1052672 n2=131072\n"
	"Exit code: 0; 1 some files could not be asked about (each is named); 2 none could; 64 wrong arguments.\n";

enum { THREADS = 8, VALUE_MAX = 65536 };

/* Forms of the output; bits. */
enum form { EACH = 1, JSON = 2, NODES = 4 };

/* --- the holders ------------------------------------------------------------------------------ */

struct held {
	char *node;
	json_int_t bytes, cached, unflushed;
};

/* The subject of a line: a file, or the files of a PATH, or of all of them together. */
struct subject {
	const char *path;
	json_int_t files, bytes;
	struct held *nodes;
	size_t count;
};

static struct held *find_node(struct subject *subject, const char *name)
{
	struct held *larger;

	for (size_t i = 0; i < subject->count; i++)
		if (strcmp(subject->nodes[i].node, name) == 0)
			return &subject->nodes[i];
	larger = reallocarray(subject->nodes, subject->count + 1, sizeof(*larger));
	if (!larger)
		abort();
	subject->nodes = larger;
	larger[subject->count] = (struct held){.node = kr_xstrdup(name)};
	return &larger[subject->count++];
}

/* Adds one file's ANSWER.  SIZE: what programs see; the server's may lack what nodes have not flushed. */
static void add_answer(struct subject *subject, uint64_t size, const json_t *answer)
{
	const json_t *node;
	size_t i;

	subject->files++;
	subject->bytes += (json_int_t)size;
	json_array_foreach(json_object_get(answer, "nodes"), i, node)
	{
		struct held *held = find_node(subject, kr_text_of(node, "node"));

		held->bytes += kr_number(node, NULL, "bytes");
		held->cached += kr_number(node, NULL, "cached");
		held->unflushed += kr_number(node, NULL, "unflushed");
	}
}

static int by_bytes(const void *left, const void *right)
{
	const struct held *a = left, *b = right;

	return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : strcmp(a->node, b->node);
}

static void print_subject(const struct subject *subject)
{
	KR_AUTO_FREE char *path = kr_text_shown(subject->path);

	printf("%s: %s", path, kr_bytes_text(subject->bytes));
	if (subject->files != 1)
		printf(" in %" JSON_INTEGER_FORMAT " files", subject->files);
	puts(subject->count ? "" : ", on no node");
	for (size_t i = 0; i < subject->count; i++) {
		const struct held *held = &subject->nodes[i];
		KR_AUTO_FREE char *node = kr_text_shown(held->node);

		printf("  %-15s %s cached", node, kr_bytes_text(held->cached));
		if (held->unflushed)
			printf(", %s unflushed", kr_bytes_text(held->unflushed));
		putchar('\n');
	}
}

/* As the attribute user.kairan.nodes. */
static void print_nodes(const struct subject *subject)
{
	for (size_t i = 0; i < subject->count; i++) {
		const struct held *held = &subject->nodes[i];

		for (char *c = held->node; *c; c++)
			if (*c == '=' || (unsigned char)*c <= ' ')
				*c = '_';
		printf("%s%s=%" JSON_INTEGER_FORMAT, i ? " " : "", held->node, held->bytes);
	}
	putchar('\n');
}

static json_t *subject_json(const struct subject *subject)
{
	KR_AUTO_FREE char *path = kr_text_utf8(subject->path);
	json_t *nodes = json_array();

	for (size_t i = 0; i < subject->count; i++) {
		const struct held *held = &subject->nodes[i];

		json_array_append_new(nodes,
			json_pack("{ss sI sI sI}", "node", held->node, "bytes", held->bytes, "cached", held->cached,
				"unflushed", held->unflushed));
	}
	return json_pack(
		"{ss sI sI so}", "path", path, "files", subject->files, "size", subject->bytes, "nodes", nodes);
}

static void subject_fini(struct subject *subject)
{
	for (size_t i = 0; i < subject->count; i++)
		free(subject->nodes[i].node);
	free(subject->nodes);
}

/* --- asking ----------------------------------------------------------------------------------- */

struct survey {
	struct kr_tool_files files;
	size_t *subject_of; /* for each file, its subject */
	struct subject *subjects;
	size_t subject_count;
	pthread_mutex_t lock; /* guards the rest, and the subjects */
	size_t next, failed;
};

static void complain(struct survey *survey, const char *path, int err)
{
	KR_AUTO_FREE char *shown = kr_text_shown(path);
	KR_SCOPED_LOCK(&survey->lock);

	survey->failed++;
	fprintf(stderr, "kairan: %s: %s\n", shown,
		err == ENODATA ? "the server or this mount is of a version that cannot tell" : strerror(err));
}

static void ask(struct survey *survey, size_t number)
{
	const struct kr_tool_file *file = &survey->files.files[number];
	KR_AUTO_FREE char *value = kr_xmalloc(VALUE_MAX);
	ssize_t length = getxattr(file->path, "user.kairan.nodes.json", value, VALUE_MAX);
	json_t *answer = length < 0 ? NULL : json_loadb(value, (size_t)length, 0, NULL);

	if (!answer) {
		complain(survey, file->path, length < 0 ? errno : EBADMSG);
		return;
	}
	pthread_mutex_lock(&survey->lock);
	add_answer(&survey->subjects[survey->subject_of[number]], file->size, answer);
	pthread_mutex_unlock(&survey->lock);
	json_decref(answer);
}

static void *work(void *context)
{
	struct survey *survey = context;
	size_t number;

	for (;;) {
		pthread_mutex_lock(&survey->lock);
		number = survey->next++;
		pthread_mutex_unlock(&survey->lock);
		if (number >= survey->files.count)
			return NULL;
		ask(survey, number);
	}
}

static void ask_all(struct survey *survey)
{
	pthread_t threads[THREADS];
	size_t count = 0;

	while (count < THREADS && count < survey->files.count &&
		pthread_create(&threads[count], NULL, work, survey) == 0)
		count++;
	if (count == 0)
		work(survey);
	while (count > 0)
		pthread_join(threads[--count], NULL);
	for (size_t i = 0; i < survey->subject_count; i++)
		if (survey->subjects[i].count)
			qsort(survey->subjects[i].nodes, survey->subjects[i].count, sizeof(struct held), by_bytes);
}

/* Files of PATHS, of which there are COUNT, and the subjects that FORM makes of them. */
static void begin(struct survey *survey, char **paths, size_t count, enum form form)
{
	size_t *path_of = NULL, done = 0;

	pthread_mutex_init(&survey->lock, NULL);
	for (size_t i = 0; i < count; i++) {
		kr_tool_files_add(&survey->files, paths[i]);
		path_of = reallocarray(path_of, survey->files.count + 1, sizeof(*path_of));
		if (!path_of)
			abort();
		while (done < survey->files.count)
			path_of[done++] = i;
	}
	survey->subject_count = form & EACH ? survey->files.count : count;
	survey->subjects = kr_xcalloc(survey->subject_count + 1, sizeof(*survey->subjects));
	survey->subject_of = path_of;
	for (size_t i = 0; i < survey->files.count; i++) {
		if (form & EACH)
			path_of[i] = i;
		else if (form & NODES)
			path_of[i] = 0;
		survey->subjects[path_of[i]].path = form & EACH ? survey->files.files[i].path : paths[path_of[i]];
	}
}

static void print(const struct survey *survey, enum form form)
{
	json_t *array = form & JSON ? json_array() : NULL;

	for (size_t i = 0; i < survey->subject_count; i++) {
		const struct subject *subject = &survey->subjects[i];

		if (!subject->files)
			continue;
		if (array)
			json_array_append_new(array, subject_json(subject));
		else if (form & NODES)
			print_nodes(subject);
		else
			print_subject(subject);
	}
	if (array) {
		json_dumpf(array, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(array);
	}
}

static void survey_fini(struct survey *survey)
{
	for (size_t i = 0; i < survey->subject_count; i++)
		subject_fini(&survey->subjects[i]);
	free(survey->subjects);
	free(survey->subject_of);
	kr_tool_files_fini(&survey->files);
	pthread_mutex_destroy(&survey->lock);
}

int kr_tool_where(int argc, char **argv)
{
	static const struct option options[] = {{"files", no_argument, NULL, EACH}, {"json", no_argument, NULL, JSON},
		{"nodes", no_argument, NULL, NODES}, {"help", no_argument, NULL, 'h'}, {0}};
	struct survey survey = {0};
	enum form form = 0;
	size_t failed;
	int option;

	while ((option = kr_tool_option(argc, argv, "h", options)) != -1) {
		if (option != EACH && option != JSON && option != NODES)
			return kr_tool_usage(usage, option == 'h');
		form |= (enum form)option;
	}
	if (optind == argc || (form & NODES && form != NODES))
		return kr_tool_usage(usage, false);
	begin(&survey, argv + optind, (size_t)(argc - optind), form);
	ask_all(&survey);
	print(&survey, form);
	failed = survey.failed + survey.files.errors;
	option = !failed ? KR_EXIT_OK : survey.failed == survey.files.count ? KR_EXIT_FAILED : KR_EXIT_LEFT;
	survey_fini(&survey);
	return kr_tool_printed(option);
}

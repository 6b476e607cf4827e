/* See envelope_nodes.h.  The worker gets {"directory": D}, and answers {}.  Each task is {"step", "owner", "processes",
 * "size", "counts"}, and the answer to it {"rate", "counts"}; or {"error": reason}, after which the worker ends. */
#include "tools/bench/envelope_nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/find_mount.h"
#include "tools/base/spawn.h"
#include "tools/bench/bench_place.h"

enum { RSH_WORDS = 32 };

/* Takes MESSAGE. */
static int put(FILE *out, json_t *message)
{
	int err = json_dumpf(message, out, JSON_COMPACT) < 0 ? -EPIPE : 0;

	json_decref(message);
	return fputc('\n', out) == EOF || fflush(out) != 0 ? -EPIPE : err;
}

static json_t *counts_json(const struct kr_envelope_task *task)
{
	json_t *counts = json_array();

	for (unsigned i = 0; i < task->processes; i++)
		json_array_append_new(counts, json_integer((json_int_t)task->counts[i]));
	return counts;
}

static void take_counts(const json_t *message, struct kr_envelope_task *task)
{
	const json_t *counts = json_object_get(message, "counts");

	for (unsigned i = 0; i < task->processes; i++)
		task->counts[i] = (uint64_t)KR_MAX(json_integer_value(json_array_get(counts, i)), (json_int_t)0);
}

/* --- the worker -------------------------------------------------------------------------------- */

static int open_directory(FILE *in, int *ret_dir)
{
	json_t *message = json_loadf(in, JSON_DISABLE_EOF_CHECK, NULL);
	const char *path = kr_text_of(message, "directory");
	struct kr_mounted mounted = {0};
	int err = kr_find_mount(path, &mounted, NULL);

	kr_mounted_fini(&mounted);
	if (err == 0)
		*ret_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (err == 0 && *ret_dir < 0)
		err = kr_fail_errno(-errno, "%s", path);
	json_decref(message);
	return err;
}

static int do_task(int dir, const json_t *message, FILE *out)
{
	struct kr_envelope_task task = {.step = (enum kr_envelope_step)kr_number(message, NULL, "step"),
		.owner = (unsigned)kr_number(message, NULL, "owner"),
		.processes = (unsigned)kr_number(message, NULL, "processes"),
		.size = (uint64_t)kr_number(message, NULL, "size")};
	int err;

	if (task.step >= KR_ENVELOPE_STEPS || task.processes > KR_ENVELOPE_PROCESSES_MAX)
		return kr_fail(-EPROTO, "kairan is another version on this node");
	take_counts(message, &task);
	err = kr_envelope_do(dir, &task);
	return err == 0 ? put(out, json_pack("{sf so}", "rate", task.rate, "counts", counts_json(&task))) : err;
}

int kr_envelope_serve(FILE *in, FILE *out)
{
	KR_AUTO_FD int dir = -1;
	int err = open_directory(in, &dir);
	json_t *message;

	if (err == 0)
		err = put(out, json_object());
	while (err == 0 && (message = json_loadf(in, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
		err = do_task(dir, message, out);
		json_decref(message);
	}
	if (err < 0)
		put(out, json_pack("{so}", "error", kr_text_json(kr_fail_reason())));
	return err;
}

/* --- all workers ------------------------------------------------------------------------------- */

/* The answer of NODE, owned.  NULL with a reason. */
static json_t *get(const struct kr_envelope_node *node)
{
	json_t *message = json_loadf(node->from, JSON_DISABLE_EOF_CHECK, NULL);
	KR_AUTO_FREE char *error = kr_text_shown(kr_text_of(message, "error"));

	if (message && !*error)
		return message;
	if (message)
		kr_fail(-EIO, "%s: %s", node->name, error);
	else
		kr_fail(-EPIPE, "%s: kairan envelope --worker has ended there", node->name);
	json_decref(message);
	return NULL;
}

static int run_worker(const char *const *argv, struct kr_envelope_node *node)
{
	int in[2], out[2], err;

	if (pipe2(in, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(out, O_CLOEXEC) < 0) {
		err = -errno;
		close(in[0]);
		close(in[1]);
		return err;
	}
	err = kr_tool_spawn(argv, in[0], out[1], &node->pid);
	close(in[0]);
	close(out[1]);
	node->to = fdopen(in[1], "w");
	node->from = fdopen(out[0], "r");
	if (!node->to || !node->from)
		abort();
	return err;
}

static int start_worker(struct kr_envelope_node *node, const char *rsh, const char *directory)
{
	const char *argv[RSH_WORDS + 5] = {0};
	KR_AUTO_FREE char *words = kr_xstrdup(rsh);
	char *rest = words, *word;
	sigset_t ctrl_c, before;
	size_t count = 0;
	int err;

	sigemptyset(&ctrl_c);
	sigaddset(&ctrl_c, SIGINT);
	while (count < RSH_WORDS && (word = strsep(&rest, " ")) != NULL)
		if (*word)
			argv[count++] = word;
	if (count == 0 || rest || !*node->name || *node->name == '-')
		return kr_fail(-EINVAL, "--nodes: \"%s\" cannot be reached by \"%s\"", node->name, rsh);
	argv[count++] = node->name;
	argv[count++] = "kairan";
	argv[count++] = "envelope";
	argv[count++] = "--worker";
	/* Ctrl-C is for this program: a worker goes on to the end of its step. */
	sigprocmask(SIG_BLOCK, &ctrl_c, &before);
	err = run_worker(argv, node);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (err < 0)
		return kr_fail_errno(err, "cannot run %s", argv[0]);
	put(node->to, json_pack("{so}", "directory", kr_text_json(directory)));
	return 0;
}

int kr_envelope_nodes_start(struct kr_envelope_nodes *nodes, const char *list, const char *rsh, const char *directory)
{
	KR_AUTO_FREE char *names = kr_xstrdup(list);
	char *rest = names, *name;
	int err = 0;

	signal(SIGPIPE, SIG_IGN);
	nodes->nodes = kr_xcalloc(KR_ENVELOPE_NODES_MAX, sizeof(*nodes->nodes));
	while (err == 0 && (name = strsep(&rest, ",")) != NULL) {
		if (nodes->count == KR_ENVELOPE_NODES_MAX)
			return kr_fail(-E2BIG, "--nodes: more than %d", KR_ENVELOPE_NODES_MAX);
		nodes->nodes[nodes->count].name = kr_xstrdup(name);
		err = start_worker(&nodes->nodes[nodes->count++], rsh, directory);
	}
	for (size_t i = 0; i < nodes->count && err == 0; i++) {
		json_t *answer = get(&nodes->nodes[i]);

		err = answer ? 0 : -EIO;
		json_decref(answer);
	}
	return err;
}

int kr_envelope_nodes_do(struct kr_envelope_nodes *nodes, size_t count, struct kr_envelope_task *tasks)
{
	int err = 0;

	for (size_t i = 0; i < count; i++)
		put(nodes->nodes[i].to,
			json_pack("{si si si sI so}", "step", (int)tasks[i].step, "owner", (int)tasks[i].owner,
				"processes", (int)tasks[i].processes, "size", (json_int_t)tasks[i].size, "counts",
				counts_json(&tasks[i])));
	for (size_t i = 0; i < count && err == 0; i++) {
		json_t *answer = get(&nodes->nodes[i]);

		err = answer ? 0 : -EIO;
		take_counts(answer, &tasks[i]);
		tasks[i].rate = json_number_value(json_object_get(answer, "rate"));
		json_decref(answer);
	}
	return kr_bench_stopped ? -EINTR : err;
}

void kr_envelope_nodes_stop(struct kr_envelope_nodes *nodes)
{
	for (size_t i = 0; i < nodes->count; i++) {
		struct kr_envelope_node *node = &nodes->nodes[i];

		if (node->to)
			fclose(node->to);
	}
	for (size_t i = 0; i < nodes->count; i++) {
		struct kr_envelope_node *node = &nodes->nodes[i];

		if (node->pid > 0)
			kr_tool_wait(node->pid);
		if (node->from)
			fclose(node->from);
		free(node->name);
	}
	free(nodes->nodes);
}

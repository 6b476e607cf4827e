/* kairan status: the daemons' JSON as it is, or as a few lines for people. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "fuse/daemon/control_address.h"
#include "tools/base/client.h"
#include "tools/commands.h"
#include "tools/base/health.h"
#include "tools/base/find_mount.h"
#include "tools/base/units.h"

static const char usage[] =
	"usage: kairan status [--json] [--check] [MOUNTPOINT | [--key FILE | --munge [--munge-socket PATH] "
	"[--munge-uid UID]] HOST[:PORT]]\n"
	"Without an argument: all mounts of kairanfs here. Works when the server is away, and never touches the "
	"mount.\n"
	"  --check  exit code 1 if somebody should look: not connected, something refused or late, damage, requests "
	"that wait for long\n"
	"Exit code: 0 answered, 2 no such mount or no answer, 64 wrong arguments.\n";

static bool flag(const json_t *object, const char *section, const char *name)
{
	return json_is_true(json_object_get(json_object_get(object, section), name));
}

/* --- of a mount ------------------------------------------------------------------------------- */

static void print_server_line(const json_t *status)
{
	const char *silent = kr_time_text(kr_number(status, "server", "silent_ms"));

	if (flag(status, "server", "connected"))
		printf("  server      connected as node %" JSON_INTEGER_FORMAT ", heard %s ago%s\n",
			kr_number(status, "server", "node"), silent,
			flag(status, "server", "fenced") ? "; FENCED: operations wait" : "");
	else
		printf("  server      NOT CONNECTED, silent for %s: %s; operations wait\n", silent,
			kr_text_of(json_object_get(status, "server"), "why"));
}

static void print_backlog(const json_t *status)
{
	json_int_t bytes = kr_number(status, "backlog", "bytes"),
		   unstable = kr_number(status, "backlog", "unstable_bytes"),
		   files = kr_number(status, "backlog", "files");

	if (!bytes && !unstable) {
		printf("  backlog     none: all that was written is on the server's disk\n");
		return;
	}
	if (bytes)
		printf("  backlog     %s of %" JSON_INTEGER_FORMAT
		       " file%s not on the server, %s more not known to be on its disk\n",
			kr_bytes_text(bytes), files, KR_S(files), kr_bytes_text(unstable));
	else
		printf("  backlog     %s on the server, but not known to be on its disk\n", kr_bytes_text(unstable));
}

static void print_files(const json_t *status)
{
	const json_t *file;
	size_t i;

	json_array_foreach(json_object_get(status, "files"), i, file)
	{
		const char *path = kr_text_of(file, "path"), *error = kr_text_of(file, "error");
		json_int_t dirty = json_integer_value(json_object_get(file, "dirty"));

		if (!dirty && !*error)
			continue;
		printf("  unflushed   %s: %s, %s%s%s\n", *path ? path : kr_text_of(file, "fid"), kr_bytes_text(dirty),
			kr_text_of(file, "state"), *error ? ": " : "", error);
		if (dirty && !*error && json_is_true(json_object_get(file, "late")))
			printf("              LATE: unflushed for %s: %s\n",
				kr_time_text(kr_number(file, NULL, "unflushed_ms")), kr_text_of(file, "why"));
	}
	json_array_foreach(json_object_get(status, "conflicts"), i, file) printf(
		"  CONFLICT    %s was changed by others before %s that were written here were on the server: they "
		"are in %s\n",
		kr_text_of(file, "path"), kr_bytes_text(json_integer_value(json_object_get(file, "bytes"))),
		kr_text_of(file, "conflict_file"));
	json_array_foreach(json_object_get(status, "damage"), i, file)
		printf("  DAMAGE      %s\n", json_string_value(file));
}

static void print_journal(const json_t *status)
{
	const json_t *journal = json_object_get(status, "journal");

	if (*kr_text_of(journal, "error"))
		printf("  JOURNAL     cannot be written: %s; writes fail until it can\n", kr_text_of(journal, "error"));
	if (kr_number(status, "journal", "slow_ms"))
		printf("  JOURNAL     slow: the local disk has not taken for %s which bytes the server has refused; who "
		       "wants such files may have to wait for it\n",
			kr_time_text(kr_number(status, "journal", "slow_ms")));
	if (kr_number(status, "journal", "set_aside"))
		printf("  JOURNAL     %s set aside for their damage (kairan flush --discard MOUNTPOINT lets them go)\n",
			kr_bytes_text(kr_number(status, "journal", "set_aside")));
	if (*kr_text_of(journal, "refused"))
		printf("  JOURNAL     full of what the server refuses, most of it of %s: writes to other files fail "
		       "for want of room until it takes that, or "
		       "kairan flush --discard lets it go\n",
			kr_text_of(journal, "refused"));
	else if (json_is_true(json_object_get(journal, "waiting")))
		printf("  JOURNAL     full: writes wait until the server has more on its disk\n");
}

static void print_cache(const json_t *status)
{
	json_int_t bad_blocks = kr_number(status, "cache", "bad_blocks"), files = kr_number(status, "cache", "files");

	printf("  cache       %s of %s in %" JSON_INTEGER_FORMAT " file%s",
		kr_bytes_text(kr_number(status, "cache", "bytes")),
		kr_bytes_text(kr_number(status, "cache", "max_bytes")), files, KR_S(files));
	if (bad_blocks)
		printf("; %" JSON_INTEGER_FORMAT " damaged block%s dropped", bad_blocks,
			bad_blocks == 1 ? " was" : "s were");
	printf("\n");
}

static void print_operations(const json_t *status)
{
	const json_t *operation, *operations = json_object_get(status, "operations");
	size_t i;

	printf("  operations  %" JSON_INTEGER_FORMAT " waiting", kr_number(status, "operations", "count"));
	json_array_foreach(json_object_get(operations, "oldest"), i, operation) printf("%s%s %s", i ? ", " : ": ",
		kr_text_of(operation, "name"), kr_time_text(kr_number(operation, NULL, "waiting_ms")));
	printf("\n");
}

static void print_ring(const json_t *status)
{
	const json_int_t verbs = kr_number(status, "ring", "verbs"), lanes = kr_number(status, "ring", "lanes");

	if (json_is_integer(json_object_get(json_object_get(status, "ring"), "port")) &&
		!kr_number(status, "ring", "port"))
		printf("  RING        no port (is one of ring_port free?): other nodes can pull nothing from here\n");
	printf("  ring        %s received, %s sent; feeding %" JSON_INTEGER_FORMAT ", fed by %" JSON_INTEGER_FORMAT,
		kr_bytes_text(kr_number(status, "ring", "received_bytes")),
		kr_bytes_text(kr_number(status, "ring", "sent_bytes")), kr_number(status, "ring", "incoming"),
		kr_number(status, "ring", "outgoing"));
	if (lanes)
		printf(" (%" JSON_INTEGER_FORMAT " more than one to a peer)", lanes);
	if (verbs)
		printf("; %" JSON_INTEGER_FORMAT " of these by verbs", verbs);
	printf("\n");
}

/* A mount without a server. */
static void print_view(const json_t *status)
{
	const char *passes = kr_text_of(json_object_get(status, "view"), "passthrough");
	const char *limited_by = kr_text_of(json_object_get(status, "view"), "limited_by");
	json_int_t size = kr_number(status, "view", "size_bytes");

	printf("  view        of this node alone; ");
	if (size)
		printf("%s of", kr_bytes_text(kr_number(status, "view", "used_bytes")));
	printf("%s%s%s", size ? " " : "no limit", size ? kr_bytes_text(size) : "",
		strcmp(limited_by, "quota") == 0 ? " (a quota of the disk)" : "");
	printf(", %" JSON_INTEGER_FORMAT " files, %" JSON_INTEGER_FORMAT " open, %" JSON_INTEGER_FORMAT
	       " known to the kernel\n",
		kr_number(status, "view", "files"), kr_number(status, "view", "open"),
		kr_number(status, "view", "known_to_kernel"));
	printf("  disk        %s\n",
		strcmp(passes, "all") == 0           ? "the kernel reads and writes it without the daemon" :
			strcmp(passes, "reads") == 0 ? "the kernel reads it without the daemon, which counts writes" :
						       "the daemon reads and writes it");
}

static void print_mount(const json_t *status)
{
	printf("%s: %s, node %s, process %" JSON_INTEGER_FORMAT, kr_text_of(status, "mount_point"),
		kr_text_of(status, "source"), kr_text_of(status, "node_name"), kr_number(status, NULL, "pid"));
	if (json_object_get(status, "user"))
		printf("; of files, those of user %" JSON_INTEGER_FORMAT " alone\n", kr_number(status, NULL, "user"));
	else if (json_object_get(status, "local"))
		printf(", local directory %s\n", kr_text_of(status, "local"));
	else
		putchar('\n');
	if (json_object_get(status, "lender"))
		printf("  LENT        node %s has no disk: process and local directory are on %s\n",
			kr_text_of(status, "node_name"), kr_text_of(status, "lender"));
	if (json_is_true(json_object_get(status, "detached")))
		printf("  DETACHED    no path leads to it here (umount, umount -l, another mount namespace); its "
		       "process goes on until no program has a "
		       "file of it open, flushes, and ends; kill %" JSON_INTEGER_FORMAT " ends it\n",
			json_integer_value(json_object_get(status, "pid")));
	if (json_object_get(status, "view")) {
		print_view(status);
		return;
	}
	print_server_line(status);
	print_backlog(status);
	print_files(status);
	print_journal(status);
	print_cache(status);
	print_ring(status);
	printf("  files       %" JSON_INTEGER_FORMAT " open, %" JSON_INTEGER_FORMAT " known to the kernel\n",
		kr_number(status, "inodes", "open"), kr_number(status, "inodes", "known_to_kernel"));
	print_operations(status);
}

/* --- of a server ------------------------------------------------------------------------------ */

static void print_conflict(const json_t *conflict)
{
	const char *place = kr_text_of(conflict, "conflict_file");

	printf("  CONFLICT    %s was changed by others before what node %s had written was on the server: it is %s%s\n",
		kr_text_of(conflict, "path"), kr_text_of(conflict, "node"), *place ? "in " : "still there", place);
}

/* A node that is silent for the lease time is lost. */
static void print_node(const json_t *node, json_int_t lease_ms)
{
	bool connected = json_is_true(json_object_get(node, "connected"));
	json_int_t silent_ms = json_integer_value(json_object_get(node, "silent_ms"));
	json_int_t unflushed = json_integer_value(json_object_get(node, "unflushed_bytes"));
	json_int_t refused = json_integer_value(json_object_get(node, "refused_bytes"));

	printf("  node        %s%s%s%s: %s", kr_text_of(node, "name"), connected ? " (" : "",
		kr_text_of(node, "address"), connected ? ")" : "", connected ? "connected" : "NOT CONNECTED");
	if (!connected || silent_ms > lease_ms / 2)
		printf(", silent for %s (lost after %s)", kr_time_text(silent_ms), kr_time_text(lease_ms));
	if (unflushed)
		printf(", %s%s unflushed", connected ? "" : "had ", kr_bytes_text(unflushed));
	if (refused)
		printf(" (%s REFUSED)", kr_bytes_text(refused));
	printf(", %" JSON_INTEGER_FORMAT " opens, %s received, %s sent\n",
		json_integer_value(json_object_get(node, "opens")),
		kr_bytes_text(json_integer_value(json_object_get(node, "received_bytes"))),
		kr_bytes_text(json_integer_value(json_object_get(node, "sent_bytes"))));
}

/* With a user's key the server tells only of that user's mounts. */
static void print_server_head(const char *name, const json_t *status)
{
	const json_t *user = json_object_get(status, "user");
	const size_t nodes = json_array_size(json_object_get(status, "nodes"));

	printf("%s: export %s%s, up %s, %zu node%s", name, kr_text_of(json_object_get(status, "export"), "path"),
		flag(status, "export", "present") ? "" : " (GONE)", kr_time_text(kr_number(status, NULL, "uptime_ms")),
		nodes, KR_S(nodes));
	if (user)
		printf(" of user %" JSON_INTEGER_FORMAT, json_integer_value(user));
	printf("%s\n", json_is_true(json_object_get(status, "grace")) ? "; waiting for nodes to come back" : "");
}

static void print_export(const json_t *status)
{
	printf("  export      %" JSON_INTEGER_FORMAT " reads of %s, %" JSON_INTEGER_FORMAT
	       " writes of %s, %" JSON_INTEGER_FORMAT " unlinked files held\n",
		kr_number(status, "export", "reads"), kr_bytes_text(kr_number(status, "export", "read_bytes")),
		kr_number(status, "export", "writes"), kr_bytes_text(kr_number(status, "export", "write_bytes")),
		kr_number(status, "export", "orphans"));
	if (strcmp(kr_text_of(json_object_get(status, "watch"), "mechanism"), "none") == 0) {
		printf("  watch       changes by others are not noticed (--watch none)\n");
		return;
	}
	printf("  watch       changes by others are noticed by %s; %" JSON_INTEGER_FORMAT " since the start\n",
		strcmp(kr_text_of(json_object_get(status, "watch"), "mechanism"), "events") == 0 ?
			"the kernel's word" :
			"looking once a second",
		kr_number(status, "watch", "changes"));
}

/* A job of view=job, with the node that serves it. */
static void print_job(const json_t *job)
{
	const char *address = kr_text_of(job, "address");

	printf("  job         %s of user %" JSON_INTEGER_FORMAT ": its files are on node %s%s%s",
		kr_text_of(job, "job"), kr_number(job, NULL, "user"), kr_text_of(job, "node"),
		*address ? ", " : ", which does not serve yet", address);
	if (*address)
		printf(" port %" JSON_INTEGER_FORMAT, kr_number(job, NULL, "port"));
	printf(", heard of %s ago\n", kr_time_text(kr_number(job, NULL, "silent_ms")));
}

static void print_server(const char *name, const json_t *status)
{
	const json_t *node, *conflict, *file, *job, *nodes = json_object_get(status, "nodes");
	size_t i;

	print_server_head(name, status);
	json_array_foreach(nodes, i, node) print_node(node, json_integer_value(json_object_get(status, "lease_ms")));
	json_array_foreach(json_object_get(status, "introduced_jobs"), i, job) print_job(job);
	if (json_object_get(status, "watch"))
		print_export(status);
	if (kr_number(status, "parked", "count"))
		printf("  PARKED      %" JSON_INTEGER_FORMAT
		       " requests of nodes wait for long, the oldest, %s of %s, for %s%s%s\n",
			kr_number(status, "parked", "count"), kr_text_of(json_object_get(status, "parked"), "request"),
			kr_text_of(json_object_get(status, "parked"), "node"),
			kr_time_text(kr_number(status, "parked", "oldest_ms")),
			*kr_text_of(json_object_get(status, "parked"), "for") ? ": for a lease of " : "",
			kr_text_of(json_object_get(status, "parked"), "for"));
	if (kr_number(status, "data", "overlapped_bytes"))
		printf("  overlaps    %s had been written by several nodes at once, and were decided by ring order\n",
			kr_bytes_text(kr_number(status, "data", "overlapped_bytes")));
	json_array_foreach(json_object_get(json_object_get(status, "data"), "overlapped_files"), i, file) printf(
		"              inode %" JSON_INTEGER_FORMAT ": %s\n", json_integer_value(json_object_get(file, "ino")),
		kr_bytes_text(json_integer_value(json_object_get(file, "bytes"))));
	json_array_foreach(json_object_get(status, "conflicts"), i, conflict) print_conflict(conflict);
}

/* --- the command ------------------------------------------------------------------------------ */

struct show {
	bool json, check;
	struct kr_tool_proof proof;
	json_t *all; /* with json and no argument: an array */
	int result;
	size_t count;
};

static void complain(struct show *show)
{
	fflush(stdout);
	show->result = kr_tool_failed();
}

static void print_json(const json_t *status)
{
	json_dumpf(status, stdout, JSON_INDENT(2));
	printf("\n");
}

static void check(struct show *show, const json_t *status)
{
	if (show->check && !kr_status_is_healthy(status))
		show->result = KR_MAX(show->result, (int)KR_EXIT_LEFT);
}

/* Takes STATUS. */
static void show_status(struct show *show, json_t *status)
{
	json_t *printable = kr_printable(status);

	check(show, status);
	if (show->all)
		json_array_append(show->all, status);
	else if (show->json)
		print_json(status);
	else
		print_mount(printable);
	json_decref(printable);
	json_decref(status);
}

static void show_mount(const struct kr_mounted *mounted, void *context)
{
	struct show *show = context;
	json_t *status;

	show->count++;
	if (kr_ask_mount(mounted, "status", "", &status) < 0)
		complain(show);
	else
		show_status(show, status);
}

/* A daemon with a control address but without a mount here.  One that was killed does not answer. */
static void show_detached(unsigned dev_major, unsigned dev_minor, const char *socket, int pid, void *context)
{
	struct show *show = context;
	json_t *status;

	(void)pid;
	if (kr_mounted_has(dev_major, dev_minor) != 0 || kr_ask_socket(socket, "status", "", &status) < 0)
		return;
	show->count++;
	if (!json_object_get(status, "lender"))
		json_object_set_new(status, "detached", json_true());
	show_status(show, status);
}

static void show_all(struct show *show)
{
	if (show->json)
		show->all = json_array();
	if (kr_for_each_mount(show_mount, show) < 0)
		complain(show);
	kr_control_address_for_each(show_detached, show);
	if (show->json)
		print_json(show->all);
	else if (!show->count)
		printf("no mounts of kairanfs here\n");
	json_decref(show->all);
}

static void show_server(struct show *show, const char *name)
{
	json_t *status, *printable;

	if (kr_ask_server(name, &show->proof, &status) < 0) {
		complain(show);
		return;
	}
	check(show, status);
	printable = kr_server_printable(status);
	if (show->json)
		print_json(status);
	else
		print_server(name, printable);
	json_decref(printable);
	json_decref(status);
}

static void show_one(struct show *show, const char *argument)
{
	struct kr_mounted mounted;

	if (!kr_looks_like_path(argument)) {
		show_server(show, argument);
	} else if (kr_find_mount(argument, &mounted, NULL) < 0) {
		if (strstr(argument, ":/"))
			kr_fail(-EINVAL, "%s: a server is named HOST[:PORT] here, without a directory", argument);
		complain(show);
	} else {
		show_mount(&mounted, show);
		kr_mounted_fini(&mounted);
	}
}

int kr_tool_status(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"check", no_argument, NULL, 'c'},
		KR_TOOL_PROOF_OPTIONS,
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct show show = {0};
	int option, code = -1;

	while (code < 0 && (option = kr_tool_option(argc, argv, "jk:h", options)) != -1) {
		if (option == 'j')
			show.json = true;
		else if (option == 'c')
			show.check = true;
		else
			code = kr_tool_proof_take(&show.proof, option, usage);
	}
	if (code < 0)
		code = kr_tool_proof_end(&show.proof, argc - optind, usage);
	if (code >= 0)
		return code;
	if (optind < argc)
		show_one(&show, argv[optind]);
	else
		show_all(&show);
	return kr_tool_printed(show.result);
}

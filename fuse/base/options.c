/* See options.h.  Here are the table, and the words of mount(8) and libfuse that may stand in -o. */
#include "fuse/base/options.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/auth/munge.h"
#include "common/config/options.h"
#include "common/metrics/metrics_server.h"
#include "common/rpc/seal.h"
#include "common/base/text.h"
#include "common/base/types.h"
#include "common/verbs/verbs.h"
#include "common/base/util.h"
#include "fuse/base/cpus.h"

enum { SIZE_MIN = 1 << 20 };

#define FIELD(name) offsetof(struct kr_mount_options, name)

/* clang-format off */
static const struct kr_option table[] = {
	{.name = "view", .type = KR_OPTION_ENUM, .offset = FIELD(view), .default_text = "cache",
		.choices = "cache|node|job",
		.help = "cache: the server's export, cached here; node: an empty file system on this node's disk, "
			"which no server knows and which is gone when it is unmounted; job: one that all nodes of a "
			"job share, on the disk of the node that mounts it first, and which is gone when that node "
			"unmounts it"},
	{.name = "job", .type = KR_OPTION_STRING, .offset = FIELD(job), .value_name = "NAME",
		.help = "which job's file system a view=job is"},
	{.name = "size", .type = KR_OPTION_SIZE, .offset = FIELD(size), .default_text = "0",
		.help = "limit of what a view=node, or a view=job on this node's disk, may hold; 0: what the disk "
			"holds"},
	{.name = "local", .type = KR_OPTION_STRING, .offset = FIELD(local), .value_name = "DIR|@NODE[:PORT]",
		.help = "directory on a local disk for journal and cache, or for what a view=node or view=job holds "
			"(default: /var/tmp/kairan-UID/..., by source and mount point); @NODE: journal and cache are "
			"on the disk of that node, which runs kairanfs --lend"},
	{.name = "key", .type = KR_OPTION_PATH, .offset = FIELD(key), .value_name = "FILE",
		.help = "key to prove to the server, made by kairan key; read again for each connection"},
	{.name = "munge", .type = KR_OPTION_BOOL, .offset = FIELD(munge),
		.help = "prove to the server by MUNGE who mounts, instead of with a key"},
	{.name = "munge_socket", .type = KR_OPTION_PATH, .offset = FIELD(munge_socket), .value_name = "PATH",
		.help = "where munged listens, if not at the usual place"},
	{.name = "munge_uid", .type = KR_OPTION_COUNT, .offset = FIELD(munge_uid), .default_text = "0",
		.max = UINT32_MAX - 1, .value_name = "UID",
		.help = "user that kairand must be run by, according to MUNGE"},
	{.name = "security", .type = KR_OPTION_ENUM, .offset = FIELD(security), .default_text = "auth",
		.choices = KR_SECURITY_CHOICES,
		.help = "least security of connections that is wanted; the server may give more: see kairand(8)"},
	{.name = "ring", .type = KR_OPTION_STRING, .offset = FIELD(ring), .value_name = "NAME",
		.help = "share blocks and chains of flushes only with nodes whose mounts name the same ring (default: "
			"those without a name)"},
	{.name = "ring_port", .type = KR_OPTION_STRING, .offset = FIELD(ring_port), .value_name = "PORTS",
		.help = "TCP port where other nodes reach this mount for file data, for a firewall; of a range "
			"LOW-HIGH the first that is free (default: one that the kernel chooses)"},
	{.name = "transport", .type = KR_OPTION_ENUM, .offset = FIELD(transport), .default_text = "auto",
		.choices = KR_TRANSPORT_CHOICES,
		.help = "how file data moves on ring connections: auto over RDMA verbs where both ends have them, else "
			"over TCP; tcp without RDMA; verbs as auto, but no mount without an RDMA device"},
	{.name = "lanes", .type = KR_OPTION_COUNT, .offset = FIELD(lanes), .default_text = "8", .min = 1, .max = 64,
		.value_name = "N",
		.help = "connections to one upstream at most; more than one only over long links, where one is not "
			"enough"},
	{.name = "node", .type = KR_OPTION_STRING, .offset = FIELD(node), .value_name = "NAME",
		.help = "this node's name, which gives its place in ring order (default: the host name)"},
	{.name = "close", .type = KR_OPTION_ENUM, .offset = FIELD(close), .default_text = "sync",
		.choices = "sync|async",
		.help = "close(2) returns when the bytes are applied at the server, or when they are in the journal"},
	{.name = "coherence", .type = KR_OPTION_ENUM, .offset = FIELD(coherence), .default_text = "strict",
		.choices = "strict|relaxed|ordered",
		.help = "strict: reads see other nodes' writes at once; relaxed: not where this node has unflushed "
			"bytes of its own; ordered: strict, and writers on different nodes take turns"},
	{.name = "journal_max", .type = KR_OPTION_SIZE, .offset = FIELD(journal_max), .default_text = "0",
		.help = "limit of the journal, at which writers wait; 0: a quarter of the free space, at most 16G"},
	{.name = "cache_max", .type = KR_OPTION_SIZE, .offset = FIELD(cache_max), .default_text = "0",
		.help = "limit of the read cache; 0: by the free space"},
	{.name = "flush_age", .type = KR_OPTION_SECONDS, .offset = FIELD(flush_age), .default_text = "5", .min = 10,
		.max = KR_FLUSH_AGE_MAX_MS, .help = "bytes older than this go to the server without being asked"},
	{.name = "flush_backlog", .type = KR_OPTION_SIZE, .offset = FIELD(flush_backlog), .default_text = "8M",
		.min = 65536,
		.help = "with more unflushed bytes than this of one file they go to the server at once"},
	{.name = "stripe_size", .type = KR_OPTION_SIZE, .offset = FIELD(stripe_size), .default_text = "0",
		.max = UINT64_C(1) << 40,
		.help = "stripes in which collective MPI-IO deals out files, unless the program says so; 0: the "
			"library's default"},
	{.name = "hard", .type = KR_OPTION_BOOL, .offset = FIELD(hard),
		.help = "operations wait for an unreachable server (the default)"},
	{.name = "soft", .type = KR_OPTION_BOOL, .offset = FIELD(soft),
		.help = "operations fail with ETIMEDOUT after timeo"},
	{.name = "timeo", .type = KR_OPTION_SECONDS, .offset = FIELD(timeo), .default_text = "60", .min = 100,
		.max = 86400000, .help = "how long soft operations wait"},
	{.name = "connect_timeout", .type = KR_OPTION_SECONDS, .offset = FIELD(connect_timeout), .default_text = "15",
		.min = 100, .max = 604800000, .help = "for how long the mount tries to reach the server"},
	{.name = "drain_timeout", .type = KR_OPTION_SECONDS, .offset = FIELD(drain_timeout), .default_text = "30",
		.max = 86400000, .help = "how long the daemon flushes at unmount and SIGTERM before it leaves the rest "
			"in the journal"},
	{.name = "threads", .type = KR_OPTION_COUNT, .offset = FIELD(threads), .default_text = "0", .max = 64,
		.help = "threads that answer the kernel; 0: by the number of processors"},
	{.name = "cpus", .type = KR_OPTION_STRING, .offset = FIELD(cpus), .value_name = "LIST",
		.help = "processors that the daemon may use, like 0-3:8 (default: all that its parent may)"},
	{.name = "shared_mmap", .type = KR_OPTION_BOOL, .offset = FIELD(shared_mmap),
		.help = "on kernels before 6.6, which need it for that: files open for reading and writing can be "
			"mapped with MAP_SHARED"},
	{.name = "metrics", .type = KR_OPTION_STRING, .offset = FIELD(metrics), .value_name = "ADDR:PORT",
		.help = "serve metrics for Prometheus at http://ADDR:PORT/metrics, and a page for browsers at /, to "
			"everybody who reaches the address; off by default"},
	{.name = "nonempty", .type = KR_OPTION_BOOL, .offset = FIELD(nonempty),
		.help = "mount over a directory that is not empty"},
	{.name = "lend", .type = KR_OPTION_PATH, .offset = FIELD(lend), .value_name = "DIR", .command_line_only = true,
		.help = "mount nothing, but serve nodes without a disk (local=@NODE), with their journals and caches "
			"in DIR"},
	{.name = "listen", .type = KR_OPTION_STRING, .offset = FIELD(listen), .value_name = "ADDR[:PORT]",
		.command_line_only = true,
		.help = "with lend: where nodes without a disk connect to (default: all addresses of IPv4 with a key, "
			"else 127.0.0.1; port 7441)"},
	{.name = "foreground", .letter = 'f', .type = KR_OPTION_BOOL, .offset = FIELD(foreground),
		.command_line_only = true,
		.help = "stay in the foreground, log to standard error"},
	{.name = "debug", .letter = 'd', .type = KR_OPTION_BOOL, .offset = FIELD(debug), .command_line_only = true,
		.help = "log everything that is worth a line"},
};
/* clang-format on */

/* Words of fstab and mount(8) without a meaning for kairanfs. */
static const char *const ignored[] = {"defaults", "_netdev", "nofail", "fail", "auto", "noauto", "user", "nouser",
	"users", "owner", "group", "async", "atime", "diratime", "nodiratime", "relatime", "norelatime", "strictatime",
	"nostrictatime", "lazytime", "nolazytime", "comment"};
/* Words that the kernel or libfuse understands. */
static const char *const passed[] = {"suid", "nosuid", "dev", "nodev", "exec", "noexec", "sync", "dirsync", "noatime",
	"auto_unmount", "fsname", "context", "fscontext", "defcontext", "rootcontext"};

/* Words that the kernel shows of a mount, and that mount(8) brings back with -o remount. */
static const char *const shown[] = {"user_id", "group_id", "max_read", "blksize", "rootmode", "fd"};

static bool among(const char *const *words, size_t count, const char *word)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(words[i], word) == 0)
			return true;
	return false;
}

static void pass_on(struct kr_mount_options *options, const char *key, const char *value)
{
	char *joined = NULL;

	if (asprintf(&joined, "%s%s%s%s%s", options->fuse_options ? options->fuse_options : "",
		    options->fuse_options ? "," : "", key, value ? "=" : "", value ? value : "") < 0)
		abort();
	free(options->fuse_options);
	options->fuse_options = joined;
}

static void note_given(void *values, const struct kr_option *option)
{
	struct kr_mount_options *options = values;

	static_assert(KR_ARRAY_SIZE(table) <= 64, "a bit for each");
	options->given |= UINT64_C(1) << (option - table);
}

static int take_other(void *values, const char *key, const char *value)
{
	struct kr_mount_options *options = values;

	options->noatime |= strcmp(key, "noatime") == 0;
	options->strictatime |= strcmp(key, "strictatime") == 0;
	if (strcmp(key, "ro") == 0 || strcmp(key, "rw") == 0)
		options->read_only = strcmp(key, "ro") == 0;
	else if (strcmp(key, "allow_other") == 0)
		options->allow_other = true;
	else if (strcmp(key, "allow_root") == 0)
		options->allow_root = true;
	else if (strcmp(key, "default_permissions") == 0)
		options->no_default_permissions = false;
	else if (strcmp(key, "no_default_permissions") == 0)
		options->no_default_permissions = true;
	else if (strcmp(key, "acl") == 0 || strcmp(key, "noacl") == 0)
		options->no_acls = strcmp(key, "noacl") == 0;
	else if (strcmp(key, "remount") == 0)
		options->remount = true;
	else if (among(passed, KR_ARRAY_SIZE(passed), key))
		pass_on(options, key, value);
	else if (among(shown, KR_ARRAY_SIZE(shown), key))
		options->kernels_words = true;
	else if (strncmp(key, "x-", 2) != 0 && strncmp(key, "X-", 2) != 0 &&
		!among(ignored, KR_ARRAY_SIZE(ignored), key))
		return -ENOENT;
	return 0;
}

static const struct kr_options set = {
	.program = "kairanfs",
	.usage = "HOST[:PORT]:/[SUBDIR] | none MOUNTPOINT [-f] [-o OPTION[,OPTION...]], or --lend DIR",
	.about = "Mounts a directory that kairand exports, or, as none with -o view=node, one of this node alone. "
		 "Returns when the mount answers; unmount with fusermount3 -u or kairan umount.",
	.section = "mount",
	.default_file = KR_OPTIONS_FILE,
	.options = table,
	.count = KR_ARRAY_SIZE(table),
	.other = take_other,
	.given = note_given,
};

/* The options that a mount without a server takes. */
static const char *const of_node[] = {"view", "size", "local", "threads", "cpus", "nonempty", "foreground", "debug"};

static int parse_source(const char *source, struct kr_mount_options *options)
{
	const char *path = strstr(source, ":/");
	KR_AUTO_FREE char *host = path ? strndup(source, (size_t)(path - source)) : NULL;
	int err;

	if (!path)
		return kr_fail(
			-EINVAL, "%s: what to mount is written HOST[:PORT]:/[SUBDIR], or none with view=node", source);
	err = kr_endpoint_parse(host, KR_DEFAULT_PORT, false, &options->server);
	if (err < 0)
		return err;
	path += 1 + strspn(path + 1, "/");
	options->subdir = kr_xstrdup(path);
	for (size_t end = strlen(path); end > 0 && options->subdir[end - 1] == '/'; end--)
		options->subdir[end - 1] = '\0';
	options->source = kr_xstrdup(source);
	return 0;
}

static int parse_ports(const char *text, struct kr_port_range *ret)
{
	uint64_t low, high;

	if (!kr_parse_range(text, 1, UINT16_MAX, &low, &high))
		return kr_fail(
			-EINVAL, "ring_port: \"%s\" is not a port, or two with - between (7450, or 7450-7459)", text);
	*ret = (struct kr_port_range){(uint16_t)low, (uint16_t)high};
	return 0;
}

/* The file's options are those of mounts of a server, and do not count here. */
static int check_node(struct kr_mount_options *options, const char *source)
{
	for (size_t i = 0; i < KR_ARRAY_SIZE(table); i++)
		if (options->given >> i & 1 && !among(of_node, KR_ARRAY_SIZE(of_node), table[i].name))
			return kr_fail(-EINVAL, "%s: not with view=node, which has no server", table[i].name);
	if (strcmp(source, "none") != 0)
		return kr_fail(-EINVAL, "%s: a view=node is mounted from no server: write none", source);
	if (options->size && options->size < SIZE_MIN)
		return kr_fail(-EINVAL, "size: at least 1M");
	if (options->no_default_permissions)
		return kr_fail(-EINVAL, "no_default_permissions: not with view=node, where the kernel checks them");
	if (geteuid() != 0 && (options->allow_other || options->allow_root))
		return kr_fail(-EINVAL,
			"allow_other, allow_root: not with an ordinary user's view=node, whose files are all "
			"that user's");
	options->source = kr_xstrdup(source);
	options->subdir = kr_xstrdup("");
	return 0;
}

static bool is_given(const struct kr_mount_options *options, const char *name)
{
	for (size_t i = 0; i < KR_ARRAY_SIZE(table); i++)
		if (strcmp(table[i].name, name) == 0)
			return options->given >> i & 1;
	return false;
}

/* The defaults of a view=job.  Nothing has to survive the job, so what a node writes stays on its disk until another
 * node asks for it, or until there is too much of it (flush.h). */
static void set_job_defaults(struct kr_mount_options *options)
{
	if (!is_given(options, "close"))
		options->close = KR_CLOSE_ASYNC;
	if (!is_given(options, "flush_age"))
		options->flush_age = KR_FLUSH_AGE_MAX_MS;
	if (!is_given(options, "flush_backlog"))
		options->flush_backlog = UINT64_MAX;
}

static int check_job(struct kr_mount_options *options)
{
	if (!options->job || !kr_text_is_name(options->job, KR_JOB_NAME_MAX))
		return kr_fail(-EINVAL, "view=job: job=NAME names the job, in 1 to %d bytes without blanks and slashes",
			KR_JOB_NAME_MAX);
	if (*options->subdir)
		return kr_fail(-EINVAL, "%s: of a view=job nothing is below / when it begins", options->source);
	if (options->size && options->size < SIZE_MIN)
		return kr_fail(-EINVAL, "size: at least 1M");
	return 0;
}

static int check_source(struct kr_mount_options *options, const char *source)
{
	int err;

	if (options->job && options->view != KR_VIEW_JOB)
		return kr_fail(-EINVAL, "job: only with view=job");
	if (options->view == KR_VIEW_NODE)
		return check_node(options, source);
	if (options->size && options->view != KR_VIEW_JOB)
		return kr_fail(-EINVAL,
			"size: the limit of a view=node or view=job (journal_max and cache_max are those of other "
			"mounts)");
	err = parse_source(source, options);
	return err == 0 && options->view == KR_VIEW_JOB ? check_job(options) : err;
}

/* What the lender's administrator decides, or what only a daemon does that has a journal and a cache. */
static const char *const of_lender[] = {
	"munge_socket", "munge_uid", "ring_port", "transport", "lanes", "threads", "metrics"};

static int check_borrowed(const struct kr_mount_options *options, const char *given)
{
	if (options->view != KR_VIEW_CACHE)
		return kr_fail(-EINVAL, "local=%s: only with view=cache", given);
	if (options->munge)
		return kr_fail(-EINVAL, "local=%s: not with munge: the lender wants the nodes' key", given);
	for (size_t i = 0; i < KR_ARRAY_SIZE(of_lender); i++)
		if (is_given(options, of_lender[i]))
			return kr_fail(-EINVAL, "%s: not with local=%s: it is the lender's", of_lender[i], given);
	return 0;
}

/* Makes a directory absolute; @NODE names the lender. */
static int check_local(struct kr_mount_options *options)
{
	KR_AUTO_FREE char *given = options->local;

	options->local = NULL;
	if (given && *given == '@') {
		int err = check_borrowed(options, given);

		options->borrowed = true;
		return err < 0 ? err : kr_endpoint_parse(given + 1, KR_LEND_PORT, false, &options->lender);
	}
	if (given && *given) {
		KR_AUTO_FREE char *directory = *given == '/' ? NULL : getcwd(NULL, 0);

		if (asprintf(&options->local, "%s%s%s", directory ? directory : "", directory ? "/" : "", given) < 0)
			abort();
	}
	return 0;
}

static int check_lend(struct kr_mount_options *options, const struct kr_arguments *arguments)
{
	if (arguments->positional_count > 0)
		return kr_fail(-EINVAL, "--lend mounts nothing: %s is too much", arguments->positional[0]);
	if (options->security != KR_SECURITY_AUTH && !options->key)
		return kr_fail(-EINVAL, "security=%s needs a key (key=FILE)",
			kr_security_name((enum kr_security)options->security));
	return 0;
}

static int check(struct kr_mount_options *options, const struct kr_arguments *arguments)
{
	int err;

	if (options->lend)
		return check_lend(options, arguments);
	if (options->listen)
		return kr_fail(-EINVAL, "--listen: only with --lend");
	if (arguments->positional_count != 2)
		return kr_fail(-EINVAL, "%s; usage: kairanfs %s",
			arguments->positional_count < 1         ? "nothing to mount is given" :
				arguments->positional_count < 2 ? "no mount point is given" :
								  "too many arguments",
			set.usage);
	err = check_source(options, arguments->positional[0]);
	if (err == 0)
		err = check_local(options);
	if (err < 0)
		return err;
	options->mount_point = kr_xstrdup(arguments->positional[1]);
	if (options->kernels_words && !options->remount)
		return kr_fail(-EINVAL,
			"user_id, group_id and the like are the kernel's to say, not options (see kairanfs --help)");
	if (options->view != KR_VIEW_NODE && options->security != KR_SECURITY_AUTH && !options->key && !options->munge)
		return kr_fail(-EINVAL, "security=%s needs a key (key=FILE), or MUNGE (munge)",
			kr_security_name((enum kr_security)options->security));
	if (options->munge && !kr_munge_is_built())
		return kr_fail(-EINVAL, "this kairanfs is built without MUNGE");
	if (options->metrics && kr_metrics_check(options->metrics) < 0)
		return -EINVAL;
	if (options->munge && options->key)
		return kr_fail(-EINVAL, "key and munge are two ways to the same: choose one");
	if (options->ring && strlen(options->ring) > KR_RING_NAME_MAX)
		return kr_fail(-EINVAL, "ring: a name of at most %d bytes", KR_RING_NAME_MAX);
	if (options->node && !kr_text_is_name(options->node, KR_JOB_NAME_MAX))
		return kr_fail(-EINVAL, "node: \"%s\" is not a name of 1 to %d bytes, without blanks and slashes",
			options->node, KR_JOB_NAME_MAX);
	if (options->ring_port && parse_ports(options->ring_port, &options->ring_ports) < 0)
		return -EINVAL;
	if (options->cpus && kr_cpus_parse(options->cpus, &options->cpu_set) < 0)
		return -EINVAL;
	if (options->soft && options->hard)
		return kr_fail(-EINVAL, "soft and hard exclude each other");
	if (options->journal_max && options->journal_max < (UINT64_C(8) << 20))
		return kr_fail(-EINVAL, "journal_max: at least 8M");
	if (options->stripe_size && (options->stripe_size < KR_BLOCK_SIZE || options->stripe_size % KR_BLOCK_SIZE != 0))
		return kr_fail(-EINVAL, "stripe_size: a multiple of %uK", KR_BLOCK_SIZE >> 10);
	/* Root mounts for all users, and the kernel checks their permissions. */
	if (geteuid() == 0 && !options->allow_root)
		options->allow_other = true;
	options->default_permissions = !options->no_default_permissions;
	return 0;
}

int kr_mount_options_parse(int argc, char **argv, struct kr_mount_options *ret_options)
{
	struct kr_arguments arguments = {0};
	int err = kr_options_parse(&set, argc, argv, ret_options, &arguments);

	if (err < 0)
		return err;
	if (ret_options->view == KR_VIEW_JOB)
		set_job_defaults(ret_options);
	if (arguments.help)
		kr_options_help(&set, stdout);
	else if (arguments.version)
		printf("kairanfs %s\n", KR_VERSION);
	else if (arguments.print_config)
		kr_options_print(&set, ret_options, stdout);
	else
		return check(ret_options, &arguments);
	return 1;
}

void kr_mount_options_fini(struct kr_mount_options *options)
{
	kr_options_fini(&set, options);
	free(options->source);
	free(options->subdir);
	free(options->mount_point);
	free(options->fuse_options);
}

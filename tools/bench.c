/* kairan bench: within a minute, how fast a mount is beside the node's own disk, and the way to the server. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <ifaddrs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/types.h"
#include "common/base/util.h"
#include "common/rpc/resolve.h"
#include "tools/bench/bench_measure.h"
#include "tools/bench/bench_place.h"
#include "tools/base/client.h"
#include "tools/commands.h"
#include "tools/base/find_mount.h"
#include "tools/base/units.h"

static const char usage[] =
	"usage: kairan bench [--json] DIRECTORY\n"
	"Measures within a minute how fast a mount of kairanfs is, beside this machine's disk (the mount's local\n"
	"directory, or /var/tmp for users who may not write there).\n"
	"DIRECTORY: a mount point, or a directory of yours below it.\n"
	"Writes at most 256 MiB at a time, an eighth of the free space at most; removes all, also after Ctrl-C.\n"
	"Exit code: 0, 1 with a message, 64 wrong arguments.\n";

#define SIZE_MAX_BYTES (UINT64_C(256) << 20)
#define SIZE_MIN_BYTES (UINT64_C(8) << 20)
enum { CONNECTS = 5 };

static const struct {
	const char *name, *json;
} rows[KR_BENCH_RATES] = {
	{"write and close", "write_close_bytes_per_s"},
	{"write and fsync", "write_fsync_bytes_per_s"},
	{"read, cold", "read_cold_bytes_per_s"},
	{"read again", "read_warm_bytes_per_s"},
	{"create", "create_files_per_s"},
	{"stat", "stat_files_per_s"},
	{"read", "read_files_per_s"},
	{"remove", "remove_files_per_s"},
};

/* A directory that the measurement has made, and what it has found there. */
struct place {
	struct kr_bench_dir dir;
	double rates[KR_BENCH_RATES];
};

struct link {
	char server[300], interface[64];
	double connect_ms; /* 0: not measured */
	long speed_mbit;   /* as the card says; 0: it says nothing */
};

/* --- progress --------------------------------------------------------------------------------- */

static bool go_on(const struct kr_bench_place *place, enum kr_bench_rate rate, double share)
{
	static uint64_t shown_ns;
	uint64_t now_ns = kr_clock_ns();

	if (isatty(STDERR_FILENO) && now_ns - shown_ns > 100 * KR_NS_PER_MS) {
		shown_ns = now_ns;
		fprintf(stderr, "\r%s: %-16s %3.0f %% ", place->name, rows[rate].name, share * 100);
	}
	return !kr_bench_stopped;
}

static void end_progress(void)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%40s\r", "");
}

/* --- places ----------------------------------------------------------------------------------- */

/* The mount's local directory, if this user may write there, else /var/tmp. */
static int make_local(struct place *place, const struct kr_mounted *mounted)
{
	json_t *status = NULL;
	const char *path = NULL;
	int err = -ENOENT;

	if (kr_ask_mount(mounted, "status", "", &status) == 0)
		path = json_string_value(json_object_get(status, "local"));
	if (path)
		err = kr_bench_dir_make(&place->dir, path);
	if (err < 0)
		err = kr_bench_dir_make(&place->dir, "/var/tmp");
	json_decref(status);
	return err;
}

/* --- the link --------------------------------------------------------------------------------- */

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
	char first[64], second[64];

	if (!a || a->sa_family != b->sa_family)
		return false;
	kr_address_host(a, first, sizeof(first));
	kr_address_host(b, second, sizeof(second));
	return strcmp(first, second) == 0;
}

/* The interface with this side's address, and what its card says of its speed. */
static void find_interface(struct link *link, const struct sockaddr *own)
{
	struct ifaddrs *all = NULL;
	char path[128];
	KR_AUTO_FREE char *text = NULL;
	size_t length;

	if (getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *each = all; each; each = each->ifa_next)
		if (same_address(each->ifa_addr, own))
			snprintf(link->interface, sizeof(link->interface), "%s", each->ifa_name);
	freeifaddrs(all);
	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", link->interface);
	if (kr_read_file(AT_FDCWD, path, 64, &text, &length) == 0)
		link->speed_mbit = KR_MAX(strtol(text, NULL, 10), 0L);
}

/* Connecting takes one round trip of the link, and nothing of the server but its kernel. */
static double connect_once(const struct sockaddr *address, struct link *link)
{
	socklen_t length = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	KR_AUTO_FD int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct timeval timeout = {.tv_sec = 1};
	struct sockaddr_storage own;
	uint64_t begin_ns = kr_clock_ns(), end_ns;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0 ||
		connect(fd, address, length) < 0)
		return 0;
	end_ns = kr_clock_ns();
	length = sizeof(own);
	if (!*link->interface && getsockname(fd, (struct sockaddr *)&own, &length) == 0)
		find_interface(link, (const struct sockaddr *)&own);
	return (double)(end_ns - begin_ns) / (double)KR_NS_PER_MS;
}

static void measure_link(const struct kr_mounted *mounted, struct link *ret_link)
{
	const char *path = strstr(mounted->source, ":/");
	KR_AUTO_FREE char *host = path ? strndup(mounted->source, (size_t)(path - mounted->source)) : NULL;
	struct kr_endpoint endpoint;
	struct kr_addresses addresses;

	if (!host || kr_endpoint_parse(host, KR_DEFAULT_PORT, false, &endpoint) < 0 ||
		kr_resolve(&endpoint, false, &addresses) < 0)
		return;
	kr_endpoint_format(&endpoint, ret_link->server, sizeof(ret_link->server));
	for (int i = 0; i < CONNECTS && !kr_bench_stopped; i++) {
		double ms = connect_once((const struct sockaddr *)&addresses.items[0], ret_link);

		if (ms > 0 && (ret_link->connect_ms == 0 || ms < ret_link->connect_ms))
			ret_link->connect_ms = ms;
	}
}

/* --- the result ------------------------------------------------------------------------------- */

static json_t *json_rates(const struct place *place)
{
	json_t *object =
		json_pack("{s:o, s:s}", "directory", kr_text_json(place->dir.parent), "filesystem", place->dir.type);

	for (int i = 0; i < KR_BENCH_RATES; i++)
		json_object_set_new(object, rows[i].json, json_real(place->rates[i]));
	return object;
}

static void print_json(
	const struct place *mount, const struct place *local, const struct link *link, uint64_t file_size)
{
	json_t *object = json_pack("{s:I, s:i, s:i, s:o, s:o, s:o}", "file_bytes", (json_int_t)file_size,
		"small_files_max", KR_BENCH_FILES, "small_file_bytes", KR_BENCH_FILE_BYTES, "link",
		json_pack("{s:s, s:f, s:s, s:I}", "server", link->server, "connect_ms", link->connect_ms, "interface",
			link->interface, "interface_mbit_per_s", (json_int_t)link->speed_mbit),
		"mount", json_rates(mount), "local", json_rates(local));

	json_dumpf(object, stdout, JSON_INDENT(2));
	printf("\n");
	json_decref(object);
}

static void print_rows(const struct place *mount, const struct place *local, int from, int to, double unit)
{
	for (int i = from; i < to; i++)
		printf("  %-24s %12.1f %12.1f\n", rows[i].name, mount->rates[i] / unit, local->rates[i] / unit);
}

static void print_table(
	const struct place *mount, const struct place *local, const struct link *link, uint64_t file_size)
{
	KR_AUTO_FREE char *there = kr_text_shown(mount->dir.parent), *here = kr_text_shown(local->dir.parent);

	printf("mount  %s\nlocal  %s (%s)\n", there, here, local->dir.type);
	if (*link->server)
		printf("link   %s by %s: %.2f ms to connect", link->server, *link->interface ? link->interface : "?",
			link->connect_ms);
	if (link->speed_mbit)
		printf("; the card says %ld Mbit/s", link->speed_mbit);
	printf("%s\n  %-24s %12s %12s\n", *link->server ? "\n" : "", "MiB/s", "mount", "local");
	print_rows(mount, local, 0, KR_BENCH_CREATE, 1 << 20);
	printf("\n  %-24s %12s %12s\n", "files/s", "mount", "local");
	print_rows(mount, local, KR_BENCH_CREATE, KR_BENCH_RATES, 1);
	printf("\nOne file of %s, in pieces of 1 MiB; up to %d files of %d bytes, one after the other.\n"
	       "Local writes are in memory, but for fsync. Cold: %s;\n"
	       "locally from the disk.\n",
		kr_bytes_text((json_int_t)file_size), KR_BENCH_FILES, KR_BENCH_FILE_BYTES,
		*link->server ? "from the server, which has the bytes in memory" : "a copy that was just made");
}

/* --- the command ------------------------------------------------------------------------------ */

static int measure(struct place *mount, struct place *local, uint64_t *ret_size)
{
	struct kr_bench_place there = {.name = "mount", .fd = mount->dir.fd, .is_mount = true, .go_on = go_on};
	struct kr_bench_place here = {.name = "local", .fd = local->dir.fd, .go_on = go_on};
	uint64_t limit = SIZE_MAX_BYTES;
	int err = kr_bench_dir_room(&mount->dir, SIZE_MIN_BYTES, &limit);

	if (err == 0)
		err = kr_bench_dir_room(&local->dir, SIZE_MIN_BYTES, &limit);
	if (err == 0)
		err = kr_bench_size(&there, limit, ret_size);
	if (err == 0)
		err = kr_bench_measure(&there, *ret_size, mount->rates);
	if (err == 0)
		err = kr_bench_measure(&here, *ret_size, local->rates);
	return err;
}

static int bench(const char *directory, const struct kr_mounted *mounted, bool json)
{
	struct place mount = {.dir.fd = -1}, local = {.dir.fd = -1};
	struct link link = {0};
	uint64_t size = 0;
	int err;

	kr_bench_watch_signals();
	err = kr_bench_dir_make(&mount.dir, directory);
	if (err == 0)
		err = make_local(&local, mounted);
	if (err == 0)
		measure_link(mounted, &link);
	if (err == 0)
		err = measure(&mount, &local, &size);
	end_progress();
	if (err == 0 && json)
		print_json(&mount, &local, &link, size);
	else if (err == 0)
		print_table(&mount, &local, &link, size);
	kr_bench_dir_remove(&mount.dir);
	kr_bench_dir_remove(&local.dir);
	return err;
}

int kr_tool_bench(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct kr_mounted mounted;
	bool json = false;
	int option, err;

	while ((option = kr_tool_option(argc, argv, "jh", options)) != -1) {
		if (option != 'j')
			return kr_tool_usage(usage, option == 'h');
		json = true;
	}
	if (argc - optind != 1) {
		fprintf(stderr, "kairan: %s\n",
			optind < argc ? "too many arguments" : "which mount shall be measured?");
		return kr_tool_usage(usage, false);
	}
	err = kr_find_mount(argv[optind], &mounted, NULL);
	if (err == 0) {
		err = bench(argv[optind], &mounted, json);
		kr_mounted_fini(&mounted);
	}
	return kr_bench_end(err);
}

/* Simulates a cluster: simulate [OPTION...] WORKLOAD NODES...; without arguments it says what there is.
 *
 * A line for each number of nodes: what test/growth/workloads.h says of an outcome. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"
#include "test/growth/workloads.h"

static const struct {
	char letter;
	double value;
	const char *what;
} settings[] = {
	{'l', 1250, "MB/s: links of nodes"},
	{'L', 0, "MB/s: the server's link; 0: as those of nodes"},
	{'d', 0, "MB/s: disks of nodes; 0: no limit"},
	{'D', 0, "MB/s: the server's disk; 0: no limit"},
	{'t', 20, "us: latency of a message"},
	{'m', 100, "us: processor time for a message without data, at each end"},
	{'b', 500, "us: processor time for a MB of data and its messages, at each end"},
	{'s', 1024, "MiB: the file that is read"},
	{'q', 2, "requests of a node before it joins a pipeline"},
	{'r', 131001, "bytes: a record that is written"},
	{'n', 16, "records of each node"},
	{'R', 1, "rings"},
	{'g', 0, "1: a gateway for each ring"},
	{'a', 0, "1: all rings are simulated node by node"},
};

static int show_usage(void)
{
	fputs("usage: simulate [OPTION VALUE]... read|flush|recall NODES...\n", stderr);
	for (size_t i = 0; i < KR_ARRAY_SIZE(settings); i++)
		fprintf(stderr, "  -%c  %s (%g)\n", settings[i].letter, settings[i].what, settings[i].value);
	return 2;
}

/* SET gets a value for each letter of the settings; whether the arguments make sense. */
static bool read_options(int argc, char **argv, double set[256])
{
	char letters[2 * KR_ARRAY_SIZE(settings) + 1] = "";
	int option;

	for (size_t i = 0; i < KR_ARRAY_SIZE(settings); i++) {
		set[(unsigned char)settings[i].letter] = settings[i].value;
		letters[2 * i] = settings[i].letter;
		letters[2 * i + 1] = ':';
	}
	while ((option = getopt(argc, argv, letters)) >= 0) {
		if (option == '?')
			return false;
		set[option] = strtod(optarg, NULL);
	}
	return argc - optind >= 2;
}

static struct kr_workload workload_of(const double set[256])
{
	return (struct kr_workload){
		.model = {.link = set['l'],
			.server_link = set['L'] > 0 ? set['L'] : set['l'],
			.disk = set['d'],
			.server_disk = set['D'],
			.latency_us = set['t'],
			.message_us = set['m'],
			.data_us_per_mb = set['b']},
		.rings = (uint32_t)set['R'],
		.gateways = set['g'] != 0,
		.all = set['a'] != 0,
		.size = (uint64_t)set['s'] << 20,
		.record = (uint64_t)set['r'],
		.records = (uint64_t)set['n'],
		.requests = (uint32_t)set['q'],
	};
}

/* The rings flush to their gateways at the same time, each its share of the file; then the gateways do.  A gateway
 * answers `close` when its own server has answered: so one follows the other. */
static struct kr_outcome flush_by_gateways(const struct kr_workload *workload)
{
	const uint32_t ring = (workload->nodes + workload->rings - 1) / workload->rings;
	struct kr_workload inner = *workload, outer = *workload;
	struct kr_outcome within, outcome;

	inner.nodes = ring;
	outer.nodes = workload->rings;
	outer.record = workload->record * ring;
	inner.rings = outer.rings = 1;
	inner.model.server_link = workload->model.link;
	inner.model.server_disk = workload->model.disk;
	within = kr_growth_flush(&inner);
	outcome = kr_growth_flush(&outer);
	outcome.seconds += within.seconds;
	return outcome;
}

static struct kr_outcome run(const char *name, const struct kr_workload *workload)
{
	if (strcmp(name, "read") == 0)
		return kr_growth_read(workload);
	if (strcmp(name, "recall") == 0)
		return kr_growth_recall(workload);
	return workload->gateways ? flush_by_gateways(workload) : kr_growth_flush(workload);
}

int main(int argc, char **argv)
{
	struct kr_workload workload;
	double set[256];

	if (!read_options(argc, argv, set))
		return show_usage();
	workload = workload_of(set);
	for (int i = optind + 1; i < argc; i++) {
		const uint64_t began_ns = kr_clock_ns();
		struct kr_outcome outcome;

		workload.nodes = (uint32_t)strtoul(argv[i], NULL, 10);
		outcome = run(argv[optind], &workload);
		printf("%s nodes=%u seconds=%.6f first_seconds=%.6f server_bytes=%.0f server_messages=%.0f",
			argv[optind], workload.nodes, outcome.seconds, outcome.first_seconds, outcome.server_bytes,
			outcome.server_messages);
		printf(" decision_us=%.1f took_s=%.2f\n", outcome.decision_us,
			(double)(kr_clock_ns() - began_ns) / 1e9);
		fflush(stdout);
	}
	return 0;
}

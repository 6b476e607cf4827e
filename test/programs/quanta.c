/* How much a processor's work is disturbed: quanta CPU SECONDS
 *
 * Runs the same quantum of work, about a millisecond, again and again on processor CPU, and takes the time of each.  The
 * shortest is the undisturbed one; what another takes beyond it is noise.  Prints one line of NAME=VALUE:
 *   quanta, quantum_us    how many, and the shortest
 *   rate                  mean noise, as a share of the shortest quantum
 *   longest_us, every_ms  the longest noise, and the mean interval between noises of at least half its length
 *   ranks_N               so many times longer a quantum takes if all of N ranks wait for the slowest (Tsafrir et al.,
 *                         "System noise, OS clock ticks, and fine-grained parallel applications", ICS 2005): the
 *                         expected maximum of N samples of what was measured.  It knows no noise that is rarer than
 *                         once in all quanta, so for many ranks it says too little.
 *   switches, wait_us     involuntary context switches, and how long it was ready and did not run
 *   interrupts            of that processor meanwhile
 */
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { QUANTUM_NS = 1000000, TRIES = 50 };

static volatile uint64_t sink;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t work(uint64_t steps)
{
	uint64_t began = now_ns(), value = began;

	for (uint64_t i = 0; i < steps; i++)
		value = value * 6364136223846793005ULL + i;
	sink = value;
	return now_ns() - began;
}

/* Steps of one quantum, by the fastest of some tries. */
static uint64_t calibrate(void)
{
	const uint64_t steps = 100000;
	uint64_t shortest = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t took = work(steps);

		if (took < shortest)
			shortest = took;
	}
	return steps * QUANTUM_NS / (shortest ? shortest : 1);
}

/* The number behind NAME in the file at PATH. */
static uint64_t number_of(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	unsigned long long number = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, strlen(name)) == 0)
			sscanf(line + strlen(name), "%llu", &number);
	}
	if (file)
		fclose(file);
	return number;
}

/* How long this process was ready and did not run. */
static uint64_t wait_ns(void)
{
	FILE *file = fopen("/proc/self/schedstat", "re");
	unsigned long long ran = 0, waited = 0;

	if (file) {
		if (fscanf(file, "%llu %llu", &ran, &waited) != 2)
			waited = 0;
		fclose(file);
	}
	return waited;
}

/* All interrupts of CPU so far: its column in /proc/interrupts. */
static uint64_t interrupts_of(int cpu)
{
	FILE *file = fopen("/proc/interrupts", "re");
	char line[4096], title[16];
	uint64_t sum = 0;
	int column = -1;

	snprintf(title, sizeof(title), "CPU%d", cpu);
	while (file && fgets(line, sizeof(line), file)) {
		char *at = NULL, *word = strtok_r(line, " \n", &at);
		int here = 0;

		if (column < 0) {
			for (; word && strcmp(word, title) != 0; word = strtok_r(NULL, " \n", &at))
				here++;
			column = here;
			continue;
		}
		for (word = strtok_r(NULL, " \n", &at); word && here < column; word = strtok_r(NULL, " \n", &at))
			here++;
		if (word)
			sum += strtoull(word, NULL, 10);
	}
	if (file)
		fclose(file);
	return sum;
}

static int ascending(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

/* The expected maximum of RANKS samples of the COUNT ascending TIMES. */
static double slowest_of(const uint32_t *times, size_t count, double ranks)
{
	double mean = 0, below = 0;

	for (size_t i = 0; i < count; i++) {
		double until = pow((double)(i + 1) / (double)count, ranks);

		mean += times[i] * (until - below);
		below = until;
	}
	return mean;
}

static void report(uint32_t *times, size_t count)
{
	double shortest, longest, sum = 0;
	size_t long_ones = 0;

	qsort(times, count, sizeof(*times), ascending);
	shortest = times[0];
	longest = times[count - 1] - shortest;
	for (size_t i = 0; i < count; i++) {
		sum += times[i];
		long_ones += times[i] - shortest >= longest / 2;
	}
	printf("quanta=%zu quantum_us=%.1f rate=%.6f longest_us=%.1f every_ms=%.1f", count, shortest / 1e3,
		(sum - shortest * (double)count) / (shortest * (double)count), longest / 1e3,
		sum / 1e6 / (double)long_ones);
	for (double ranks = 100; ranks <= 1e5; ranks *= 10)
		printf(" ranks_%.0f=%.4f", ranks, slowest_of(times, count, ranks) / shortest);
}

int main(int argc, char **argv)
{
	int cpu = argc == 3 ? atoi(argv[1]) : -1, seconds = argc == 3 ? atoi(argv[2]) : 0;
	size_t room = (size_t)seconds * 2000 + 1, count = 0;
	uint64_t steps, end, switches, waited, interrupts;
	uint32_t *times;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu < 0 ? 0 : cpu, &set);
	if (cpu < 0 || seconds <= 0 || sched_setaffinity(0, sizeof(set), &set) < 0 ||
		!(times = calloc(room, sizeof(*times)))) {
		fprintf(stderr, "usage: quanta CPU SECONDS\n");
		return 2;
	}
	memset(times, 1, room * sizeof(*times)); /* no page faults later */
	(void)mlockall(MCL_CURRENT);
	steps = calibrate();
	switches = number_of("/proc/self/status", "nonvoluntary_ctxt_switches:");
	waited = wait_ns();
	interrupts = interrupts_of(cpu);
	end = now_ns() + (uint64_t)seconds * 1000000000;
	while (now_ns() < end && count < room) {
		uint64_t took = work(steps);

		times[count++] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
	}
	interrupts = interrupts_of(cpu) - interrupts;
	waited = wait_ns() - waited;
	switches = number_of("/proc/self/status", "nonvoluntary_ctxt_switches:") - switches;
	report(times, count);
	printf(" switches=%llu wait_us=%.0f interrupts=%llu\n", (unsigned long long)switches, (double)waited / 1e3,
		(unsigned long long)interrupts);
	return 0;
}

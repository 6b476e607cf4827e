/* kairan doctor: what else runs on the processors that a mount leaves to programs (cpus=).
 *
 * The daemon keeps off them by its affinity.  The kernel does not: interrupts, its worker threads, and timers.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/util.h"
#include "fuse/base/cpus.h"
#include "tools/doctor/checks.h"

enum { LIST_TEXT = 256, FILE_MAX = 4096, NAMED = 3 };

/* --- sets of processors ----------------------------------------------------------------------- */

bool kr_cpus_of_list(const char *list, cpu_set_t *ret_set)
{
	KR_AUTO_FREE char *copy = kr_xstrdup(list);

	CPU_ZERO(ret_set);
	copy[strcspn(copy, "\n")] = '\0';
	return !*copy || kr_cpus_parse(copy, ret_set) == 0;
}

bool kr_cpus_of_mask(const char *mask, cpu_set_t *ret_set)
{
	size_t cpu = 0;

	CPU_ZERO(ret_set);
	for (size_t i = strcspn(mask, "\n"); i-- > 0;) {
		const char *digits = "0123456789abcdef", *digit = strchr(digits, tolower(mask[i]));

		if (mask[i] == ',')
			continue;
		if (!digit)
			return false;
		for (int bit = 0; bit < 4 && cpu < CPU_SETSIZE; bit++, cpu++) {
			if ((digit - digits) & 1 << bit)
				CPU_SET(cpu, ret_set);
		}
	}
	return true;
}

const char *kr_cpus_text(const cpu_set_t *set, char *text, size_t size)
{
	size_t length = 0;

	*text = '\0';
	for (int first = 0; first < CPU_SETSIZE; first++) {
		int last = first;

		if (!CPU_ISSET(first, set))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
			last++;
		if (length < size)
			length += (size_t)snprintf(text + length, size - length, last > first ? "%s%d-%d" : "%s%d",
				length ? "," : "", first, last);
		first = last;
	}
	return text;
}

/* --- what the kernel says --------------------------------------------------------------------- */

static bool read_set(const char *path, bool (*parse)(const char *text, cpu_set_t *ret_set), cpu_set_t *ret_set)
{
	KR_AUTO_FREE char *text = NULL;
	size_t length;

	CPU_ZERO(ret_set);
	return kr_read_file(AT_FDCWD, path, FILE_MAX, &text, &length) == 0 && parse(text, ret_set);
}

static bool overlap(const cpu_set_t *a, const cpu_set_t *b)
{
	cpu_set_t both;

	CPU_AND(&both, a, b);
	return CPU_COUNT(&both) > 0;
}

/* A driver's name: the directory below that of the interrupt; "": no driver uses the interrupt. */
static void user_of(const char *irq, char *ret_name, size_t size)
{
	char path[64];
	DIR *dir;
	const struct dirent *entry;

	*ret_name = '\0';
	snprintf(path, sizeof(path), "/proc/irq/%.16s", irq);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			snprintf(ret_name, size, "%.40s", entry->d_name);
	}
	if (dir)
		closedir(dir);
}

static void check_interrupts(struct kr_findings *findings, const cpu_set_t *own, const cpu_set_t *left)
{
	char path[64], name[64], named[NAMED * 96] = "", to[LIST_TEXT], on[LIST_TEXT];
	DIR *dir = opendir("/proc/irq");
	const struct dirent *entry;
	unsigned count = 0;
	cpu_set_t set;

	while (dir && (entry = readdir(dir))) {
		size_t length = strlen(named);

		snprintf(path, sizeof(path), "/proc/irq/%.16s/effective_affinity_list", entry->d_name);
		if (!isdigit(entry->d_name[0]) || !read_set(path, kr_cpus_of_list, &set) || !overlap(&set, left))
			continue;
		user_of(entry->d_name, name, sizeof(name));
		if (*name && count++ < NAMED)
			snprintf(named + length, sizeof(named) - length, "%s%.16s (%s)", length ? ", " : "",
				entry->d_name, name);
	}
	if (dir)
		closedir(dir);
	kr_cpus_text(own, to, sizeof(to));
	kr_cpus_text(left, on, sizeof(on));
	if (count)
		kr_findings_add(findings, KR_FINDING_WARNING, "interrupts",
			"write the daemon's processors into /proc/irq/NUMBER/smp_affinity_list, and keep irqbalance "
			"from changing that (IRQBALANCE_BANNED_CPULIST); the kernel refuses it for a device's queue that "
			"belongs to one processor",
			"%u go to processors %s, which are left to programs: %s%s", count, on, named,
			count > NAMED ? ", ..." : "");
	else
		kr_findings_add(findings, KR_FINDING_OK, "interrupts", NULL, "none goes to processors %s", on);
}

static void check_workers(struct kr_findings *findings, const cpu_set_t *left)
{
	cpu_set_t workers, writers;
	char on[LIST_TEXT];

	if (!read_set("/sys/devices/virtual/workqueue/cpumask", kr_cpus_of_mask, &workers))
		return;
	(void)read_set("/sys/devices/virtual/workqueue/writeback/cpumask", kr_cpus_of_mask, &writers);
	kr_cpus_text(left, on, sizeof(on));
	if (overlap(&workers, left) || overlap(&writers, left))
		kr_findings_add(findings, KR_FINDING_WARNING, "kernel workers",
			"write the mask of the daemon's processors into /sys/devices/virtual/workqueue/cpumask and "
			"writeback/cpumask there",
			"they may run on processors %s, which are left to programs: they write back, and serve the "
			"network",
			on);
	else
		kr_findings_add(findings, KR_FINDING_OK, "kernel workers", NULL, "none may run on processors %s", on);
}

static void check_isolation(struct kr_findings *findings, const cpu_set_t *left)
{
	cpu_set_t isolated, tickless, both;
	char on[LIST_TEXT];

	(void)read_set("/sys/devices/system/cpu/isolated", kr_cpus_of_list, &isolated);
	(void)read_set("/sys/devices/system/cpu/nohz_full", kr_cpus_of_list, &tickless);
	CPU_AND(&both, &isolated, &tickless);
	CPU_AND(&both, &both, left);
	kr_cpus_text(left, on, sizeof(on));
	if (!CPU_EQUAL(&both, left))
		kr_findings_add(findings, KR_FINDING_WARNING, "isolation",
			"boot with isolcpus=LIST nohz_full=LIST rcu_nocbs=LIST for these; the batch system must place "
			"programs there",
			"processors %s are left to programs, but other processes may run there, and each has a timer "
			"that ticks",
			on);
	else
		kr_findings_add(findings, KR_FINDING_OK, "isolation", NULL,
			"processors %s run nothing by themselves (isolcpus, nohz_full)", on);
}

void kr_doctor_cpus(struct kr_findings *findings, const json_t *status)
{
	cpu_set_t all, own, left;
	char text[LIST_TEXT], rest[LIST_TEXT];

	if (!read_set("/sys/devices/system/cpu/online", kr_cpus_of_list, &all) ||
		sched_getaffinity((pid_t)kr_number(status, NULL, "pid"), sizeof(own), &own) < 0)
		return;
	CPU_AND(&own, &own, &all);
	CPU_XOR(&left, &all, &own);
	if (CPU_COUNT(&left) == 0) /* without cpus= */
		return;
	kr_findings_add(findings, KR_FINDING_OK, "processors", NULL, "the daemon keeps to %s, and off %s",
		kr_cpus_text(&own, text, sizeof(text)), kr_cpus_text(&left, rest, sizeof(rest)));
	check_interrupts(findings, &own, &left);
	check_workers(findings, &left);
	check_isolation(findings, &left);
}

/* See cpus.h. */
#include "fuse/base/cpus.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/util.h"

int kr_cpus_parse(const char *list, cpu_set_t *ret_set)
{
	KR_AUTO_FREE char *copy = kr_xstrdup(list);
	char *rest = copy;
	uint64_t first, last;
	cpu_set_t set;

	CPU_ZERO(&set);
	while (rest) {
		if (!kr_parse_range(strsep(&rest, ":,"), 0, CPU_SETSIZE - 1, &first, &last))
			return kr_fail(-EINVAL, "cpus: \"%s\" is not a list of processors (try 0-3:8; at most %d)",
				list, CPU_SETSIZE - 1);
		for (; first <= last; first++)
			CPU_SET(first, &set);
	}
	*ret_set = set;
	return 0;
}

/* Appends the list of SET, as kr_cpus_parse takes it, as far as it goes into TEXT. */
static void format(const cpu_set_t *set, char *text, size_t size)
{
	for (int first = 0, last; first < CPU_SETSIZE; first = last + 1) {
		size_t length = strlen(text);

		for (last = first; last < CPU_SETSIZE && CPU_ISSET(last, set); last++)
			continue;
		if (last > first + 1)
			snprintf(text + length, size - length, "%s%d-%d", length ? "," : "", first, last - 1);
		else if (last > first)
			snprintf(text + length, size - length, "%s%d", length ? "," : "", first);
	}
}

int kr_cpus_confine(const char *list, const cpu_set_t *set)
{
	char allowed[128] = "";
	cpu_set_t now;

	if (sched_setaffinity(0, sizeof(*set), set) == 0)
		return 0;
	if (errno != EINVAL || sched_getaffinity(0, sizeof(now), &now) < 0)
		return kr_fail_errno(-errno, "cannot run on the processors cpus=%s", list);
	format(&now, allowed, sizeof(allowed));
	return kr_fail(
		-EINVAL, "cpus=%s: kairanfs can run on none of these processors; it runs on %s now", list, allowed);
}

unsigned kr_cpus_usable(void)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	return count > 0 ? (unsigned)count : 1;
}

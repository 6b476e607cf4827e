/* See cpus.h. */
#include "fuse/base/cpus.h"

#include <errno.h>
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

int kr_cpus_confine(const cpu_set_t *set)
{
	if (sched_setaffinity(0, sizeof(*set), set) < 0)
		return kr_fail_errno(-errno, "cannot run on the processors of cpus");
	return 0;
}

unsigned kr_cpus_usable(void)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	return count > 0 ? (unsigned)count : 1;
}

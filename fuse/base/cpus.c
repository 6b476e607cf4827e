/* See cpus.h. */
#include "fuse/base/cpus.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/fail.h"

/* Parses a number at *AT and moves *AT behind it. */
static int parse_number(const char **at, unsigned long *ret_number)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return -EINVAL;
	*ret_number = strtoul(*at, &end, 10);
	*at = end;
	return *ret_number < CPU_SETSIZE ? 0 : -EINVAL;
}

static int parse_range(const char **at, cpu_set_t *set)
{
	unsigned long first, last;

	if (parse_number(at, &first) < 0)
		return -EINVAL;
	last = first;
	if (**at == '-' && ((*at)++, parse_number(at, &last) < 0))
		return -EINVAL;
	if (last < first)
		return -EINVAL;
	for (; first <= last; first++)
		CPU_SET(first, set);
	return 0;
}

int kr_cpus_parse(const char *list, cpu_set_t *ret_set)
{
	const char *at = list;
	cpu_set_t set;

	CPU_ZERO(&set);
	for (;; at++) {
		if (parse_range(&at, &set) < 0 || (*at && *at != ':' && *at != ','))
			return kr_fail(-EINVAL, "cpus: \"%s\" is not a list of processors (try 0-3:8; at most %d)",
				list, CPU_SETSIZE - 1);
		if (!*at)
			break;
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

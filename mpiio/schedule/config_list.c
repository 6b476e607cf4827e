/* The aggregators' list of hosts; see config_list.h. */
#include "mpiio/schedule/config_list.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char *skip_spaces(const char *at)
{
	return at + strspn(at, " \t");
}

static bool matches(const char *host, size_t length, const char *name)
{
	if (length == 1 && *host == '*')
		return true;
	return name && (strlen(name) == length || strcspn(name, ".") == length) && memcmp(host, name, length) == 0;
}

/* A number or "*" at *AT, which moves behind it. */
static int parse_count(const char **at, uint32_t *ret_count)
{
	uint64_t count = 0;
	if (**at == '*') {
		++*at;
		*ret_count = UINT32_MAX;
		return 0;
	}
	if (**at < '0' || **at > '9')
		return -EINVAL;
	for (; **at >= '0' && **at <= '9'; ++*at) {
		count = count * 10 + (uint64_t)(**at - '0');
		if (count >= UINT32_MAX)
			return -EINVAL;
	}
	*ret_count = (uint32_t)count;
	return 0;
}

int kr_config_list_match(const char *list, const char *name, uint32_t *ret_count)
{
	uint32_t found = 0, count;
	bool done = false;
	for (const char *at = list;; at++) {
		const char *host = at = skip_spaces(at);
		size_t length = strcspn(host, " \t,:");
		if (length == 0)
			return -EINVAL;
		at = skip_spaces(host + length);
		count = 1;
		if (*at == ':') {
			at = skip_spaces(at + 1);
			if (parse_count(&at, &count) < 0)
				return -EINVAL;
			at = skip_spaces(at);
		}
		if (*at != ',' && *at != '\0')
			return -EINVAL;
		if (!done && matches(host, length, name)) {
			found = count;
			done = true;
		}
		if (*at == '\0')
			break;
	}
	*ret_count = found;
	return 0;
}

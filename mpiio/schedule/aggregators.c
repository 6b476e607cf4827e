/* Chooses the aggregators; see aggregators.h. */
#include "mpiio/schedule/aggregators.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

/* ---- cb_config_list ---- */

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

/* LIST's count for the node NAME (NULL: only "*" matches): 0 when no entry matches, UINT32_MAX for "*".  -EINVAL: LIST
 * is malformed. */
static int match_list(const char *list, const char *name, uint32_t *ret_count)
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

/* ---- the choice ---- */

/* How many of each node's ranks may be aggregators: the configuration list's count, at most its ranks. */
static int allow(const struct kr_topology *topology, const char *config_list, uint32_t *allowed)
{
	const char *list = config_list && *config_list ? config_list : "*:1";
	for (uint32_t node = 0; node < topology->nodes; node++) {
		const char *name = topology->node_name ? topology->node_name[node] : NULL;
		int error = match_list(list, name, &allowed[node]);
		if (error < 0)
			return error;
		allowed[node] = KR_MIN(allowed[node], kr_topology_node_size(topology, node));
	}
	return 0;
}

/* Assigns numbers round-robin over the nodes, at most LIMIT. */
static uint32_t deal(
	struct kr_aggregators *aggregators, const struct kr_topology *topology, const uint32_t *allowed, uint32_t limit)
{
	uint32_t count = 0, before;
	for (uint32_t turn = 0; count < limit; turn++) {
		before = count;
		for (uint32_t node = 0; node < topology->nodes && count < limit; node++) {
			if (turn >= allowed[node])
				continue;
			uint32_t rank = topology->node_ranks[topology->node_start[node] + turn];
			aggregators->rank[count] = rank;
			aggregators->local[count] = turn;
			aggregators->index[rank] = count++;
		}
		if (count == before)
			break;
	}
	return count;
}

static void list_by_node(struct kr_aggregators *aggregators, const struct kr_topology *topology)
{
	uint32_t next = 0;
	for (uint32_t node = 0; node < topology->nodes; node++) {
		uint32_t begin = next;
		for (uint32_t i = topology->node_start[node]; i < topology->node_start[node + 1]; i++)
			if (aggregators->index[topology->node_ranks[i]] != KR_NO_AGGREGATOR)
				aggregators->node_aggregators[next++] = aggregators->index[topology->node_ranks[i]];
		aggregators->node_start[node + 1] = next;
		aggregators->node_max = KR_MAX(aggregators->node_max, next - begin);
	}
}

static int choose(struct kr_aggregators *aggregators, const struct kr_topology *topology, uint32_t limit,
	const char *config_list, uint32_t *allowed)
{
	int error = allow(topology, config_list, allowed);
	if (error < 0)
		return error;
	memset(aggregators->index, 0xff, topology->ranks * sizeof(uint32_t));
	aggregators->count = deal(aggregators, topology, allowed, limit ? limit : UINT32_MAX);
	if (aggregators->count == 0)
		return -ENOENT;
	list_by_node(aggregators, topology);
	return 0;
}

int kr_aggregators_new(const struct kr_topology *topology, uint32_t limit, const char *config_list,
	struct kr_aggregators **ret_aggregators)
{
	struct kr_aggregators *aggregators = calloc(1, sizeof(*aggregators));
	uint32_t *allowed = calloc(topology->nodes, sizeof(uint32_t));
	int error = -ENOMEM;
	if (aggregators && allowed) {
		aggregators->rank = calloc(topology->ranks, sizeof(uint32_t));
		aggregators->local = calloc(topology->ranks, sizeof(uint32_t));
		aggregators->index = calloc(topology->ranks, sizeof(uint32_t));
		aggregators->node_aggregators = calloc(topology->ranks, sizeof(uint32_t));
		aggregators->node_start = calloc((size_t)topology->nodes + 1, sizeof(uint32_t));
		if (aggregators->rank && aggregators->local && aggregators->index && aggregators->node_aggregators &&
			aggregators->node_start)
			error = choose(aggregators, topology, limit, config_list, allowed);
	}
	free(allowed);
	if (error < 0) {
		kr_aggregators_free(aggregators);
		return error;
	}
	*ret_aggregators = aggregators;
	return 0;
}

void kr_aggregators_free(struct kr_aggregators *aggregators)
{
	if (!aggregators)
		return;
	free(aggregators->rank);
	free(aggregators->local);
	free(aggregators->index);
	free(aggregators->node_aggregators);
	free(aggregators->node_start);
	free(aggregators);
}

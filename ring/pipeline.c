/* Members in an array, sorted by the cyclic order that begins at the anchor. */
#include "ring/pipeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/ring_order.h"

/* After so many failed upstreams a node gets the server. */
enum { FAILED_MAX = 16 };

struct kr_pipeline_member {
	uint32_t node;
	char *name;
	uint32_t failed[FAILED_MAX];
	uint32_t failed_count;
	bool failed_all;
	bool slow; /* stands behind all that are not */
};

void kr_pipeline_init(struct kr_pipeline *pipeline)
{
	memset(pipeline, 0, sizeof(*pipeline));
}

void kr_pipeline_fini(struct kr_pipeline *pipeline)
{
	for (size_t i = 0; i < pipeline->count; i++)
		free(pipeline->members[i].name);
	free(pipeline->members);
	free(pipeline->anchor_name);
	kr_pipeline_init(pipeline);
}

/* Whether (NAME, NODE) comes before MEMBER in the order that begins at the anchor. */
static bool before(
	const struct kr_pipeline *pipeline, const char *name, uint32_t node, const struct kr_pipeline_member *member)
{
	bool wrapped = kr_ring_order(name, node, pipeline->anchor_name, pipeline->anchor_node) < 0;
	bool member_wrapped =
		kr_ring_order(member->name, member->node, pipeline->anchor_name, pipeline->anchor_node) < 0;

	if (wrapped != member_wrapped)
		return member_wrapped;
	return kr_ring_order(name, node, member->name, member->node) < 0;
}

static size_t find(const struct kr_pipeline *pipeline, uint32_t node)
{
	size_t i = 0;

	while (i < pipeline->count && pipeline->members[i].node != node)
		i++;
	return i;
}

bool kr_pipeline_has(const struct kr_pipeline *pipeline, uint32_t node)
{
	return find(pipeline, node) < pipeline->count;
}

static bool has_failed(const struct kr_pipeline_member *member, uint32_t node)
{
	if (member->failed_all)
		return true;
	for (uint32_t i = 0; i < member->failed_count; i++) {
		if (member->failed[i] == node)
			return true;
	}
	return false;
}

static uint32_t upstream_at(const struct kr_pipeline *pipeline, size_t index)
{
	for (size_t i = index; i-- > 0;) {
		if (!has_failed(&pipeline->members[index], pipeline->members[i].node))
			return pipeline->members[i].node;
	}
	return 0;
}

uint32_t kr_pipeline_upstream(const struct kr_pipeline *pipeline, uint32_t node)
{
	size_t index = find(pipeline, node);

	return index < pipeline->count ? upstream_at(pipeline, index) : 0;
}

static int grow(struct kr_pipeline *pipeline)
{
	size_t capacity = pipeline->capacity ? pipeline->capacity * 2 : 4;
	struct kr_pipeline_member *members;

	if (pipeline->count < pipeline->capacity)
		return 0;
	members = reallocarray(pipeline->members, capacity, sizeof(*members));
	if (!members)
		return -ENOMEM;
	pipeline->members = members;
	pipeline->capacity = capacity;
	return 0;
}

/* NODE has joined anew: clears its failures in all members. */
static void clear_failures(struct kr_pipeline *pipeline, uint32_t node)
{
	for (size_t i = 0; i < pipeline->count; i++) {
		struct kr_pipeline_member *member = &pipeline->members[i];

		for (uint32_t f = 0; f < member->failed_count; f++) {
			if (member->failed[f] == node)
				member->failed[f--] = member->failed[--member->failed_count];
		}
	}
}

static int insert(struct kr_pipeline *pipeline, uint32_t node, const char *name)
{
	char *copy = strdup(name);
	size_t at = 0;

	if (!copy || grow(pipeline) < 0)
		goto fail;
	if (pipeline->count == 0) {
		char *anchor = strdup(name);

		if (!anchor)
			goto fail;
		free(pipeline->anchor_name);
		pipeline->anchor_name = anchor;
		pipeline->anchor_node = node;
	}
	while (at < pipeline->count && !pipeline->members[at].slow &&
		!before(pipeline, name, node, &pipeline->members[at]))
		at++;
	memmove(&pipeline->members[at + 1], &pipeline->members[at],
		(pipeline->count - at) * sizeof(pipeline->members[0]));
	pipeline->members[at] = (struct kr_pipeline_member){.node = node, .name = copy};
	pipeline->count++;
	return 0;
fail:
	free(copy);
	return -ENOMEM;
}

/* Calls CHANGE for members whose upstream differs from WAS, which has the former upstream of each member. */
static void report_changes(const struct kr_pipeline *pipeline, const uint32_t *was, uint32_t except,
	kr_pipeline_change_fn change, void *context)
{
	for (size_t i = 0; i < pipeline->count; i++) {
		uint32_t now = upstream_at(pipeline, i);

		if (now != was[i] && pipeline->members[i].node != except)
			change(context, pipeline->members[i].node, now);
	}
}

/* An array of every member's upstream with room for one more; NULL when memory is out. */
static uint32_t *upstreams(const struct kr_pipeline *pipeline)
{
	uint32_t *list = calloc(pipeline->count + 1, sizeof(*list));

	for (size_t i = 0; list && i < pipeline->count; i++)
		list[i] = upstream_at(pipeline, i);
	return list;
}

int kr_pipeline_join(struct kr_pipeline *pipeline, uint32_t node, const char *name, kr_pipeline_change_fn change,
	void *context, uint32_t *ret_upstream)
{
	uint32_t *was = upstreams(pipeline);
	size_t index = find(pipeline, node);
	int err = 0;

	if (!was)
		return -ENOMEM;
	if (index < pipeline->count) {
		pipeline->members[index].failed_count = 0;
		pipeline->members[index].failed_all = false;
	} else {
		err = insert(pipeline, node, name);
		if (err < 0)
			goto out;
		index = find(pipeline, node);
		memmove(&was[index + 1], &was[index], (pipeline->count - 1 - index) * sizeof(*was));
	}
	clear_failures(pipeline, node);
	report_changes(pipeline, was, node, change, context);
	*ret_upstream = upstream_at(pipeline, index);
out:
	free(was);
	return err;
}

bool kr_pipeline_leave(struct kr_pipeline *pipeline, uint32_t node, kr_pipeline_change_fn change, void *context)
{
	size_t index = find(pipeline, node);

	if (index == pipeline->count)
		return false;
	free(pipeline->members[index].name);
	pipeline->count--;
	memmove(&pipeline->members[index], &pipeline->members[index + 1],
		(pipeline->count - index) * sizeof(pipeline->members[0]));
	/* No copy of the old upstreams: a member pulled from the node that left if it would do so with the node still
	 * there. */
	for (size_t i = index; i < pipeline->count; i++) {
		struct kr_pipeline_member *member = &pipeline->members[i];
		uint32_t upstream = upstream_at(pipeline, i);
		size_t at = upstream ? find(pipeline, upstream) : 0;

		if (!has_failed(member, node) && (upstream == 0 || at < index))
			change(context, member->node, upstream);
	}
	clear_failures(pipeline, node);
	return true;
}

int kr_pipeline_reparent(struct kr_pipeline *pipeline, uint32_t node, uint32_t failed, uint32_t *ret_upstream)
{
	size_t index = find(pipeline, node);
	struct kr_pipeline_member *member;

	if (index == pipeline->count)
		return -ENOENT;
	member = &pipeline->members[index];
	if (failed != 0 && kr_pipeline_has(pipeline, failed) && !has_failed(member, failed)) {
		if (member->failed_count < FAILED_MAX)
			member->failed[member->failed_count++] = failed;
		else
			member->failed_all = true;
	}
	*ret_upstream = upstream_at(pipeline, index);
	return 0;
}

/* The place of NODE; that of SLOW, which stands before it, in *RET_SLOW.  -ENOENT: they do not stand so. */
static int find_before(const struct kr_pipeline *pipeline, uint32_t node, uint32_t slow, size_t *ret, size_t *ret_slow)
{
	size_t index = find(pipeline, node), before = find(pipeline, slow);

	if (index == pipeline->count || before >= index)
		return -ENOENT;
	*ret = index;
	*ret_slow = before;
	return 0;
}

int kr_pipeline_beside(const struct kr_pipeline *pipeline, uint32_t node, uint32_t slow, uint32_t *ret_beside)
{
	size_t index, at;
	int err = find_before(pipeline, node, slow, &index, &at);

	if (err < 0)
		return err;
	while (at > 0 && has_failed(&pipeline->members[index], pipeline->members[at - 1].node))
		at--;
	*ret_beside = at > 0 ? pipeline->members[at - 1].node : 0;
	return 0;
}

/* Moves an element of SIZE bytes of LIST from FROM up to the place TO. */
static void move_up(void *list, size_t from, size_t to, size_t size, void *spare)
{
	char *bytes = list;

	memcpy(spare, bytes + from * size, size);
	memmove(bytes + from * size, bytes + (from + 1) * size, (to - from) * size);
	memcpy(bytes + to * size, spare, size);
}

/* Where a member shall stand of which NODE complains: the first of the slow ones, or the last if NODE is one itself. */
static size_t place_of_slow(const struct kr_pipeline *pipeline, const struct kr_pipeline_member *node)
{
	size_t count = pipeline->count;

	while (!node->slow && pipeline->members[count - 1].slow)
		count--;
	return count - 1;
}

int kr_pipeline_put_last(struct kr_pipeline *pipeline, uint32_t node, uint32_t slow, kr_pipeline_change_fn change,
	void *context, uint32_t *ret_upstream)
{
	struct kr_pipeline_member member;
	size_t index, at, to;
	uint32_t *was, upstream;
	int err = find_before(pipeline, node, slow, &index, &at);

	if (err < 0)
		return err;
	if (upstream_at(pipeline, index) != slow || (pipeline->members[index].slow && !pipeline->members[at].slow))
		return -EPERM;
	was = upstreams(pipeline);
	if (!was)
		return -ENOMEM;
	to = place_of_slow(pipeline, &pipeline->members[index]);
	pipeline->members[at].slow = true;
	move_up(pipeline->members, at, to, sizeof(member), &member);
	move_up(was, at, to, sizeof(upstream), &upstream);
	report_changes(pipeline, was, node, change, context);
	free(was);
	*ret_upstream = upstream_at(pipeline, index - 1);
	return 0;
}

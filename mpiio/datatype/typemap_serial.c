/* Typemaps as bytes for another rank and back; the format is in typemap.h. */
#include <errno.h>
#include <stdlib.h>

#include "mpiio/datatype/leb128.h"
#include "mpiio/datatype/typemap_priv.h"

enum { VERSION = 1 };

static int put_node(struct kr_leb_writer *w, const struct kr_typeset *set, size_t index)
{
	const struct kr_typenode *node = set->nodes[index];
	int64_t before = 0;
	kr_leb_put(w, node->kind);
	if (node->kind == KR_NODE_BYTES)
		return kr_leb_put(w, node->size);
	kr_leb_put(w, node->count);
	if (node->kind == KR_NODE_REPEAT) {
		kr_leb_put_signed(w, node->stride);
		return kr_leb_put(w, index - kr_typeset_index(set, node->child));
	}
	for (uint64_t i = 0; i < node->count; i++) {
		kr_leb_put_signed(w, node->parts[i].displacement - before);
		kr_leb_put(w, index - kr_typeset_index(set, node->parts[i].child));
		before = node->parts[i].displacement;
	}
	return w->error;
}

int kr_typemap_to_bytes(const struct kr_typemap *map, uint8_t **ret_bytes, size_t *ret_length)
{
	struct kr_leb_writer w = {0};
	struct kr_typeset set = {0};
	int error = kr_typeset_collect(&set, map->layout);
	if (error == 0) {
		kr_leb_put(&w, VERSION);
		kr_leb_put_signed(&w, map->displacement);
		kr_leb_put_signed(&w, map->lb);
		kr_leb_put_signed(&w, map->extent);
		error = kr_leb_put(&w, set.count);
	}
	for (size_t i = 0; i < set.count && error == 0; i++)
		error = put_node(&w, &set, i);
	kr_typeset_fini(&set);
	if (error < 0) {
		free(w.bytes);
		return error;
	}
	*ret_bytes = w.bytes;
	*ret_length = w.length;
	return 0;
}

/* The node to which INDEX's next number refers; NULL: none. */
static struct kr_typenode *get_child(struct kr_leb_reader *r, struct kr_typenode *const *nodes, size_t index)
{
	uint64_t back;
	if (!kr_leb_get(r, &back) || back == 0 || back > index || nodes[index - back]->size == 0)
		return NULL;
	return nodes[index - back];
}

static int get_parts(struct kr_leb_reader *r, struct kr_typenode *const *nodes, size_t index, uint64_t count,
	struct kr_placed *parts)
{
	int64_t displacement = 0, distance;
	for (uint64_t i = 0; i < count; i++) {
		if (!kr_leb_get_signed(r, &distance) || !kr_typemap_add(displacement, distance, &displacement) ||
			(i == 0 && displacement != 0))
			return -EBADMSG;
		parts[i] = (struct kr_placed){displacement, get_child(r, nodes, index)};
		if (!parts[i].node)
			return -EBADMSG;
	}
	return 0;
}

static int get_list(struct kr_leb_reader *r, struct kr_typenode *const *nodes, size_t index, uint64_t count,
	struct kr_typenode **ret_node)
{
	struct kr_placed *parts;
	/* A part takes at least 2 bytes. */
	if (count < 2 || count > kr_leb_left(r) / 2)
		return -EBADMSG;
	parts = reallocarray(NULL, count, sizeof(*parts));
	if (!parts)
		return -ENOMEM;
	int error = get_parts(r, nodes, index, count, parts);
	if (error == 0)
		error = kr_typenode_list_as_is(parts, count, ret_node);
	free(parts);
	return error;
}

static int get_node(
	struct kr_leb_reader *r, struct kr_typenode *const *nodes, size_t index, struct kr_typenode **ret_node)
{
	struct kr_typenode *child;
	uint64_t kind, count;
	int64_t stride;
	if (!kr_leb_get(r, &kind) || !kr_leb_get(r, &count))
		return -EBADMSG;
	if (kind == KR_NODE_BYTES)
		return kr_typenode_bytes(count, ret_node);
	if (kind == KR_NODE_LIST)
		return get_list(r, nodes, index, count, ret_node);
	if (kind != KR_NODE_REPEAT || count < 2 || !kr_leb_get_signed(r, &stride))
		return -EBADMSG;
	child = get_child(r, nodes, index);
	return child ? kr_typenode_repeat_as_is(count, stride, child, ret_node) : -EBADMSG;
}

int kr_typemap_from_bytes(const uint8_t *bytes, size_t length, struct kr_typemap **ret_map)
{
	struct kr_leb_reader r = {bytes, bytes + length};
	struct kr_typenode **nodes = NULL, *last = NULL;
	int64_t displacement, lb, extent;
	uint64_t version, count, done = 0;
	int error = 0;
	if (!kr_leb_get(&r, &version) || version != VERSION || !kr_leb_get_signed(&r, &displacement) ||
		!kr_leb_get_signed(&r, &lb) || !kr_leb_get_signed(&r, &extent) || !kr_leb_get(&r, &count))
		return -EBADMSG;
	/* A layout takes at least 2 bytes. */
	if (count == 0 || count > kr_leb_left(&r) / 2)
		return -EBADMSG;
	nodes = reallocarray(NULL, count, sizeof(struct kr_typenode *));
	if (!nodes)
		return -ENOMEM;
	while (done < count && (error = get_node(&r, nodes, done, &nodes[done])) == 0)
		done++;
	if (error == 0 && kr_leb_left(&r) > 0)
		error = -EBADMSG;
	if (error == 0)
		last = kr_typenode_get(nodes[count - 1]);
	for (uint64_t i = 0; i < done; i++)
		kr_typenode_put(nodes[i]);
	free(nodes);
	return error < 0 ? error : kr_typemap_make(displacement, lb, extent, last, ret_map);
}

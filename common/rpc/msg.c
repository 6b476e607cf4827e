/* Encoding and decoding of messages: one pair of functions per kind of field, walked over the layouts of msg_table.c.
 *
 * Invariants: a decoder checks a count against its maximum and against the bytes at hand before it allocates.  A
 * decoded message encodes again to the same bytes.  Any thread.
 */
#include "common/rpc/msg.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/rpc/msg_priv.h"
#include "common/base/util.h"

/* --- arena --- */

struct arena_block {
	struct arena_block *next;
	max_align_t bytes[];
};

void kr_arena_fini(struct kr_arena *arena)
{
	struct arena_block *block = arena->blocks, *next;

	for (; block; block = next) {
		next = block->next;
		free(block);
	}
	arena->blocks = NULL;
}

static void *arena_alloc(struct kr_arena *arena, size_t size)
{
	struct arena_block *block = malloc(sizeof(*block) + size);

	if (!block)
		return NULL;
	block->next = arena->blocks;
	arena->blocks = block;
	return block->bytes;
}

/* --- encoding: false when the format cannot hold the value --- */

static bool put_text(struct kr_writer *w, const char *text, size_t max)
{
	size_t length = strnlen(text, max + 1);

	if (length > max)
		return false;
	kr_put_u16(w, (uint16_t)length);
	kr_put_bytes(w, text, length + 1);
	return true;
}

static bool put_name(struct kr_writer *w, const char *name)
{
	return name && *name && !strchr(name, '/') && put_text(w, name, KR_NAME_MAX);
}

static bool put_str(struct kr_writer *w, const char *text)
{
	return put_text(w, text ? text : "", KR_PATH_MAX);
}

bool kr_put_fid(struct kr_writer *w, const struct kr_fid *fid)
{
	if (fid->length == 0 || fid->length > KR_FID_MAX)
		return false;
	kr_put_u8(w, fid->length);
	kr_put_bytes(w, fid->bytes, fid->length);
	return true;
}

static bool put_blob(struct kr_writer *w, const struct kr_bytes *blob)
{
	if (blob->length > KR_BYTES_MAX)
		return false;
	kr_put_u32(w, blob->length);
	kr_put_bytes(w, blob->bytes, blob->length);
	return true;
}

static bool put_time(struct kr_writer *w, const struct kr_time *time)
{
	kr_put_u64(w, (uint64_t)time->sec);
	kr_put_u32(w, time->nsec);
	return time->nsec < KR_NS_PER_S;
}

bool kr_put_attr(struct kr_writer *w, const struct kr_attr *attr)
{
	bool good;

	kr_put_u64(w, attr->ino);
	kr_put_u32(w, attr->mode);
	kr_put_u32(w, attr->nlink);
	kr_put_u32(w, attr->uid);
	kr_put_u32(w, attr->gid);
	kr_put_u32(w, attr->rdev_major);
	kr_put_u32(w, attr->rdev_minor);
	kr_put_u64(w, attr->size);
	kr_put_u64(w, attr->blocks);
	kr_put_u32(w, attr->blksize);
	good = put_time(w, &attr->atime) && put_time(w, &attr->mtime) && put_time(w, &attr->ctime);
	kr_put_u64(w, attr->version);
	return good;
}

static bool put_cred(struct kr_writer *w, const struct kr_cred *cred)
{
	if (cred->group_count > KR_GROUPS_MAX)
		return false;
	kr_put_u32(w, cred->uid);
	kr_put_u32(w, cred->gid);
	kr_put_u32(w, cred->group_count);
	for (uint32_t i = 0; i < cred->group_count; i++)
		kr_put_u32(w, cred->groups[i]);
	return true;
}

static bool range_is_good(const struct kr_range *range)
{
	return range->offset <= INT64_MAX && range->length <= (uint64_t)INT64_MAX - range->offset;
}

static bool put_ranges(struct kr_writer *w, const struct kr_ranges *ranges)
{
	if (ranges->count > KR_RANGES_MAX)
		return false;
	kr_put_u32(w, ranges->count);
	for (uint32_t i = 0; i < ranges->count; i++) {
		if (!range_is_good(&ranges->ranges[i]))
			return false;
		kr_put_u64(w, ranges->ranges[i].offset);
		kr_put_u64(w, ranges->ranges[i].length);
	}
	return true;
}

static bool put_hop(struct kr_writer *w, const struct kr_hop_address *hop)
{
	kr_put_u32(w, hop->node);
	if (!put_str(w, hop->address))
		return false;
	kr_put_u16(w, hop->port);
	kr_put_bytes(w, hop->ticket, sizeof(hop->ticket));
	kr_put_u64(w, hop->session);
	return true;
}

static bool put_field(struct kr_writer *w, enum kr_field_kind kind, const void *value)
{
	switch (kind) {
	case KR_FIELD_U8:
		kr_put_u8(w, *(const uint8_t *)value);
		return true;
	case KR_FIELD_U16:
		kr_put_u16(w, *(const uint16_t *)value);
		return true;
	case KR_FIELD_U32:
		kr_put_u32(w, *(const uint32_t *)value);
		return true;
	case KR_FIELD_U64:
		kr_put_u64(w, *(const uint64_t *)value);
		return true;
	case KR_FIELD_FID:
		return kr_put_fid(w, value);
	case KR_FIELD_NAME:
		return put_name(w, *(const char *const *)value);
	case KR_FIELD_STR:
		return put_str(w, *(const char *const *)value);
	case KR_FIELD_ID:
		kr_put_bytes(w, value, 16);
		return true;
	case KR_FIELD_HASH:
		kr_put_bytes(w, value, 32);
		return true;
	case KR_FIELD_BYTES:
		return put_blob(w, value);
	case KR_FIELD_TIME:
		return put_time(w, value);
	case KR_FIELD_ATTR:
		return kr_put_attr(w, value);
	case KR_FIELD_CRED:
		return put_cred(w, value);
	case KR_FIELD_RANGES:
		return put_ranges(w, value);
	case KR_FIELD_HOP:
		return put_hop(w, value);
	}
	return false;
}

int kr_msg_encode(uint16_t type, bool reply, const void *msg, struct kr_writer *w)
{
	size_t start = w->length;
	struct kr_layout layout;

	if (!kr_msg_layout(type, reply, &layout))
		return kr_fail(-EINVAL, "there is no message of type %u", type);
	for (size_t i = 0; i < layout.count; i++)
		if (!put_field(w, layout.fields[i].kind, (const uint8_t *)msg + layout.fields[i].offset))
			return kr_fail(-EINVAL, "%s: the protocol cannot carry this %s", kr_msg_name(type),
				layout.fields[i].name);
	if (w->failed)
		return kr_fail(-ENOMEM, "%s: out of memory", kr_msg_name(type));
	if (w->length - start > layout.fields_max)
		return kr_fail(-EINVAL, "%s: %zu bytes of fields, at most %u are allowed", kr_msg_name(type),
			w->length - start, layout.fields_max);
	return 0;
}

/* --- decoding: 0 or -errno; the end checks for a reader that ran out of bytes --- */

static int take_text(struct kr_reader *r, size_t min, size_t max, const char **ret_text)
{
	size_t length = kr_take_u16(r);
	const uint8_t *bytes = length >= min && length <= max ? kr_take_bytes(r, length + 1) : NULL;

	/* One NUL, and that at the end. */
	if (!bytes || memchr(bytes, '\0', length + 1) != bytes + length)
		return -EBADMSG;
	*ret_text = (const char *)bytes;
	return 0;
}

static int take_name(struct kr_reader *r, const char **ret_name)
{
	int err = take_text(r, 1, KR_NAME_MAX, ret_name);

	return !err && strchr(*ret_name, '/') ? -EBADMSG : err;
}

int kr_take_fid(struct kr_reader *r, struct kr_fid *ret_fid)
{
	uint8_t length = kr_take_u8(r);
	const uint8_t *bytes = length > 0 && length <= KR_FID_MAX ? kr_take_bytes(r, length) : NULL;

	if (!bytes)
		return -EBADMSG;
	*ret_fid = (struct kr_fid){.length = length};
	memcpy(ret_fid->bytes, bytes, length);
	return 0;
}

static int take_fixed(struct kr_reader *r, size_t length, uint8_t *ret_bytes)
{
	const uint8_t *bytes = kr_take_bytes(r, length);

	if (!bytes)
		return -EBADMSG;
	memcpy(ret_bytes, bytes, length);
	return 0;
}

static int take_blob(struct kr_reader *r, struct kr_bytes *ret_blob)
{
	uint32_t length = kr_take_u32(r);

	if (length > KR_BYTES_MAX)
		return -EBADMSG;
	*ret_blob = (struct kr_bytes){.bytes = kr_take_bytes(r, length), .length = length};
	return ret_blob->bytes ? 0 : -EBADMSG;
}

static int take_time(struct kr_reader *r, struct kr_time *ret_time)
{
	ret_time->sec = (int64_t)kr_take_u64(r);
	ret_time->nsec = kr_take_u32(r);
	return ret_time->nsec < KR_NS_PER_S ? 0 : -EBADMSG;
}

int kr_take_attr(struct kr_reader *r, struct kr_attr *ret_attr)
{
	int err;

	ret_attr->ino = kr_take_u64(r);
	ret_attr->mode = kr_take_u32(r);
	ret_attr->nlink = kr_take_u32(r);
	ret_attr->uid = kr_take_u32(r);
	ret_attr->gid = kr_take_u32(r);
	ret_attr->rdev_major = kr_take_u32(r);
	ret_attr->rdev_minor = kr_take_u32(r);
	ret_attr->size = kr_take_u64(r);
	ret_attr->blocks = kr_take_u64(r);
	ret_attr->blksize = kr_take_u32(r);
	err = take_time(r, &ret_attr->atime);
	if (!err)
		err = take_time(r, &ret_attr->mtime);
	if (!err)
		err = take_time(r, &ret_attr->ctime);
	ret_attr->version = kr_take_u64(r);
	return err;
}

static int take_cred(struct kr_reader *r, struct kr_arena *arena, struct kr_cred *ret_cred)
{
	uint32_t *groups;

	*ret_cred = (struct kr_cred){0};
	ret_cred->uid = kr_take_u32(r);
	ret_cred->gid = kr_take_u32(r);
	ret_cred->group_count = kr_take_u32(r);
	if (ret_cred->group_count > KR_GROUPS_MAX || kr_reader_left(r) < ret_cred->group_count * sizeof(uint32_t))
		return -EBADMSG;
	if (ret_cred->group_count == 0)
		return 0;
	groups = arena_alloc(arena, ret_cred->group_count * sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	for (uint32_t i = 0; i < ret_cred->group_count; i++)
		groups[i] = kr_take_u32(r);
	ret_cred->groups = groups;
	return 0;
}

static int take_ranges(struct kr_reader *r, struct kr_arena *arena, struct kr_ranges *ret_ranges)
{
	uint32_t count = kr_take_u32(r);
	struct kr_range *ranges;

	*ret_ranges = (struct kr_ranges){.count = count};
	if (count > KR_RANGES_MAX || kr_reader_left(r) < count * 2 * sizeof(uint64_t))
		return -EBADMSG;
	if (count == 0)
		return 0;
	ranges = arena_alloc(arena, count * sizeof(*ranges));
	if (!ranges)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		ranges[i].offset = kr_take_u64(r);
		ranges[i].length = kr_take_u64(r);
		if (!range_is_good(&ranges[i]))
			return -EBADMSG;
	}
	ret_ranges->ranges = ranges;
	return 0;
}

static int take_hop(struct kr_reader *r, struct kr_hop_address *ret_hop)
{
	int err;

	ret_hop->node = kr_take_u32(r);
	err = take_text(r, 0, KR_PATH_MAX, &ret_hop->address);
	if (err)
		return err;
	ret_hop->port = kr_take_u16(r);
	err = take_fixed(r, 32, ret_hop->ticket);
	ret_hop->session = kr_take_u64(r);
	return err;
}

static int take_field(struct kr_reader *r, enum kr_field_kind kind, struct kr_arena *arena, void *ret_value)
{
	switch (kind) {
	case KR_FIELD_U8:
		*(uint8_t *)ret_value = kr_take_u8(r);
		return 0;
	case KR_FIELD_U16:
		*(uint16_t *)ret_value = kr_take_u16(r);
		return 0;
	case KR_FIELD_U32:
		*(uint32_t *)ret_value = kr_take_u32(r);
		return 0;
	case KR_FIELD_U64:
		*(uint64_t *)ret_value = kr_take_u64(r);
		return 0;
	case KR_FIELD_FID:
		return kr_take_fid(r, ret_value);
	case KR_FIELD_NAME:
		return take_name(r, ret_value);
	case KR_FIELD_STR:
		return take_text(r, 0, KR_PATH_MAX, ret_value);
	case KR_FIELD_ID:
		return take_fixed(r, 16, ret_value);
	case KR_FIELD_HASH:
		return take_fixed(r, 32, ret_value);
	case KR_FIELD_BYTES:
		return take_blob(r, ret_value);
	case KR_FIELD_TIME:
		return take_time(r, ret_value);
	case KR_FIELD_ATTR:
		return kr_take_attr(r, ret_value);
	case KR_FIELD_CRED:
		return arena ? take_cred(r, arena, ret_value) : -EBADMSG;
	case KR_FIELD_RANGES:
		return arena ? take_ranges(r, arena, ret_value) : -EBADMSG;
	case KR_FIELD_HOP:
		return take_hop(r, ret_value);
	}
	return -EBADMSG;
}

int kr_msg_decode(uint16_t type, bool reply, const uint8_t *bytes, size_t length, void *ret_msg, struct kr_arena *arena)
{
	struct kr_layout layout;
	struct kr_reader r;

	if (!kr_msg_layout(type, reply, &layout))
		return kr_fail(-EBADMSG, "there is no message of type %u", type);
	kr_reader_init(&r, bytes, length);
	for (size_t i = 0; i < layout.count; i++) {
		const struct kr_field *field = &layout.fields[i];
		int err = take_field(&r, field->kind, arena, (uint8_t *)ret_msg + field->offset);

		if (!err && r.failed)
			err = -EBADMSG;
		if (err)
			return kr_fail(err, "%s %s: field %s is malformed or cut short", kr_msg_name(type),
				reply ? "reply" : "request", field->name);
	}
	if (kr_reader_left(&r) > 0)
		return kr_fail(-EBADMSG, "%s %s: %zu bytes are left over", kr_msg_name(type),
			reply ? "reply" : "request", kr_reader_left(&r));
	return 0;
}

/* Random valid messages, the same for the same seed on every machine: for test_msg.c and the fuzz targets. */
#ifndef KR_TEST_RANDOM_MSG_H
#define KR_TEST_RANDOM_MSG_H

#include <stdint.h>
#include <string.h>

#include "common/rpc/msg_priv.h"
#include "common/base/util.h"

struct random_msg {
	uint64_t state; /* seed; never 0 */
	bool largest;   /* every length at its maximum */
	union kr_any_msg msg;
	/* What the message borrows: no message has more than four texts. */
	char texts[4][KR_PATH_MAX + 1];
	unsigned text_count;
	uint8_t bytes[KR_BYTES_MAX];
	uint32_t groups[KR_GROUPS_MAX];
	struct kr_range ranges[KR_RANGES_MAX];
};

static inline uint64_t random_u64(struct random_msg *r)
{
	r->state ^= r->state << 13;
	r->state ^= r->state >> 7;
	r->state ^= r->state << 17;
	return r->state;
}

static inline uint32_t random_length(struct random_msg *r, uint32_t min, uint32_t usual, uint32_t max)
{
	return r->largest ? max : min + (uint32_t)(random_u64(r) % (usual - min + 1));
}

static inline const char *random_text(struct random_msg *r, uint32_t min, uint32_t max, bool slashes)
{
	uint32_t length = random_length(r, min, 24, max);
	char *text = r->texts[r->text_count++];

	for (uint32_t i = 0; i < length; i++) {
		do
			text[i] = (char)(random_u64(r) >> 20);
		while (text[i] == '\0' || (text[i] == '/' && !slashes));
	}
	text[length] = '\0';
	return text;
}

static inline struct kr_time random_time(struct random_msg *r)
{
	return (struct kr_time){(int64_t)random_u64(r), (uint32_t)(random_u64(r) % 1000000000)};
}

static inline void random_bytes(struct random_msg *r, uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(random_u64(r) >> 20);
}

static inline void random_attr(struct random_msg *r, struct kr_attr *attr)
{
	*attr = (struct kr_attr){.ino = random_u64(r),
		.mode = (uint32_t)random_u64(r),
		.nlink = (uint32_t)random_u64(r),
		.uid = (uint32_t)random_u64(r),
		.gid = (uint32_t)random_u64(r),
		.size = random_u64(r),
		.blocks = random_u64(r)};
	attr->rdev_major = (uint32_t)random_u64(r);
	attr->rdev_minor = (uint32_t)random_u64(r);
	attr->blksize = (uint32_t)random_u64(r);
	attr->atime = random_time(r);
	attr->mtime = random_time(r);
	attr->ctime = random_time(r);
	attr->version = random_u64(r);
}

static inline void random_cred(struct random_msg *r, struct kr_cred *cred)
{
	*cred = (struct kr_cred){.uid = (uint32_t)random_u64(r), .group_count = random_length(r, 0, 5, KR_GROUPS_MAX)};
	cred->gid = (uint32_t)random_u64(r);
	for (uint32_t i = 0; i < cred->group_count; i++)
		r->groups[i] = (uint32_t)random_u64(r);
	cred->groups = cred->group_count ? r->groups : NULL;
}

static inline void random_ranges(struct random_msg *r, struct kr_ranges *ranges)
{
	*ranges = (struct kr_ranges){r->ranges, random_length(r, 0, 5, KR_RANGES_MAX)};
	for (uint32_t i = 0; i < ranges->count; i++)
		r->ranges[i] = (struct kr_range){random_u64(r) >> 2, random_u64(r) >> 2};
}

static inline void random_hop(struct random_msg *r, struct kr_hop_address *hop)
{
	*hop = (struct kr_hop_address){.node = (uint32_t)random_u64(r), .port = (uint16_t)random_u64(r)};
	hop->session = random_u64(r);
	hop->address = random_text(r, 0, 255, true);
	random_bytes(r, hop->ticket, sizeof(hop->ticket));
}

static inline void random_field(struct random_msg *r, enum kr_field_kind kind, void *field)
{
	struct kr_fid *fid = field;
	struct kr_bytes *blob = field;

	switch (kind) {
	case KR_FIELD_U8:
		*(uint8_t *)field = (uint8_t)random_u64(r);
		break;
	case KR_FIELD_U16:
		*(uint16_t *)field = (uint16_t)random_u64(r);
		break;
	case KR_FIELD_U32:
		*(uint32_t *)field = (uint32_t)random_u64(r);
		break;
	case KR_FIELD_U64:
		*(uint64_t *)field = random_u64(r);
		break;
	case KR_FIELD_FID:
		memset(fid, 0, sizeof(*fid));
		fid->length = (uint8_t)random_length(r, 1, 12, KR_FID_MAX);
		random_bytes(r, fid->bytes, fid->length);
		break;
	case KR_FIELD_NAME:
		*(const char **)field = random_text(r, 1, KR_NAME_MAX, false);
		break;
	case KR_FIELD_STR:
		*(const char **)field = random_text(r, 0, KR_PATH_MAX, true);
		break;
	case KR_FIELD_ID:
		random_bytes(r, field, 16);
		break;
	case KR_FIELD_HASH:
		random_bytes(r, field, 32);
		break;
	case KR_FIELD_BYTES:
		*blob = (struct kr_bytes){r->bytes, random_length(r, 0, 24, KR_BYTES_MAX)};
		random_bytes(r, r->bytes, blob->length);
		break;
	case KR_FIELD_TIME:
		*(struct kr_time *)field = random_time(r);
		break;
	case KR_FIELD_ATTR:
		random_attr(r, field);
		break;
	case KR_FIELD_CRED:
		random_cred(r, field);
		break;
	case KR_FIELD_RANGES:
		random_ranges(r, field);
		break;
	case KR_FIELD_HOP:
		random_hop(r, field);
		break;
	}
}

/* Fills r->msg with a message of the type. */
static inline void random_message(struct random_msg *r, const struct kr_layout *layout)
{
	r->text_count = 0;
	memset(&r->msg, 0, sizeof(r->msg));
	for (size_t i = 0; i < layout->count; i++)
		random_field(r, layout->fields[i].kind, (char *)&r->msg + layout->fields[i].offset);
}

#endif

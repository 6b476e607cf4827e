/* See msg_dump.h. */
#include "test/msg_dump.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/util.h"
#include "common/rpc/msg_priv.h"

static void put_format(struct kr_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_format(struct kr_writer *w, const char *format, ...)
{
	char text[256];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length > 0)
		kr_put_bytes(w, text, KR_MIN((size_t)length, sizeof(text) - 1));
}

static void put_hex(struct kr_writer *w, const uint8_t *bytes, size_t length)
{
	enum { SHOWN_MAX = 64 };

	for (size_t i = 0; i < KR_MIN(length, (size_t)SHOWN_MAX); i++)
		put_format(w, "%02x", bytes[i]);
	if (length > SHOWN_MAX)
		put_format(w, "..(%zu)", length);
}

/* Quoted, with anything that could break the line in hex. */
static void put_quoted(struct kr_writer *w, const char *text)
{
	kr_put_u8(w, '"');
	for (const char *c = text ? text : ""; *c; c++) {
		if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
			put_format(w, "\\x%02x", (unsigned char)*c);
		else
			kr_put_u8(w, (uint8_t)*c);
	}
	kr_put_u8(w, '"');
}

static void put_time(struct kr_writer *w, const struct kr_time *time)
{
	put_format(w, "%" PRId64 ".%09u", time->sec, time->nsec);
}

static void put_attr(struct kr_writer *w, const struct kr_attr *attr)
{
	put_format(w,
		"{ino=%" PRIu64 " mode=%o nlink=%u uid=%u gid=%u rdev=%u:%u size=%" PRIu64 " blocks=%" PRIu64
		" blksize=%u",
		attr->ino, attr->mode, attr->nlink, attr->uid, attr->gid, attr->rdev_major, attr->rdev_minor,
		attr->size, attr->blocks, attr->blksize);
	put_format(w, " atime=");
	put_time(w, &attr->atime);
	put_format(w, " mtime=");
	put_time(w, &attr->mtime);
	put_format(w, " ctime=");
	put_time(w, &attr->ctime);
	put_format(w, " version=%" PRIu64 "}", attr->version);
}

static void put_cred(struct kr_writer *w, const struct kr_cred *cred)
{
	put_format(w, "%u:%u", cred->uid, cred->gid);
	for (uint32_t i = 0; i < cred->group_count; i++)
		put_format(w, "%c%u", i == 0 ? '+' : ',', cred->groups[i]);
}

static void put_ranges(struct kr_writer *w, const struct kr_ranges *ranges)
{
	kr_put_u8(w, '[');
	for (uint32_t i = 0; i < ranges->count; i++)
		put_format(w, "%s%" PRIu64 "+%" PRIu64, i == 0 ? "" : " ", ranges->ranges[i].offset,
			ranges->ranges[i].length);
	kr_put_u8(w, ']');
}

static void put_hop(struct kr_writer *w, const struct kr_hop_address *hop)
{
	put_format(w, "{node=%u address=", hop->node);
	put_quoted(w, hop->address);
	put_format(w, " port=%u session=%" PRIu64 "}", hop->port, hop->session);
}

static void put_field(struct kr_writer *w, enum kr_field_kind kind, const void *value)
{
	switch (kind) {
	case KR_FIELD_U8:
		put_format(w, "%u", *(const uint8_t *)value);
		break;
	case KR_FIELD_U16:
		put_format(w, "%u", *(const uint16_t *)value);
		break;
	case KR_FIELD_U32:
		put_format(w, "%" PRIu32, *(const uint32_t *)value);
		break;
	case KR_FIELD_U64:
		put_format(w, "%" PRIu64, *(const uint64_t *)value);
		break;
	case KR_FIELD_FID:
		put_format(w, "fid:");
		put_hex(w, ((const struct kr_fid *)value)->bytes,
			KR_MIN(((const struct kr_fid *)value)->length, KR_FID_MAX));
		break;
	case KR_FIELD_NAME:
	case KR_FIELD_STR:
		put_quoted(w, *(const char *const *)value);
		break;
	case KR_FIELD_ID:
		put_hex(w, value, 16);
		break;
	case KR_FIELD_HASH:
		put_hex(w, value, 32);
		break;
	case KR_FIELD_BYTES:
		put_hex(w, ((const struct kr_bytes *)value)->bytes, ((const struct kr_bytes *)value)->length);
		break;
	case KR_FIELD_TIME:
		put_time(w, value);
		break;
	case KR_FIELD_ATTR:
		put_attr(w, value);
		break;
	case KR_FIELD_CRED:
		put_cred(w, value);
		break;
	case KR_FIELD_RANGES:
		put_ranges(w, value);
		break;
	case KR_FIELD_HOP:
		put_hop(w, value);
		break;
	}
}

void kr_msg_dump(uint16_t type, bool reply, const void *msg, struct kr_writer *w)
{
	struct kr_layout layout;

	if (!kr_msg_layout(type, reply, &layout)) {
		put_format(w, "type %u", type);
		return;
	}
	put_format(w, "%s%s", kr_msg_name(type), reply ? " reply" : "");
	for (size_t i = 0; i < layout.count; i++) {
		put_format(w, " %s=", layout.fields[i].name);
		if (strcmp(layout.fields[i].name, "ring_key") == 0 || strcmp(layout.fields[i].name, "secret") == 0 ||
			strcmp(layout.fields[i].name, "credential") == 0)
			put_format(w, "(secret)");
		else
			put_field(w, layout.fields[i].kind, (const uint8_t *)msg + layout.fields[i].offset);
	}
}

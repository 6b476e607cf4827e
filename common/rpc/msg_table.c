/* The table of all messages, made from msgs.def: names, directions, limits and the layout of each struct. */
#include "common/rpc/msg_priv.h"

#include <stddef.h>

#include "common/base/util.h"

/* Each list of fields becomes a function, because only inside one can the fields name their struct ("self"). */
#define KR_NONE
#define FIELD(name, kind) {#name, kind, offsetof(self, name)},
#define U8(n) FIELD(n, KR_FIELD_U8)
#define U16(n) FIELD(n, KR_FIELD_U16)
#define U32(n) FIELD(n, KR_FIELD_U32)
#define U64(n) FIELD(n, KR_FIELD_U64)
#define FID(n) FIELD(n, KR_FIELD_FID)
#define NAME(n) FIELD(n, KR_FIELD_NAME)
#define STR(n) FIELD(n, KR_FIELD_STR)
#define ID(n) FIELD(n, KR_FIELD_ID)
#define HASH(n) FIELD(n, KR_FIELD_HASH)
#define BYTES(n) FIELD(n, KR_FIELD_BYTES)
#define TIME(n) FIELD(n, KR_FIELD_TIME)
#define ATTR(n) FIELD(n, KR_FIELD_ATTR)
#define CRED(n) FIELD(n, KR_FIELD_CRED)
#define RANGES(n) FIELD(n, KR_FIELD_RANGES)
#define HOP(n) FIELD(n, KR_FIELD_HOP)
#define LAYOUT(function, type, ...) \
	static struct kr_layout function(void) \
	{ \
		typedef struct type self; \
		static const struct kr_field fields[] = {__VA_ARGS__}; \
		return (struct kr_layout){fields, KR_ARRAY_SIZE(fields), sizeof(self), 0, 0}; \
	}
#define KR_MSG(name, NAME, number, direction, request_fields, reply_fields, request_data, reply_data)
#define KR_REQUEST(name, fields) LAYOUT(name##_request_layout, kr_##name##_request, fields)
#define KR_REPLY(name, fields) LAYOUT(name##_reply_layout, kr_##name##_reply, fields)
#include "common/rpc/msgs.def"
#undef KR_MSG
#undef KR_REQUEST
#undef KR_REPLY

struct message {
	const char *name;
	enum kr_direction direction;
	uint32_t fields_max[2], data_max[2]; /* [reply] */
	struct kr_layout (*layout[2])(void);
};

static const struct message messages[] = {
#define KR_MSG(name, NAME, number, direction, request_fields, reply_fields, request_data, reply_data) \
	[number] = {#NAME, KR_DIRECTION_##direction, {request_fields, reply_fields}, {request_data, reply_data}, \
		{name##_request_layout, name##_reply_layout}},
#define KR_REQUEST(name, fields)
#define KR_REPLY(name, fields)
#include "common/rpc/msgs.def"
#undef KR_MSG
#undef KR_REQUEST
#undef KR_REPLY
};

static const struct message *find(uint16_t type)
{
	return type < KR_ARRAY_SIZE(messages) && messages[type].name ? &messages[type] : NULL;
}

bool kr_msg_layout(uint16_t type, bool reply, struct kr_layout *ret_layout)
{
	const struct message *message = find(type);

	if (!message)
		return false;
	*ret_layout = message->layout[reply]();
	ret_layout->fields_max = message->fields_max[reply];
	ret_layout->data_max = message->data_max[reply];
	return true;
}

uint32_t kr_msg_data_max(uint16_t type, bool reply)
{
	const struct message *message = find(type);

	return message ? message->data_max[reply] : 0;
}

const char *kr_msg_name(uint16_t type)
{
	const struct message *message = find(type);

	return message ? message->name : NULL;
}

bool kr_msg_known(uint16_t type, enum kr_direction *ret_direction)
{
	const struct message *message = find(type);

	if (message && ret_direction)
		*ret_direction = message->direction;
	return message != NULL;
}

struct kr_cred *kr_msg_cred(uint16_t type, void *msg)
{
	struct kr_layout layout;

	if (!kr_msg_layout(type, false, &layout))
		return NULL;
	for (size_t i = 0; i < layout.count; i++)
		if (layout.fields[i].kind == KR_FIELD_CRED)
			return (struct kr_cred *)((char *)msg + layout.fields[i].offset);
	return NULL;
}

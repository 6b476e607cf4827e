/* Messages: structs, encoding, decoding, names and limits, all made from msgs.def (the protocol's specification).
 *
 * struct kr_<name>_request / kr_<name>_reply have the table's fields, the enum has KR_MSG_<NAME>.  Decoded structs
 * borrow strings and bytes from the frame, groups and ranges from the decoder's arena.
 */
#ifndef KR_COMMON_MSG_H
#define KR_COMMON_MSG_H

#include "common/base/types.h"
#include "common/rpc/wire.h"

enum { KR_PROTO_VERSION = 6, KR_FRAME_HEADER = 28 };
#define KR_FRAME_MAGIC UINT32_C(0x4b52414e)
enum kr_frame_flag {
	KR_FRAME_REPLY = 1,
	KR_FRAME_MORE = 2,
	KR_FRAME_RESEND = 4,
	KR_FRAME_ONEWAY = 8,
	KR_FRAME_CACHEABLE = 16,
	KR_FRAME_CACHEABLE_ATTR = 32,
	KR_FRAME_BARE = 64,
	KR_FRAME_CARRIED = 128
};
enum kr_direction { KR_DIRECTION_UP, KR_DIRECTION_DOWN, KR_DIRECTION_RING, KR_DIRECTION_TOOL, KR_DIRECTION_LEND };

struct kr_bytes {
	const uint8_t *bytes;
	uint32_t length;
};
struct kr_ranges {
	const struct kr_range *ranges;
	uint32_t count;
};
/* The peer of a ring connection.  `address` borrows in a decoded message. */
struct kr_hop_address {
	uint32_t node; /* 0 = the server */
	const char *address;
	uint16_t port;
	uint8_t ticket[32]; /* see pair.h */
	uint64_t session;
};

#define KR_NONE
#define U8(n) uint8_t n;
#define U16(n) uint16_t n;
#define U32(n) uint32_t n;
#define U64(n) uint64_t n;
#define FID(n) struct kr_fid n;
#define NAME(n) const char *n;
#define STR(n) const char *n;
#define ID(n) uint8_t n[16];
#define HASH(n) uint8_t n[32];
#define BYTES(n) struct kr_bytes n;
#define TIME(n) struct kr_time n;
#define ATTR(n) struct kr_attr n;
#define CRED(n) struct kr_cred n;
#define RANGES(n) struct kr_ranges n;
#define HOP(n) struct kr_hop_address n;
#define KR_MSG(name, NAME, number, direction, request_fields, reply_fields, request_data, reply_data)
#define KR_REQUEST(name, fields) \
	struct kr_##name##_request { \
		fields \
	};
#define KR_REPLY(name, fields) \
	struct kr_##name##_reply { \
		fields \
	};
#include "common/rpc/msgs.def"
#undef KR_MSG
#undef KR_REQUEST
#undef KR_REPLY
#undef KR_NONE
#undef U8
#undef U16
#undef U32
#undef U64
#undef FID
#undef NAME
#undef STR
#undef ID
#undef HASH
#undef BYTES
#undef TIME
#undef ATTR
#undef CRED
#undef RANGES
#undef HOP

enum kr_msg_type {
#define KR_MSG(name, NAME, number, direction, request_fields, reply_fields, request_data, reply_data) \
	KR_MSG_##NAME = number,
#define KR_REQUEST(name, fields)
#define KR_REPLY(name, fields)
#include "common/rpc/msgs.def"
#undef KR_MSG
#undef KR_REQUEST
#undef KR_REPLY
};

struct kr_frame_header {
	uint16_t type, flags;
	uint64_t id;
	uint32_t status; /* wire number */
	uint32_t fields_length, data_length;
};

/* The memory of decoded arrays; the caller zeroes it first, and kr_arena_fini frees it. */
struct kr_arena {
	void *blocks;
};
void kr_arena_fini(struct kr_arena *arena);

/* Room for any decoded request or reply. */
union kr_any_msg {
#define KR_MSG(name, NAME, number, direction, request_fields, reply_fields, request_data, reply_data)
#define KR_REQUEST(name, fields) struct kr_##name##_request name##_request;
#define KR_REPLY(name, fields) struct kr_##name##_reply name##_reply;
#include "common/rpc/msgs.def"
#undef KR_MSG
#undef KR_REQUEST
#undef KR_REPLY
};

void kr_frame_header_encode(const struct kr_frame_header *header, uint8_t bytes[KR_FRAME_HEADER]);
/* 0, or -EBADMSG: a bad magic, flags and a status that contradict each other, or lengths above the type's maxima.  An
 * unknown type may have up to 64 KiB of fields and no data, so that it gets a reply. */
int kr_frame_header_decode(const uint8_t bytes[KR_FRAME_HEADER], struct kr_frame_header *ret_header);

/* Appends the fields of MSG (a struct kr_<name>_request or _reply) to W.  -EINVAL: a value that the format cannot hold
 * (a name too long, no fid...); -ENOMEM; then W's content is invalid.  A NULL STR is "". */
int kr_msg_encode(uint16_t type, bool reply, const void *msg, struct kr_writer *w);
/* Fills RET_MSG (as large as union kr_any_msg suffices).  -EBADMSG: malformed, bytes left over or an unknown type;
 * -ENOMEM; RET_MSG is then undefined.  The caller frees ARENA in every case.  With ARENA NULL, a message that has a
 * CRED or RANGES field is -EBADMSG, too. */
int kr_msg_decode(
	uint16_t type, bool reply, const uint8_t *bytes, size_t length, void *ret_msg, struct kr_arena *arena);
/* The CRED of a decoded request; NULL if the type has none. Part of MSG. */
struct kr_cred *kr_msg_cred(uint16_t type, void *msg);
/* The most bytes of data that a request or reply of the type may carry; 0 for an unknown type. */
uint32_t kr_msg_data_max(uint16_t type, bool reply);
/* "LOOKUP"; NULL for an unknown type. */
const char *kr_msg_name(uint16_t type);
/* Whether the table has the type; its direction. */
bool kr_msg_known(uint16_t type, enum kr_direction *ret_direction);

/* Wire status <-> negative errno (0 <-> 0). */
uint32_t kr_status_from_errno(int err);
int kr_status_to_errno(uint32_t status);

#endif

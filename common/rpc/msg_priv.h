/* The layout of the messages of msgs.def, for the encoder and the decoder in msg.c. */
#ifndef KR_COMMON_MSG_PRIV_H
#define KR_COMMON_MSG_PRIV_H

#include "common/rpc/msg.h"

enum kr_field_kind {
	KR_FIELD_U8,
	KR_FIELD_U16,
	KR_FIELD_U32,
	KR_FIELD_U64,
	KR_FIELD_FID,
	KR_FIELD_NAME,
	KR_FIELD_STR,
	KR_FIELD_ID,
	KR_FIELD_HASH,
	KR_FIELD_BYTES,
	KR_FIELD_TIME,
	KR_FIELD_ATTR,
	KR_FIELD_CRED,
	KR_FIELD_RANGES,
	KR_FIELD_HOP,
};

struct kr_field {
	const char *name;
	enum kr_field_kind kind;
	size_t offset; /* in the message's struct */
};

struct kr_layout {
	const struct kr_field *fields;
	size_t count, size;
	uint32_t fields_max, data_max;
};

enum { KR_BYTES_MAX = 65536, KR_RANGES_MAX = 8192, KR_UNKNOWN_FIELDS_MAX = 65536 };

/* Single fields, for lists of them. False, or -EBADMSG: what cannot be. */
bool kr_put_fid(struct kr_writer *w, const struct kr_fid *fid);
bool kr_put_attr(struct kr_writer *w, const struct kr_attr *attr);
int kr_take_fid(struct kr_reader *r, struct kr_fid *ret_fid);
int kr_take_attr(struct kr_reader *r, struct kr_attr *ret_attr);

/* False for an unknown type. */
bool kr_msg_layout(uint16_t type, bool reply, struct kr_layout *ret_layout);

#endif

/* The header of a frame, to bytes and back (FRAMES in msgs.def; declared in msg.h).  A header that has been decoded is
 * within the limits of its type, so its lengths may be trusted.  Any thread.
 */
#include "common/rpc/msg.h"

#include <errno.h>

#include "common/base/fail.h"
#include "common/rpc/msg_priv.h"

void kr_frame_header_encode(const struct kr_frame_header *header, uint8_t bytes[KR_FRAME_HEADER])
{
	struct kr_writer w = {.bytes = bytes, .capacity = KR_FRAME_HEADER};

	kr_put_u32(&w, KR_FRAME_MAGIC);
	kr_put_u16(&w, header->type);
	kr_put_u16(&w, header->flags);
	kr_put_u64(&w, header->id);
	kr_put_u32(&w, header->status);
	kr_put_u32(&w, header->fields_length);
	kr_put_u32(&w, header->data_length);
}

static int check_flags(const struct kr_frame_header *header)
{
	static const uint16_t of_reply = KR_FRAME_REPLY | KR_FRAME_MORE | KR_FRAME_CACHEABLE | KR_FRAME_CACHEABLE_ATTR |
		KR_FRAME_BARE | KR_FRAME_CARRIED,
			      of_request = KR_FRAME_RESEND | KR_FRAME_ONEWAY | KR_FRAME_CARRIED;
	bool reply = header->flags & KR_FRAME_REPLY;

	if (header->flags & ~(reply ? of_reply : of_request))
		return kr_fail(-EBADMSG, "frame of type %u: flags %#x do not go together", header->type, header->flags);
	if (header->flags & KR_FRAME_CARRIED && header->data_length == 0)
		return kr_fail(-EBADMSG, "frame of type %u: data of 0 bytes beside the stream", header->type);
	if (header->flags & KR_FRAME_MORE &&
		(header->status != 0 || (header->type != KR_MSG_PULL && header->type != KR_MSG_STATUS)))
		return kr_fail(-EBADMSG, "frame of type %u: MORE, but this is the last reply", header->type);
	if (header->status != 0 && !reply)
		return kr_fail(-EBADMSG, "frame of type %u: a request with status %u", header->type, header->status);
	return 0;
}

static int check_lengths(const struct kr_frame_header *header)
{
	struct kr_layout layout = {.fields_max = KR_UNKNOWN_FIELDS_MAX};

	if (header->status == 0)
		kr_msg_layout(header->type, header->flags & KR_FRAME_REPLY, &layout);
	else
		layout.fields_max = kr_status_to_errno(header->status) == -EPROTONOSUPPORT ? sizeof(uint32_t) : 0;
	if (header->fields_length > layout.fields_max)
		return kr_fail(-EBADMSG, "frame of type %u: %u bytes of fields, at most %u are allowed", header->type,
			header->fields_length, layout.fields_max);
	if (header->data_length > layout.data_max)
		return kr_fail(-EBADMSG, "frame of type %u: %u bytes of data, at most %u are allowed", header->type,
			header->data_length, layout.data_max);
	return 0;
}

int kr_frame_header_decode(const uint8_t bytes[KR_FRAME_HEADER], struct kr_frame_header *ret_header)
{
	struct kr_frame_header header = {0};
	struct kr_reader r;
	uint32_t magic;
	int err;

	kr_reader_init(&r, bytes, KR_FRAME_HEADER);
	magic = kr_take_u32(&r);
	header.type = kr_take_u16(&r);
	header.flags = kr_take_u16(&r);
	header.id = kr_take_u64(&r);
	header.status = kr_take_u32(&r);
	header.fields_length = kr_take_u32(&r);
	header.data_length = kr_take_u32(&r);
	if (magic != KR_FRAME_MAGIC)
		return kr_fail(-EBADMSG, "magic %#010x is not kairan's: the peer speaks another protocol", magic);
	err = check_flags(&header);
	if (!err)
		err = check_lengths(&header);
	if (!err)
		*ret_header = header;
	return err;
}

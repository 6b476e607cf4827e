/* Fuzz target: bytes from the wire into a frame header, and the rest into every message.
 *
 * Byte 0 of the input chooses request or reply and whether a header comes first; bytes 1-2 are the type otherwise. What
 * decodes must encode to the same bytes again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/rpc/lookups.h"
#include "common/rpc/msg.h"
#include "test/fuzz/fuzz.h"
#include "test/msg_dump.h"

static void require(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "%s (%s)\n", what, kr_fail_reason());
		abort();
	}
}

/* The lists in LOOKUPS: what can be taken must be what is put. */
static void take_lists(uint16_t type, bool reply, const union kr_any_msg *msg)
{
	const struct kr_bytes *list = reply ? &msg->lookups_reply.found : &msg->lookups_request.names;
	char name[KR_NAME_MAX + 1];
	struct kr_found found;
	struct kr_writer again;
	struct kr_reader r;
	int last = -1;

	if (type != KR_MSG_LOOKUPS)
		return;
	kr_writer_init(&again);
	kr_reader_init(&r, list->bytes, list->length);
	if (reply) {
		while (kr_lookups_take_found(&r, &last, &found) > 0)
			kr_lookups_put_found(&again, &found);
	} else {
		while (kr_lookups_take_name(&r, name) > 0)
			kr_lookups_put_name(&again, name);
	}
	require(again.length <= list->length && (!again.length || memcmp(again.bytes, list->bytes, again.length) == 0),
		"a list encodes to other bytes");
	kr_writer_fini(&again);
}

static void decode_fields(uint16_t type, bool reply, const uint8_t *bytes, size_t length)
{
	struct kr_arena arena = {0};
	struct kr_writer again;
	union kr_any_msg msg;

	kr_writer_init(&again);
	if (kr_msg_decode(type, reply, bytes, length, &msg, &arena) == 0) {
		/* The decoder is given any length here; the limit of the type is the header's to check. */
		int err = kr_msg_encode(type, reply, &msg, &again);

		require(err == 0 || length > 1024, "what was decoded cannot be encoded");
		require(again.length == length && (length == 0 || memcmp(again.bytes, bytes, length) == 0),
			"what was decoded encodes to other bytes");
		kr_msg_dump(type, reply, &msg, &again);
		take_lists(type, reply, &msg);
	}
	kr_writer_fini(&again);
	kr_arena_fini(&arena);
}

static void decode_frame(const uint8_t *bytes, size_t length)
{
	uint8_t again[KR_FRAME_HEADER];
	struct kr_frame_header header;

	if (length < KR_FRAME_HEADER || kr_frame_header_decode(bytes, &header) != 0)
		return;
	kr_frame_header_encode(&header, again);
	require(memcmp(again, bytes, sizeof(again)) == 0, "a header encodes to other bytes");
	require(header.data_length <= 1 << 20 && header.fields_length <= 1 << 20, "a length has no bound");
	if (length - KR_FRAME_HEADER >= header.fields_length)
		decode_fields(
			header.type, header.flags & KR_FRAME_REPLY, bytes + KR_FRAME_HEADER, header.fields_length);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	if (length < 3)
		return 0;
	if (bytes[0] & 2)
		decode_frame(bytes + 1, length - 1);
	else
		decode_fields((uint16_t)(bytes[1] << 8 | bytes[2]), bytes[0] & 1, bytes + 3, length - 3);
	return 0;
}

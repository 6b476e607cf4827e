/* Fuzz target: the merge fed by two peers that send what they like. Each 8 bytes of input are one event; whatever
 * comes, the output must ascend without overlap, hold no byte that was not pushed, and leave no buffer behind.
 */
#include <assert.h>
#include <string.h>

#include "common/base/types.h"
#include "ring/merge.h"
#include "test/fuzz/fuzz.h"

enum { LONGEST = 3 * KR_BLOCK_SIZE };

static uint64_t next_offset;
static uint8_t pattern[256 + LONGEST]; /* the byte at offset o is pattern[o % 256]: 7 * o */

static void make_pattern(void)
{
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i * 7);
}

static void drain(struct kr_merge *merge)
{
	struct kr_piece piece;

	while (kr_merge_pop(merge, &piece) == 1) {
		assert(piece.length > 0 && piece.length <= KR_BLOCK_SIZE && piece.offset >= next_offset);
		assert(piece.start + piece.length <= piece.buf->length);
		assert(memcmp(piece.buf->data + piece.start, pattern + piece.offset % 256, piece.length) == 0);
		next_offset = piece.offset + piece.length;
		kr_buf_put(piece.buf);
	}
}

static int push(struct kr_merge *merge, enum kr_merge_side side, uint64_t offset, size_t length)
{
	struct kr_buf *buf = kr_buf_new(length + 1);
	int err;

	assert(buf);
	buf->length = length;
	memcpy(buf->data, pattern + offset % 256, length);
	err = kr_merge_push(merge, side, offset, buf, 0, length);
	kr_buf_put(buf);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	uint64_t at[2] = {0, 0};
	struct kr_merge merge;

	next_offset = 0;
	if (!pattern[1])
		make_pattern();
	kr_merge_init(&merge);
	for (size_t i = 0; i + 8 <= length; i += 8) {
		enum kr_merge_side side = bytes[i] & 1 ? KR_MERGE_HIGH : KR_MERGE_LOW;
		uint64_t offset;
		uint32_t size;

		memcpy(&size, bytes + i + 4, sizeof(size));
		size %= bytes[i] & 2 ? LONGEST : 100;
		offset = at[side] + (uint64_t)bytes[i + 1] * (bytes[i] & 4 ? 1000 : 0) -
			(bytes[i] & 0x80 && bytes[i] & 0x40 ? 1 : 0);
		if (bytes[i] == 0xff)
			memcpy(&offset, bytes + i, sizeof(offset));
		if ((bytes[i] & 0x38) == 0x38) {
			kr_merge_end(&merge, side);
		} else if (push(&merge, side, offset, size) < 0) {
			break;
		} else {
			at[side] = offset + size;
		}
		drain(&merge);
	}
	kr_merge_end(&merge, KR_MERGE_LOW);
	kr_merge_end(&merge, KR_MERGE_HIGH);
	drain(&merge);
	assert(kr_merge_done(&merge));
	kr_merge_fini(&merge);
	assert(kr_buf_bytes_in_use() == 0);
	return 0;
}

/* See readahead.h. */
#include "ring/readahead.h"

#include <string.h>

#include "common/base/util.h"

/* Read-ahead is so many times as long as the sequence so far. */
enum { AHEAD_FACTOR = 4 };
/* Reads of one sequential reader may arrive a little out of order (the kernel splits and reorders read-ahead). */
#define SLACK (UINT64_C(4) << 20)

void kr_readahead_init(struct kr_readahead *readahead, uint64_t max_ahead)
{
	memset(readahead, 0, sizeof(*readahead));
	readahead->max = KR_MAX(max_ahead, KR_READAHEAD_MIN);
}

static bool continues(const struct kr_readahead_stream *stream, uint64_t offset)
{
	uint64_t low = stream->next > SLACK ? stream->next - SLACK : 0;

	return stream->age > 0 && offset >= low && offset <= stream->next + KR_MIN(SLACK, stream->run);
}

/* The stream that a read at OFFSET continues, else the least recently used one, begun anew. */
static struct kr_readahead_stream *stream_for(struct kr_readahead *readahead, uint64_t offset)
{
	struct kr_readahead_stream *oldest = &readahead->streams[0];

	for (int i = 0; i < KR_READAHEAD_STREAMS; i++) {
		struct kr_readahead_stream *stream = &readahead->streams[i];

		if (continues(stream, offset))
			return stream;
		if (stream->age < oldest->age)
			oldest = stream;
	}
	*oldest = (struct kr_readahead_stream){.next = offset, .horizon = offset};
	return oldest;
}

static uint64_t horizon_for(
	const struct kr_readahead *readahead, const struct kr_readahead_stream *stream, uint64_t size)
{
	uint64_t ahead = KR_MAX(KR_READAHEAD_MIN, KR_MIN(stream->run, size) * AHEAD_FACTOR);
	uint64_t left = stream->next < size ? size - stream->next : 0;

	if (left <= KR_READAHEAD_NEAR)
		ahead = left;
	ahead = KR_MIN(ahead, readahead->max);
	return ahead >= left ? size : stream->next + ahead;
}

bool kr_readahead_read(struct kr_readahead *readahead, uint64_t offset, uint64_t length, uint64_t size,
	uint64_t *ret_from, uint64_t *ret_end)
{
	struct kr_readahead_stream *stream;
	uint64_t end, horizon;
	bool goes_on;

	if (offset >= size || length == 0)
		return false;
	end = length > size - offset ? size : offset + length;
	stream = stream_for(readahead, offset);
	goes_on = stream->age > 0 && end > stream->next;
	stream->age = ++readahead->clock;
	if (end > stream->next) {
		stream->run += end - stream->next;
		stream->next = end;
	}
	if (size > KR_READAHEAD_SMALL && (!goes_on || stream->run < KR_READAHEAD_START))
		return false;
	horizon = horizon_for(readahead, stream, size);
	/* Only for a long new range, or for the end of the file. */
	if (horizon <= stream->horizon || (horizon < size && horizon - stream->horizon < KR_READAHEAD_MIN / 4))
		return false;
	*ret_from = KR_MAX(stream->horizon, stream->next);
	*ret_end = horizon;
	stream->horizon = horizon;
	return *ret_from < *ret_end;
}

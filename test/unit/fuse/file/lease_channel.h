/* Frames on their way over one connection, in order, between a node and the server of a test.  Who includes it has said
 * what a `struct frame` is, and that there are FRAMES at most.
 */
#ifndef KR_TEST_LEASE_CHANNEL_H
#define KR_TEST_LEASE_CHANNEL_H

struct channel {
	struct frame frames[FRAMES];
	unsigned count;
};

static inline void push(struct channel *channel, struct frame frame)
{
	assert_true(channel->count < FRAMES);
	channel->frames[channel->count++] = frame;
}

static inline struct frame shift(struct channel *channel)
{
	struct frame frame = channel->frames[0];

	memmove(&channel->frames[0], &channel->frames[1], --channel->count * sizeof(frame));
	return frame;
}

#endif

/* A model of nodes that write to a few files, lose the server's machine and replay (fuse/writeback/flush_session.c):
 * what each has in its journal, what it has heard, and how its bytes go out.  What it does next is in replay_nodes.h;
 * who is killed when, and what has to come of it, in test_replays_random.c.
 *
 * A write is one round of one extent. Its bytes tell which it is (content(), by its number), so that what is in a file
 * tells who won.
 */
#ifndef KR_TEST_UNIT_REPLAY_WORLD_H
#define KR_TEST_UNIT_REPLAY_WORLD_H

#include "server/session/request.h"
#include "test/unit/server/flush/data_fixture.h"

enum { WORLD_NODES = 3, WORLD_FILES = 2, WRITES_MAX = 40, WORLD_SIZE = 60, LOG_SIZE = 1 << 15 };

enum write_state {
	WRITE_DIRTY,    /* in the journal; the server has not said that it is applied */
	WRITE_FLUSHING, /* ... and is on its way */
	WRITE_APPLIED,  /* in the present boot, as its node has heard */
	WRITE_STABLE,   /* its node has let go of it */
	WRITE_WAITS,    /* applied in a former boot: to be replayed */
	WRITE_SENT,     /* ... and on its way */
	WRITE_CONFLICT, /* its bytes go to a conflict file */
};

struct write {
	unsigned node, file;
	struct kr_range extent;
	uint64_t seq;
	uint64_t order, round; /* applied at first, and at last */
	enum write_state state;
	unsigned copy; /* answers to earlier ones that were sent count no more */
};

/* What a node knows of a file. */
struct view {
	struct kr_time since; /* its latest attributes */
	bool opened;          /* it has had a lease: to be reclaimed ... */
	bool held;            /* ... and has it */
	bool asked, reclaimed;
	bool keeps;         /* a replay was refused: RECLAIM comes first */
	unsigned in_flight; /* replays */
	bool leasing;       /* LEASE is under way */
	bool flushing;      /* FLUSH is, of what was dirty ... */
	uint64_t recall_id; /* ... and a RECALL waits for its end; 0: none */
};

struct member {
	struct view views[WORLD_FILES];
	uint64_t seq;
	unsigned session; /* answers of former ones count no more */
	bool away, done_sent, done;
};

static struct world {
	uint64_t random;
	struct write writes[WRITES_MAX];
	unsigned write_count;
	struct member members[WORLD_NODES];
	struct kr_fid files[WORLD_FILES];
	unsigned damages; /* one of so many replays is damaged on its way; 0: none */
	bool faulty;      /* something has happened after which bytes may go to conflict files */
	char log[LOG_SIZE];
	size_t log_length;
} W;

static const char *const node_names[WORLD_NODES] = {"a", "b", "c"};
static const char *const file_names[WORLD_FILES] = {"file", "other"};

#define story(...) \
	(W.log_length += (size_t)(W.log_length < LOG_SIZE - 200 ? \
			 snprintf(W.log + W.log_length, LOG_SIZE - W.log_length, __VA_ARGS__) : \
			 0))

static inline unsigned below(unsigned limit)
{
	W.random = W.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(W.random >> 33) % limit;
}

static inline bool once_in(unsigned times)
{
	return below(times) == 0;
}

static inline unsigned number_of(const struct write *write)
{
	return (unsigned)(write - W.writes) + 1;
}

/* WRITE of each write. */
#define FOR_EACH_WRITE(write) for (struct write *write = W.writes; write < W.writes + W.write_count; write++)

static inline bool has(unsigned node, unsigned file, enum write_state state)
{
	FOR_EACH_WRITE(write)
	{
		if (write->node == node && write->file == file && write->state == state)
			return true;
	}
	return false;
}

/* --- what is sent ----------------------------------------------------------------------------- */

struct sent {
	unsigned node, file, session, copy;
	struct write *write;
};

static inline struct sent *new_sent(unsigned node, unsigned file, struct write *write)
{
	struct sent *sent = kr_xcalloc(1, sizeof *sent);

	*sent = (struct sent){.node = node,
		.file = file,
		.session = W.members[node].session,
		.write = write,
		.copy = write ? ++write->copy : 0};
	return sent;
}

/* NULL: it was sent in a session that has ended. */
static inline struct view *view_of(const struct sent *sent)
{
	struct member *member = &W.members[sent->node];

	return sent->session == member->session ? &member->views[sent->file] : NULL;
}

static inline void note_attr(struct view *view, const struct kr_attr *attr)
{
	if (kr_time_compare(attr->ctime, view->since) > 0)
		view->since = attr->ctime;
}

/* The answer to a FLUSH of WRITE. */
static void flush_heard(void *context, int err, const void *reply, struct kr_buf *data, bool more);

static inline void send_write(struct write *write, bool replay, bool damaged)
{
	struct node *node = &F.nodes[write->node];
	struct kr_flush_request msg = {.file = W.files[write->file],
		.flags = replay ? 1 | 2 : 1,
		.seq = write->seq,
		.mtime = node->mtime,
		.replay_round = replay ? write->round : 0,
		.replay_order = replay ? write->order : 0,
		.extents = {&write->extent, 1}};
	struct kr_buf *buf = kr_buf_new(write->extent.length);
	struct kr_slice slice = {.buf = buf, .length = write->extent.length};

	buf->length = write->extent.length;
	fill(buf->data, write->extent.offset, write->extent.length, number_of(write));
	msg.checksum = kr_checksum(buf->data, buf->length) + damaged;
	W.members[write->node].views[write->file].in_flight++;
	assert_true(kr_conn_request(node->control, KR_MSG_FLUSH, &msg, &slice, 1, flush_heard,
			    new_sent(write->node, write->file, write)) > 0);
	kr_buf_put(buf);
}

static inline void send_replays(unsigned node, unsigned file)
{
	FOR_EACH_WRITE(write)
	{
		bool damaged;

		if (write->node != node || write->file != file || write->state != WRITE_WAITS)
			continue;
		damaged = W.damages && once_in(W.damages);
		W.faulty |= damaged;
		write->state = WRITE_SENT;
		story("%s>%u%s ", node_names[node], number_of(write), damaged ? "!" : "");
		send_write(write, true, damaged);
	}
}

/* A node has others of the file on their way no more: it asks first. */
static inline void abandon(unsigned node, unsigned file)
{
	FOR_EACH_WRITE(write)
	{
		if (write->node == node && write->file == file && write->state == WRITE_SENT) {
			write->state = WRITE_WAITS;
			write->copy++;
		}
	}
}

static inline void replay_heard(struct write *write, int err, const struct kr_flush_reply *reply)
{
	struct view *view = &W.members[write->node].views[write->file];

	if (err == 0) {
		write->round = reply->round;
		write->state = reply->stable ? WRITE_STABLE : WRITE_APPLIED;
		return;
	}
	write->state = WRITE_WAITS;
	view->keeps = W.faulty = true;
	if (err != -EAGAIN && once_in(2))
		abandon(write->node, write->file);
}

static inline void flush_over(struct write *write, int err, const struct kr_flush_reply *reply)
{
	if (err) {
		write->state = WRITE_DIRTY;
		return;
	}
	write->state = reply->stable ? WRITE_STABLE : WRITE_APPLIED;
	write->order = write->round = reply->round;
}

/* What may go into the file does so before the node gives up its leases. */
static inline bool is_bound(unsigned node, unsigned file)
{
	const struct view *view = &W.members[node].views[file];

	return view->flushing ||
		(!view->keeps &&
			(has(node, file, WRITE_WAITS) || has(node, file, WRITE_SENT) ||
				(view->held && has(node, file, WRITE_DIRTY))));
}

/* Answers a RECALL when that is so. */
static inline void settle_recall(unsigned node, unsigned file)
{
	struct view *view = &W.members[node].views[file];

	if (!view->recall_id || is_bound(node, file))
		return;
	view->held = false;
	kr_conn_reply(F.nodes[node].control, KR_MSG_RECALL, view->recall_id, 0, 0, NULL, NULL, 0);
	view->recall_id = 0;
}

static void flush_heard(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct sent *sent = context;
	struct view *view = view_of(sent);
	struct write *write = sent->write;

	(void)data;
	(void)more;
	if (view) {
		story("[%u:%d]", number_of(write), err);
		view->in_flight--;
		if (write->copy == sent->copy && write->state == WRITE_SENT)
			replay_heard(write, err, reply);
		else if (write->copy == sent->copy && write->state == WRITE_FLUSHING)
			flush_over(write, err, reply);
		if (err == 0 && !view->keeps)
			note_attr(view, &((const struct kr_flush_reply *)reply)->attr);
		view->flushing = false;
		settle_recall(sent->node, sent->file);
	}
	free(sent);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void leased(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct sent *sent = context;
	struct view *view = view_of(sent);

	(void)data;
	(void)more;
	if (view && err) {
		story("(%u no lease %d)", number_of(sent->write), err);
		sent->write->state = WRITE_DIRTY;
		view->leasing = false;
	} else if (view) {
		view->leasing = false;
		view->opened = view->held = view->flushing = true;
		note_attr(view, &((const struct kr_lease_reply *)reply)->attr);
		send_write(sent->write, false, false);
	}
	free(sent);
}

/* It is written, under a lease, and flushed. */
static inline void flush_write(struct write *write)
{
	struct kr_lease_request msg = {.file = W.files[write->file], .kinds = KR_LEASE_WRITE};
	struct view *view = &W.members[write->node].views[write->file];

	write->state = WRITE_FLUSHING;
	story("%s+%u ", node_names[write->node], number_of(write));
	if (view->held) {
		view->flushing = true;
		send_write(write, false, false);
		return;
	}
	view->leasing = true;
	assert_true(kr_conn_request(F.nodes[write->node].control, KR_MSG_LEASE, &msg, NULL, 0, leased,
			    new_sent(write->node, write->file, write)) > 0);
}

static inline struct write *new_write(unsigned node, unsigned file)
{
	struct write *write = &W.writes[W.write_count++];

	*write = (struct write){.node = node, .file = file, .seq = ++W.members[node].seq};
	write->extent.offset = below(WORLD_SIZE - 1);
	write->extent.length = 1 + below(WORLD_SIZE - (unsigned)write->extent.offset);
	return write;
}

#endif

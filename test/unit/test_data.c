/* The server's data side against simulated nodes: flush rounds, chains whose participants die, syncing, replays after a
 * boot, pipelines and the feed.  Every file is compared byte for byte.
 */
#include "test/unit/data_fixture.h"

#include "server/data_priv.h"

#include <signal.h>
#include <sys/resource.h>

#include "server/files.h"

static void assert_content(const char *name, uint64_t size, unsigned (*generation)(uint64_t offset))
{
	size_t length;
	uint8_t *bytes = server_bytes(name, &length);

	assert_int_equal(length, size);
	for (size_t i = 0; i < length; i++) {
		unsigned g = generation(i);

		if (bytes[i] != (g ? content(i, g) : 0))
			fail_msg("%s differs at %zu: %02x, not generation %u", name, i, bytes[i], g);
	}
	free(bytes);
}

static void flush_and_wait(struct node *node)
{
	node_flush(node);
	wait_until(node->flushed);
}

/* --- one node ------------------------------------------------------------------------------------------------------- */

static unsigned in_three_extents(uint64_t offset)
{
	return (offset >= 3 && offset < 10) || (offset >= 10 && offset < 4000) || offset >= 100000;
}

static void inline_flush_is_applied_with_its_mtime_and_becomes_stable(void **state)
{
	static const struct kr_range extents[] = { { 3, 7 }, { 10, 3990 }, { 100000, 5 } };
	struct node *node = node_start("n1");
	struct kr_flush_reply *reply = &node->flush_reply;

	(void)state;
	node->file = create_file(node, "file");
	node->extents = extents;
	node->extent_count = 3;
	node->generation = 1;
	node->inlined = true;
	flush_and_wait(node);
	assert_int_equal(node->flush_err, 0);
	assert_true(reply->round > 0);
	assert_int_equal(reply->attr.size, 100005);
	assert_int_equal(reply->attr.mtime.sec, 1000000000);
	assert_int_equal(reply->attr.mtime.nsec, 5);
	assert_true(reply->attr.version != 0);
	assert_content("file", 100005, in_three_extents);
	wait_until(node->stable >= reply->round);
}

static void base_version_is_what_the_former_flush_left(void **state)
{
	static const struct kr_range extents[] = { { 0, 100 } };
	struct node *node = node_start("n1");
	uint64_t before;

	(void)state;
	node->file = create_file(node, "file");
	node->extents = extents;
	node->extent_count = 1;
	node->generation = 1;
	node->inlined = true;
	flush_and_wait(node);
	before = node->flush_reply.attr.version;
	node->generation = 2;
	flush_and_wait(node);
	assert_int_equal(node->flush_reply.base_version, before);
	assert_true(node->flush_reply.attr.version != before);
	node->inlined = false;
	node->generation = 3;
	before = node->flush_reply.attr.version;
	flush_and_wait(node);
	assert_int_equal(node->flush_reply.base_version, before);
	assert_true(node->flush_reply.attr.version != before);
}

static void earlier_write_does_not_turn_the_mtime_back_but_a_hand_does(void **state)
{
	static const struct kr_range extents[] = { { 0, 100 } };
	struct node *node = node_start("n1");
	struct kr_sfile *file;

	(void)state;
	node->file = create_file(node, "file");
	node->extents = extents;
	node->extent_count = 1;
	node->generation = 1;
	node->inlined = true;
	flush_and_wait(node);
	node->mtime.sec -= 10;
	flush_and_wait(node);
	assert_int_equal(node->flush_reply.attr.mtime.sec, 1000000000);
	file = kr_sfile_get(&F.server, &node->file);
	kr_data_mtime_set(file, (struct kr_time){ .sec = 5 });
	flush_and_wait(node);
	assert_int_equal(node->flush_reply.attr.mtime.sec, 1000000000 - 10);
	node_flush(node);
	kr_data_mtime_set(file, (struct kr_time){ .sec = 77 });
	wait_until(node->flushed);
	kr_sfile_put(file);
}

static void bad_inline_flushes_are_refused(void **state)
{
	static const struct kr_range overlapping[] = { { 0, 100 }, { 99, 10 } };
	struct node *node = node_start("n1");
	struct kr_flush_request msg = { .flags = 1, .extents = { overlapping, 2 } };
	struct kr_buf *buf = kr_buf_new(110);
	struct kr_slice slice = { .buf = buf, .length = 110 };

	(void)state;
	buf->length = 110;
	memset(buf->data, 1, 110);
	msg.file = create_file(node, "file");
	the_answer.done = false;
	node_ask(node, KR_MSG_FLUSH, &msg, &slice, 1, note_answer);
	wait_until(the_answer.done);
	assert_int_equal(the_answer.err, -EPROTO);
	msg.extents = (struct kr_ranges){ overlapping, 1 };
	slice.length = 100;
	the_answer.done = false;
	node_ask(node, KR_MSG_FLUSH, &msg, &slice, 1, note_answer);
	wait_until(the_answer.done);
	assert_int_equal(the_answer.err, -EAGAIN); /* without WRITE */
	node_hold(node, &msg.file);
	msg.extents = (struct kr_ranges){ overlapping, 2 };
	slice.length = 110;
	the_answer.done = false;
	node_ask(node, KR_MSG_FLUSH, &msg, &slice, 1, note_answer);
	wait_until(the_answer.done);
	assert_int_equal(the_answer.err, -EPROTO);
	msg.extents = (struct kr_ranges){ overlapping, 1 };
	slice.length = 100;
	msg.checksum = 1;
	the_answer.done = false;
	node_ask(node, KR_MSG_FLUSH, &msg, &slice, 1, note_answer);
	wait_until(the_answer.done);
	assert_int_equal(the_answer.err, -EBADMSG);
	kr_buf_put(buf);
}

static void fsync_answers_when_all_is_synced(void **state)
{
	static const struct kr_range extents[] = { { 0, 100 } };
	struct node *node = node_start("n1");
	struct kr_fsync_request msg = { .data_only = 1 };

	(void)state;
	msg.file = node->file = create_file(node, "file");
	node->extents = extents;
	node->extent_count = 1;
	node->inlined = true;
	node->generation = 1;
	flush_and_wait(node);
	assert_int_equal(node_call(node, KR_MSG_FSYNC, &msg), 0);
	wait_until(node->stable >= node->flush_reply.round);
}

#ifdef KR_FAULTS
/* Runs the test FILTER of this program again, with FAULT in the environment (it is read once per process). */
static void run_with_fault(const char *filter, const char *fault)
{
	char self[256], command[512];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

	assert_true(length > 0);
	self[length] = 0;
	snprintf(command, sizeof command, "KR_FAULT=%s KR_TEST_FILTER='%s' '%s' > /dev/null 2>&1", fault, filter, self);
	assert_int_equal(system(command), 0);
}
#endif

static void failed_sync_is_told_to_nodes_and_fsync_and_not_forgotten(void **state)
{
#ifdef KR_FAULTS
	static const struct kr_range extents[] = { { 0, 100 } };
	struct kr_fsync_request msg = { .data_only = 1 };
	struct node *node;
	uint64_t lost;

	(void)state;
	if (!getenv("KR_FAULT")) {
		run_with_fault("failed_sync*", "stable.before:eio:1");
		return;
	}
	node = node_start("n1");
	msg.file = node->file = create_file(node, "file");
	node->extents = extents;
	node->extent_count = 1;
	node->inlined = true;
	node->generation = 1;
	flush_and_wait(node);
	lost = node->flush_reply.round;
	assert_int_equal(node_call(node, KR_MSG_FSYNC, &msg), -EIO);
	wait_until(node->unstable == 1);
	assert_int_equal(node_call(node, KR_MSG_FSYNC, &msg), 0);
	assert_true(node->stable < lost);
	flush_and_wait(node);
	assert_int_equal(node_call(node, KR_MSG_FSYNC, &msg), 0);
	wait_until(node->stable >= node->flush_reply.round);
#else
	(void)state;
	skip();
#endif
}

/* --- many nodes ----------------------------------------------------------------------------------------------------- */

enum { RECORD = 3744 * 7 + 13 }; /* nothing is aligned to it */

/* Record r belongs to node r mod NODES: each node's extents of a file of RECORDS records. */
static struct kr_range *stride(size_t nodes, size_t self, size_t records, size_t *ret_count)
{
	struct kr_range *extents = kr_xcalloc(records / nodes + 1, sizeof *extents);
	size_t count = 0;

	for (size_t r = self; r < records; r += nodes)
		extents[count++] = (struct kr_range){ r * RECORD, RECORD };
	*ret_count = count;
	return extents;
}

static size_t stride_nodes;
static unsigned stride_generation[NODES_MAX];

static unsigned in_stride(uint64_t offset)
{
	return stride_generation[offset / RECORD % stride_nodes];
}

static void begin_stride(size_t nodes, size_t records)
{
	for (size_t i = 0; i < nodes; i++) {
		char name[16];
		struct node *node;

		snprintf(name, sizeof name, "n%zu", i + 8); /* n8, n9, n10...: in natural order */
		node = node_start(name);
		node->extents = stride(nodes, i, records, &node->extent_count);
		node->file = i ? F.nodes[0].file : create_file(node, "shared");
		node->generation = 1;
	}
	stride_nodes = nodes;
	memset(stride_generation, 0, sizeof stride_generation);
}

static void end_stride(size_t nodes)
{
	for (size_t i = 0; i < nodes; i++)
		free((void *)(uintptr_t)F.nodes[i].extents);
}

struct written {
	uint64_t number, bytes;
};

static struct written written(void)
{
	json_t *status = kr_data_status(F.server.data), *writes = json_object_get(status, "writes");
	struct written now = { (uint64_t)json_integer_value(json_object_get(writes, "number")),
		(uint64_t)json_integer_value(json_object_get(writes, "bytes")) };

	assert_non_null(writes);
	json_decref(status);
	return now;
}

static size_t asked_and_waiting(void)
{
	struct kr_sfile *file = kr_sfile_find(&F.server, &F.nodes[0].file);
	size_t count = 0;

	for (struct kr_link *link = file->data.rounds.waiting.head.next; link != &file->data.rounds.waiting.head; link = link->next)
		count++;
	return count;
}

static void chained_round_of_strided_writers_is_applied_in_few_large_writes(void **state)
{
	struct written before, after;
	size_t records = 1000;

	(void)state;
	begin_stride(4, records);
	before = written();
	for (size_t i = 0; i < 4; i++) {
		node_flush(&F.nodes[i]);
		stride_generation[i] = 1;
	}
	wait_until(all_flushed());
	after = written();
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(F.nodes[i].flush_err, 0);
	assert_content("shared", records * RECORD, in_stride);
	assert_int_equal(after.bytes - before.bytes, records * RECORD);
	for (size_t i = 0; i < 4; i++)
		wait_until(F.nodes[i].stable >= F.nodes[i].flush_reply.round);
	/* Once more, held until all have asked: all in one round. */
	before = written();
	kr_data_collect_replays(F.server.data, true);
	for (size_t i = 0; i < 4; i++) {
		F.nodes[i].generation = stride_generation[i] = 2;
		node_flush(&F.nodes[i]);
	}
	wait_until(asked_and_waiting() == 4);
	kr_data_collect_replays(F.server.data, false);
	wait_until(all_flushed());
	after = written();
	for (size_t i = 1; i < 4; i++)
		assert_int_equal(F.nodes[i].flush_reply.round, F.nodes[0].flush_reply.round);
	assert_int_equal(F.nodes[0].flush_reply.base_version, 0);
	assert_true(after.number - before.number <= records * RECORD / (2 << 20) + 2);
	assert_content("shared", records * RECORD, in_stride);
	end_stride(4);
}

static void writers_that_flush_together_make_one_round(void **state)
{
	struct kr_lease_request lease = { .kinds = KR_LEASE_WRITE };

	(void)state;
	begin_stride(4, 200);
	lease.file = F.nodes[0].file;
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(node_call(&F.nodes[i], KR_MSG_LEASE, &lease), 0);
		stride_generation[i] = 1;
	}
	for (size_t i = 0; i < 4; i++)
		node_flush(&F.nodes[i]);
	wait_until(all_flushed());
	for (size_t i = 1; i < 4; i++)
		assert_int_equal(F.nodes[i].flush_reply.round, F.nodes[0].flush_reply.round);
	assert_content("shared", 200 * RECORD, in_stride);
	node_flush(&F.nodes[2]); /* who comes alone does not wait for ever */
	wait_until(all_flushed());
	assert_int_equal(F.nodes[2].flush_err, 0);
	end_stride(4);
}

static uint64_t seed;

static unsigned pick(unsigned below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33) % below;
}

/* Writers that flush the same records generation after generation, inline or chained, and die in the middle of streams. */
static void no_byte_is_lost_or_old_when_participants_die_mid_stream(void **state)
{
	enum { WRITERS = 5, RECORDS = 180, GENERATIONS = 40 };
	unsigned deaths = 0, aborts = 0;

	(void)state;
	seed = getenv("KR_TEST_SEED") ? strtoull(getenv("KR_TEST_SEED"), NULL, 10) : 20260;
	begin_stride(WRITERS, RECORDS);
	for (unsigned step = 0; step < GENERATIONS; step++) {
		for (size_t i = 0; i < WRITERS; i++) {
			struct node *node = &F.nodes[i];

			if (step > 0 && pick(4) == 0)
				continue;
			node->generation = ++stride_generation[i];
			node->inlined = pick(4) == 0;
			node->deaths_left = pick(5) == 0;
			node->die_after = pick(60);
			deaths += node->deaths_left;
			node->wants_flush = true;
		}
		/* Some steps flush one by one, some all together. */
		wait_until(all_flushed());
		for (size_t i = 0; i < WRITERS; i++) {
			assert_int_equal(F.nodes[i].flush_err, 0);
			deaths -= F.nodes[i].deaths_left;
			F.nodes[i].deaths_left = 0;
			aborts += F.nodes[i].aborts;
			F.nodes[i].aborts = 0;
		}
		assert_content("shared", RECORDS * RECORD, in_stride);
	}
	assert_true(deaths > 5);
	assert_true(aborts > 5);
	end_stride(WRITERS);
}

static void write_error_reaches_every_participant_and_can_be_retried(void **state)
{
	struct rlimit old, small;
	size_t records = 300;

	(void)state;
	begin_stride(3, records);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = 1 << 20;
	setrlimit(RLIMIT_FSIZE, &small);
	for (size_t i = 0; i < 3; i++) {
		stride_generation[i] = 1;
		node_flush(&F.nodes[i]);
	}
	wait_until(all_flushed());
	setrlimit(RLIMIT_FSIZE, &old);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(F.nodes[i].flush_err, -EFBIG);
		node_flush(&F.nodes[i]);
	}
	wait_until(all_flushed());
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(F.nodes[i].flush_err, 0);
	assert_content("shared", records * RECORD, in_stride);
	end_stride(3);
}

/* --- after a boot --------------------------------------------------------------------------------------------------- */

static void send_replay(struct node *node, uint64_t round, const struct kr_range *extent, unsigned generation)
{
	struct kr_flush_request msg = { .file = node->file, .flags = 1 | 2, .seq = round, .replay_round = round,
		.mtime = node->mtime, .extents = { extent, 1 } };
	struct kr_buf *buf = kr_buf_new(extent->length);
	struct kr_slice slice = { .buf = buf, .length = extent->length };

	buf->length = extent->length;
	fill(buf->data, extent->offset, extent->length, generation);
	msg.checksum = kr_checksum(buf->data, buf->length);
	node_ask(node, KR_MSG_FLUSH, &msg, &slice, 1, flush_answered);
	node->flushing = node->wants_flush = true;
	kr_buf_put(buf);
}

static unsigned after_replays(uint64_t offset)
{
	return offset >= 90 && offset < 95 ? 9 : offset >= 50 && offset < 150 ? 7 : 5;
}

/* As if the machine had gone down: another boot id than the one the state directory remembers. */
static void boot_anew(void)
{
	int dir = open(F.state_path, O_RDONLY | O_DIRECTORY);

	server_stop();
	assert_true(dir >= 0);
	assert_int_equal(kr_write_file(dir, "boot", "0123456789abcdef0123456789abcdef\n", 33, 0600), 0);
	close(dir);
	server_start();
}

static void replays_of_all_nodes_are_applied_by_round_and_before_the_rest(void **state)
{
	static const struct kr_range five = { 0, 120 }, seven = { 50, 100 }, nine = { 90, 5 };
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_fid file = create_file(a, "file");
	struct kr_getattr_request getattr = { .file = file };

	(void)state;
	(void)b;
	boot_anew();
	assert_true(F.server.grace.active);
	server_stop(); /* before anybody is back: the next one goes on waiting for replays */
	server_start();
	assert_true(F.server.grace.active);
	a = node_new("a");
	b = node_new("b");
	for (size_t i = 0; i < 2; i++) {
		F.nodes[i].manual_reclaim = true;
		F.nodes[i].file = file;
		node_begin(&F.nodes[i]);
		wait_until(F.nodes[i].live);
	}
	send_replay(a, 9, &nine, 9);
	send_replay(a, 5, &five, 5);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_false(a->flushed);
	send_replay(b, 7, &seven, 7);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	/* Attributes are asked for in vain until all is replayed. */
	assert_int_equal(node_call(b, KR_MSG_GETATTR, &getattr), 0);
	assert_int_equal(the_answer.reply.getattr_reply.attr.size, 150);
	wait_until(a->flushed && b->flushed);
	assert_false(F.server.grace.active);
	assert_content("file", 150, after_replays);
}

static unsigned five_under_seven(uint64_t offset)
{
	return offset < 50 ? 5 : 7;
}

/* A comes back to a server that has lost its power, and knows only that its round was applied; B has let go of its own. */
static void a_replay_of_what_was_synced_does_not_cover_what_came_later(void **state)
{
	static const struct kr_range five = { 0, 100 }, seven = { 50, 100 };
	struct node *a = node_start("a"), *b = node_start("b");
	uint64_t round;

	(void)state;
	a->file = b->file = create_file(a, "file");
	a->extents = &five;
	b->extents = &seven;
	a->extent_count = b->extent_count = 1;
	a->inlined = b->inlined = true;
	a->generation = 5;
	b->generation = 7;
	flush_and_wait(a);
	round = a->flush_reply.round;
	node_die(a); /* before it was told */
	flush_and_wait(b);
	wait_until(b->stable >= b->flush_reply.round);
	boot_anew();
	for (size_t i = 0; i < 2; i++) {
		F.nodes[i].manual_reclaim = true;
		node_begin(&F.nodes[i]);
		wait_until(F.nodes[i].live);
	}
	a->flushed = false;
	send_replay(a, round, &five, 5);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, 0);
	assert_int_equal(a->flush_reply.round, round);
	assert_true(a->flush_reply.stable);
	assert_content("file", 150, five_under_seven);
}

/* Writing it down takes a sync of its own: only where somebody else could replay. */
static void only_syncs_of_files_with_several_writers_are_noted(void **state)
{
	static const struct kr_range extent = { 0, 100 };
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_fsync_request fsync = { 0 };
	uint64_t floor;

	(void)state;
	F.server.data->inherited = false; /* there was no instance before */
	F.server.data->raised_ns = 0;
	fsync.file = a->file = b->file = create_file(a, "file");
	a->extents = b->extents = &extent;
	a->extent_count = b->extent_count = 1;
	a->inlined = b->inlined = true;
	a->generation = b->generation = 5;
	floor = F.server.data->last_round;
	wait_until(F.server.data->synced.floor.round >= floor);
	for (int i = 0; i < 5; i++) {
		flush_and_wait(a);
		assert_int_equal(node_call(a, KR_MSG_FSYNC, &fsync), 0);
	}
	wait_until(a->stable >= a->flush_reply.round);
	assert_int_equal(F.server.data->synced.lines, 0);
	flush_and_wait(b);
	assert_int_equal(node_call(b, KR_MSG_FSYNC, &fsync), 0);
	assert_true(kr_synced_round(&F.server.data->synced, &a->file) >= b->flush_reply.round);
}

static void reclaim_tells_what_is_applied_and_it_becomes_stable(void **state)
{
	static const struct kr_range extents[] = { { 0, 100 } };
	struct node *node = node_start("n1");
	struct kr_reclaim_request msg = { .kinds = KR_LEASE_WRITE };

	(void)state;
	msg.file = node->file = create_file(node, "file");
	node->extents = extents;
	node->extent_count = 1;
	node->inlined = true;
	node->generation = 42;
	flush_and_wait(node);
	node->manual_reclaim = true;
	node->stable = 0;
	node_die(node);
	node_begin(node);
	wait_until(node->live);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &msg), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.applied_seq, 42);
	assert_int_equal(the_answer.reply.reclaim_reply.applied_round, node->flush_reply.round);
	wait_until(node->stable >= node->flush_reply.round);
}

/* --- reading -------------------------------------------------------------------------------------------------------- */

/* A ring connection of a reader, and what has come over it. */
struct reader {
	struct kr_conn *conn;
	int hello_err;
	bool greeted, closed, ended;
	int err;
	unsigned generation;
	uint64_t blocks, bytes;
};

static void reader_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)conn;
	(void)frame;
}
static void reader_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct reader *reader = kr_conn_context(conn);

	(void)err;
	(void)reason;
	reader->closed = true;
}
static const struct kr_conn_handler reader_handler = { .on_frame = reader_frame, .on_closed = reader_closed };

static void reader_greeted(void *context, int err)
{
	struct reader *reader = context;

	reader->greeted = true;
	reader->hello_err = err;
}

static void reader_open(struct reader *reader, const struct kr_hop_address *hop, const struct node *node)
{
	struct kr_pair_caller self = as_caller(node);
	struct sockaddr_in address;

	memset(reader, 0, sizeof *reader);
	assert_int_equal(uv_ip4_addr("127.0.0.1", hop->port, &address), 0);
	assert_int_equal(kr_conn_connect(&F.loop, (struct sockaddr *)&address, &reader_handler, reader, &reader->conn), 0);
	kr_pair_open(reader->conn, hop, &self, reader_greeted, reader);
	wait_until(reader->greeted);
}

static void reader_close(struct reader *reader)
{
	kr_conn_close(reader->conn, false);
	wait_until(reader->closed);
}

static void pulled(void *context, int err, const void *reply_pointer, struct kr_buf *data, bool more)
{
	struct reader *reader = context;
	const struct kr_pull_reply *reply = reply_pointer;

	if (more) {
		assert_int_equal(kr_checksum(data->data, data->length), reply->checksum);
		for (size_t i = 0; i < data->length; i++)
			assert_int_equal(data->data[i], content(reply->block * KR_BLOCK_SIZE + i, reader->generation));
		reader->blocks++;
		reader->bytes += data->length;
		return;
	}
	reader->ended = true;
	reader->err = err;
}

static void reader_pull(struct reader *reader, const struct kr_fid *file, uint64_t version, const struct kr_range *blocks,
	uint32_t count)
{
	struct kr_pull_request msg = { .file = *file, .version = version, .blocks = { blocks, count } };

	reader->ended = false;
	assert_true(kr_conn_request(reader->conn, KR_MSG_PULL, &msg, NULL, 0, pulled, reader) > 0);
}

static void server_feeds_blocks_of_the_asked_version_only(void **state)
{
	static const struct kr_range extents[] = { { 0, 5000000 } }, all[] = { { 30, 9 }, { 0, 30 } }, none[] = { { 39, 1 } };
	struct node *node = node_start("n1");
	struct kr_join_request join;
	struct kr_hop_address hop;
	struct reader reader, stranger;
	char address[64];

	(void)state;
	node->file = create_file(node, "file");
	node->extents = extents;
	node->extent_count = 1;
	node->generation = 1;
	node->mtime.sec++;
	node->extents = extents;
	flush_and_wait(node);
	assert_int_equal(node->flush_err, 0);
	join = (struct kr_join_request){ .file = node->file, .version = node->flush_reply.attr.version };
	assert_int_equal(node_call(node, KR_MSG_JOIN, &join), 0);
	hop = the_answer.reply.join_reply.upstream;
	assert_int_equal(hop.node, 0);
	assert_int_equal(hop.port, kr_listen_port(&F.server));
	hop.address = address; /* it borrowed */
	reader_open(&reader, &hop, node);
	assert_int_equal(reader.hello_err, 0);
	reader.generation = 1;
	reader_pull(&reader, &node->file, join.version, all, 2);
	wait_until(reader.ended);
	assert_int_equal(reader.err, 0);
	assert_int_equal(reader.blocks, 39);
	assert_int_equal(reader.bytes, 5000000);
	reader_pull(&reader, &node->file, join.version, none, 1);
	wait_until(reader.ended);
	assert_int_equal(reader.err, -EINVAL);
	reader_pull(&reader, &node->file, join.version + 1, all, 2);
	wait_until(reader.ended);
	assert_int_equal(reader.err, -ESTALE);
	hop.ticket[3] ^= 1;
	reader_open(&stranger, &hop, node);
	assert_int_equal(stranger.hello_err, -EKEYREJECTED);
	wait_until(stranger.closed);
	reader_close(&reader);
}

static void reader_that_takes_nothing_holds_up_nobody(void **state)
{
	static const struct kr_range extents[] = { { 0, 64 << 20 } }, all[] = { { 0, 512 } };
	struct node *node = node_start("n1");
	struct kr_join_request join;
	struct kr_hop_address hop;
	struct reader stuck, brisk;

	(void)state;
	node->file = create_file(node, "file");
	node->extents = extents;
	node->extent_count = 1;
	node->generation = 1;
	flush_and_wait(node);
	assert_int_equal(node->flush_err, 0);
	join = (struct kr_join_request){ .file = node->file, .version = node->flush_reply.attr.version };
	assert_int_equal(node_call(node, KR_MSG_JOIN, &join), 0);
	hop = the_answer.reply.join_reply.upstream;
	reader_open(&stuck, &hop, node);
	reader_open(&brisk, &hop, node);
	stuck.generation = brisk.generation = 1;
	kr_conn_pause(stuck.conn);
	for (int i = 0; i < 8; i++)
		reader_pull(&stuck, &node->file, join.version, all, 1);
	reader_pull(&brisk, &node->file, join.version, all, 1);
	wait_until(brisk.ended);
	assert_int_equal(brisk.err, 0);
	assert_int_equal(brisk.blocks, 512);
	assert_true(kr_buf_bytes_in_use() < 64 << 20);
	reader_close(&stuck);
	reader_close(&brisk);
}

static uint32_t upstream_at_join(struct node *node)
{
	struct kr_join_request join = { .file = F.nodes[0].file, .version = 1 };

	assert_int_equal(node_call(node, KR_MSG_JOIN, &join), 0);
	return the_answer.reply.join_reply.upstream.node;
}

static void pipeline_names_upstreams_as_members_come_and_go(void **state)
{
	struct node *n1 = node_start("n1"), *n2 = node_start("n2"), *n3 = node_start("n3");
	struct kr_reparent_request reparent;
	struct kr_leave_request leave;
	uint8_t secret[KR_SECRET];

	(void)state;
	reparent.file = leave.file = n1->file = create_file(n1, "file");
	for (size_t i = 0; i < 3; i++) {
		struct kr_lease_request lease = { .file = n1->file, .kinds = KR_LEASE_READ };

		assert_int_equal(upstream_at_join(&F.nodes[i]), 0); /* not a member: it has no READ */
		assert_int_equal(node_call(&F.nodes[i], KR_MSG_LEASE, &lease), 0);
	}
	assert_int_equal(upstream_at_join(n1), 0);
	assert_int_equal(upstream_at_join(n3), n1->number);
	assert_int_equal(upstream_at_join(n2), n1->number);
	wait_until(n3->upstreams == 1);
	assert_int_equal(n3->upstream.node, n2->number);
	assert_int_equal(n3->upstream.port, n2->ring_port);
	/* The secret of the pair: both can make it, n3 with its own key only. */
	kr_pair_secret(n2->ring_key, n3->session, n3->number, secret);
	kr_pair_mask(n3->ring_key, n3->upstream.session, n2->number, n3->upstream.ticket);
	assert_memory_equal(n3->upstream.ticket, secret, sizeof secret);
	reparent.node = n2->number;
	assert_int_equal(node_call(n3, KR_MSG_REPARENT, &reparent), 0);
	assert_int_equal(the_answer.reply.reparent_reply.upstream.node, n1->number);
	node_die(n2); /* its session is replaced */
	node_begin(n2);
	wait_until(n2->live);
	assert_int_equal(node_call(n1, KR_MSG_LEAVE, &leave), 0);
	wait_until(n3->upstreams >= 2);
	assert_int_equal(n3->upstream.node, 0);
	assert_int_equal(n3->upstream.port, kr_listen_port(&F.server));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(inline_flush_is_applied_with_its_mtime_and_becomes_stable),
		TEST(base_version_is_what_the_former_flush_left),
		TEST(earlier_write_does_not_turn_the_mtime_back_but_a_hand_does),
		TEST(bad_inline_flushes_are_refused),
		TEST(fsync_answers_when_all_is_synced),
		TEST(failed_sync_is_told_to_nodes_and_fsync_and_not_forgotten),
		TEST(chained_round_of_strided_writers_is_applied_in_few_large_writes),
		TEST(writers_that_flush_together_make_one_round),
		TEST(no_byte_is_lost_or_old_when_participants_die_mid_stream),
		TEST(write_error_reaches_every_participant_and_can_be_retried),
		TEST(replays_of_all_nodes_are_applied_by_round_and_before_the_rest),
		TEST(a_replay_of_what_was_synced_does_not_cover_what_came_later),
		TEST(only_syncs_of_files_with_several_writers_are_noted),
		TEST(reclaim_tells_what_is_applied_and_it_becomes_stable),
		TEST(server_feeds_blocks_of_the_asked_version_only),
		TEST(reader_that_takes_nothing_holds_up_nobody),
		TEST(pipeline_names_upstreams_as_members_come_and_go),
	};

	signal(SIGPIPE, SIG_IGN);
	setenv("UV_THREADPOOL_SIZE", "16", 1);
	kr_log_init("test", getenv("KR_TEST_VERBOSE") ? KR_LOG_DEBUG : KR_LOG_ERROR);
	if (getenv("KR_TEST_FILTER"))
		cmocka_set_test_filter(getenv("KR_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}

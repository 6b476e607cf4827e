/* Flush rounds of simulated nodes at the server: alone and in chains whose participants die.  Every file is compared
 * byte for byte. */
#include "test/unit/effort.h"
#include "test/unit/server/flush/data_fixture.h"

#include <sys/resource.h>

#include "server/flush/data_state.h"
#include "server/leases/file_table.h"

/* --- one node --------------------------------------------------------------------------------- */

static unsigned in_three_extents(uint64_t offset)
{
	return (offset >= 3 && offset < 10) || (offset >= 10 && offset < 4000) || offset >= 100000;
}

static void inline_flush_is_applied_with_its_mtime_and_becomes_stable(void **state)
{
	static const struct kr_range extents[] = {{3, 7}, {10, 3990}, {100000, 5}};
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
	static const struct kr_range extents[] = {{0, 100}};
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
	static const struct kr_range extents[] = {{0, 100}};
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
	kr_data_mtime_set(file, (struct kr_time){.sec = 5});
	flush_and_wait(node);
	assert_int_equal(node->flush_reply.attr.mtime.sec, 1000000000 - 10);
	node_flush(node);
	kr_data_mtime_set(file, (struct kr_time){.sec = 77});
	wait_until(node->flushed);
	kr_sfile_put(file);
}

static void bad_inline_flushes_are_refused(void **state)
{
	static const struct kr_range overlapping[] = {{0, 100}, {99, 10}};
	struct node *node = node_start("n1");
	struct kr_flush_request msg = {.flags = 1, .extents = {overlapping, 2}};
	struct kr_buf *buf = kr_buf_new(110);
	struct kr_slice slice = {.buf = buf, .length = 110};

	(void)state;
	buf->length = 110;
	memset(buf->data, 1, 110);
	msg.file = create_file(node, "file");
	the_answer.done = false;
	node_ask(node, KR_MSG_FLUSH, &msg, &slice, 1, note_answer);
	wait_until(the_answer.done);
	assert_int_equal(the_answer.err, -EPROTO);
	msg.extents = (struct kr_ranges){overlapping, 1};
	slice.length = 100;
	the_answer.done = false;
	node_ask(node, KR_MSG_FLUSH, &msg, &slice, 1, note_answer);
	wait_until(the_answer.done);
	assert_int_equal(the_answer.err, -EAGAIN); /* without WRITE */
	node_hold(node, &msg.file);
	msg.extents = (struct kr_ranges){overlapping, 2};
	slice.length = 110;
	the_answer.done = false;
	node_ask(node, KR_MSG_FLUSH, &msg, &slice, 1, note_answer);
	wait_until(the_answer.done);
	assert_int_equal(the_answer.err, -EPROTO);
	msg.extents = (struct kr_ranges){overlapping, 1};
	slice.length = 100;
	msg.checksum = 1;
	the_answer.done = false;
	node_ask(node, KR_MSG_FLUSH, &msg, &slice, 1, note_answer);
	wait_until(the_answer.done);
	assert_int_equal(the_answer.err, -EBADMSG);
	kr_buf_put(buf);
}

/* The disk is slow: what a node has flushed is written when its session is long over, and another one reads the file.
 */
static void what_is_written_for_a_lost_node_takes_the_leases_of_those_who_read_before(void **state)
{
	static const struct kr_range extent = {0, 5000};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_session *reader;
	struct kr_sfile *file;

	(void)state;
	a->file = create_file(a, "file");
	b->file = create_file(b, "other");
	a->extents = b->extents = &extent;
	a->extent_count = b->extent_count = 1;
	a->inlined = b->inlined = true;
	file = kr_sfile_get(&F.server, &a->file);
	F.server.data->applies.limit = 0;
	node_flush(a);
	wait_until(file->data->rounds.state == KR_ROUND_INLINE);
	kr_session_end(kr_session_find(&F.server, a->session), KR_SESSION_LOST);
	wait_until(a->flushed);
	reader = kr_session_find(&F.server, b->session);
	assert_int_equal(kr_leases_try(file, reader, KR_LEASE_READ), KR_LEASE_READ);
	kr_leases_announced(file, reader);
	F.server.data->applies.limit = KR_DATA_APPLIES;
	flush_and_wait(b); /* a job that ends starts those that wait */
	wait_until(file->data->rounds.state == KR_ROUND_IDLE);
	wait_until(b->recalls == 1);
	kr_sfile_put(file);
}

/* --- many nodes ------------------------------------------------------------------------------- */

enum { RECORD = 3744 * 7 + 13 }; /* nothing is aligned to it */

/* Record r belongs to node r mod NODES: each node's extents of a file of RECORDS records. */
static struct kr_range *stride(size_t nodes, size_t self, size_t records, size_t *ret_count)
{
	struct kr_range *extents = kr_xcalloc(records / nodes + 1, sizeof *extents);
	size_t count = 0;

	for (size_t r = self; r < records; r += nodes)
		extents[count++] = (struct kr_range){r * RECORD, RECORD};
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
	struct written now = {(uint64_t)json_integer_value(json_object_get(writes, "number")),
		(uint64_t)json_integer_value(json_object_get(writes, "bytes"))};

	assert_non_null(writes);
	json_decref(status);
	return now;
}

static size_t asked_and_waiting(void)
{
	struct kr_sfile *file = kr_sfile_find(&F.server, &F.nodes[0].file);
	size_t count = 0;

	for (struct kr_link *link = file->data->rounds.waiting.head.next; link != &file->data->rounds.waiting.head;
		link = link->next)
		count++;
	return count;
}

static void hold_rounds(bool hold)
{
	struct kr_sfile *file = kr_sfile_find(&F.server, &F.nodes[0].file);

	file->data->commit.rewriting = hold;
	kr_flush_update_hold_of(file);
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
	hold_rounds(true);
	for (size_t i = 0; i < 4; i++) {
		F.nodes[i].generation = stride_generation[i] = 2;
		node_flush(&F.nodes[i]);
	}
	wait_until(asked_and_waiting() == 4);
	hold_rounds(false);
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
	struct kr_lease_request lease = {.kinds = KR_LEASE_WRITE};

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

/* Writers that flush the same records generation after generation, inline or chained, and die in the middle of streams.
 */
static void no_byte_is_lost_or_old_when_participants_die_mid_stream(void **state)
{
	enum { WRITERS = 5, RECORDS = 180, GENERATIONS = KR_EFFORT(40, 20) };
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
	assert_true(deaths > GENERATIONS / 8);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(inline_flush_is_applied_with_its_mtime_and_becomes_stable),
		TEST(base_version_is_what_the_former_flush_left),
		TEST(earlier_write_does_not_turn_the_mtime_back_but_a_hand_does),
		TEST(bad_inline_flushes_are_refused),
		TEST(what_is_written_for_a_lost_node_takes_the_leases_of_those_who_read_before),
		TEST(chained_round_of_strided_writers_is_applied_in_few_large_writes),
		TEST(writers_that_flush_together_make_one_round),
		TEST(no_byte_is_lost_or_old_when_participants_die_mid_stream),
		TEST(write_error_reaches_every_participant_and_can_be_retried),
	};

	prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

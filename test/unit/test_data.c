/* Flush rounds of simulated nodes at the server: alone and in chains whose participants die.  Every file is compared byte for byte. */
#include "test/unit/data_fixture.h"

#include <sys/resource.h>

#include "server/data_priv.h"
#include "server/files.h"

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

/* The disk is slow: what a node has flushed is written when its session is long over, and another one reads the file. */
static void what_is_written_for_a_lost_node_takes_the_leases_of_those_who_read_before(void **state)
{
	static const struct kr_range extent = { 0, 5000 };
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
	wait_until(file->data.rounds.state == KR_ROUND_INLINE);
	kr_session_end(kr_session_find(&F.server, a->session), KR_SESSION_LOST);
	wait_until(a->flushed);
	reader = kr_session_find(&F.server, b->session);
	assert_int_equal(kr_leases_try(file, reader, KR_LEASE_READ), KR_LEASE_READ);
	kr_leases_announced(file, reader);
	F.server.data->applies.limit = KR_DATA_APPLIES;
	flush_and_wait(b); /* a job that ends starts those that wait */
	wait_until(file->data.rounds.state == KR_ROUND_IDLE);
	wait_until(b->recalls == 1);
	kr_sfile_put(file);
}

static void fsync_answers_when_all_is_synced(void **state)
{
	static const struct kr_range extents[] = { { 0, 100 } };
	struct node *node = node_start("n1");
	struct kr_fsync_request msg = { .flags = KR_FSYNC_DATA };

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
static int run(const char *filter, const char *fault)
{
	char self[256], command[512];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

	assert_true(length > 0);
	self[length] = 0;
	snprintf(command, sizeof command, "KR_FAULT=%s KR_TEST_FILTER='%s' timeout -s KILL 300 '%s' > /dev/null 2>&1", fault, filter, self);
	return system(command);
}

static void run_with_fault(const char *filter, const char *fault)
{
	assert_int_equal(run(filter, fault), 0);
}

/* ... whoever passes POINT is held there until the test says let_go. */
static void run_with_hold(const char *filter, const char *point)
{
	char path[] = "/tmp/kairan-hold-XXXXXX", fault[64];
	int fd = mkstemp(path), status;

	assert_true(fd >= 0);
	dprintf(fd, "%s:hold", point);
	close(fd);
	snprintf(fault, sizeof fault, "@%s", path);
	status = run(filter, fault);
	unlink(path); /* a test that has failed has not let go */
	assert_int_equal(status, 0);
}

static void let_go(void)
{
	assert_int_equal(unlink(getenv("KR_FAULT") + 1), 0);
}
#endif

static void failed_sync_is_told_to_nodes_and_fsync_and_not_forgotten(void **state)
{
#ifdef KR_FAULTS
	static const struct kr_range extents[] = { { 0, 100 } };
	struct kr_fsync_request msg = { .flags = KR_FSYNC_DATA };
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

/* A node with 100 bytes in a round that is not synced. */
static struct node *node_with_a_round(void)
{
	static const struct kr_range extents[] = { { 0, 100 } };
	struct node *node = node_start("n1");

	node->file = create_file(node, "file");
	node->extents = extents;
	node->extent_count = 1;
	node->inlined = true;
	node->generation = 1;
	flush_and_wait(node);
	return node;
}

enum { SET_SIZE = 8, OPEN_TRUNC = 1 | 4 }; /* as in server/export.h */
/* The ways to take all bytes away. */
static int cut_by(struct node *node, unsigned way)
{
	struct kr_setattr_request setattr = { .valid = SET_SIZE, .file = node->file };
	struct kr_open_request open = { .file = node->file, .flags = OPEN_TRUNC };
	struct kr_create_request create = { .parent = node->root, .name = "file", .mode = S_IFREG | 0644, .flags = OPEN_TRUNC };
	struct kr_fallocate_request punch = { .file = node->file, .mode = 3, .length = 100 };

	switch (way) {
	case 0:
		return node_call(node, KR_MSG_SETATTR, &setattr);
	case 1:
		return node_call(node, KR_MSG_OPEN, &open);
	case 2:
		return node_call(node, KR_MSG_CREATE, &create);
	default:
		return node_call(node, KR_MSG_FALLOCATE, &punch);
	}
}
enum { CUTS = 4, PUNCH = 3 };

static uint64_t syncs_of(struct node *node, unsigned way)
{
	uint64_t before = F.server.data->counters.syncs;

	assert_int_equal(cut_by(node, way), 0);
	return F.server.data->counters.syncs - before;
}

static void what_no_journal_has_is_synced_before_it_is_answered(void **state)
{
	struct kr_fsync_request fsync = { 0 };
	struct kr_copy_request copy = { .length = 1000 };
	struct node *node = node_with_a_round();
	uint64_t before;

	(void)state;
	F.server.data->inherited = false; /* there was no instance before, so nobody else has a round */
	F.server.data->raised_ns = 0;
	wait_until(F.server.data->synced.floor.round >= node->flush_reply.round);
	fsync.file = copy.from = node->file;
	for (unsigned way = 0; way < CUTS; way++) {
		flush_and_wait(node);
		assert_int_equal(node_call(node, KR_MSG_FSYNC, &fsync), 0);
		assert_int_equal(syncs_of(node, way), 1);
		if (way != PUNCH)
			assert_int_equal(syncs_of(node, way), 0); /* there is nothing to cut any more */
	}
	copy.to = create_file(node, "copy");
	before = F.server.data->counters.syncs;
	assert_int_equal(node_call(node, KR_MSG_COPY, &copy), 0);
	assert_int_equal(F.server.data->counters.syncs, before + 1);
	copy.from_offset = 100;
	assert_int_equal(node_call(node, KR_MSG_COPY, &copy), 0);
	assert_int_equal(F.server.data->counters.syncs, before + 1); /* nothing was copied */
}

static uint64_t server_size(const char *name)
{
	size_t length;

	free(server_bytes(name, &length));
	return length;
}

static unsigned generation_1(uint64_t offset)
{
	(void)offset;
	return 1;
}

/* Else the node, which has its bytes still, would bring them into what was cut. */
static void what_cannot_be_synced_first_is_not_cut(void **state)
{
#ifdef KR_FAULTS
	const char *way = getenv("KR_TEST_WAY");
	char digit[2] = "0";
	struct node *node;

	(void)state;
	for (; !way && digit[0] < '0' + CUTS; digit[0]++) {
		setenv("KR_TEST_WAY", digit, 1);
		run_with_fault("what_cannot_be_synced_first*", "stable.before:eio:1");
	}
	unsetenv("KR_TEST_WAY");
	if (!way)
		return;
	node = node_with_a_round();
	assert_int_equal(cut_by(node, (unsigned)(way[0] - '0')), -EIO);
	wait_until(node->unstable == 1);
	assert_content("file", 100, generation_1);
	flush_and_wait(node); /* it is brought again, and goes in */
	assert_int_equal(cut_by(node, (unsigned)(way[0] - '0')), 0);
	assert_true(node->stable >= node->flush_reply.round);
	assert_int_equal(server_size("file"), way[0] == '0' + PUNCH ? 100 : 0);
#else
	(void)state;
	skip();
#endif
}

/* The sync had failed before anybody asked for a cut. */
static void what_nodes_are_to_bring_again_is_not_cut_before_they_have(void **state)
{
#ifdef KR_FAULTS
	const char *way = getenv("KR_TEST_WAY");
	struct node *node, *other;
	char digit[2] = "0";

	(void)state;
	for (; !way && digit[0] < '0' + CUTS; digit[0]++) {
		setenv("KR_TEST_WAY", digit, 1);
		run_with_fault("what_nodes_are_to_bring_again*", "stable.before:eio:1");
	}
	unsetenv("KR_TEST_WAY");
	if (!way)
		return;
	other = node_start("n2");
	node = node_with_a_round();
	other->file = node->file;
	node->dirty = true;
	wait_until(node->unstable == 1);
	assert_int_equal(cut_by(other, (unsigned)(way[0] - '0')), -EIO);
	assert_content("file", 100, generation_1);
	flush_and_wait(node);
	node->dirty = false;
	assert_int_equal(cut_by(other, (unsigned)(way[0] - '0')), 0);
	assert_int_equal(server_size("file"), way[0] == '0' + PUNCH ? 100 : 0);
	assert_int_equal(node->queries, 2);
	assert_int_equal(other->queries, 0);
	assert_true(syncs_of(other, (unsigned)(way[0] - '0')) < 3);
	assert_int_equal(node->queries, 2); /* it owes nothing any more */
#else
	(void)state;
	skip();
#endif
}

/* It will be late. */
static void what_a_lost_node_was_to_bring_again_is_not_waited_for(void **state)
{
#ifdef KR_FAULTS
	struct node *node, *other;

	(void)state;
	if (!getenv("KR_FAULT")) {
		run_with_fault("what_a_lost_node*", "stable.before:eio:1");
		return;
	}
	other = node_start("n2");
	node = node_with_a_round();
	other->file = node->file;
	node->dirty = true;
	wait_until(node->unstable == 1);
	node_die(node);
	node_begin(node); /* its next session has what the first had */
	wait_until(node->live);
	assert_int_equal(cut_by(other, 0), -EIO);
	kr_session_end(kr_session_find(&F.server, node->session), KR_SESSION_LOST);
	assert_int_equal(cut_by(other, 0), 0);
	assert_int_equal(node->queries, 1);
#else
	(void)state;
	skip();
#endif
}

static void obstruct_synced(bool obstruct)
{
	char path[96];

	snprintf(path, sizeof path, "%s/synced.new", F.state_path);
	assert_int_equal(obstruct ? mkdir(path, 0700) : rmdir(path), 0);
	F.server.data->synced.rewrite = true;
}

/* Else what another node knows to be applied would come back with its replays after a crash. */
static void what_cannot_be_written_down_as_synced_is_not_cut(void **state)
{
	struct node *other = node_start("n2"), *node = node_with_a_round();

	(void)state;
	other->file = node->file;
	obstruct_synced(true);
	for (unsigned way = 0; way < CUTS; way++) {
		assert_int_not_equal(cut_by(other, way), 0);
		assert_content("file", 100, generation_1);
	}
	obstruct_synced(false);
	assert_int_equal(cut_by(other, 0), 0);
	assert_int_equal(server_size("file"), 0);
}

static void what_was_asked_in_a_session_that_has_ended_is_not_cut(void **state)
{
#ifdef KR_FAULTS
	struct kr_setattr_request setattr = { .valid = SET_SIZE };
	struct kr_fsync_request fsync = { 0 };
	struct node *node;

	(void)state;
	if (!getenv("KR_FAULT")) {
		run_with_hold("what_was_asked_in_a_session*", "stable.before");
		return;
	}
	node = node_with_a_round();
	fsync.file = setattr.file = node->file;
	node_ask(node, KR_MSG_SETATTR, &setattr, NULL, 0, note_answer);
	wait_until(kr_sfile_find(&F.server, &node->file)->data.stable.running);
	node_die(node);
	node_begin(node); /* a session that takes the place of the first */
	wait_until(node->live);
	assert_true(kr_sfile_find(&F.server, &node->file)->data.stable.running);
	let_go();
	assert_int_equal(node_call(node, KR_MSG_FSYNC, &fsync), 0);
	assert_int_equal(server_size("file"), 100);
#else
	(void)state;
	skip();
#endif
}

static void a_cut_that_may_not_last_is_an_error_and_brings_nothing_back(void **state)
{
#ifdef KR_FAULTS
	const char *way = getenv("KR_TEST_WAY");
	char digit[2] = "0";
	struct kr_sfile *file;
	struct node *node;

	(void)state;
	for (; !way && digit[0] < '0' + CUTS; digit[0]++) {
		setenv("KR_TEST_WAY", digit, 1);
		run_with_fault("a_cut_that_may_not_last*", "stable.before:eio:2");
	}
	unsetenv("KR_TEST_WAY");
	if (!way)
		return;
	node = node_with_a_round();
	file = kr_sfile_get(&F.server, &node->file);
	assert_int_equal(cut_by(node, (unsigned)(way[0] - '0')), -EIO);
	assert_true(node->stable >= node->flush_reply.round); /* it has let go of them */
	assert_int_equal(node->unstable, 0);
	assert_int_equal(server_size("file"), way[0] == '0' + PUNCH ? 100 : 0);
	wait_until(file->opens == 1); /* by create_file */
	assert_true(syncs_of(node, (unsigned)(way[0] - '0')) > 0); /* also where there is nothing to cut any more */
	kr_sfile_put(file);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(inline_flush_is_applied_with_its_mtime_and_becomes_stable),
		TEST(base_version_is_what_the_former_flush_left),
		TEST(earlier_write_does_not_turn_the_mtime_back_but_a_hand_does),
		TEST(bad_inline_flushes_are_refused),
		TEST(what_is_written_for_a_lost_node_takes_the_leases_of_those_who_read_before),
		TEST(fsync_answers_when_all_is_synced),
		TEST(failed_sync_is_told_to_nodes_and_fsync_and_not_forgotten),
		TEST(what_no_journal_has_is_synced_before_it_is_answered),
		TEST(what_cannot_be_synced_first_is_not_cut),
		TEST(what_nodes_are_to_bring_again_is_not_cut_before_they_have),
		TEST(what_a_lost_node_was_to_bring_again_is_not_waited_for),
		TEST(what_cannot_be_written_down_as_synced_is_not_cut),
		TEST(what_was_asked_in_a_session_that_has_ended_is_not_cut),
		TEST(a_cut_that_may_not_last_is_an_error_and_brings_nothing_back),
		TEST(chained_round_of_strided_writers_is_applied_in_few_large_writes),
		TEST(writers_that_flush_together_make_one_round),
		TEST(no_byte_is_lost_or_old_when_participants_die_mid_stream),
		TEST(write_error_reaches_every_participant_and_can_be_retried),
	};

	prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

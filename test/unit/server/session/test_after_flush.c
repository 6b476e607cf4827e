/* What a node sends right behind a FLUSH, at a server whose rounds are held up: it is carried out after that, in
 * whatever way that ends. */
#include "test/unit/server/flush/data_fixture.h"

#include <sys/resource.h>

#include "server/flush/data_state.h"
#include "server/leases/file_table.h"

static const struct kr_range EXTENTS[] = {{0, 100}};

enum { TOUCHED = 1234567890, SET_MODE = 1, SET_MTIME = 32, SET_BEHIND = 1024 /* msgs.def */ };

static struct answers {
	unsigned order;                  /* how many have been answered */
	unsigned fence, synced, changed; /* the how-manieth it was; 0: not answered */
	int synced_err, changed_err;
	bool flushed_before_synced, flushed_before_changed;
} A;

static void fence_answered(struct node *node, int err, const void *reply)
{
	(void)node, (void)reply;
	assert_int_equal(err, 0);
	A.fence = ++A.order;
}

static void sync_answered(struct node *node, int err, const void *reply)
{
	(void)reply;
	A.synced = ++A.order;
	A.synced_err = err;
	A.flushed_before_synced = node->flushed;
}

static void change_answered(struct node *node, int err, const void *reply)
{
	(void)reply;
	A.changed = ++A.order;
	A.changed_err = err;
	A.flushed_before_changed = node->flushed;
}

/* A node whose FLUSH is held up at the server, with an FSYNC and a SETATTR of mode and mtime behind it. */
static struct node *begin(struct kr_sfile **ret_file)
{
	struct node *node = node_start("n1");
	struct kr_fsync_request sync = {.flags = KR_FSYNC_BEHIND};
	struct kr_setattr_request change = {
		.valid = SET_MODE | SET_MTIME | SET_BEHIND, .mode = 0600, .mtime.sec = TOUCHED};
	struct kr_getattr_request fence;

	memset(&A, 0, sizeof A);
	fence.file = sync.file = change.file = node->file = create_file(node, "file");
	*ret_file = kr_sfile_get(&F.server, &node->file);
	node->extents = EXTENTS;
	node->extent_count = 1;
	node->inlined = true;
	node->generation = 1;
	F.server.data->applies.limit = 0;
	node_flush(node);
	node_ask(node, KR_MSG_FSYNC, &sync, NULL, 0, sync_answered);
	node_ask(node, KR_MSG_SETATTR, &change, NULL, 0, change_answered);
	node_ask(node, KR_MSG_GETATTR, &fence, NULL, 0,
		fence_answered); /* frames are in order: what could be answered at once has been begun */
	wait_until(A.fence);
	assert_int_equal(A.order, 1);
	assert_false(node->flushed);
	return node;
}

static void do_nothing(struct kr_pool_share_job *job)
{
	(void)job;
}

static void release(void)
{
	static struct kr_pool_share_job job;

	F.server.data->applies.limit = KR_DATA_APPLIES;
	kr_pool_share_start(&F.server.data->applies, &job, do_nothing, do_nothing); /* what waits goes first */
}

static struct stat look(void)
{
	char path[160];
	struct stat st;

	snprintf(path, sizeof path, "%s/file", F.export_path);
	assert_int_equal(stat(path, &st), 0);
	return st;
}

static void they_are_carried_out_when_it_has_been_answered(void **state)
{
	struct kr_sfile *file;
	struct node *node = begin(&file);

	(void)state;
	release();
	wait_until(A.synced && A.changed);
	assert_true(A.flushed_before_synced && A.flushed_before_changed);
	assert_int_equal(node->flush_err, 0);
	assert_int_equal(A.synced_err, 0);
	assert_int_equal(A.changed_err, 0);
	assert_int_equal(look().st_size, 100);
	assert_int_equal(look().st_mtim.tv_sec, TOUCHED);
	assert_int_equal(look().st_mode & 07777, 0600);
	kr_sfile_put(file);
}

static void a_change_is_not_made_when_it_fails_and_a_sync_is(void **state)
{
	struct kr_sfile *file;
	struct node *node = begin(&file);
	struct rlimit old, small;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = 0;
	setrlimit(RLIMIT_FSIZE, &small);
	release();
	wait_until(A.synced && A.changed);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(node->flush_err, -EFBIG);
	assert_int_equal(A.changed_err, -EAGAIN);
	assert_int_equal(A.synced_err, 0);
	assert_int_equal(look().st_mode & 07777, 0644);
	kr_sfile_put(file);
}

static void they_end_with_their_session(void **state)
{
	struct kr_sfile *file;
	struct node *node = begin(&file);

	(void)state;
	kr_session_end(kr_session_find(&F.server, node->session), KR_SESSION_LOST);
	wait_until(A.synced && A.changed);
	release();
	assert_int_equal(A.synced_err, -ECONNRESET);
	assert_int_equal(A.changed_err, -ECONNRESET);
	assert_int_equal(look().st_mode & 07777, 0644);
	kr_sfile_put(file);
}

static void an_interrupted_one_waits_no_longer(void **state)
{
	struct kr_sfile *file;
	struct node *node = begin(&file);
	struct kr_session *session = kr_session_find(&F.server, node->session);
	struct kr_request *flush = KR_LIST_ENTRY(session->flushes.head.next, struct kr_request, after_flush.of_flushes);
	struct kr_request *sync = KR_LIST_ENTRY(flush->after_flush.waiting.head.next, struct kr_request, wait);
	struct kr_cancel_request cancel = {.request = sync->id};

	(void)state;
	assert_int_equal(node_call(node, KR_MSG_CANCEL, &cancel), 0);
	wait_until(A.synced);
	assert_int_equal(A.synced_err, -EINTR);
	release();
	wait_until(A.changed);
	assert_int_equal(A.changed_err, 0);
	kr_sfile_put(file);
}

static void without_one_they_do_not_wait(void **state)
{
	struct node *node = node_start("n1");
	struct kr_fsync_request sync = {.flags = KR_FSYNC_DATA | KR_FSYNC_BEHIND};
	struct kr_setattr_request change = {.valid = SET_MODE | SET_BEHIND, .mode = 0600};

	(void)state;
	sync.file = change.file = create_file(node, "file");
	assert_int_equal(node_call(node, KR_MSG_FSYNC, &sync), 0);
	assert_int_equal(node_call(node, KR_MSG_SETATTR, &change), 0);
	assert_int_equal(look().st_mode & 07777, 0600);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(they_are_carried_out_when_it_has_been_answered),
		TEST(a_change_is_not_made_when_it_fails_and_a_sync_is),
		TEST(they_end_with_their_session),
		TEST(an_interrupted_one_waits_no_longer),
		TEST(without_one_they_do_not_wait),
	};

	prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

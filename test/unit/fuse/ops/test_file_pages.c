/* The kernel's pages of a file: who opens it for storing waits until they have gone; what is dropped, and by which
 * threads. */
#include "fuse/ops/op_file.h"
#include "test/unit/fuse/file/file_fixture.h"

#include <fcntl.h>

#include "fuse/file/file_priv.h"
#include "fuse/file/locks.h"
#include "fuse/names/attr_cache.h"
#include "fuse/base/options.h"
#include "fuse/readcache/cache.h"
#include "fuse/session/session.h"

static const struct kr_attr attr = {.ino = 1, .size = 100000, .ctime.sec = 1000};

/* --- the kernel: one request ------------------------------------------------------------------ */

static struct fuse_ctx caller;
static struct fuse_req *const request = (struct fuse_req *)(void *)&caller;
static struct {
	unsigned opened;
	struct fuse_file_info fi;
} kernel;

void *fuse_req_userdata(fuse_req_t req)
{
	assert_ptr_equal(req, request);
	return &mount;
}
const struct fuse_ctx *fuse_req_ctx(fuse_req_t req)
{
	assert_ptr_equal(req, request);
	return &caller;
}
void fuse_req_interrupt_func(fuse_req_t req, fuse_interrupt_func_t func, void *data)
{
	assert_ptr_equal(req, request);
	(void)func, (void)data;
}
bool kr_shim_direct_io_mmap(void)
{
	return true;
}
int kr_shim_reply_open(fuse_req_t req, struct fuse_file_info *fi)
{
	assert_ptr_equal(req, request);
	kernel.opened++;
	kernel.fi = *fi;
	return 0;
}
void kr_inode_fid(struct kr_inodes *inodes, uint64_t number, struct kr_fid *ret_fid)
{
	(void)inodes;
	assert_int_equal(number, 42);
	*ret_fid = fid;
}
void kr_locks_release_handle(struct kr_file *file, const struct kr_handle *handle)
{
	(void)file, (void)handle;
}
/* --- the session and the cache ----------------------------------------------------------------- */

static struct kr_session_facts facts;
static uint64_t cached_version;

const struct kr_session_facts *kr_session_facts(const struct kr_session *session)
{
	(void)session;
	return &facts;
}
bool kr_cache_may_have(struct kr_cache *cache, const struct kr_fid *cached, uint64_t version, uint64_t block)
{
	(void)cache, (void)block;
	return kr_fid_equal(cached, &fid) && version == cached_version;
}

/* --- helpers ---------------------------------------------------------------------------------- */

static int setup_two(void **state)
{
	static struct kr_mount_options options;

	memset(&kernel, 0, sizeof(kernel));
	cached_version = 0;
	if (setup(state))
		return -1;
	mount.options = &options;
	mount.attr_cache = kr_attr_cache_new();
	kr_list_init(&mount.ops.all);
	/* Never looked into here. */
	mount.notifier = (struct kr_notifier *)(void *)&options;
	mount.shrink_notifier = (struct kr_notifier *)(void *)&kernel;
	return 0;
}

static int teardown_two(void **state)
{
	kr_attr_cache_free(mount.attr_cache);
	return teardown(state);
}

/* With READ, and pages that have come under it. */
static struct kr_file *file_with_pages(void)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	obtain(file, KR_LEASE_READ, &attr);
	pthread_mutex_lock(&file->lock);
	kr_lease_state_cached(&file->holder);
	pthread_mutex_unlock(&file->lock);
	return file;
}

static void drop_ends(void)
{
	struct kr_notify_job *job = fake.job;

	assert_non_null(job);
	fake.job = NULL;
	job->done(job, 0);
	turn();
}

/* --- tests ------------------------------------------------------------------------------------ */

/* turn() ends: nothing wakes itself again and again. */
static void who_opens_for_storing_waits_until_older_pages_have_gone(void **state)
{
	struct kr_open_reply opened = {.attr = attr, .granted = KR_LEASE_ALL};
	struct fuse_file_info fi = {.flags = O_RDWR};
	struct kr_file *file = file_with_pages();

	(void)state;
	kr_op_open(request, 42, &fi);
	turn();
	reply(last_call(KR_MSG_OPEN), 0, &opened);
	assert_int_equal(kernel.opened, 0);
	assert_ptr_equal(fake.notifier, mount.notifier);
	drop_ends();
	assert_int_equal(kernel.opened, 1);
	assert_int_equal(file->pages.mappable, 1);
	kr_handle_release(kr_handle_of(&kernel.fi));
	turn();
	reply(last_call(KR_MSG_CLOSE), 0, NULL);
	kr_file_put(file);
}

/* Each of them is locked, and the invalidation would wait for it. */
static void pages_that_many_reads_wait_for_are_left_out(void **state)
{
	enum { READS = 100, STEP = 10000 };
	static struct kr_parked_io reads[READS];
	struct kr_file *file = file_with_pages();

	(void)state;
	for (unsigned i = 0; i < READS; i++) {
		reads[i] = (struct kr_parked_io){.offset = (uint64_t)i * STEP, .length = 4096, .page = true};
		kr_list_append(&file->pages.parked, &reads[i].link);
	}
	recall(KR_LEASE_READ);
	assert_non_null(fake.job);
	for (uint32_t i = 0; i < fake.job->count; i++) {
		const struct kr_range *range = &fake.job->ranges[i];

		assert_true(range->offset % STEP == 4096); /* the end of one, and up to the next */
		assert_int_equal(range->length, i < READS - 1 ? STEP - 4096 : 0);
	}
	assert_int_equal(fake.job->count, READS);
	for (unsigned i = 0; i < READS; i++)
		kr_list_remove(&reads[i].link);
	drop_ends();
	assert_int_equal(fake.answers, 1);
	kr_file_put(file);
}

/* They may wait for reads that wait for other nodes, which wait for what is recalled here. */
static void cuts_do_not_take_the_threads_of_recalls(void **state)
{
	struct kr_file *file = file_with_pages();

	(void)state;
	recall(0);
	assert_ptr_equal(fake.notifier, mount.shrink_notifier);
	drop_ends();
	assert_int_equal(fake.dropped, 1);
	assert_int_equal(fake.answers, 1);
	recall(KR_LEASE_READ);
	assert_ptr_equal(fake.notifier, mount.notifier);
	drop_ends();
	assert_int_equal(fake.answers, 2);
	kr_file_put(file);
}

static void a_cut_that_ends_after_the_protocol_is_not_answered(void **state)
{
	(void)state;
	recall(0);
	kr_files_stop(mount.files);
	drop_ends();
	assert_int_equal(fake.answers, 0);
}

/* Whether the node says so of a file whose version 7 it knows, or does not know any more. */
static bool says_cached(void)
{
	struct kr_open_reply opened = {.attr = attr, .granted = KR_LEASE_READ};
	struct fuse_file_info fi = {.flags = O_RDONLY};
	bool said;

	opened.attr.version = 7;
	kr_op_open(request, 42, &fi);
	turn();
	said = last_call(KR_MSG_OPEN)->msg.open_request.flags & 32;
	reply(last_call(KR_MSG_OPEN), 0, &opened);
	kr_handle_release(kr_handle_of(&kernel.fi));
	turn();
	reply(last_call(KR_MSG_CLOSE), 0, NULL);
	return said;
}

static void an_open_says_that_the_bytes_of_the_known_version_are_cached(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	(void)state;
	cached_version = 7;
	assert_false(says_cached()); /* nothing is known of the file */
	assert_true(says_cached());
	cached_version = 6;
	assert_false(says_cached());
	cached_version = 7;
	file->stale = true;
	assert_false(says_cached());
	file->stale = false;
	kr_file_put(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			who_opens_for_storing_waits_until_older_pages_have_gone, setup_two, teardown_two),
		cmocka_unit_test_setup_teardown(pages_that_many_reads_wait_for_are_left_out, setup_two, teardown_two),
		cmocka_unit_test_setup_teardown(cuts_do_not_take_the_threads_of_recalls, setup_two, teardown_two),
		cmocka_unit_test_setup_teardown(
			a_cut_that_ends_after_the_protocol_is_not_answered, setup_two, teardown_two),
		cmocka_unit_test_setup_teardown(
			an_open_says_that_the_bytes_of_the_known_version_are_cached, setup_two, teardown_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Unflushed bytes of files: what others hear of them, and what waits for their flush: closes, attributes, changes. */
#include "test/unit/fuse/file/file_fixture.h"

static void a_query_tells_of_unflushed_bytes(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct kr_query_request request = {.file = fid};
	struct kr_down down = {.type = KR_MSG_QUERY};

	(void)state;
	file->open.handles = 1;
	obtain(file, KR_LEASE_WRITE, &(struct kr_attr){.ino = 1});
	fake.on_query(&mount, &down, &request, NULL);
	assert_int_equal(fake.query.dirty, 0);
	dirty(file, 500, 100, 1);
	fake.on_query(&mount, &down, &request, NULL);
	assert_int_equal(fake.query.dirty, 1);
	assert_int_equal(fake.query.end, 600);
	assert_int_equal(fake.query.mtime.sec, 2000);
	flushed(file, 1, 600);
	file->open.handles = 0;
	kr_file_put(file);
	turn();
}

static void closes_are_counted_together(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	(void)state;
	file->open.count = 3;
	file->open.handles = 0;
	kr_file_step(file);
	turn();
	assert_int_equal(last_call(KR_MSG_CLOSE)->msg.close_request.count, 3);
	assert_int_equal(file->open.closing, 3);
	reply(last_call(KR_MSG_CLOSE), 0, NULL);
	assert_int_equal(file->open.closing, 0);
	kr_file_put(file);
	turn();
	assert_null(kr_file_find(&mount, &fid));
}

static void the_last_close_waits_for_the_flush(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	(void)state;
	file->open.count = file->open.handles = 1;
	obtain(file, KR_LEASE_WRITE, &(struct kr_attr){.ino = 1});
	dirty(file, 0, 1, 1);
	file->open.handles = 0;
	kr_file_step(file);
	turn();
	assert_null(last_call(KR_MSG_CLOSE));
	flushed(file, 1, 1);
	assert_non_null(last_call(KR_MSG_CLOSE));
	reply(last_call(KR_MSG_CLOSE), 0, NULL);
	reply(last_call(KR_MSG_RETURN), 0, NULL);
	kr_file_put(file);
	turn();
	assert_null(kr_file_find(&mount, &fid));
}

static void attributes_show_unflushed_bytes(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct kr_attr attr = {.ino = 1, .size = 10, .mode = S_IFREG | 06755, .mtime.sec = 1000, .ctime.sec = 1000};

	(void)state;
	atomic_store(&mount.server_clock_offset_ns, INT64_C(100000) * (int64_t)KR_NS_PER_S - (int64_t)kr_clock_ns());
	file->open.handles = 1;
	obtain(file, KR_LEASE_WRITE, &attr);
	dirty(file, 8000, 192, 1);
	file->clear_suid = true;
	assert_true(kr_file_overlay_attr(file, kr_clock_ns(), false, &attr));
	assert_int_equal(attr.size, 8192);
	assert_int_equal(attr.blocks, 8);
	assert_int_equal(attr.mtime.sec, 2000);
	assert_int_equal(attr.ctime.sec, 2000);
	assert_int_equal(attr.mode, S_IFREG | 0755);
	attr.mtime.sec = 5000; /* another node's later write */
	assert_true(kr_file_overlay_attr(file, kr_clock_ns(), false, &attr));
	assert_int_equal(attr.mtime.sec, 5000);
	attr.mtime.sec = 200000; /* set by hand before */
	assert_true(kr_file_overlay_attr(file, kr_clock_ns(), false, &attr));
	assert_int_equal(attr.mtime.sec, 2000);
	flushed(file, 1, 8192);
	file->open.handles = 0;
	kr_file_put(file);
	turn();
}

static int64_t write_time_ns_after(struct kr_file *file, int64_t ahead_ns)
{
	int64_t now_ns = INT64_C(100000) * (int64_t)KR_NS_PER_S, ctime_ns = now_ns + ahead_ns;
	struct kr_time time;

	atomic_store(&mount.server_clock_offset_ns, now_ns - (int64_t)kr_clock_ns());
	pthread_mutex_lock(&file->lock);
	file->base.ctime = (struct kr_time){
		.sec = ctime_ns / (int64_t)KR_NS_PER_S, .nsec = (uint32_t)(ctime_ns % (int64_t)KR_NS_PER_S)};
	time = kr_file_write_time(file);
	pthread_mutex_unlock(&file->lock);
	return time.sec * (int64_t)KR_NS_PER_S + time.nsec - ctime_ns;
}

static void a_write_is_not_older_than_the_change_before_it(void **state)
{
	const int64_t second = (int64_t)KR_NS_PER_S;
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	(void)state;
	assert_true(write_time_ns_after(file, -second) >= second);
	assert_int_equal(write_time_ns_after(file, second), 0);              /* the node's notion of the clock lags */
	assert_true(write_time_ns_after(file, 100 * second) < -98 * second); /* the clock was set back */
	kr_file_put(file);
	turn();
}

static void attributes_asked_before_a_flush_ended_are_outdated(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct kr_attr attr = {.ino = 1, .size = 10};
	uint64_t stamp = kr_clock_ns();

	(void)state;
	file->open.handles = 1;
	obtain(file, KR_LEASE_WRITE, &attr);
	assert_true(kr_file_overlay_attr(file, stamp, false, &attr));
	dirty(file, 0, 100, 1);
	flushed(file, 1, 100);
	assert_false(kr_file_overlay_attr(file, stamp, false, &attr));
	assert_true(kr_file_overlay_attr(file, stamp, true, &attr));
	assert_int_equal(attr.size, 100);
	file->open.handles = 0;
	kr_file_put(file);
	turn();
}

static void the_answer_to_a_change_says_what_is_true_after_it(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct kr_attr attr = {.ino = 1};
	uint64_t before = kr_clock_ns();

	(void)state;
	file->open.handles = 1;
	fake.heard_ns = kr_clock_ns();
	kr_file_after_change(file, 0, UINT64_MAX, &attr);
	assert_false(kr_file_overlay_attr(file, before, false, &attr));
	assert_false(kr_file_overlay_attr(file, fake.heard_ns, false, &attr));
	assert_true(kr_file_overlay_attr(file, fake.heard_ns + 1, false, &attr));
	kr_file_after_change(file, -EINTR, UINT64_MAX, NULL); /* given up: it may come yet */
	assert_false(kr_file_overlay_attr(file, fake.heard_ns + 1, false, &attr));
	fake.heard_ns = before; /* an answer of before cannot make what has come since undone */
	kr_file_after_change(file, 0, UINT64_MAX, &attr);
	assert_false(kr_file_overlay_attr(file, before + 1, false, &attr));
	file->open.handles = 0;
	turn();
	kr_file_put(file);
	turn();
}

static void a_change_waits_for_the_flush_and_hears_of_its_failure(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct waiter waiter = {.waiter.waiter.wake = look, .file = file, .kinds = KR_LEASE_WRITE};
	struct kr_file_waiter change = {.waiter.wake = NULL}, truncation = {.waiter.wake = NULL};

	(void)state;
	file->open.handles = 1;
	obtain(file, KR_LEASE_WRITE, &(struct kr_attr){.ino = 1});
	dirty(file, 0, 100, 1);
	assert_int_equal(kr_file_before_change(file, &change, UINT64_MAX), -EAGAIN);
	kr_file_unwait(&change);
	assert_int_equal(kr_file_before_change(file, &truncation, 50), -EAGAIN);
	kr_file_unwait(&truncation);
	assert_int_equal(fake.flushes, 2);
	kr_file_flush_failed(file, -ENOSPC);
	turn();
	assert_int_equal(kr_file_before_change(file, &change, UINT64_MAX), -ENOSPC);
	assert_int_equal(kr_file_before_change(file, &truncation, 50), 0);
	kr_file_after_change(file, 0, 50, &(struct kr_attr){.ino = 1, .size = 50, .ctime.sec = 4000});
	assert_int_equal(kr_extent_map_end(&file->dirty), 50);
	flushed(file, 1, 50);
	assert_int_equal(kr_file_before_change(file, &change, UINT64_MAX), 0);
	(void)waiter;
	file->open.handles = 0;
	kr_file_put(file);
	turn();
}

static void a_truncation_of_refused_bytes_waits_for_what_is_in_flight(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct kr_file_waiter waiter = {.waiter.wake = NULL};

	(void)state;
	obtain(file, KR_LEASE_WRITE, &(struct kr_attr){.ino = 1, .size = 10});
	dirty(file, 0, 100, 1);
	kr_file_flush_failed(file, -ENOSPC);
	turn();
	fake.sending = true; /* tried again */
	assert_int_equal(kr_file_before_change(file, &waiter, 0), -EAGAIN);
	kr_file_unwait(&waiter);
	assert_int_equal(fake.flushes, 0);
	fake.sending = false;
	assert_int_equal(kr_file_before_change(file, &waiter, 0), 0);
	kr_file_after_change(file, 0, 0, NULL);
	turn();
	kr_file_put(file);
	turn();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_query_tells_of_unflushed_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(closes_are_counted_together, setup, teardown),
		cmocka_unit_test_setup_teardown(the_last_close_waits_for_the_flush, setup, teardown),
		cmocka_unit_test_setup_teardown(attributes_show_unflushed_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_write_is_not_older_than_the_change_before_it, setup, teardown),
		cmocka_unit_test_setup_teardown(attributes_asked_before_a_flush_ended_are_outdated, setup, teardown),
		cmocka_unit_test_setup_teardown(the_answer_to_a_change_says_what_is_true_after_it, setup, teardown),
		cmocka_unit_test_setup_teardown(a_change_waits_for_the_flush_and_hears_of_its_failure, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_truncation_of_refused_bytes_waits_for_what_is_in_flight, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

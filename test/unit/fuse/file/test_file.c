/* Leases and recalls of files. */
#include "test/unit/fuse/file/file_fixture.h"

static void a_recall_of_an_unknown_file_is_answered_at_once(void **state)
{
	(void)state;
	recall(KR_LEASE_ALL);
	assert_int_equal(fake.answers, 1);
}

static void a_waiter_gets_its_lease_and_keeps_a_recall_waiting(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct waiter waiter = {.waiter.waiter.wake = look, .file = file, .kinds = KR_LEASE_READ};
	struct kr_lease_reply message = {.attr = {.ino = 1, .size = 10}};

	(void)state;
	look(&waiter.waiter.waiter);
	assert_false(waiter.done);
	assert_int_equal(fake.count, 1);
	assert_int_equal(last_call(KR_MSG_LEASE)->msg.lease_request.kinds, KR_LEASE_READ);
	/* Without a turn of the loop in between: the frames came together. */
	last_call(KR_MSG_LEASE)->callback(last_call(KR_MSG_LEASE)->context, 0, &message, NULL);
	recall(KR_LEASE_READ);
	assert_true(waiter.done);
	assert_int_equal(fake.answers, 0);
	leave(&waiter);
	assert_int_equal(fake.answers, 1);
	assert_int_equal(file->holder.held, 0);
	kr_file_put(file);
	turn();
	assert_null(kr_file_find(&mount, &fid));
}

static void a_failed_lease_fails_those_who_wait_for_it_and_nobody_later(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct waiter waiter = {.waiter.waiter.wake = look, .file = file, .kinds = KR_LEASE_READ};

	(void)state;
	look(&waiter.waiter.waiter);
	reply(last_call(KR_MSG_LEASE), -ETIMEDOUT, NULL);
	assert_int_equal(waiter.err, -ETIMEDOUT);
	assert_int_equal(kr_file_lease_error(file), 0);
	assert_int_equal(fake.count, 1);
	kr_file_put(file);
	turn();
	assert_null(kr_file_find(&mount, &fid));
}

static void a_recall_of_write_is_answered_after_the_flush(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	(void)state;
	file->open.handles = 1;
	obtain(file, KR_LEASE_WRITE, &(struct kr_attr){.ino = 1});
	dirty(file, 0, 100, 1);
	recall(KR_LEASE_WRITE);
	assert_int_equal(fake.flushes, 1);
	assert_int_equal(fake.answers, 0);
	flushed(file, 1, 100);
	assert_int_equal(fake.answers, 1);
	assert_int_equal(file->base.size, 100);
	file->open.handles = 0;
	kr_file_put(file);
	turn();
}

static void a_flush_that_is_not_taken_makes_the_lease_be_asked_again(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct kr_lease_reply message = {.attr = {.ino = 1}};
	size_t before;

	(void)state;
	file->open.handles = 1;
	obtain(file, KR_LEASE_WRITE, &message.attr);
	dirty(file, 0, 100, 1);
	before = fake.count;
	assert_true(kr_file_may_flush(file, false));
	kr_file_flush_untaken(file);
	turn();
	assert_false(kr_file_may_flush(file, false));
	assert_int_equal(fake.count, before + 1);
	assert_int_equal(last_call(KR_MSG_LEASE)->msg.lease_request.kinds, KR_LEASE_WRITE);
	fake.flush_steps = 0;
	reply(last_call(KR_MSG_LEASE), 0, &message);
	assert_true(kr_file_may_flush(file, false));
	assert_true(fake.flush_steps > 0);
	flushed(file, 1, 100);
	file->open.handles = 0;
	kr_file_put(file);
	turn();
}

static void a_recall_of_a_lease_in_doubt_is_answered_after_the_flush(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	(void)state;
	file->open.handles = 1;
	obtain(file, KR_LEASE_WRITE, &(struct kr_attr){.ino = 1});
	dirty(file, 0, 100, 1);
	kr_file_flush_untaken(file);
	turn();
	recall(KR_LEASE_WRITE);
	assert_true(kr_file_may_flush(file, false));
	assert_int_equal(fake.flushes, 1);
	assert_int_equal(fake.answers, 0);
	flushed(file, 1, 100);
	assert_int_equal(fake.answers, 1);
	reply(last_call(KR_MSG_LEASE), -EINTR, NULL);
	file->open.handles = 0;
	kr_file_put(file);
	turn();
}

static void a_closed_file_gives_write_back_and_keeps_read(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	(void)state;
	file->open.handles = 1;
	obtain(file, KR_LEASE_ALL, &(struct kr_attr){.ino = 1});
	assert_null(last_call(KR_MSG_RETURN));
	file->open.handles = 0;
	kr_file_step(file);
	turn();
	assert_int_equal(last_call(KR_MSG_RETURN)->msg.return_request.kinds, KR_LEASE_WRITE);
	reply(last_call(KR_MSG_RETURN), 0, NULL);
	assert_int_equal(file->holder.held, KR_LEASE_READ);
	kr_file_put(file);
	turn();
	file = kr_file_find(&mount, &fid);
	assert_non_null(file);
	kr_file_put(file);
	recall(KR_LEASE_READ);
	assert_int_equal(fake.answers, 1);
	assert_null(kr_file_find(&mount, &fid));
}

static void too_many_idle_files_give_read_back(void **state)
{
	uint64_t files, open;

	(void)state;
	for (uint32_t i = 0; i < KR_FILE_IDLE_MAX + 10; i++) {
		struct kr_fid other = {.length = 4};
		struct kr_file *file;

		memcpy(other.bytes, &i, sizeof(i));
		file = kr_file_get_or_new(&mount, &other);
		obtain(file, KR_LEASE_READ, &(struct kr_attr){.ino = i + 1});
		kr_file_put(file);
		turn();
		if (last_call(KR_MSG_RETURN))
			reply(last_call(KR_MSG_RETURN), 0, NULL);
		fake.count = 0;
	}
	kr_files_count(mount.files, &files, &open);
	assert_int_equal(files, KR_FILE_IDLE_MAX);
	assert_int_equal(open, 0);
}

static void dropping_pages_leaves_out_those_that_parked_reads_lock(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct kr_parked_io first = {.offset = 8192, .length = 4096, .page = true};
	struct kr_parked_io second = {.offset = 0, .length = 4096, .page = true};
	struct kr_parked_io plain = {.offset = 65536, .length = 4096};

	(void)state;
	file->open.handles = 1;
	obtain(file, KR_LEASE_READ, &(struct kr_attr){.ino = 1});
	kr_lease_state_cached(&file->holder);
	kr_list_append(&file->pages.parked, &first.link);
	kr_list_append(&file->pages.parked, &second.link);
	kr_list_append(&file->pages.parked, &plain.link);
	recall(KR_LEASE_READ);
	assert_non_null(fake.job);
	assert_int_equal(fake.job->nodeid, 42);
	assert_int_equal(fake.job->count, 2);
	assert_int_equal(fake.job->ranges[0].offset, 4096);
	assert_int_equal(fake.job->ranges[0].length, 4096);
	assert_int_equal(fake.job->ranges[1].offset, 12288);
	assert_int_equal(fake.job->ranges[1].length, 0);
	assert_int_equal(fake.answers, 0);
	kr_list_remove(&first.link);
	kr_list_remove(&second.link);
	kr_list_remove(&plain.link);
	fake.job->done(fake.job, 0);
	turn();
	assert_int_equal(fake.answers, 1);
	file->open.handles = 0;
	kr_file_put(file);
	turn();
}

/* As the ioctl that makes a handle relaxed does, in a thread of its own. */
static void give_read_back(struct kr_file *file)
{
	pthread_mutex_lock(&file->lock);
	kr_lease_state_release(&file->holder, KR_LEASE_READ);
	pthread_mutex_unlock(&file->lock);
	kr_file_step(file);
}

static void what_a_worker_gives_back_waits_for_what_the_directory_has_to_say_first(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	(void)state;
	file->open.handles = 1;
	obtain(file, KR_LEASE_READ, &(struct kr_attr){.ino = 1});
	fake.awaited = true;
	fake.worker = give_read_back;
	kr_file_step(file);
	turn();
	assert_null(last_call(KR_MSG_RETURN));
	assert_int_equal(file->holder.leaving, KR_LEASE_READ);
	fake.awaited = false;
	kr_file_step(file);
	turn();
	reply(last_call(KR_MSG_RETURN), 0, NULL);
	assert_int_equal(file->holder.held, 0);
	file->open.handles = 0;
	kr_file_put(file);
	turn();
}

/* Until the server has taken them, whatever is written meanwhile. */
static void what_was_refused_stays_so_when_more_is_written(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	(void)state;
	file->open.handles = 1;
	obtain(file, KR_LEASE_ALL, &(struct kr_attr){.ino = 1});
	dirty(file, 0, 100, 5);
	fake.awaited = true;
	recall(KR_LEASE_READ);
	assert_int_equal(fake.flushes, 1);
	kr_file_flush_failed(file, -ENOSPC);
	turn();
	assert_int_equal(file->lease.refused_seq, 5);
	dirty(file, 200, 100, 6);
	assert_int_equal(file->lease.refused_seq, 5);
	fake.awaited = false;
	kr_file_step(file);
	turn();
	assert_int_equal(fake.answers, 1);
	flushed(file, 6, 300);
	assert_int_equal(file->lease.refused_seq, 0);
	file->open.handles = 0;
	kr_file_step(file);
	turn();
	reply(last_call(KR_MSG_RETURN), 0, NULL);
	kr_file_put(file);
	turn();
}

/* A file of which the server counts COUNT opens, the last of which may be kept, and which nobody here has open. */
static struct kr_file *make_kept(uint32_t count)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	file->open.handles = file->open.count = count;
	file->open.may_keep = true;
	obtain(file, KR_LEASE_READ, &(struct kr_attr){.ino = 1, .nlink = 1});
	file->open.handles = 0;
	kr_file_step(file);
	turn();
	return file;
}

static uint32_t closed(void)
{
	struct call *call = last_call(KR_MSG_CLOSE);
	uint32_t count = call ? call->msg.close_request.count : 0;

	if (call)
		reply(call, 0, NULL);
	fake.count = 0;
	return count;
}

static void the_last_open_is_kept_until_read_goes(void **state)
{
	struct kr_file *file = make_kept(3);

	(void)state;
	assert_int_equal(closed(), 2);
	kr_file_step(file);
	turn();
	assert_int_equal(closed(), 0);
	file->open.handles = 2; /* opened here, twice */
	kr_file_step(file);
	turn();
	file->open.handles = 0;
	kr_file_step(file);
	turn();
	assert_int_equal(closed(), 0);
	recall(KR_LEASE_READ);
	assert_int_equal(fake.answers, 1);
	assert_int_equal(closed(), 1);
	kr_file_put(file);
	turn();
	assert_null(kr_file_find(&mount, &fid));
}

static void a_kept_open_ends_with_the_last_name(void **state)
{
	struct kr_file *file = make_kept(1);

	(void)state;
	assert_int_equal(closed(), 0);
	recall(KR_RECALL_GONE);
	assert_int_equal(fake.answers, 1);
	assert_int_equal(closed(), 1);
	kr_file_put(file);
}

static void a_file_without_a_name_stays_open_for_its_programs(void **state)
{
	struct kr_file *file = make_kept(1);

	(void)state;
	file->open.handles = 1;
	recall(KR_RECALL_GONE);
	assert_int_equal(fake.answers, 1);
	assert_int_equal(closed(), 0);
	assert_true(kr_lease_state_has(&file->holder, KR_LEASE_READ));
	file->open.handles = 0;
	kr_file_step(file);
	turn();
	assert_int_equal(closed(), 1);
	kr_file_put(file);
}

/* A file that was closed with unflushed bytes. */
static struct kr_file *make_closed(void)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	file->open.handles = file->open.count = 1;
	obtain(file, KR_LEASE_WRITE, &(struct kr_attr){.ino = 1, .nlink = 1});
	dirty(file, 0, 100, 1);
	file->open.handles = 0;
	kr_file_step(file);
	turn();
	return file;
}

/* And then removed. */
static struct kr_file *make_removed(void)
{
	struct kr_file *file = make_closed();

	assert_int_equal(closed(), 0); /* it waits for the flush */
	recall(KR_RECALL_GONE);
	assert_int_equal(closed(), 1);
	assert_int_equal(fake.discards, 0); /* another node may have it open */
	return file;
}

static void what_is_unflushed_of_a_removed_file_is_discarded_when_the_server_says_so(void **state)
{
	struct kr_file *file = make_removed();

	(void)state;
	recall(KR_LEASE_WRITE | KR_RECALL_GONE | KR_RECALL_DISCARD);
	assert_int_equal(fake.discards, 1);
	assert_int_equal(fake.flushes, 0);
	assert_int_equal(fake.answers, 2);
	assert_int_equal(file->holder.held, 0);
	kr_file_put(file);
	turn();
	assert_null(kr_file_find(&mount, &fid));
}

/* The server has refused its bytes, so it was closed before, and the server removed it at once. */
static void so_is_what_was_closed_before_it_was_removed(void **state)
{
	struct kr_file *file = make_closed();

	(void)state;
	recall(KR_LEASE_WRITE | KR_RECALL_GONE | KR_RECALL_DISCARD);
	assert_int_equal(fake.discards, 1);
	assert_int_equal(fake.flushes, 0);
	assert_int_equal(fake.answers, 1);
	kr_file_put(file);
	turn();
}

static void what_another_node_still_reads_of_a_removed_file_is_flushed(void **state)
{
	struct kr_file *file = make_removed();

	(void)state;
	recall(KR_LEASE_WRITE | KR_RECALL_GONE);
	assert_int_equal(fake.discards, 0);
	assert_int_equal(fake.flushes, 1);
	assert_int_equal(fake.answers, 1);
	flushed(file, 1, 100);
	assert_int_equal(fake.answers, 2);
	kr_file_put(file);
	turn();
}

static void a_file_that_is_just_being_opened_keeps_its_bytes(void **state)
{
	struct kr_file *file = make_removed();

	(void)state;
	file->open.opening = 1;
	recall(KR_LEASE_WRITE | KR_RECALL_GONE | KR_RECALL_DISCARD);
	assert_int_equal(fake.discards, 0);
	assert_int_equal(fake.flushes, 1);
	flushed(file, 1, 100);
	file->open.opening = 0;
	kr_file_step(file);
	kr_file_put(file);
	turn();
}

static void no_open_is_kept_of_a_removed_file_or_for_another_server(void **state)
{
	struct kr_file *file = make_kept(1);
	struct kr_reclaim_reply message = {.kinds = KR_LEASE_READ, .attr = {.ino = 1}};

	(void)state;
	kr_file_session_lost(file);
	kr_file_reclaimed(file, 0, &message); /* its last name went meanwhile */
	kr_file_step(file);
	turn();
	assert_int_equal(closed(), 1);
	kr_file_put(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_recall_of_an_unknown_file_is_answered_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(the_last_open_is_kept_until_read_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_kept_open_ends_with_the_last_name, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_without_a_name_stays_open_for_its_programs, setup, teardown),
		cmocka_unit_test_setup_teardown(
			no_open_is_kept_of_a_removed_file_or_for_another_server, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_is_unflushed_of_a_removed_file_is_discarded_when_the_server_says_so, setup, teardown),
		cmocka_unit_test_setup_teardown(so_is_what_was_closed_before_it_was_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_another_node_still_reads_of_a_removed_file_is_flushed, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_that_is_just_being_opened_keeps_its_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_waiter_gets_its_lease_and_keeps_a_recall_waiting, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_failed_lease_fails_those_who_wait_for_it_and_nobody_later, setup, teardown),
		cmocka_unit_test_setup_teardown(a_recall_of_write_is_answered_after_the_flush, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_flush_that_is_not_taken_makes_the_lease_be_asked_again, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_recall_of_a_lease_in_doubt_is_answered_after_the_flush, setup, teardown),
		cmocka_unit_test_setup_teardown(a_closed_file_gives_write_back_and_keeps_read, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many_idle_files_give_read_back, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_a_worker_gives_back_waits_for_what_the_directory_has_to_say_first, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_refused_stays_so_when_more_is_written, setup, teardown),
		cmocka_unit_test_setup_teardown(
			dropping_pages_leaves_out_those_that_parked_reads_lock, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Files, leases and recalls of a node, with everything around them simulated: rpc, flusher, stage, notifications, loop. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "fuse/file.h"
#include "fuse/inode.h"
#include "fuse/notify.h"
#include "fuse/op_file.h"
#include "fuse/stage.h"

enum { CALLS = 8192 };

struct call {
	uint16_t type;
	union kr_any_msg msg;
	kr_rpc_fn callback;
	void *context;
};
static struct {
	struct call calls[CALLS];
	size_t count;
	kr_down_fn on_recall, on_query;
	struct kr_query_reply query;
	unsigned answers, flushes, flush_steps, suspends;
	struct kr_notify_job *job;
	struct kr_list tasks;
	bool busy;
} fake;
static struct kr_mount mount;
static uv_loop_t loop;

/* --- what surrounds the files ------------------------------------------------------------------------------------------------ */

void kr_loop_post(struct kr_loop *unused, struct kr_task *task)
{
	(void)unused;
	if (!kr_link_linked(&task->link))
		kr_list_append(&fake.tasks, &task->link);
}
void kr_loop_forget(struct kr_loop *unused, struct kr_task *task)
{
	(void)unused;
	kr_list_remove(&task->link);
}
static void turn(void)
{
	struct kr_link *link;

	while ((link = kr_list_pop(&fake.tasks))) {
		struct kr_task *task = KR_LIST_ENTRY(link, struct kr_task, link);

		task->fn(task);
	}
}
uint64_t kr_rpc_call(struct kr_rpc *rpc, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count,
	unsigned flags, kr_rpc_fn callback, void *context)
{
	struct call *call = &fake.calls[fake.count++];

	(void)rpc, (void)slices, (void)count, (void)flags;
	assert_true(fake.count <= CALLS);
	*call = (struct call){ .type = type, .callback = callback, .context = context };
	switch (type) {
	case KR_MSG_LEASE:
		call->msg.lease_request = *(const struct kr_lease_request *)msg;
		break;
	case KR_MSG_RETURN:
		call->msg.return_request = *(const struct kr_return_request *)msg;
		break;
	case KR_MSG_CLOSE:
		call->msg.close_request = *(const struct kr_close_request *)msg;
		break;
	default:
		assert_int_equal(type, KR_MSG_GETATTR);
	}
	return fake.count;
}
void kr_rpc_on(struct kr_rpc *rpc, uint16_t type, kr_down_fn handler)
{
	(void)rpc;
	*(type == KR_MSG_RECALL ? &fake.on_recall : &fake.on_query) = handler;
}
void kr_rpc_answer(struct kr_rpc *rpc, const struct kr_down *down, int err, const void *msg)
{
	(void)rpc, (void)err;
	fake.answers++;
	if (down->type == KR_MSG_QUERY)
		fake.query = *(const struct kr_query_reply *)msg;
}
void kr_op_wait(struct kr_op *op, struct kr_list *list)
{
	kr_list_append(list, &op->waiting);
}
void kr_op_wake(struct kr_list *list)
{
	assert_true(kr_list_empty(list));
}
uint64_t kr_inode_find(struct kr_inodes *inodes, const struct kr_fid *fid)
{
	(void)inodes, (void)fid;
	return 42;
}
void kr_notify_invalidate(struct kr_notifier *notifier, struct kr_notify_job *job)
{
	(void)notifier;
	assert_null(fake.job);
	fake.job = job;
}
void kr_flush_init(struct kr_flush *flush, struct kr_file *file)
{
	(void)file;
	kr_list_init(&flush->sends);
}
void kr_flush_fini(struct kr_flush *flush)
{
	(void)flush;
}
void kr_flush_ask(struct kr_file *file, enum kr_flush_reason reason)
{
	(void)file, (void)reason;
	fake.flushes++;
}
void kr_flush_step(struct kr_file *file)
{
	(void)file;
	fake.flush_steps++;
}
bool kr_flush_busy(struct kr_file *file)
{
	return !kr_extent_map_empty(&file->dirty);
}
struct kr_stage *kr_stage_new(struct kr_mount *m, struct kr_file *file, const struct kr_fid *fid)
{
	(void)m, (void)file, (void)fid;
	return NULL;
}
void kr_stage_free(struct kr_stage *stage)
{
	assert_null(stage);
}
void kr_stage_set(struct kr_stage *stage, uint64_t version, uint64_t size)
{
	(void)stage, (void)version, (void)size;
}
void kr_stage_suspend(struct kr_stage *stage)
{
	(void)stage;
	fake.suspends++;
}
void kr_stage_flushed(struct kr_stage *stage, uint64_t base_version, uint64_t version, uint64_t size,
	const struct kr_extent_map *sent)
{
	(void)stage, (void)base_version, (void)version, (void)size, (void)sent;
}
void kr_journal_file_free(struct kr_journal_file *file)
{
	assert_null(file);
}
void kr_journal_release(void *journal, const struct kr_extent *piece)
{
	(void)journal, (void)piece;
}
void kr_journal_trim(struct kr_journal *journal, const struct kr_extent_map *map, uint64_t size)
{
	(void)journal, (void)map, (void)size;
}

/* --- helpers --------------------------------------------------------------------------------------------------------------------- */

static const struct kr_fid fid = { .length = 3, .bytes = "one" };

static int setup(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	memset(&mount, 0, sizeof(mount));
	kr_list_init(&fake.tasks);
	uv_loop_init(&loop);
	mount.loop = &loop;
	atomic_store(&mount.fence_at_ns, UINT64_MAX);
	assert_int_equal(kr_files_new(&mount, &mount.files), 0);
	assert_int_equal(kr_files_start(mount.files), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kr_files_stop(mount.files);
	turn();
	uv_run(&loop, UV_RUN_DEFAULT); /* until the last handle has closed */
	kr_files_free(mount.files);
	assert_int_equal(uv_loop_close(&loop), 0);
	return 0;
}

struct waiter {
	struct kr_file_waiter waiter;
	struct kr_file *file;
	uint8_t kinds;
	bool done;
	int err;
};

static void look(struct kr_file_waiter *base)
{
	struct waiter *waiter = KR_CONTAINER_OF(base, struct waiter, waiter);

	waiter->err = kr_file_lease_error(waiter->file);
	pthread_mutex_lock(&waiter->file->lock);
	waiter->done = waiter->err || kr_holder_enter(&waiter->file->holder, waiter->kinds);
	pthread_mutex_unlock(&waiter->file->lock);
	if (waiter->done)
		return;
	kr_file_wait(waiter->file, base);
	kr_file_need(waiter->file, waiter->kinds);
}

static void leave(struct waiter *waiter)
{
	pthread_mutex_lock(&waiter->file->lock);
	kr_holder_leave(&waiter->file->holder, waiter->kinds, waiter->file->holder.epoch);
	pthread_mutex_unlock(&waiter->file->lock);
	kr_file_step(waiter->file);
	turn();
}

static struct call *last_call(uint16_t type)
{
	for (size_t i = fake.count; i-- > 0;) {
		if (fake.calls[i].type == type)
			return &fake.calls[i];
	}
	return NULL;
}

static void reply(struct call *call, int err, const void *message)
{
	assert_non_null(call);
	call->callback(call->context, err, err ? NULL : message, NULL);
	turn();
}

/* As if an op had asked and got these kinds. */
static void obtain(struct kr_file *file, uint8_t kinds, const struct kr_attr *attr)
{
	struct waiter waiter = { .waiter.wake = look, .file = file, .kinds = kinds };
	struct kr_lease_reply message = { .attr = *attr };

	look(&waiter.waiter);
	reply(last_call(KR_MSG_LEASE), 0, &message);
	assert_true(waiter.done);
	leave(&waiter);
}

static void dirty(struct kr_file *file, uint64_t offset, uint64_t length, uint64_t seq)
{
	struct kr_extent extent = { .offset = offset, .length = length, .position = 4096, .seq = seq };

	pthread_mutex_lock(&file->lock);
	assert_int_equal(kr_extent_map_insert(&file->dirty, &extent, NULL, NULL), 0);
	kr_holder_dirtied(&file->holder, false);
	file->written_seq = seq;
	file->mtime = (struct kr_time){ .sec = 2000 };
	pthread_mutex_unlock(&file->lock);
	kr_file_step(file);
	turn();
}

static void flushed(struct kr_file *file, uint64_t seq, uint64_t size)
{
	struct kr_flush_reply message = { .attr = { .ino = 1, .size = size, .ctime.sec = 3000 } };

	file->flush.flushed_seq = seq;
	kr_file_flushed(file, seq, &message, NULL);
	turn();
}

static void recall(uint8_t kinds)
{
	struct kr_recall_request request = { .file = fid, .kinds = kinds };
	struct kr_down down = { .type = KR_MSG_RECALL, .id = 9 };

	fake.on_recall(&mount, &down, &request, NULL);
	turn();
}

/* --- tests -------------------------------------------------------------------------------------------------------------------------- */

static void a_recall_of_an_unknown_file_is_answered_at_once(void **state)
{
	(void)state;
	recall(KR_LEASE_ALL);
	assert_int_equal(fake.answers, 1);
}

static void a_waiter_gets_its_lease_and_keeps_a_recall_waiting(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct waiter waiter = { .waiter.wake = look, .file = file, .kinds = KR_LEASE_READ };
	struct kr_lease_reply message = { .attr = { .ino = 1, .size = 10 } };

	(void)state;
	look(&waiter.waiter);
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
	struct waiter waiter = { .waiter.wake = look, .file = file, .kinds = KR_LEASE_READ };

	(void)state;
	look(&waiter.waiter);
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
	file->handles = 1;
	obtain(file, KR_LEASE_WRITE, &(struct kr_attr){ .ino = 1 });
	dirty(file, 0, 100, 1);
	recall(KR_LEASE_WRITE);
	assert_int_equal(fake.flushes, 1);
	assert_int_equal(fake.answers, 0);
	flushed(file, 1, 100);
	assert_int_equal(fake.answers, 1);
	assert_int_equal(file->base.size, 100);
	file->handles = 0;
	kr_file_put(file);
	turn();
}

static void a_flush_that_is_not_taken_makes_the_lease_be_asked_again(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct kr_lease_reply message = { .attr = { .ino = 1 } };
	size_t before;

	(void)state;
	file->handles = 1;
	obtain(file, KR_LEASE_WRITE, &message.attr);
	dirty(file, 0, 100, 1);
	before = fake.count;
	assert_true(kr_file_may_flush(file));
	kr_file_flush_untaken(file);
	turn();
	assert_false(kr_file_may_flush(file));
	assert_int_equal(fake.count, before + 1);
	assert_int_equal(last_call(KR_MSG_LEASE)->msg.lease_request.kinds, KR_LEASE_WRITE);
	fake.flush_steps = 0;
	reply(last_call(KR_MSG_LEASE), 0, &message);
	assert_true(kr_file_may_flush(file));
	assert_true(fake.flush_steps > 0);
	flushed(file, 1, 100);
	file->handles = 0;
	kr_file_put(file);
	turn();
}

static void a_recall_of_a_lease_in_doubt_is_answered_after_the_flush(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	(void)state;
	file->handles = 1;
	obtain(file, KR_LEASE_WRITE, &(struct kr_attr){ .ino = 1 });
	dirty(file, 0, 100, 1);
	kr_file_flush_untaken(file);
	turn();
	recall(KR_LEASE_WRITE);
	assert_true(kr_file_may_flush(file));
	assert_int_equal(fake.flushes, 1);
	assert_int_equal(fake.answers, 0);
	flushed(file, 1, 100);
	assert_int_equal(fake.answers, 1);
	reply(last_call(KR_MSG_LEASE), -EINTR, NULL);
	file->handles = 0;
	kr_file_put(file);
	turn();
}

static void a_query_tells_of_unflushed_bytes(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct kr_query_request request = { .file = fid };
	struct kr_down down = { .type = KR_MSG_QUERY };

	(void)state;
	file->handles = 1;
	obtain(file, KR_LEASE_WRITE, &(struct kr_attr){ .ino = 1 });
	fake.on_query(&mount, &down, &request, NULL);
	assert_int_equal(fake.query.dirty, 0);
	dirty(file, 500, 100, 1);
	fake.on_query(&mount, &down, &request, NULL);
	assert_int_equal(fake.query.dirty, 1);
	assert_int_equal(fake.query.end, 600);
	assert_int_equal(fake.query.mtime.sec, 2000);
	flushed(file, 1, 600);
	file->handles = 0;
	kr_file_put(file);
	turn();
}

static void a_closed_file_gives_write_back_and_keeps_read(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	(void)state;
	file->handles = 1;
	obtain(file, KR_LEASE_ALL, &(struct kr_attr){ .ino = 1 });
	assert_null(last_call(KR_MSG_RETURN));
	file->handles = 0;
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
		struct kr_fid other = { .length = 4 };
		struct kr_file *file;

		memcpy(other.bytes, &i, sizeof(i));
		file = kr_file_get_or_new(&mount, &other);
		obtain(file, KR_LEASE_READ, &(struct kr_attr){ .ino = i + 1 });
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

static void closes_are_counted_together(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	(void)state;
	file->opens = 3;
	file->handles = 0;
	kr_file_step(file);
	turn();
	assert_int_equal(last_call(KR_MSG_CLOSE)->msg.close_request.count, 3);
	assert_int_equal(file->closing, 3);
	reply(last_call(KR_MSG_CLOSE), 0, NULL);
	assert_int_equal(file->closing, 0);
	kr_file_put(file);
	turn();
	assert_null(kr_file_find(&mount, &fid));
}

static void the_last_close_waits_for_the_flush(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);

	(void)state;
	file->opens = file->handles = 1;
	obtain(file, KR_LEASE_WRITE, &(struct kr_attr){ .ino = 1 });
	dirty(file, 0, 1, 1);
	file->handles = 0;
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
	struct kr_attr attr = { .ino = 1, .size = 10, .mode = S_IFREG | 06755, .mtime.sec = 1000, .ctime.sec = 1000 };

	(void)state;
	file->handles = 1;
	obtain(file, KR_LEASE_WRITE, &attr);
	dirty(file, 8000, 192, 1);
	file->clear_suid = true;
	assert_true(kr_file_overlay_attr(file, kr_file_stamp(file), false, &attr));
	assert_int_equal(attr.size, 8192);
	assert_int_equal(attr.blocks, 8);
	assert_int_equal(attr.mtime.sec, 2000);
	assert_int_equal(attr.ctime.sec, 2000);
	assert_int_equal(attr.mode, S_IFREG | 0755);
	attr.mtime.sec = 5000; /* another node's later write */
	assert_true(kr_file_overlay_attr(file, kr_file_stamp(file), false, &attr));
	assert_int_equal(attr.mtime.sec, 5000);
	flushed(file, 1, 8192);
	file->handles = 0;
	kr_file_put(file);
	turn();
}

static void attributes_asked_before_a_flush_ended_are_outdated(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct kr_attr attr = { .ino = 1, .size = 10 };
	uint64_t stamp = kr_file_stamp(file);

	(void)state;
	file->handles = 1;
	obtain(file, KR_LEASE_WRITE, &attr);
	assert_true(kr_file_overlay_attr(file, stamp, false, &attr));
	dirty(file, 0, 100, 1);
	flushed(file, 1, 100);
	assert_false(kr_file_overlay_attr(file, stamp, false, &attr));
	assert_true(kr_file_overlay_attr(file, stamp, true, &attr));
	assert_int_equal(attr.size, 100);
	file->handles = 0;
	kr_file_put(file);
	turn();
}

static void a_change_waits_for_the_flush_and_hears_of_its_failure(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct waiter waiter = { .waiter.wake = look, .file = file, .kinds = KR_LEASE_WRITE };
	struct kr_file_waiter change = { .wake = NULL }, truncation = { .wake = NULL };

	(void)state;
	file->handles = 1;
	obtain(file, KR_LEASE_WRITE, &(struct kr_attr){ .ino = 1 });
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
	kr_file_after_change(file, 0, 50, &(struct kr_attr){ .ino = 1, .size = 50, .ctime.sec = 4000 });
	assert_int_equal(kr_extent_map_end(&file->dirty), 50);
	flushed(file, 1, 50);
	assert_int_equal(kr_file_before_change(file, &change, UINT64_MAX), 0);
	(void)waiter;
	file->handles = 0;
	kr_file_put(file);
	turn();
}

static void a_truncation_of_refused_bytes_waits_for_what_is_in_flight(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct kr_file_waiter waiter = { .wake = NULL };
	struct kr_link send;

	(void)state;
	obtain(file, KR_LEASE_WRITE, &(struct kr_attr){ .ino = 1, .size = 10 });
	dirty(file, 0, 100, 1);
	kr_file_flush_failed(file, -ENOSPC);
	turn();
	kr_link_init(&send);
	kr_list_append(&file->flush.sends, &send); /* tried again */
	assert_int_equal(kr_file_before_change(file, &waiter, 0), -EAGAIN);
	kr_file_unwait(&waiter);
	assert_int_equal(fake.flushes, 0);
	kr_list_remove(&send);
	assert_int_equal(kr_file_before_change(file, &waiter, 0), 0);
	kr_file_after_change(file, 0, 0, NULL);
	turn();
	kr_file_put(file);
	turn();
}

static void dropping_pages_leaves_out_those_that_parked_reads_lock(void **state)
{
	struct kr_file *file = kr_file_get_or_new(&mount, &fid);
	struct kr_gated first = { .offset = 8192, .length = 4096, .page = true };
	struct kr_gated second = { .offset = 0, .length = 4096, .page = true };
	struct kr_gated plain = { .offset = 65536, .length = 4096 };

	(void)state;
	file->handles = 1;
	obtain(file, KR_LEASE_READ, &(struct kr_attr){ .ino = 1 });
	kr_holder_cached(&file->holder);
	kr_list_append(&file->gated, &first.link);
	kr_list_append(&file->gated, &second.link);
	kr_list_append(&file->gated, &plain.link);
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
	file->handles = 0;
	kr_file_put(file);
	turn();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_recall_of_an_unknown_file_is_answered_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_waiter_gets_its_lease_and_keeps_a_recall_waiting, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failed_lease_fails_those_who_wait_for_it_and_nobody_later, setup, teardown),
		cmocka_unit_test_setup_teardown(a_recall_of_write_is_answered_after_the_flush, setup, teardown),
		cmocka_unit_test_setup_teardown(a_flush_that_is_not_taken_makes_the_lease_be_asked_again, setup, teardown),
		cmocka_unit_test_setup_teardown(a_recall_of_a_lease_in_doubt_is_answered_after_the_flush, setup, teardown),
		cmocka_unit_test_setup_teardown(a_query_tells_of_unflushed_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_closed_file_gives_write_back_and_keeps_read, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many_idle_files_give_read_back, setup, teardown),
		cmocka_unit_test_setup_teardown(closes_are_counted_together, setup, teardown),
		cmocka_unit_test_setup_teardown(the_last_close_waits_for_the_flush, setup, teardown),
		cmocka_unit_test_setup_teardown(attributes_show_unflushed_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(attributes_asked_before_a_flush_ended_are_outdated, setup, teardown),
		cmocka_unit_test_setup_teardown(a_change_waits_for_the_flush_and_hears_of_its_failure, setup, teardown),
		cmocka_unit_test_setup_teardown(a_truncation_of_refused_bytes_waits_for_what_is_in_flight, setup, teardown),
		cmocka_unit_test_setup_teardown(dropping_pages_leaves_out_those_that_parked_reads_lock, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

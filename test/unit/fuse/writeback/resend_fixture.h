/* A node with one file: its journal and the flusher are real, the server and the rest of the node are played here.
 *
 * The server has the file in its page cache and on its disk.  What the journal holds, laid over the disk, is what
 * programs have written, whatever happens: that is looked at after each event.
 */
#ifndef KR_TEST_UNIT_RESEND_FIXTURE_H
#define KR_TEST_UNIT_RESEND_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/base/counters.h"
#include "fuse/base/options.h"
#include "fuse/file/file_priv.h"
#include "fuse/readcache/stage.h"
#include "fuse/writeback/flush_priv.h"
#include "test/unit/directory.h"

enum { BYTES = 200, NEWER_MTIME = 1000000 };

static struct fixture {
	char directory[64];
	uint64_t incarnation;
	struct kr_mount mount;
	struct kr_mount_options options;
	struct kr_session_facts facts;
	struct kr_flusher flusher;
	uv_loop_t loop;
	struct kr_file *file;
	struct kr_list posted; /* struct kr_task, as the loop has them */
	bool lease;            /* the node has WRITE */
	uint8_t model[BYTES];  /* what programs have written */
	uint64_t seqs[400];    /* of the writes, from 1 on */
	unsigned writes, failures, redirtied, conflicts, claims;
	int told; /* the latest error of programs */
	struct kr_claims claimed;

	/* The server. */
	uint8_t cache[BYTES], disk[BYTES], sent[BYTES]; /* sent: of any FLUSH that was applied */
	uint64_t round, stable_round;                   /* the last applied, the last that is on the disk */
	uint64_t applied_seq;                           /* what this instance remembers; 0: nothing */
	struct kr_time mtime;
	bool set_ids; /* the file has set-id bits */
	struct {
		bool there, applied; /* a FLUSH is on its way; it has been applied as round `applied_round` */
		struct kr_flush_request request;
		struct kr_range ranges[BYTES];
		uint8_t data[BYTES];
		uint64_t applied_round;
		kr_rpc_fn answer;
		void *context;
	} flush;
	unsigned flushes, resends, waives, unstable_answers;
	uint64_t waived_seq;
} F;

/* --- the node around it ----------------------------------------------------------------------- */

uint64_t kr_rpc_call(struct kr_rpc *rpc, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count,
	unsigned flags, kr_rpc_fn callback, void *context)
{
	const struct kr_flush_request *request = msg;

	(void)rpc, (void)flags;
	assert_int_equal(type, KR_MSG_FLUSH);
	assert_true(request->flags & KR_FLUSH_INLINE);
	if (!callback) {
		assert_int_equal(request->bytes + request->extents.count + count, 0);
		assert_true(request->flags & KR_FLUSH_RESEND);
		F.waives++;
		F.waived_seq = request->seq;
		return 1;
	}
	assert_false(F.flush.there);
	assert_int_equal(count, 1);
	F.flush.there = true;
	F.flush.applied = false;
	F.flush.request = *request;
	memcpy(F.flush.ranges, request->extents.ranges, request->extents.count * sizeof(struct kr_range));
	memcpy(F.flush.data, slices[0].buf->data + slices[0].offset, slices[0].length);
	F.flush.answer = callback;
	F.flush.context = context;
	F.flushes++;
	F.resends += (request->flags & KR_FLUSH_RESEND) != 0;
	return F.flushes;
}
void kr_rpc_cancel(struct kr_rpc *rpc, uint64_t id)
{
	(void)rpc;
	assert_true(F.flush.there && id == F.flushes);
	F.flush.there = false;
	F.flush.answer(F.flush.context, -EINTR, NULL, NULL);
}
void kr_rpc_answer(struct kr_rpc *rpc, const struct kr_down *down, int err, const void *msg)
{
	(void)rpc, (void)down, (void)err, (void)msg;
	F.unstable_answers++;
}
void kr_rpc_watch(struct kr_rpc *rpc, uint64_t limit_ns, kr_rpc_watch_fn fn, void *context)
{
	(void)rpc, (void)limit_ns, (void)fn, (void)context;
}
const struct kr_session_facts *kr_session_facts(const struct kr_session *session)
{
	(void)session;
	return &F.facts;
}
void kr_loop_post(struct kr_loop *loop, struct kr_task *task)
{
	(void)loop;
	kr_list_append(&F.posted, &task->link);
}
void kr_flush_watch(struct kr_file *file, uint64_t now_ns)
{
	(void)file, (void)now_ns;
}
struct kr_file *kr_file_get(struct kr_file *file)
{
	return file;
}
struct kr_file *kr_file_get_or_new(struct kr_mount *mount, const struct kr_fid *fid)
{
	(void)mount, (void)fid;
	return F.file;
}
struct kr_file *kr_file_find(struct kr_mount *mount, const struct kr_fid *fid)
{
	(void)mount, (void)fid;
	return F.file;
}
void kr_file_put(struct kr_file *file)
{
	(void)file;
}
void kr_file_step(struct kr_file *file)
{
	(void)file;
}
void kr_file_flushed(
	struct kr_file *file, uint64_t seq, const struct kr_flush_reply *reply, const struct kr_extent_map *sent)
{
	(void)reply, (void)sent;
	kr_extent_map_drop_until(&file->dirty, seq, kr_journal_release, file->mount->journal);
	file->clear_suid &= !kr_extent_map_empty(&file->dirty);
}
void kr_file_flush_failed(struct kr_file *file, int err)
{
	(void)file;
	F.failures++;
	F.told = err;
}
void kr_file_flush_untaken(struct kr_file *file)
{
	(void)file;
}
void kr_file_redirtied(struct kr_file *file, int err)
{
	file->written_seq = KR_MAX(file->written_seq, kr_extent_map_max_seq(&file->dirty));
	F.redirtied++;
	F.told = err ? err : F.told;
}
bool kr_file_may_flush(struct kr_file *file, bool owing)
{
	(void)file;
	return F.lease || owing;
}
uint8_t kr_file_session_lost(struct kr_file *file)
{
	(void)file;
	return KR_LEASE_WRITE;
}
void kr_file_reclaimed(struct kr_file *file, int err, const struct kr_reclaim_reply *reply)
{
	(void)file, (void)err, (void)reply;
}
void kr_files_for_each(struct kr_files *files, void (*visit)(struct kr_file *file, void *context), void *context)
{
	(void)files;
	visit(F.file, context);
}
void kr_files_resumed(struct kr_files *files)
{
	(void)files;
}
void kr_chains_session_lost(struct kr_chains *chains)
{
	(void)chains;
}
void kr_stages_rejoin(struct kr_mount *mount)
{
	(void)mount;
}
void kr_late_begin(struct kr_file *file, const struct kr_attr *attr)
{
	(void)file, (void)attr;
	F.conflicts++;
}

static inline void run_loop(void)
{
	struct kr_task *task;

	while ((task = KR_LIST_POP(&F.posted, struct kr_task, link)))
		task->fn(task);
}

/* --- the journal ------------------------------------------------------------------------------ */

static inline void paint(void *context, const struct kr_extent *piece)
{
	assert_int_equal(kr_journal_read_verified(
				 F.mount.journal, piece->position, (uint8_t *)context + piece->offset, piece->length),
		0);
}

/* What the journal holds, the oldest first, over what is on the disk, is what was written. */
static inline void look(void)
{
	uint8_t bytes[BYTES];
	const struct kr_applied *applied;

	memcpy(bytes, F.disk, BYTES);
	KR_LIST_FOR_EACH(applied, &F.file->flush->applied, link)
		kr_extent_map_for_each(&applied->extents, paint, bytes);
	kr_extent_map_for_each(&F.file->dirty, paint, bytes);
	assert_memory_equal(bytes, F.model, BYTES);
}

static inline uint64_t live(void)
{
	struct kr_journal_usage usage;

	kr_journal_usage(F.mount.journal, &usage);
	return usage.live;
}

/* --- a daemon's life -------------------------------------------------------------------------- */

static const struct kr_fid file_fid = {.length = 8, .bytes = {'f'}};

static inline void start_daemon(void)
{
	struct kr_journal_options options = {.directory = F.directory,
		.export_id = {7},
		.node_id = {9},
		.incarnation = ++F.incarnation,
		.max = KR_JOURNAL_MIN};
	struct kr_recovery recovery;

	F.mount = (struct kr_mount){.options = &F.options, .counters = kr_counters_new(), .flusher = &F.flusher};
	F.options.flush_age = F.options.flush_backlog = 1 << 30;
	memset(&F.flusher, 0, sizeof(F.flusher));
	F.flusher.mount = &F.mount;
	assert_int_equal(uv_loop_init(&F.loop), 0); /* it never runs: time stands still */
	uv_timer_init(&F.loop, &F.flusher.tick);
	F.flusher.burst_max = UINT64_MAX;
	kr_list_init(&F.flusher.busy);
	kr_list_init(&F.flusher.damage);
	kr_list_init(&F.posted);
	F.file = kr_xcalloc(1, sizeof(*F.file));
	F.file->mount = &F.mount;
	F.file->fid = file_fid;
	pthread_mutex_init(&F.file->lock, NULL);
	kr_extent_map_init(&F.file->dirty);
	F.file->flush = kr_flush_hooks.make(F.file);
	assert_int_equal(kr_journal_open(&options, &recovery, &F.mount.journal), 0);
	assert_true(kr_list_empty(&recovery.damage));
	kr_recover(&F.mount, &recovery);
	kr_recovery_fini(&recovery);
	if (!F.file->journal_file)
		F.file->journal_file = kr_journal_file_new(&file_fid, "dir/file");
}

static inline void end_daemon(void)
{
	if (F.file->flush->send)
		kr_flush_send_abandon(F.file);
	while (kr_list_pop(&F.posted))
		continue;
	kr_flush_hooks.free(F.file);
	kr_extent_map_fini(&F.file->dirty);
	kr_journal_file_free(F.file->journal_file);
	free(F.file);
	kr_journal_free(F.mount.journal);
	uv_close((uv_handle_t *)&F.flusher.tick, NULL);
	uv_run(&F.loop, UV_RUN_DEFAULT);
	uv_loop_close(&F.loop);
	kr_counters_free(F.mount.counters);
}

static inline void add_claim(void *context, const struct kr_reclaim_item *item)
{
	(void)context;
	F.claims++;
	F.claimed = item->claims;
}

/* A session that the server does not know begins; DURABLE_SEQ is what RECLAIM's answer says. */
static inline void new_session(uint64_t durable_seq)
{
	const struct kr_session_hooks *hooks = kr_recovery_hooks();
	const struct kr_reclaim_reply reply = {.kinds = KR_LEASE_WRITE, .durable_seq = durable_seq};

	F.claims = 0;
	F.claimed = (struct kr_claims){0};
	hooks->collect(&F.mount, add_claim, NULL);
	F.flush.there = false;
	hooks->reclaimed(&F.mount, &file_fid, 0, &reply);
	hooks->resumed(&F.mount);
	run_loop();
}

/* kill -9, and the daemon is started anew. */
static inline void kill_daemon(void)
{
	char copy[] = "/tmp/kr-test-resend-XXXXXX", former[64];

	assert_non_null(mkdtemp(copy));
	directory_copy(F.directory, copy);
	end_daemon();
	strcpy(former, F.directory);
	strcpy(F.directory, copy);
	directory_remove(former);
	F.flush.there = false;
	start_daemon();
}

static inline int setup(void **state)
{
	(void)state;
	memset(&F, 0, sizeof(F));
	F.lease = true;
	strcpy(F.directory, "/tmp/kr-test-resend-XXXXXX");
	assert_non_null(mkdtemp(F.directory));
	start_daemon();
	new_session(0);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	end_daemon();
	directory_remove(F.directory);
	return 0;
}

/* --- events ----------------------------------------------------------------------------------- */

static inline void write_bytes(uint64_t offset, uint64_t length)
{
	uint8_t data[BYTES], value = (uint8_t)(1 + F.writes++ % 250);
	struct kr_extent extent;

	memset(data, value, length);
	memset(F.model + offset, value, length);
	F.file->mtime = (struct kr_time){.sec = F.writes};
	assert_int_equal(kr_journal_append(F.mount.journal, F.file->journal_file, offset, data, length, F.file->mtime,
				 F.file->clear_suid, &extent),
		0);
	assert_int_equal(kr_extent_map_insert(&F.file->dirty, &extent, kr_journal_release, F.mount.journal), 0);
	F.file->written_seq = F.seqs[F.writes % KR_ARRAY_SIZE(F.seqs)] = extent.seq;
	pthread_mutex_lock(&F.file->lock);
	kr_flush_dirtied(F.file);
	pthread_mutex_unlock(&F.file->lock);
	run_loop();
}

static inline void ask(void)
{
	kr_flush_ask(F.file, KR_FLUSH_COMMAND);
}

/* The FLUSH that is on its way is applied. */
static inline void apply(void)
{
	const struct kr_flush_request *request = &F.flush.request;
	const uint8_t *data = F.flush.data;
	bool differs = false;

	assert_true(F.flush.there && !F.flush.applied);
	for (uint32_t i = 0; i < request->extents.count; i++) {
		const struct kr_range *range = &F.flush.ranges[i];

		for (uint64_t at = range->offset; at < range->offset + range->length; at++) {
			if (!(request->flags & KR_FLUSH_RESEND))
				assert_int_not_equal(*data, F.sent[at]);
			differs |= F.cache[at] != *data;
			F.cache[at] = F.sent[at] = *data++;
		}
	}
	if (differs || !(request->flags & KR_FLUSH_RESEND)) {
		F.mtime = request->mtime;
		F.set_ids &= !request->clear_suid;
	}
	if (!kr_flush_is_unstable(F.file->flush)) /* else it was cut before what is lost was dirty again */
		F.applied_seq = request->seq;
	F.flush.applied = true;
	F.flush.applied_round = ++F.round;
}

static inline void answer(int err)
{
	const struct kr_flush_reply reply = {.round = F.flush.applied_round};

	assert_true(F.flush.there);
	F.flush.there = false;
	F.flush.answer(F.flush.context, err, err ? NULL : &reply, NULL);
	run_loop();
}

static inline void flush(void)
{
	ask();
	apply();
	answer(0);
}

static inline void stable(void)
{
	memcpy(F.disk, F.cache, BYTES);
	if (F.round == F.stable_round)
		return; /* it says so once */
	F.stable_round = F.round;
	kr_flush_stable(F.file, F.round);
}

/* A sync fails: the page cache loses what is not on the disk.  The node is told that rounds after GOOD may be lost. */
static inline void unstable(uint64_t good)
{
	const struct kr_unstable_request request = {
		.round = good, .last = F.round, .error = kr_status_from_errno(-EIO)};

	memcpy(F.cache, F.disk, BYTES);
	F.applied_seq = 0;
	kr_flush_unstable(F.file, &(struct kr_down){.id = 1}, &request);
	run_loop();
}

/* All is sent, and comes to the disk. */
static inline void finish(void)
{
	F.lease = true;
	for (int turns = 0; turns < 10; turns++) {
		ask();
		if (F.flush.there && !F.flush.applied)
			apply();
		if (F.flush.there)
			answer(0);
		stable();
		look();
	}
	assert_memory_equal(F.disk, F.model, BYTES);
	assert_int_equal(live(), 0);
	assert_false(kr_flush_busy(F.file));
}

#endif

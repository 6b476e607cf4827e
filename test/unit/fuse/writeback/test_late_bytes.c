/* Late bytes on their way to a conflict file: which, and what a kill or another lapse in between leaves.  The journal is
 * real, the server and the flusher are played here.
 *
 * After every step that changes the journal it can be looked at what a new start would find there: the late bytes, each
 * the latest, as bytes of the original over what the target has got.  Linked with --wrap (meson.build).
 */

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
#include "fuse/writeback/flush_priv.h"
#include "fuse/base/options.h"
#include "test/unit/directory.h"
#include "test/unit/moved_clock.h"

enum { MODEL_BYTES = 40000 };

static struct fixture {
	char directory[64], copy[64];
	uint64_t incarnation;
	struct kr_journal *journal;
	struct kr_mount mount;
	struct kr_mount_options options;
	struct kr_session_facts facts;
	struct kr_flusher flusher;
	struct kr_flush original_flush, target_flush;
	struct kr_file original, target;
	uint8_t model[MODEL_BYTES];     /* the late bytes, 0: none */
	uint8_t at_server[MODEL_BYTES]; /* of the target */
	struct kr_conflict_request asked;
	char asked_path[64];
	kr_rpc_fn answer;
	void *context;
	unsigned calls, close_asked, failures, redirtied, orphaned, steps, forgotten;
	bool watched; /* each step is looked at */
	unsigned looks;
	int orphan_err, told;
	int allocations_left; /* then none succeeds; < 0: all do */
} F;

/* --- a new start ------------------------------------------------------------------------------ */

static void open_journal(
	const char *directory, uint64_t max, struct kr_recovery *ret_recovery, struct kr_journal **ret_journal)
{
	struct kr_journal_options options = {
		.directory = directory, .export_id = {7}, .node_id = {9}, .max = max, .incarnation = ++F.incarnation};

	assert_int_equal(kr_journal_open(&options, ret_recovery, ret_journal), 0);
}

struct picture {
	struct kr_journal *journal;
	uint8_t *bytes;
};

static void paint(void *context, const struct kr_extent *piece)
{
	struct picture *picture = context;

	if (piece->offset + piece->length <= MODEL_BYTES)
		assert_int_equal(kr_journal_read_verified(picture->journal, piece->position,
					 picture->bytes + piece->offset, piece->length),
			0);
}

static void paint_recovered(
	struct kr_recovery *recovery, struct kr_journal *journal, const struct kr_fid *fid, uint8_t *bytes)
{
	struct picture picture = {journal, bytes};
	struct kr_recovered_file *file;

	KR_LIST_FOR_EACH(file, &recovery->files, link) {
		if (file->file && kr_fid_equal(&file->file->fid, fid))
			kr_extent_map_for_each(&file->dirty, paint, &picture);
	}
}

/* Killed now: a new start finds all, and nothing old over what is newer. */
static void look_as_if_killed(void)
{
	static uint8_t bytes[MODEL_BYTES];
	struct kr_recovery recovery;
	struct kr_journal *journal;

	F.looks++;
	directory_empty(F.copy);
	directory_copy(F.directory, F.copy);
	open_journal(F.copy, 0, &recovery, &journal);
	assert_true(kr_list_empty(&recovery.damage));
	memcpy(bytes, F.at_server, MODEL_BYTES);
	paint_recovered(&recovery, journal, &F.target.fid, bytes);
	paint_recovered(&recovery, journal, &F.original.fid, bytes);
	for (size_t i = 0; i < MODEL_BYTES; i++) {
		if (bytes[i] != F.model[i])
			fail_msg("look %u: byte %zu is %u, not %u", F.looks, i, bytes[i], F.model[i]);
	}
	kr_recovery_fini(&recovery);
	kr_journal_free(journal);
}

static void look_if_watched(void)
{
	if (!F.watched)
		return;
	F.watched = false; /* a look uses the journal itself */
	look_as_if_killed();
	F.watched = true;
}

/* --- what changes the journal, and what runs out of memory (linked with --wrap) --------------- */

void __real_kr_journal_release(void *journal, const struct kr_extent *piece);
void __wrap_kr_journal_release(void *journal, const struct kr_extent *piece);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void __wrap_kr_journal_release(void *journal, const struct kr_extent *piece)
{
	__real_kr_journal_release(journal, piece);
	look_if_watched();
}

static bool memory_is_out(void)
{
	return F.allocations_left >= 0 && F.allocations_left-- <= 0;
}

void *__wrap_calloc(size_t count, size_t size)
{
	return memory_is_out() ? NULL : __real_calloc(count, size);
}

/* --- the node around it ----------------------------------------------------------------------- */

struct kr_file *kr_file_get(struct kr_file *file)
{
	file->life.references++;
	return file;
}
void kr_file_put(struct kr_file *file)
{
	if (file)
		file->life.references--;
}
struct kr_file *kr_file_get_or_new(struct kr_mount *mount, const struct kr_fid *fid)
{
	(void)mount;
	assert_true(kr_fid_equal(fid, &F.target.fid));
	return kr_file_get(&F.target);
}
void kr_file_learn(struct kr_file *file, const struct kr_attr *attr)
{
	file->base = *attr;
}
void kr_file_redirtied(struct kr_file *file, int err)
{
	assert_ptr_equal(file, &F.original);
	assert_int_equal(err, -ESTALE);
	F.redirtied++;
}
void kr_file_step(struct kr_file *file)
{
	(void)file;
	F.steps++;
}
void kr_flush_ask(struct kr_file *file, enum kr_flush_reason reason)
{
	assert_ptr_equal(file, &F.target);
	assert_int_equal(reason, KR_FLUSH_CLOSE);
	F.close_asked++;
}
uint64_t kr_flush_oldest(struct kr_file *file)
{
	return kr_extent_map_min_seq(&file->dirty);
}
void kr_file_flush_failed(struct kr_file *file, int err)
{
	assert_ptr_equal(file, &F.original);
	F.failures++;
	F.told = err;
}
void kr_flush_dirtied(struct kr_file *file)
{
	assert_ptr_equal(file, &F.target);
}
void kr_flush_orphan(struct kr_file *file, int err)
{
	file->flush->orphaned = true;
	F.orphaned++;
	F.orphan_err = err;
}
void kr_flush_settle(struct kr_file *file)
{
	(void)file;
}
void kr_uncovered_forget(struct kr_uncovered_log *log, struct kr_file *file)
{
	(void)log;
	F.forgotten += file == &F.original;
}
uint64_t kr_rpc_call(struct kr_rpc *rpc, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count,
	unsigned flags, kr_rpc_fn callback, void *context)
{
	(void)rpc, (void)slices, (void)count, (void)flags;
	assert_int_equal(type, KR_MSG_CONFLICT);
	assert_null(F.answer);
	F.asked = *(const struct kr_conflict_request *)msg;
	snprintf(F.asked_path, sizeof(F.asked_path), "%s", F.asked.path);
	F.answer = callback;
	F.context = context;
	return ++F.calls;
}
const struct kr_session_facts *kr_session_facts(const struct kr_session *session)
{
	(void)session;
	return &F.facts;
}

/* --- fixture ---------------------------------------------------------------------------------- */

static void init_file(struct kr_file *file, uint8_t name)
{
	file->mount = &F.mount;
	file->fid = (struct kr_fid){.length = 8, .bytes = {name}};
	pthread_mutex_init(&file->lock, NULL);
	kr_extent_map_init(&file->dirty);
	file->flush = file == &F.original ? &F.original_flush : &F.target_flush;
	*file->flush = (struct kr_flush){.file = file};
	kr_list_init(&file->flush->applied);
	file->life.references = 1;
}

static void init_fixture(uint64_t max)
{
	struct kr_recovery recovery;

	memset(&F, 0, sizeof(F));
	F.allocations_left = -1;
	strcpy(F.directory, "/tmp/kr-test-late-XXXXXX");
	strcpy(F.copy, "/tmp/kr-test-late-XXXXXX");
	assert_non_null(mkdtemp(F.directory));
	assert_non_null(mkdtemp(F.copy));
	open_journal(F.directory, max, &recovery, &F.journal);
	kr_recovery_fini(&recovery);
	F.mount.journal = F.journal;
	F.mount.options = &F.options;
	F.mount.flusher = &F.flusher;
	F.flusher.mount = &F.mount;
	F.flusher.conflicts = json_array();
	init_file(&F.original, 'o');
	init_file(&F.target, 't');
	F.original.journal_file = kr_journal_file_new(&F.original.fid, "dir/original");
}

static int setup(void **state)
{
	(void)state;
	init_fixture(64 << 20);
	return 0;
}

static void free_file(struct kr_file *file)
{
	kr_late_fini(file->flush);
	kr_extent_map_fini(&file->dirty);
	kr_journal_file_free(file->journal_file);
	assert_int_equal(file->life.references, 1);
}

static int teardown(void **state)
{
	(void)state;
	F.watched = false;
	free_file(&F.original);
	free_file(&F.target);
	json_decref(F.flusher.conflicts);
	kr_journal_free(F.journal);
	directory_remove(F.directory);
	directory_remove(F.copy);
	return 0;
}

/* A program here writes; bytes that are late count in the model. */
static void write_bytes(uint64_t offset, size_t length, uint8_t value, bool late)
{
	uint8_t *data = malloc(length);
	struct kr_extent extent;

	memset(data, value, length);
	assert_int_equal(kr_journal_append(F.journal, F.original.journal_file, offset, data, length,
				 (struct kr_time){1000 + value, 5}, false, &extent),
		0);
	assert_int_equal(kr_extent_map_insert(&F.original.dirty, &extent, kr_journal_release, F.journal), 0);
	F.original.written_seq = extent.seq;
	F.original.mtime = (struct kr_time){1000 + value, 5};
	if (late && offset + length <= MODEL_BYTES)
		memset(F.model + offset, value, length);
	free(data);
}

static void begin(void)
{
	const struct kr_attr attr = {.ino = 5, .mode = S_IFREG | 0640, .uid = 10, .gid = 20};

	kr_late_begin(&F.original, &attr);
}

/* The server answers CONFLICT. */
static void answer(int err)
{
	const struct kr_conflict_reply reply = {
		.target = F.target.fid, .attr = {.ino = 6}, .place = "dir/original.conflict"};
	kr_rpc_fn fn = F.answer;

	assert_non_null(fn);
	F.answer = NULL;
	fn(F.context, err, err ? NULL : &reply, NULL);
}

static void later(void)
{
	move_clock(KR_LATE_RETRY_MS + 1);
	kr_late_step(&F.original);
}

/* The target's bytes are at the server, and stable. */
static void flush_target(void)
{
	struct picture picture = {F.journal, F.at_server};

	kr_extent_map_for_each(&F.target.dirty, paint, &picture);
	kr_journal_release_map(F.journal, &F.target.dirty);
}

static void assert_all_moved(void)
{
	assert_non_null(F.original.flush->late); /* the original is not flushed before these are durable */
	assert_true(F.close_asked > 0);
	flush_target();
	kr_late_step(&F.original);
	assert_null(F.original.flush->late);
	assert_memory_equal(F.at_server, F.model, MODEL_BYTES);
}

static uint64_t live(void)
{
	struct kr_journal_usage usage;

	kr_journal_usage(F.journal, &usage);
	return usage.live;
}

static void many_writes(unsigned count, uint8_t value)
{
	for (unsigned i = 0; i < count; i++)
		write_bytes(i * 32, 16, value, true);
}

static void without_such_bytes_nothing_happens(void **state)
{
	(void)state;
	begin();
	assert_null(F.original.flush->late);
	assert_int_equal(F.calls + F.redirtied, 0);
}

static void who_has_the_conflict_file_open_reads_what_moves_into_it(void **state)
{
	(void)state;
	write_bytes(100, 50, 1, true);
	begin();
	kr_lease_state_cached(&F.target.holder);
	answer(0);
	assert_all_moved();
	assert_true(F.target.holder.suspect); /* the kernel's pages go before the next read */
}

static void dirty_bytes_move_to_the_file_that_the_server_names(void **state)
{
	(void)state;
	write_bytes(100, 50, 1, true);
	write_bytes(120, 5, 2, true);
	F.watched = true;
	begin();
	assert_true(kr_extent_map_empty(&F.original.dirty)); /* nobody here reads them any more */
	assert_int_equal(F.redirtied, 1);
	assert_string_equal(F.asked_path, "dir/original");
	assert_int_equal(F.asked.mode, S_IFREG | 0640);
	assert_int_equal(F.asked.uid, 10);
	assert_int_equal(F.asked.written.sec, 1002);
	assert_true(F.asked.first > 0 && F.asked.first < F.asked.last);
	assert_int_equal(F.asked.last, F.original.written_seq);
	answer(0);
	assert_int_equal(F.target.open.count, 1);
	assert_int_equal(F.target.mtime.sec, 1002);
	assert_string_equal(F.target.journal_file->hint, "dir/original.conflict");
	assert_int_equal(json_array_size(F.flusher.conflicts), 1);
	look_as_if_killed();
	assert_all_moved();
	F.watched = false;
	assert_true(F.looks >= 4);
	assert_int_equal(live(), 0);
}

/* The end of a write is still here when what covered its middle has moved: it must not come back over that. */
static void killed_at_any_step_no_older_byte_comes_back_over_a_newer_one(void **state)
{
	uint64_t random = 7;

	(void)state;
	for (int i = 0; i < 30; i++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		write_bytes((random >> 33) % 3000, 1 + (random >> 20) % 900, (uint8_t)(1 + i), true);
	}
	F.watched = true;
	begin();
	answer(0);
	assert_all_moved();
	F.watched = false;
	assert_true(F.looks > 10);
}

/* A failed sync has made dirty what was applied before, while what was written over it waits for its file. */
static void a_second_lapse_in_the_middle_adds_older_bytes_under_newer_ones(void **state)
{
	struct kr_extent_map applied;

	(void)state;
	write_bytes(0, 100, 1, true);
	kr_extent_map_init(&applied);
	kr_extent_map_move(&F.original.dirty, &applied);
	write_bytes(50, 20, 2, true);
	begin();
	kr_extent_map_move(&applied, &F.original.dirty);
	write_bytes(60, 20, 3, true);
	F.watched = true;
	begin();
	answer(0);
	F.watched = false;
	assert_all_moved();
}

/* Another file perhaps: it is asked for when the first has all that it got. */
static void what_is_late_by_a_second_lapse_follows_when_the_first_is_durable(void **state)
{
	(void)state;
	many_writes(100, 1);
	begin();
	answer(0);
	write_bytes(8, 3000, 2, true);
	F.watched = true;
	begin();
	assert_int_equal(F.calls, 1);
	assert_false(kr_extent_map_empty(&F.original.dirty));
	flush_target();
	look_as_if_killed();
	kr_late_step(&F.original);
	assert_int_equal(F.calls, 2);
	assert_int_equal(F.asked.last, F.original.written_seq);
	answer(0);
	assert_all_moved();
	F.watched = false;
}

/* What is written later, under a lease, is not what the directory speaks of: the server remembers the conflict. */
static void the_directory_does_not_say_any_more_that_what_has_moved_was_refused(void **state)
{
	(void)state;
	many_writes(100, 1);
	begin();
	assert_int_equal(F.forgotten, 0);
	answer(0);
	assert_int_equal(F.forgotten, 1);
	assert_all_moved();
}

/* They are at the target what they were at the original: sent before, perhaps, and below the number of what that has.
 */
static void the_target_knows_what_it_gets(void **state)
{
	(void)state;
	F.target.flushed_seq = F.target.written_seq = UINT64_MAX;
	F.original.flush->resend = 77;
	write_bytes(0, 100, 1, true);
	begin();
	answer(0);
	assert_int_equal(F.target.flushed_seq, 0);
	assert_true(F.target.written_seq == UINT64_MAX);
	assert_int_equal(F.target.flush->resend, 77);
	assert_true(F.target.flush->moved && F.target.holder.dirty && F.target.clear_suid);
	assert_all_moved();
}

/* Else who waits for a flush of the original would wait as long. */
static void programs_hear_that_the_conflict_file_is_refused(void **state)
{
	uint64_t moved;
	int err = 0;

	(void)state;
	write_bytes(0, 100, 1, true);
	begin();
	answer(0);
	kr_late_step(&F.original);
	assert_int_equal(F.failures, 0);
	F.target.flush->plan.refused = -EDQUOT;
	kr_late_step(&F.original);
	kr_late_step(&F.original);
	assert_int_equal(F.failures, 1);
	assert_int_equal(F.told, -ESTALE);
	assert_int_equal(kr_late_bytes(F.original.flush->late, &moved, &err), 100);
	assert_int_equal(moved, 0);
	assert_int_equal(err, -EDQUOT);
	F.target.flush->plan.refused = 0;
	kr_late_step(&F.original);
	err = 0;
	kr_late_bytes(F.original.flush->late, &moved, &err);
	assert_int_equal(err, 0);
	assert_all_moved();
}

/* Whatever allocation fails when they are taken: none is lost, and none can be flushed into the original.  What could
 * be taken stays with what could not, until the next time. */
static void out_of_memory_at_the_beginning_nothing_is_lost(void **state)
{
	bool failed = true;

	(void)state;
	for (int good = 0; failed; good++) {
		teardown(NULL);
		setup(NULL);
		write_bytes(500, 10, 9, true);
		begin();
		answer(-ENOSPC);
		write_bytes(0, 100, 1, true);
		write_bytes(50, 100, 2, true);
		write_bytes(490, 15, 3, true);
		write_bytes(70, 10, 4, true);
		F.allocations_left = good;
		begin();
		failed = F.allocations_left < 0;
		F.allocations_left = -1;
		assert_int_equal(F.original.flush->orphaned, failed);
		look_as_if_killed();
		if (failed) {
			later();
			assert_null(F.answer);
			begin();
		}
		answer(0);
		assert_all_moved();
		assert_true(good < 100);
	}
}

static void out_of_memory_for_the_target_it_is_tried_again(void **state)
{
	bool failed = true;

	(void)state;
	for (int good = 0; failed; good++) {
		teardown(NULL);
		setup(NULL);
		write_bytes(0, 100, 1, true);
		write_bytes(50, 10, 2, true);
		begin();
		F.target.journal_file = kr_journal_file_new(&F.target.fid, "hint");
		F.allocations_left = good;
		answer(0);
		failed = F.allocations_left < 0;
		F.allocations_left = -1;
		look_as_if_killed();
		if (failed) {
			assert_int_equal(F.told, -ESTALE);
			flush_target();
			look_as_if_killed();
			later();
			answer(0);
		}
		assert_all_moved();
		assert_true(good < 100);
	}
}

static void a_second_lapse_while_the_server_is_asked_asks_once(void **state)
{
	(void)state;
	write_bytes(0, 100, 1, true);
	begin();
	write_bytes(50, 100, 2, true);
	begin();
	assert_int_equal(F.calls, 1);
	answer(0);
	assert_all_moved();
}

static void what_cannot_have_a_file_is_tried_again(void **state)
{
	uint64_t moved;
	int err = 0;

	(void)state;
	write_bytes(0, 100, 1, true);
	begin();
	answer(-ENOSPC);
	kr_late_step(&F.original);
	assert_int_equal(F.calls, 1);
	assert_int_equal(kr_late_bytes(F.original.flush->late, &moved, &err), 100);
	assert_int_equal(err, -ENOSPC);
	later();
	assert_int_equal(F.calls, 2);
	answer(0);
	assert_all_moved();
}

static void what_the_server_refuses_waits_to_be_discarded(void **state)
{
	(void)state;
	write_bytes(0, 100, 1, true);
	begin();
	write_bytes(50, 100, 2, true); /* a program goes on meanwhile */
	F.watched = true;
	answer(-EPERM);
	assert_null(F.original.flush->late);
	assert_int_equal(F.orphaned, 1);
	assert_int_equal(F.orphan_err, -ESTALE);
	assert_int_equal(F.original.dirty.bytes, 150);
	look_as_if_killed();
}

static void discarded_bytes_leave_the_journal(void **state)
{
	(void)state;
	write_bytes(0, 100, 1, true);
	begin();
	kr_late_discard(&F.original);
	assert_null(F.original.flush->late);
	assert_int_equal(live(), 0);
	answer(0); /* too late: it is nobody's */
	assert_true(kr_extent_map_empty(&F.target.dirty));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(without_such_bytes_nothing_happens),
		TEST(who_has_the_conflict_file_open_reads_what_moves_into_it),
		TEST(dirty_bytes_move_to_the_file_that_the_server_names),
		TEST(killed_at_any_step_no_older_byte_comes_back_over_a_newer_one),
		TEST(a_second_lapse_in_the_middle_adds_older_bytes_under_newer_ones),
		TEST(a_second_lapse_while_the_server_is_asked_asks_once),
		TEST(what_is_late_by_a_second_lapse_follows_when_the_first_is_durable),
		TEST(the_directory_does_not_say_any_more_that_what_has_moved_was_refused),
		TEST(the_target_knows_what_it_gets),
		TEST(programs_hear_that_the_conflict_file_is_refused),
		TEST(out_of_memory_at_the_beginning_nothing_is_lost),
		TEST(out_of_memory_for_the_target_it_is_tried_again),
		TEST(what_cannot_have_a_file_is_tried_again),
		TEST(what_the_server_refuses_waits_to_be_discarded),
		TEST(discarded_bytes_leave_the_journal),
	};

	kr_log_init("test_late_bytes", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

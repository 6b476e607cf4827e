/* Late bytes on their way to a conflict file: the journal is real, the server and the flusher are played by the test.
 *
 * After every step that changes the journal it is looked at what a new start would find there: the late bytes, each the
 * latest, in what is left of the original over what the target has got.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/util.h"
#include "fuse/flush_priv.h"
#include "fuse/options.h"
#include "test/unit/directory.h"
#include "test/unit/moved_clock.h"

enum { MODEL_BYTES = 40000, BLOCK = 4096 };
static const uint8_t old_boot[16] = {1}, current_boot[16] = {2};

static struct fixture {
	char directory[64], copy[64];
	uint64_t incarnation;
	struct kr_journal *journal;
	struct kr_mount mount;
	struct kr_mount_options options;
	struct kr_session_facts facts;
	struct kr_flusher flusher;
	struct kr_file original, target;
	uint8_t model[MODEL_BYTES];    /* the late bytes, 0: none */
	uint8_t at_server[MODEL_BYTES]; /* of the target */
	struct kr_conflict_request asked;
	char asked_path[64];
	kr_rpc_fn answer;
	void *context;
	struct kr_task *posted;        /* by late_move.c */
	unsigned turns;
	unsigned calls, space_asked, close_asked, redirtied, orphaned, steps;
	int orphan_err;
	bool watched;                  /* each step is looked at */
	unsigned looks;
	int append_err;                /* what the disk says */
	int allocations_left;          /* then none succeeds; < 0: all do */
} F;

/* --- a new start ------------------------------------------------------------------------------------------------------ */

static void copy_file(const char *from, const char *to)
{
	static const uint8_t zeros[BLOCK];
	uint8_t block[BLOCK];
	KR_AUTO_FD int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	uint64_t offset = 0;
	ssize_t got;

	assert_true(in >= 0 && out >= 0);
	for (; (got = pread(in, block, BLOCK, (off_t)offset)) > 0; offset += (uint64_t)got) {
		if (memcmp(block, zeros, (size_t)got) != 0)
			assert_int_equal(pwrite(out, block, (size_t)got, (off_t)offset), got);
	}
	assert_int_equal(ftruncate(out, (off_t)offset), 0);
}

static void copy_directory(void)
{
	DIR *directory = opendir(F.directory);
	struct dirent *entry;
	char from[400], to[400];

	directory_empty(F.copy);
	while ((entry = readdir(directory))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(from, sizeof(from), "%s/%s", F.directory, entry->d_name);
		snprintf(to, sizeof(to), "%s/%s", F.copy, entry->d_name);
		copy_file(from, to);
	}
	closedir(directory);
}

static void open_journal(const char *directory, uint64_t max, struct kr_recovery *ret_recovery, struct kr_journal **ret_journal)
{
	struct kr_journal_options options = {.directory = directory, .export_id = {7}, .node_id = {9}, .max = max,
		.incarnation = ++F.incarnation};

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
		assert_int_equal(kr_journal_read_verified(picture->journal, piece->position, picture->bytes + piece->offset,
			piece->length), 0);
}

static void paint_recovered(struct kr_recovery *recovery, struct kr_journal *journal, const struct kr_fid *fid, uint8_t *bytes)
{
	struct picture picture = {journal, bytes};
	struct kr_recovered_file *file;
	struct kr_applied *applied;

	KR_LIST_FOR_EACH(file, &recovery->files, link) {
		if (!file->file || !kr_fid_equal(&file->file->fid, fid))
			continue;
		KR_LIST_FOR_EACH(applied, &file->applied, link) {
			if (memcmp(applied->boot_id, current_boot, 16) != 0)
				kr_extent_map_for_each(&applied->extents, paint, &picture);
		}
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
	copy_directory();
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

/* --- what changes the journal, and what runs out of memory (linked with --wrap) ---------------------------------------- */

int __real_kr_journal_append(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset, const void *data,
	size_t length, struct kr_time mtime, bool clear_suid, struct kr_extent *ret_extent);
int __wrap_kr_journal_append(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset, const void *data,
	size_t length, struct kr_time mtime, bool clear_suid, struct kr_extent *ret_extent);
void __real_kr_journal_release(void *journal, const struct kr_extent *piece);
void __wrap_kr_journal_release(void *journal, const struct kr_extent *piece);
void __real_kr_journal_release_mark(struct kr_journal *journal, uint64_t mark);
void __wrap_kr_journal_release_mark(struct kr_journal *journal, uint64_t mark);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

int __wrap_kr_journal_append(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset, const void *data,
	size_t length, struct kr_time mtime, bool clear_suid, struct kr_extent *ret_extent)
{
	int err = F.append_err;

	if (!err)
		err = __real_kr_journal_append(journal, file, offset, data, length, mtime, clear_suid, ret_extent);
	look_if_watched();
	return err;
}

void __wrap_kr_journal_release(void *journal, const struct kr_extent *piece)
{
	__real_kr_journal_release(journal, piece);
	look_if_watched();
}

void __wrap_kr_journal_release_mark(struct kr_journal *journal, uint64_t mark)
{
	__real_kr_journal_release_mark(journal, mark);
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

void *__wrap_malloc(size_t size)
{
	return memory_is_out() ? NULL : __real_malloc(size);
}

/* --- the node around it ------------------------------------------------------------------------------------------------ */

struct kr_file *kr_file_get(struct kr_file *file)
{
	file->references++;
	return file;
}
void kr_file_put(struct kr_file *file)
{
	if (file)
		file->references--;
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
void kr_file_redirtied(struct kr_file *file, struct kr_time mtime, int err)
{
	(void)mtime;
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
	*(reason == KR_FLUSH_SPACE ? &F.space_asked : &F.close_asked) += 1;
}
bool kr_flush_busy(struct kr_file *file)
{
	return !kr_extent_map_empty(&file->dirty);
}
void kr_flush_dirtied(struct kr_file *file)
{
	assert_ptr_equal(file, &F.target);
}
void kr_flush_fid_text(const struct kr_fid *fid, char ret_text[2 * KR_FID_MAX + 1])
{
	(void)fid;
	ret_text[0] = '\0';
}
bool kr_flush_has_replays(struct kr_file *file, const uint8_t boot_id[16])
{
	struct kr_applied *applied;

	KR_LIST_FOR_EACH(applied, &file->flush.applied, link) {
		if (memcmp(applied->boot_id, boot_id, 16) != 0)
			return true;
	}
	return false;
}
bool kr_flush_is_current_boot(const struct kr_file *file, const struct kr_applied *applied)
{
	(void)file;
	return memcmp(applied->boot_id, current_boot, 16) == 0;
}
void kr_flush_orphan(struct kr_file *file, int err)
{
	file->flush.orphaned = true;
	F.orphaned++;
	F.orphan_err = err;
}
void kr_flush_release_map(struct kr_file *file, struct kr_extent_map *map)
{
	kr_journal_release_map(file->mount->journal, map);
}
void kr_flush_settle(struct kr_file *file)
{
	(void)file;
}
struct kr_flusher *kr_flusher_of(const struct kr_file *file)
{
	(void)file;
	return &F.flusher;
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
void kr_loop_post(struct kr_loop *loop, struct kr_task *task)
{
	(void)loop;
	F.posted = task;
}
void kr_loop_forget(struct kr_loop *loop, struct kr_task *task)
{
	(void)loop;
	if (F.posted == task)
		F.posted = NULL;
}
const struct kr_session_facts *kr_session_facts(const struct kr_session *session)
{
	(void)session;
	return &F.facts;
}

/* --- fixture ------------------------------------------------------------------------------------------------------------ */

static void init_file(struct kr_file *file, uint8_t name)
{
	file->mount = &F.mount;
	file->fid = (struct kr_fid){.length = 8, .bytes = {name}};
	pthread_mutex_init(&file->lock, NULL);
	kr_extent_map_init(&file->dirty);
	kr_list_init(&file->flush.applied);
	file->references = 1;
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
	memcpy(F.facts.boot_id, current_boot, 16);
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
	struct kr_link *link;

	kr_late_fini(&file->flush);
	kr_extent_map_fini(&file->dirty);
	while ((link = kr_list_pop(&file->flush.applied))) {
		struct kr_applied *applied = KR_LIST_ENTRY(link, struct kr_applied, link);

		kr_extent_map_fini(&applied->extents);
		free(applied);
	}
	kr_journal_file_free(file->journal_file);
	assert_int_equal(file->references, 1);
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
	assert_int_equal(kr_journal_append(F.journal, F.original.journal_file, offset, data, length, (struct kr_time){1000 + value, 5},
		false, &extent), 0);
	assert_int_equal(kr_extent_map_insert(&F.original.dirty, &extent, kr_journal_release, F.journal), 0);
	F.original.written_seq = extent.seq;
	F.original.mtime = (struct kr_time){1000 + value, 5};
	if (late && offset + length <= MODEL_BYTES)
		memset(F.model + offset, value, length);
	free(data);
}

/* What is dirty is applied, as flush.c does it. */
static void apply(uint64_t round, const uint8_t boot[16])
{
	struct kr_applied *applied = calloc(1, sizeof(*applied));

	applied->up_to = kr_extent_map_max_seq(&F.original.dirty);
	applied->round = round;
	applied->mtime = F.original.mtime;
	memcpy(applied->boot_id, boot, 16);
	applied->mark = kr_journal_applied(F.journal, F.original.journal_file, applied->up_to, round, boot);
	kr_extent_map_init(&applied->extents);
	kr_extent_map_move(&F.original.dirty, &applied->extents);
	kr_list_append(&F.original.flush.applied, &applied->link);
}

static void begin(uint8_t parts)
{
	const struct kr_attr attr = {.ino = 5, .mode = S_IFREG | 0640, .uid = 10, .gid = 20};

	kr_late_begin(&F.original, parts, &attr);
}

/* The server answers CONFLICT. */
static void answer(int err)
{
	const struct kr_conflict_reply reply = {.target = F.target.fid, .attr = {.ino = 6}, .place = "dir/original.conflict"};
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

/* The loop's next turn; nothing ticks. */
static void run_posted(void)
{
	struct kr_task *task = F.posted;

	F.posted = NULL;
	F.turns++;
	task->fn(task);
}

static void assert_all_moved(void)
{
	assert_null(F.original.flush.late);
	assert_true(F.close_asked > 0);
	flush_target();
	assert_memory_equal(F.at_server, F.model, MODEL_BYTES);
}

static uint64_t live(void)
{
	struct kr_journal_usage usage;

	kr_journal_usage(F.journal, &usage);
	return usage.live;
}

/* --- the tests ----------------------------------------------------------------------------------------------------------- */

static void without_such_bytes_nothing_happens(void **state)
{
	(void)state;
	begin(KR_CONFLICT_ALL);
	write_bytes(0, 10, 1, false);
	begin(KR_CONFLICT_REPLAYS);
	apply(3, current_boot);
	begin(KR_CONFLICT_ALL);
	assert_null(F.original.flush.late);
	assert_int_equal(F.calls + F.redirtied, 0);
}

static void who_has_the_conflict_file_open_reads_what_moves_into_it(void **state)
{
	(void)state;
	write_bytes(100, 50, 1, true);
	begin(KR_CONFLICT_ALL);
	kr_holder_cached(&F.target.holder);
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
	begin(KR_CONFLICT_DIRTY);
	assert_true(kr_extent_map_empty(&F.original.dirty)); /* nobody here reads them any more */
	assert_int_equal(F.redirtied, 1);
	assert_string_equal(F.asked_path, "dir/original");
	assert_int_equal(F.asked.mode, S_IFREG | 0640);
	assert_int_equal(F.asked.uid, 10);
	assert_int_equal(F.asked.written.sec, 1002);
	assert_true(F.asked.first > 0 && F.asked.first < F.asked.last);
	assert_int_equal(F.asked.last, F.original.written_seq);
	answer(0);
	assert_int_equal(F.target.opens, 1);
	assert_int_equal(F.target.mtime.sec, 1002);
	assert_string_equal(F.target.journal_file->hint, "dir/original.conflict");
	assert_int_equal(json_array_size(F.flusher.conflicts), 1);
	assert_true(F.looks >= 4);
	F.watched = false;
	assert_all_moved();
	assert_int_equal(live(), 0);
}

/* The later one wins where they overlap, and what belongs to this boot of the server is no replay. */
static void rounds_to_be_replayed_move_in_their_order(void **state)
{
	(void)state;
	write_bytes(90, 30, 9, false);
	apply(9, current_boot); /* that one has been replayed */
	write_bytes(0, 100, 1, true);
	apply(10, old_boot);
	write_bytes(50, 100, 2, true);
	apply(11, old_boot);
	write_bytes(30, 40, 3, true);
	write_bytes(140, 60, 4, true);
	apply(12, old_boot);
	F.watched = true;
	begin(KR_CONFLICT_REPLAYS);
	assert_int_equal(F.asked.written.sec, 1004);
	answer(0);
	F.watched = false;
	assert_all_moved();
	assert_false(kr_flush_has_replays(&F.original, current_boot));
	assert_false(kr_list_empty(&F.original.flush.applied));
}

static void dirty_bytes_win_over_rounds_to_be_replayed(void **state)
{
	(void)state;
	write_bytes(0, 100, 1, true);
	apply(10, old_boot);
	write_bytes(20, 100, 2, true);
	F.watched = true;
	begin(KR_CONFLICT_ALL);
	answer(0);
	F.watched = false;
	assert_all_moved();
}

/* Only the replays are in conflict: what is dirty may go into the original when they have left. */
static void dirty_bytes_that_are_not_late_stay(void **state)
{
	(void)state;
	write_bytes(0, 100, 1, true);
	apply(10, old_boot);
	write_bytes(2000, 10, 2, false);
	begin(KR_CONFLICT_REPLAYS);
	answer(0);
	assert_all_moved();
	assert_int_equal(F.original.dirty.bytes, 10);
}

/* The end of a write is still here when what covered its middle has moved: it must not come back over that. */
static void killed_at_any_step_no_older_byte_comes_back_over_a_newer_one(void **state)
{
	uint64_t random = 7;

	(void)state;
	for (int i = 0; i < 30; i++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		write_bytes((random >> 33) % 3000, 1 + (random >> 20) % 900, (uint8_t)(1 + i), true);
		if (i == 8 || i == 15)
			apply((uint64_t)i, old_boot);
	}
	F.watched = true;
	begin(KR_CONFLICT_ALL);
	answer(0);
	F.watched = false;
	assert_true(F.looks > 60);
	assert_all_moved();
}

static void many_writes(unsigned count, uint8_t value)
{
	for (unsigned i = 0; i < count; i++)
		write_bytes(i * 32, 16, value, true);
}

static void a_second_lapse_in_the_middle_adds_newer_bytes(void **state)
{
	(void)state;
	many_writes(100, 1);
	begin(KR_CONFLICT_DIRTY);
	answer(0); /* moves the first of them */
	assert_non_null(F.original.flush.late);
	assert_false(kr_extent_map_empty(&F.target.dirty));
	flush_target();
	write_bytes(8, 3000, 2, true);
	F.watched = true;
	begin(KR_CONFLICT_DIRTY);
	assert_int_equal(F.calls, 2); /* the server says anew where it goes */
	assert_int_equal(F.asked.last, F.original.written_seq);
	answer(0);
	while (F.original.flush.late)
		kr_late_step(&F.original);
	F.watched = false;
	assert_all_moved();
}

/* No tick comes between, and each turn of the loop takes its share. */
static void many_ranges_move_one_turn_after_the_other(void **state)
{
	(void)state;
	many_writes(1000, 1);
	begin(KR_CONFLICT_DIRTY);
	assert_null(F.posted);
	answer(0);
	while (F.posted)
		run_posted();
	assert_in_range(F.turns, 4, 100);
	assert_all_moved();
}

static void what_is_discarded_in_the_middle_does_not_go_on(void **state)
{
	(void)state;
	many_writes(1000, 1);
	begin(KR_CONFLICT_DIRTY);
	answer(0);
	run_posted();
	assert_non_null(F.posted);
	kr_late_discard(&F.original);
	assert_null(F.posted);
	assert_null(F.original.flush.late);
}

static void a_second_lapse_while_the_server_is_asked_asks_once(void **state)
{
	(void)state;
	write_bytes(0, 100, 1, true);
	begin(KR_CONFLICT_DIRTY);
	write_bytes(50, 100, 2, true);
	begin(KR_CONFLICT_DIRTY);
	assert_int_equal(F.calls, 1);
	answer(0);
	assert_all_moved();
}

static void what_cannot_have_a_file_is_tried_again(void **state)
{
	int err = 0;

	(void)state;
	write_bytes(0, 100, 1, true);
	begin(KR_CONFLICT_DIRTY);
	answer(-ENOSPC);
	kr_late_step(&F.original);
	assert_int_equal(F.calls, 1);
	assert_int_equal(kr_late_bytes(F.original.flush.late, &err), 100);
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
	begin(KR_CONFLICT_DIRTY);
	write_bytes(50, 100, 2, true); /* a program goes on meanwhile */
	F.watched = true;
	answer(-EPERM);
	assert_null(F.original.flush.late);
	assert_int_equal(F.orphaned, 1);
	assert_int_equal(F.orphan_err, -ESTALE);
	assert_int_equal(F.original.dirty.bytes, 150);
	look_as_if_killed();
}

static void discarded_bytes_leave_the_journal(void **state)
{
	(void)state;
	write_bytes(0, 100, 1, true);
	begin(KR_CONFLICT_DIRTY);
	kr_late_discard(&F.original);
	assert_null(F.original.flush.late);
	assert_int_equal(live(), 0);
	answer(0); /* too late: it is nobody's */
	assert_true(kr_extent_map_empty(&F.target.dirty));
}

/* A journal that is full of nothing else: no flush can make room. */
static void a_full_journal_does_not_keep_its_late_bytes(void **state)
{
	enum { PIECE = 1 << 20 };
	static const uint8_t data[PIECE] = {1};
	struct kr_extent extent;
	uint64_t bytes = 0;

	(void)state;
	teardown(NULL);
	init_fixture(KR_JOURNAL_MIN);
	for (; kr_journal_append(F.journal, F.original.journal_file, bytes, data, PIECE, (struct kr_time){1, 1}, false, &extent) == 0;
	     bytes += PIECE)
		assert_int_equal(kr_extent_map_insert(&F.original.dirty, &extent, NULL, NULL), 0);
	assert_true(bytes > 2 * PIECE);
	begin(KR_CONFLICT_DIRTY);
	answer(0);
	for (unsigned turns = 0; F.original.flush.late; turns++) {
		struct kr_journal_usage usage;

		assert_true(turns < 2 * bytes / PIECE);
		kr_journal_usage(F.journal, &usage);
		assert_true(usage.used <= usage.max + 2 * PIECE);
		flush_target();
		kr_late_step(&F.original);
	}
	flush_target();
	assert_int_equal(live(), 0);
}

/* What has moved, and is being flushed, makes room: so long nothing goes beyond the maximum. */
static void a_full_journal_waits_for_what_has_moved(void **state)
{
	static const uint8_t data[KR_JOURNAL_APPEND_MAX] = {1};
	struct kr_journal_usage usage;
	struct kr_extent extent;

	(void)state;
	teardown(NULL);
	init_fixture(KR_JOURNAL_MIN);
	many_writes(100, 1);
	begin(KR_CONFLICT_DIRTY);
	answer(0);
	while (kr_journal_append(F.journal, F.original.journal_file, 0, data, sizeof(data), (struct kr_time){1, 1}, false, &extent) == 0)
		;
	while (kr_journal_append(F.journal, F.original.journal_file, 0, data, BLOCK, (struct kr_time){1, 1}, false, &extent) == 0)
		;
	while (kr_journal_append(F.journal, F.original.journal_file, 0, data, 1, (struct kr_time){1, 1}, false, &extent) == 0)
		;
	kr_late_step(&F.original);
	assert_int_equal(F.space_asked, 1);
	kr_journal_usage(F.journal, &usage);
	assert_true(usage.used <= usage.max);
	assert_non_null(F.original.flush.late);
	flush_target();
	for (int turns = 0; F.original.flush.late && turns < 100; turns++) {
		kr_late_step(&F.original);
		flush_target();
	}
	assert_all_moved();
}

/* Whatever allocation fails when they are taken: none is lost, and none can be flushed into the original.  What could be taken
 * stays with what could not, until the next time. */
static void out_of_memory_at_the_beginning_nothing_is_lost(void **state)
{
	bool failed = true;

	(void)state;
	for (int good = 0; failed; good++) {
		teardown(NULL);
		init_fixture(64 << 20);
		write_bytes(500, 10, 9, true);
		begin(KR_CONFLICT_DIRTY);
		answer(-ENOSPC);
		write_bytes(0, 100, 1, true);
		apply(10, old_boot);
		write_bytes(50, 100, 2, true);
		apply(11, old_boot);
		write_bytes(490, 15, 3, true);
		write_bytes(70, 10, 4, true);
		F.allocations_left = good;
		begin(KR_CONFLICT_ALL);
		failed = F.allocations_left < 0;
		F.allocations_left = -1;
		assert_int_equal(F.original.flush.orphaned, failed);
		look_as_if_killed();
		if (failed) {
			later();
			assert_null(F.answer);
			begin(KR_CONFLICT_ALL);
		}
		answer(0);
		F.watched = false;
		assert_all_moved();
		assert_true(good < 100);
		F.watched = false;
	}
}

static void out_of_memory_in_the_middle_it_is_tried_again(void **state)
{
	bool failed = true;

	(void)state;
	for (int good = 0; failed; good++) {
		int err = 0;

		teardown(NULL);
		init_fixture(64 << 20);
		write_bytes(0, 100, 1, true);
		write_bytes(50, 10, 2, true);
		begin(KR_CONFLICT_DIRTY);
		F.target.journal_file = kr_journal_file_new(&F.target.fid, "hint");
		F.allocations_left = -1;
		answer(-ENOSPC);
		later();
		answer(0);
		assert_null(F.original.flush.late);
		F.close_asked = 0;
		flush_target();
		write_bytes(0, 100, 3, true);
		write_bytes(50, 10, 4, true);
		begin(KR_CONFLICT_DIRTY);
		F.original.flush.orphaned = false;
		F.allocations_left = good;
		answer(0);
		failed = F.allocations_left < 0;
		F.allocations_left = -1;
		if (failed && F.original.flush.late) {
			kr_late_bytes(F.original.flush.late, &err);
			assert_int_equal(err, -ENOMEM);
			look_as_if_killed();
			later();
		}
		assert_all_moved();
		assert_true(good < 100);
		F.watched = false;
	}
}

static void what_the_disk_does_not_take_is_tried_again(void **state)
{
	int err = 0;

	(void)state;
	write_bytes(0, 100, 1, true);
	write_bytes(50, 10, 2, true);
	begin(KR_CONFLICT_DIRTY);
	F.append_err = -EIO;
	F.watched = true;
	answer(0);
	assert_int_equal(kr_late_bytes(F.original.flush.late, &err), 100);
	assert_int_equal(err, -EIO);
	F.append_err = 0;
	kr_late_step(&F.original);
	assert_non_null(F.original.flush.late);
	later();
	F.watched = false;
	assert_all_moved();
}

/* Bytes that the disk has lost are told of, and none goes in their place. */
static void what_cannot_be_read_does_not_move(void **state)
{
	struct kr_extent extent;
	char path[400] = "";
	int err = 0;

	(void)state;
	write_bytes(0, BLOCK, 1, true);
	assert_true(kr_extent_map_find(&F.original.dirty, 0, &extent));
	snprintf(path, sizeof(path), "%s/00000001.data", F.directory);
	{
		KR_AUTO_FD int fd = open(path, O_WRONLY);

		assert_int_equal(pwrite(fd, "?", 1, (off_t)(uint32_t)extent.position), 1);
	}
	begin(KR_CONFLICT_DIRTY);
	answer(0);
	assert_non_null(F.original.flush.late);
	assert_int_equal(kr_late_bytes(F.original.flush.late, &err), BLOCK);
	assert_int_equal(err, -EBADMSG);
	assert_true(kr_extent_map_empty(&F.target.dirty));
	later();
	assert_int_equal(kr_late_bytes(F.original.flush.late, &err), BLOCK);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(without_such_bytes_nothing_happens),
		TEST(who_has_the_conflict_file_open_reads_what_moves_into_it),
		TEST(dirty_bytes_move_to_the_file_that_the_server_names),
		TEST(rounds_to_be_replayed_move_in_their_order),
		TEST(dirty_bytes_win_over_rounds_to_be_replayed),
		TEST(dirty_bytes_that_are_not_late_stay),
		TEST(killed_at_any_step_no_older_byte_comes_back_over_a_newer_one),
		TEST(a_second_lapse_in_the_middle_adds_newer_bytes),
		TEST(many_ranges_move_one_turn_after_the_other),
		TEST(what_is_discarded_in_the_middle_does_not_go_on),
		TEST(a_second_lapse_while_the_server_is_asked_asks_once),
		TEST(what_cannot_have_a_file_is_tried_again),
		TEST(what_the_server_refuses_waits_to_be_discarded),
		TEST(discarded_bytes_leave_the_journal),
		TEST(a_full_journal_does_not_keep_its_late_bytes),
		TEST(a_full_journal_waits_for_what_has_moved),
		TEST(out_of_memory_at_the_beginning_nothing_is_lost),
		TEST(out_of_memory_in_the_middle_it_is_tried_again),
		TEST(what_the_disk_does_not_take_is_tried_again),
		TEST(what_cannot_be_read_does_not_move),
	};

	kr_log_init("test_late_bytes", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Late bytes on their way to a conflict file: the journal is real, the server and the flusher are played here.
 *
 * After every step that changes the journal it can be looked at what a new start would find there: the late bytes, each
 * the latest, in what is left of the original over what the target has got.  Linked with --wrap (meson.build).
 */
#ifndef KR_TEST_UNIT_LATE_BYTES_FIXTURE_H
#define KR_TEST_UNIT_LATE_BYTES_FIXTURE_H

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

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/writeback/flush_priv.h"
#include "fuse/base/options.h"
#include "test/unit/directory.h"
#include "test/unit/moved_clock.h"

enum { MODEL_BYTES = 40000, BLOCK = 4096 };

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
	struct kr_task *posted; /* by late.c */
	unsigned turns;
	unsigned calls, space_asked, close_asked, redirtied, orphaned, steps, forgotten;
	bool watched; /* each step is looked at */
	unsigned looks;
	int orphan_err, append_err; /* append: what the disk says */
	int allocations_left;       /* then none succeeds; < 0: all do */
} F;

/* --- a new start ------------------------------------------------------------------------------ */

static inline void copy_file(const char *from, const char *to)
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

static inline void copy_directory(void)
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

static inline void open_journal(
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

static inline void paint(void *context, const struct kr_extent *piece)
{
	struct picture *picture = context;

	if (piece->offset + piece->length <= MODEL_BYTES)
		assert_int_equal(kr_journal_read_verified(picture->journal, piece->position,
					 picture->bytes + piece->offset, piece->length),
			0);
}

static inline void paint_recovered(
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
static inline void look_as_if_killed(void)
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

static inline void look_if_watched(void)
{
	if (!F.watched)
		return;
	F.watched = false; /* a look uses the journal itself */
	look_as_if_killed();
	F.watched = true;
}

/* --- what changes the journal, and what runs out of memory (linked with --wrap) --------------- */

int __real_kr_journal_append(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset,
	const void *data, size_t length, struct kr_time mtime, bool clear_suid, struct kr_extent *ret_extent);
int __wrap_kr_journal_append(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset,
	const void *data, size_t length, struct kr_time mtime, bool clear_suid, struct kr_extent *ret_extent);
void __real_kr_journal_release(void *journal, const struct kr_extent *piece);
void __wrap_kr_journal_release(void *journal, const struct kr_extent *piece);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

int __wrap_kr_journal_append(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset,
	const void *data, size_t length, struct kr_time mtime, bool clear_suid, struct kr_extent *ret_extent)
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

static inline bool memory_is_out(void)
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

/* --- fixture ---------------------------------------------------------------------------------- */

static inline void init_file(struct kr_file *file, uint8_t name)
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

static inline void init_fixture(uint64_t max)
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

static inline int setup(void **state)
{
	(void)state;
	init_fixture(64 << 20);
	return 0;
}

static inline void free_file(struct kr_file *file)
{
	kr_late_fini(file->flush);
	kr_extent_map_fini(&file->dirty);
	kr_journal_file_free(file->journal_file);
	assert_int_equal(file->life.references, 1);
}

static inline int teardown(void **state)
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
static inline void write_bytes(uint64_t offset, size_t length, uint8_t value, bool late)
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

static inline void begin(void)
{
	const struct kr_attr attr = {.ino = 5, .mode = S_IFREG | 0640, .uid = 10, .gid = 20};

	kr_late_begin(&F.original, &attr);
}

/* The server answers CONFLICT. */
static inline void answer(int err)
{
	const struct kr_conflict_reply reply = {
		.target = F.target.fid, .attr = {.ino = 6}, .place = "dir/original.conflict"};
	kr_rpc_fn fn = F.answer;

	assert_non_null(fn);
	F.answer = NULL;
	fn(F.context, err, err ? NULL : &reply, NULL);
}

static inline void later(void)
{
	move_clock(KR_LATE_RETRY_MS + 1);
	kr_late_step(&F.original);
}

/* The target's bytes are at the server, and stable. */
static inline void flush_target(void)
{
	struct picture picture = {F.journal, F.at_server};

	kr_extent_map_for_each(&F.target.dirty, paint, &picture);
	kr_journal_release_map(F.journal, &F.target.dirty);
}

/* The loop's next turn; nothing ticks. */
static inline void run_posted(void)
{
	struct kr_task *task = F.posted;

	F.posted = NULL;
	F.turns++;
	task->fn(task);
}

static inline void assert_all_moved(void)
{
	assert_null(F.original.flush->late);
	assert_true(F.close_asked > 0);
	flush_target();
	assert_memory_equal(F.at_server, F.model, MODEL_BYTES);
}

static inline uint64_t live(void)
{
	struct kr_journal_usage usage;

	kr_journal_usage(F.journal, &usage);
	return usage.live;
}

static inline void many_writes(unsigned count, uint8_t value)
{
	for (unsigned i = 0; i < count; i++)
		write_bytes(i * 32, 16, value, true);
}

#endif

/* A file with bytes that are told, or not, what became of it; the flusher around it is simulated. */
#ifndef KR_TEST_UNIT_RECLAIM_FIXTURE_H
#define KR_TEST_UNIT_RECLAIM_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/writeback/flush_priv.h"

static struct {
	uint64_t generation; /* of the files */
	int orphaned;        /* why */
	unsigned abandoned, late, settled, redirtied;
	struct kr_session_facts facts;
	struct kr_flusher flusher;
	struct kr_file *busy; /* NULL: none is */
	struct kr_reclaim_request asked;
	unsigned asks, stepped, woken, references;
	struct kr_time now;
	bool told; /* the directory says that the bytes are uncovered */
	unsigned forgotten;
	struct kr_time listed_since;
	uint64_t listed_up_to;
	kr_rpc_fn answer; /* to a RECLAIM on its way; NULL: there is none */
	void *context;
} fake;

void kr_chains_session_lost(struct kr_chains *chains)
{
	(void)chains;
}
void kr_journal_release_until(struct kr_journal *journal, struct kr_extent_map *map, uint64_t seq)
{
	(void)journal;
	kr_extent_map_drop_until(map, seq, NULL, NULL);
}
void kr_journal_power_settled(struct kr_journal *journal)
{
	(void)journal;
	fake.settled++;
}
void kr_file_redirtied(struct kr_file *file, int err)
{
	(void)file;
	assert_int_equal(err, 0);
	fake.redirtied++;
}
bool kr_uncovered_awaited(struct kr_uncovered_log *log, struct kr_file *file, struct kr_time since, uint64_t up_to)
{
	(void)log, (void)file;
	fake.listed_since = since;
	fake.listed_up_to = up_to;
	return !fake.told;
}
void kr_uncovered_forget(struct kr_uncovered_log *log, struct kr_file *file)
{
	(void)log, (void)file;
	fake.forgotten++;
}
void kr_uncovered_recovered(struct kr_uncovered_log *log, struct kr_file *file, const struct kr_uncovered *uncovered)
{
	(void)log, (void)file, (void)uncovered;
}
const char *kr_file_label(const struct kr_file *file, struct kr_file_label *ret)
{
	(void)file, (void)ret;
	return "a file";
}
struct kr_file *kr_file_get(struct kr_file *file)
{
	fake.references++;
	return file;
}
struct kr_time kr_file_now(struct kr_mount *mount)
{
	(void)mount;
	return fake.now;
}
void kr_file_put(struct kr_file *file)
{
	(void)file;
	fake.references--;
}
bool kr_flush_busy(struct kr_file *file)
{
	return !kr_extent_map_empty(&file->dirty);
}
void kr_flush_for_each(struct kr_flusher *flusher, void (*do_file)(struct kr_file *file, enum kr_flush_reason reason),
	enum kr_flush_reason reason)
{
	(void)flusher;
	if (fake.busy)
		do_file(fake.busy, reason);
}
void kr_flush_orphan(struct kr_file *file, int err)
{
	file->flush->orphaned = true;
	fake.orphaned = err;
}
void kr_flush_send_abandon(struct kr_file *file)
{
	fake.abandoned += file->flush->send != NULL;
	file->flush->send = NULL;
}
void kr_file_step(struct kr_file *file)
{
	(void)file;
	fake.woken++;
}
void kr_flush_settle(struct kr_file *file)
{
	(void)file;
}
void kr_flush_watch_calls(struct kr_flusher *flusher)
{
	(void)flusher;
}
void kr_flush_step(struct kr_file *file)
{
	(void)file;
	fake.stepped++;
}
void kr_late_begin(struct kr_file *file, const struct kr_attr *attr)
{
	(void)file, (void)attr;
	fake.late++;
}
uint64_t kr_rpc_call(struct kr_rpc *rpc, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count,
	unsigned flags, kr_rpc_fn callback, void *context)
{
	(void)rpc, (void)slices, (void)count, (void)flags;
	if (type == KR_MSG_RECLAIM) {
		fake.asks++;
		fake.asked = *(const struct kr_reclaim_request *)msg;
		fake.answer = callback;
		fake.context = context;
	}
	return 0;
}
const struct kr_session_facts *kr_session_facts(const struct kr_session *session)
{
	(void)session;
	return &fake.facts;
}
uint64_t kr_files_generation(const struct kr_files *files)
{
	(void)files;
	return fake.generation;
}

struct fixture {
	struct kr_mount mount;
	struct kr_file file;
	struct kr_flush flush;
};

static inline int setup(void **state)
{
	static struct fixture f;

	memset(&fake, 0, sizeof(fake));
	f = (struct fixture){
		.file = {.mount = &f.mount, .flush = &f.flush}, .flush.file = &f.file, .mount.flusher = &fake.flusher};
	fake.flusher.mount = &f.mount;
	kr_lease_state_init(&f.file.holder);
	pthread_mutex_init(&f.file.lock, NULL);
	kr_extent_map_init(&f.file.dirty);
	kr_list_init(&f.file.flush->applied);
	kr_list_init(&f.file.flush->unstable);
	kr_list_init(&fake.flusher.busy);
	*state = &f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	kr_extent_map_fini(&f->file.dirty);
	assert_int_equal(fake.references, 0);
	return 0;
}

static inline void write_some(struct fixture *f)
{
	struct kr_extent extent = {.offset = 10, .length = 100, .position = 1000, .seq = 7};

	assert_int_equal(kr_extent_map_insert(&f->file.dirty, &extent, NULL, NULL), 0);
}

static inline void server_says(int err, const struct kr_reclaim_reply *reply)
{
	kr_rpc_fn answer = fake.answer;

	assert_non_null(answer);
	fake.answer = NULL;
	answer(fake.context, err, reply, NULL);
}

#endif

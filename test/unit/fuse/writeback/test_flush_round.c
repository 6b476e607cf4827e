/* Which of a file's bytes a node streams when the server says ROUND; the rpc, the streams and the flusher are
 * simulated. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "common/base/log.h"
#include "fuse/writeback/flush_priv.h"

enum { OLD = 5, YOUNG = 7 }; /* rounds to be replayed */

static struct {
	struct kr_file file;
	struct kr_flush flush;
	struct kr_flusher flusher;
	kr_down_fn on_round, on_abort;
	const struct kr_extent_map *streamed; /* what the latest stream is of */
	unsigned aborted;
	int answer;
} fake;

void kr_chain_abort(struct kr_chain *chain)
{
	fake.aborted += chain != NULL;
}
struct kr_chain *kr_chain_start(struct kr_chains *chains, const struct kr_round_request *round,
	const struct kr_extent_map *extents, kr_chain_done_fn done, void *context)
{
	(void)chains, (void)round, (void)done;
	fake.streamed = extents;
	return context; /* not NULL */
}
void kr_chains_forget_round(struct kr_chains *chains, const struct kr_fid *file, uint64_t round)
{
	(void)chains, (void)file, (void)round;
}
struct kr_file *kr_file_find(struct kr_mount *mount, const struct kr_fid *fid)
{
	(void)mount, (void)fid;
	return &fake.file;
}
void kr_file_put(struct kr_file *file)
{
	(void)file;
}
void kr_flush_release_map(struct kr_file *file, struct kr_extent_map *map)
{
	(void)file, (void)map;
}
int kr_flush_snapshot(struct kr_flush_send *send)
{
	(void)send;
	return 0;
}
void kr_flush_stable(struct kr_file *file, uint64_t round)
{
	(void)file, (void)round;
}
bool kr_flush_unstable(struct kr_file *file, const struct kr_unstable_request *request)
{
	(void)file, (void)request;
	return true;
}
void kr_rpc_answer(struct kr_rpc *rpc, const struct kr_down *down, int err, const void *msg)
{
	(void)rpc, (void)down, (void)msg;
	fake.answer = err;
}
void kr_rpc_on(struct kr_rpc *rpc, uint16_t type, kr_down_fn handler)
{
	(void)rpc;
	if (type == KR_MSG_ROUND)
		fake.on_round = handler;
	else if (type == KR_MSG_ROUND_ABORT)
		fake.on_abort = handler;
}

/* A file with bytes not flushed and two rounds to be replayed; all three are asked for, the dirty bytes first. */
struct fixture {
	struct kr_mount mount;
	struct kr_applied old, young;
	struct kr_flush_send dirty, first, second;
};

static void add_send(struct kr_flush_send *send, struct kr_applied *replay)
{
	*send = (struct kr_flush_send){.file = &fake.file, .call = 1, .replay = replay};
	kr_list_append(&fake.file.flush->sends, &send->link);
}

static int setup(void **state)
{
	static struct fixture f;

	memset(&fake, 0, sizeof(fake));
	f = (struct fixture){.mount.flusher = &fake.flusher, .old.round = OLD, .young.round = YOUNG};
	fake.file.mount = &f.mount;
	fake.file.flush = &fake.flush;
	kr_list_init(&fake.flush.sends);
	add_send(&f.dirty, NULL);
	add_send(&f.first, &f.old);
	add_send(&f.second, &f.young);
	kr_flush_rounds_init(&f.mount);
	*state = &f;
	return 0;
}

static int begin(struct fixture *f, uint64_t round, uint64_t replay_round)
{
	const struct kr_round_request request = {.round = round, .replay_round = replay_round};

	fake.streamed = NULL;
	fake.on_round(&f->mount, &(struct kr_down){.id = round}, &request, NULL);
	return fake.answer;
}

/* The server replays first, while what was on its way when it lost its power is still asked for. */
static void a_round_of_a_replay_takes_its_bytes_and_not_those_that_are_dirty(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(begin(f, 100, OLD), 0);
	assert_ptr_equal(fake.streamed, &f->old.extents);
	assert_int_equal(f->first.round, 100);
	assert_int_equal(f->dirty.round, 0);
}

/* The answer to the former replay was lost with a connection, and ROUND comes before it is sent again. */
static void a_round_of_a_later_replay_does_not_take_the_former_ones_bytes(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(begin(f, 100, OLD), 0);
	assert_int_equal(begin(f, 101, YOUNG), 0);
	assert_ptr_equal(fake.streamed, &f->young.extents);
	assert_int_equal(f->first.round, 100);
	assert_int_equal(f->second.round, 101);
}

static void a_round_of_dirty_bytes_takes_no_replay(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(begin(f, 100, 0), 0);
	assert_ptr_equal(fake.streamed, &f->dirty.extents);
	f->dirty.inlined = true; /* the server has them */
	assert_int_equal(begin(f, 101, 0), -ENOENT);
	assert_null(fake.streamed);
}

/* The server had no memory for the bytes that came with it. */
static void a_replay_that_went_inline_can_be_asked_for(void **state)
{
	struct fixture *f = *state;

	f->first.inlined = true;
	assert_int_equal(begin(f, 100, OLD), 0);
	assert_ptr_equal(fake.streamed, &f->old.extents);
}

static void what_is_not_asked_for_any_more_is_not_streamed(void **state)
{
	struct fixture *f = *state;

	kr_list_remove(&f->first.link);
	assert_int_equal(begin(f, 100, OLD), -ENOENT);
	f->second.call = 0; /* not sent yet */
	assert_int_equal(begin(f, 101, YOUNG), -ENOENT);
	assert_null(fake.streamed);
}

static void only_the_running_round_is_aborted(void **state)
{
	struct fixture *f = *state;
	struct kr_round_abort_request request = {.round = 99};

	assert_int_equal(begin(f, 100, YOUNG), 0);
	fake.on_abort(&f->mount, &(struct kr_down){.id = 1}, &request, NULL);
	assert_int_equal(fake.aborted, 0);
	request.round = 100;
	fake.on_abort(&f->mount, &(struct kr_down){.id = 2}, &request, NULL);
	assert_int_equal(fake.aborted, 1);
	assert_int_equal(f->second.round, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		TEST(a_round_of_a_replay_takes_its_bytes_and_not_those_that_are_dirty),
		TEST(a_round_of_a_later_replay_does_not_take_the_former_ones_bytes),
		TEST(a_round_of_dirty_bytes_takes_no_replay),
		TEST(a_replay_that_went_inline_can_be_asked_for),
		TEST(what_is_not_asked_for_any_more_is_not_streamed),
		TEST(only_the_running_round_is_aborted),
	};

	kr_log_init("test_flush_round", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

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
void kr_journal_release_map(struct kr_journal *journal, struct kr_extent_map *map)
{
	(void)journal, (void)map;
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
void kr_flush_unstable(struct kr_file *file, const struct kr_down *down, const struct kr_unstable_request *request)
{
	(void)file, (void)down, (void)request;
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

/* A file of whose dirty bytes a FLUSH is on its way. */
struct fixture {
	struct kr_mount mount;
	struct kr_flush_send send;
};

static int setup(void **state)
{
	static struct fixture f;

	memset(&fake, 0, sizeof(fake));
	f = (struct fixture){.mount.flusher = &fake.flusher, .send = {.file = &fake.file, .call = 1}};
	fake.file.mount = &f.mount;
	fake.file.flush = &fake.flush;
	fake.flush.send = &f.send;
	kr_flush_rounds_init(&f.mount);
	*state = &f;
	return 0;
}

static int begin(struct fixture *f, uint64_t round)
{
	const struct kr_round_request request = {.round = round};

	fake.streamed = NULL;
	fake.on_round(&f->mount, &(struct kr_down){.id = round}, &request, NULL);
	return fake.answer;
}

static void a_round_takes_the_bytes_that_did_not_go_with_the_flush(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(begin(f, 100), 0);
	assert_ptr_equal(fake.streamed, &f->send.extents);
	f->send.inlined = true; /* the server has them */
	assert_int_equal(begin(f, 101), -ENOENT);
	assert_null(fake.streamed);
}

/* It came again on another connection. */
static void a_round_begins_once(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(begin(f, 100), 0);
	assert_int_equal(begin(f, 100), 0);
	assert_null(fake.streamed);
	assert_int_equal(begin(f, 101), 0);
	assert_non_null(fake.streamed);
	assert_int_equal(fake.aborted, 1);
}

static void what_is_not_asked_for_any_more_is_not_streamed(void **state)
{
	struct fixture *f = *state;

	f->send.call = 0; /* not sent yet */
	assert_int_equal(begin(f, 100), -ENOENT);
	fake.flush.send = NULL;
	assert_int_equal(begin(f, 100), -ENOENT);
	assert_null(fake.streamed);
}

static void only_the_running_round_is_aborted(void **state)
{
	struct fixture *f = *state;
	struct kr_round_abort_request request = {.round = 99};

	assert_int_equal(begin(f, 100), 0);
	fake.on_abort(&f->mount, &(struct kr_down){.id = 1}, &request, NULL);
	assert_int_equal(fake.aborted, 0);
	request.round = 100;
	fake.on_abort(&f->mount, &(struct kr_down){.id = 2}, &request, NULL);
	assert_int_equal(fake.aborted, 1);
	assert_int_equal(f->send.round, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		TEST(a_round_takes_the_bytes_that_did_not_go_with_the_flush),
		TEST(a_round_begins_once),
		TEST(what_is_not_asked_for_any_more_is_not_streamed),
		TEST(only_the_running_round_is_aborted),
	};

	kr_log_init("test_flush_round", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

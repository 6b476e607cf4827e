/* What a program hears when nothing of a full journal can go. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/writeback/flush_priv.h"

enum { FILES = 3 };

struct fixture {
	struct kr_flusher flusher;
	struct kr_file files[FILES];
	struct kr_file clean;
	struct kr_flush flush[FILES + 1];
};

static void init_file(struct kr_file *file, struct kr_flush *flush)
{
	*file = (struct kr_file){.flush = flush};
	flush->file = file;
	pthread_mutex_init(&file->lock, NULL);
	kr_extent_map_init(&file->dirty);
	kr_list_init(&file->flush->applied);
	kr_link_init(&file->flush->busy);
}

static int setup(void **state)
{
	struct fixture *f = kr_xcalloc(1, sizeof(*f));

	kr_list_init(&f->flusher.busy);
	for (int i = 0; i < FILES; i++)
		init_file(&f->files[i], &f->flush[i]);
	init_file(&f->clean, &f->flush[FILES]);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < FILES; i++)
		kr_extent_map_fini(&f->files[i].dirty);
	free(f);
	return 0;
}

/* File I has BYTES that are refused with ERR; 0: not (yet). */
static void has(struct fixture *f, int i, uint64_t bytes, int err)
{
	struct kr_file *file = &f->files[i];

	assert_int_equal(
		kr_extent_map_insert(&file->dirty, &(struct kr_extent){.length = bytes, .seq = 1}, NULL, NULL), 0);
	file->flush->plan.refused = err;
	kr_list_append(&f->flusher.busy, &file->flush->busy);
}

static void nobody_hears_another_file_s_error(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->clean), 0);
	has(f, 0, 1000, -EDQUOT);
	has(f, 1, 2000, -EACCES);
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->files[0]), -EDQUOT);
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->files[1]), -EACCES);
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->clean), -ENOSPC);
	f->files[1].flush->orphaned = true;
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->files[1]), -EIO);
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->files[0]), -EDQUOT);
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->clean), -ENOSPC);
	f->files[1].flush->unjudged = true;
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->files[1]), -EACCES);
}

static void there_is_hope_while_a_file_is_not_refused(void **state)
{
	struct fixture *f = *state;
	struct kr_flush_send send = {0};

	has(f, 0, 1000, -EDQUOT);
	has(f, 1, 2000, 0);
	for (int i = 0; i < FILES; i++)
		assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->files[i]), 0);
	f->files[1].flush->plan.refused = -EDQUOT;
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->clean), -ENOSPC);
	f->files[0].flush->send = &send; /* it is tried again */
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->clean), 0);
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->files[1]), 0);
}

static void the_log_says_it_once_a_minute(void **state)
{
	struct fixture *f = *state;
	uint64_t said_ns;

	has(f, 0, 1000, -EDQUOT);
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->files[0]), -EDQUOT);
	assert_int_equal(f->flusher.stuck_said_ns, 0); /* its program hears it */
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->clean), -ENOSPC);
	said_ns = f->flusher.stuck_said_ns;
	assert_true(said_ns > 0);
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->clean), -ENOSPC);
	f->flusher.stuck_said_ns -= KR_FLUSH_STUCK_S * KR_NS_PER_S;
	assert_int_equal(kr_flusher_hopeless(&f->flusher, &f->clean), -ENOSPC);
	assert_true(f->flusher.stuck_said_ns >= said_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(nobody_hears_another_file_s_error),
		TEST(there_is_hope_while_a_file_is_not_refused),
		TEST(the_log_says_it_once_a_minute),
	};

	kr_log_init("test_stuck_journal", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

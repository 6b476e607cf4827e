/* Which descriptors the cache closes at its limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>

#include "common/base/util.h"
#include "server/export/fd_cache.h"

static struct kr_fid fid(uint8_t number)
{
	return (struct kr_fid){.bytes = {number}, .length = 1};
}

/* A descriptor of file NUMBER that is not in use, for writing. */
static void add(struct kr_fd_cache *fds, uint8_t number, bool unsynced)
{
	const struct kr_fid id = fid(number);
	struct kr_fd *entry = kr_fd_cache_add(fds, &id, KR_FD_CACHE_WRITE, open("/dev/null", O_WRONLY | O_CLOEXEC));

	entry->unsynced = unsynced;
	kr_fd_cache_put(fds, entry);
}

static bool is_kept(struct kr_fd_cache *fds, uint8_t number)
{
	const struct kr_fid id = fid(number);
	struct kr_fd *entry = kr_fd_cache_peek(fds, &id);

	if (entry)
		kr_fd_cache_unpeek(fds, entry);
	return entry != NULL;
}

static void unsynced_writes_outlast_younger_descriptors_without(void **state)
{
	struct kr_fd_cache *fds = kr_fd_cache_new(3);

	(void)state;
	add(fds, 1, true);
	add(fds, 2, false);
	add(fds, 3, false);
	add(fds, 4, false);
	assert_true(is_kept(fds, 1) && is_kept(fds, 3) && is_kept(fds, 4));
	assert_false(is_kept(fds, 2));
	kr_fd_cache_reap(fds, kr_clock_ns() + 2 * KR_FD_CACHE_IDLE_NS);
	assert_true(is_kept(fds, 1));
	assert_int_equal(kr_fd_cache_count(fds), 1);
	kr_fd_cache_free(fds);
}

static void the_limit_holds_if_all_have_unsynced_writes(void **state)
{
	struct kr_fd_cache *fds = kr_fd_cache_new(3);

	(void)state;
	for (uint8_t number = 1; number <= 5; number++)
		add(fds, number, true);
	assert_int_equal(kr_fd_cache_count(fds), 3);
	assert_true(is_kept(fds, 3) && is_kept(fds, 4) && is_kept(fds, 5));
	kr_fd_cache_free(fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unsynced_writes_outlast_younger_descriptors_without),
		cmocka_unit_test(the_limit_holds_if_all_have_unsynced_writes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What threads count at once is all in the status. */
#include "fuse/base/counters.h"

#include <linux/fuse.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { THREADS = 12, TIMES = 5000 };

static void *count(void *context)
{
	for (int i = 0; i < TIMES; i++) {
		kr_count(context, KR_COUNT_READ_BYTES, 3);
		kr_count_request(context, i % 2 ? FUSE_RENAME : FUSE_RENAME2, 1500);
	}
	return NULL;
}

static json_int_t number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

static void threads_lose_no_count(void **state)
{
	struct kr_counters *counters = kr_counters_new();
	pthread_t threads[THREADS];
	json_t *status;

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count, counters), 0);
	json_decref(kr_counters_status(counters)); /* meanwhile */
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	status = kr_counters_status(counters);
	assert_int_equal(number(status, "read_bytes"), 3 * THREADS * TIMES);
	assert_int_equal(number(status, "written_bytes"), 0);
	assert_int_equal(
		number(json_object_get(json_object_get(status, "requests"), "rename"), "count"), THREADS * TIMES);
	assert_int_equal(json_object_size(json_object_get(status, "requests")), 1);
	json_decref(status);
	kr_counters_free(counters);
}

static void requests_without_an_answer_are_not_counted(void **state)
{
	struct kr_counters *counters = kr_counters_new();
	json_t *status;

	(void)state;
	kr_count_request(counters, FUSE_FORGET, 1);
	kr_count_request(counters, UINT32_MAX, 1);
	status = kr_counters_status(counters);
	assert_int_equal(json_object_size(json_object_get(status, "requests")), 0);
	json_decref(status);
	kr_counters_free(counters);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_lose_no_count),
		cmocka_unit_test(requests_without_an_answer_are_not_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

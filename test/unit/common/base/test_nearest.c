/* Which name a mistyped word stands for. */
#include "common/base/nearest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char *nearest_of(const char *word)
{
	static const char *const names[] = {"status", "stage", "flush", "umount", "key", "journal_max", "flush_age"};
	struct kr_nearest nearest = {0};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		kr_nearest_try(&nearest, word, names[i]);
	return nearest.name ? nearest.name : "none";
}

static void one_mistake_in_three_characters_is_understood(void **state)
{
	(void)state;
	assert_string_equal(nearest_of("staus"), "status");  /* left out */
	assert_string_equal(nearest_of("fluush"), "flush");  /* added */
	assert_string_equal(nearest_of("umoint"), "umount"); /* changed */
	assert_string_equal(nearest_of("flsuh"), "flush");   /* exchanged */
	assert_string_equal(nearest_of("stat"), "status");   /* two of six */
	assert_string_equal(nearest_of("stagw"), "stage");   /* nearer than status */
	assert_string_equal(nearest_of("journal-mx"), "journal_max");
	assert_string_equal(nearest_of("kei"), "key");
}

static void other_words_stand_for_none(void **state)
{
	(void)state;
	assert_string_equal(nearest_of(""), "none");
	assert_string_equal(nearest_of("ky1"), "none");
	assert_string_equal(nearest_of("nonsense"), "none");
	assert_string_equal(nearest_of("status-status-status-status-status-status"), "none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_mistake_in_three_characters_is_understood),
		cmocka_unit_test(other_words_stand_for_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

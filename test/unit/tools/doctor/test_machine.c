/* What kairan doctor says of kernels, and how it reads sets of processors. */
#include "tools/doctor/checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/util.h"

static bool lacks(const char *release, const char *what)
{
	const char *text = kr_kernel_lacks(release);

	return text && strstr(text, what);
}

static void old_kernels_lack_more(void **state)
{
	(void)state;
	assert_true(lacks("5.14.0-427.el9.x86_64", "MAP_SHARED") && lacks("5.14.0-427.el9.x86_64", "attributes"));
	assert_true(lacks("6.1.0-32-amd64", "MAP_SHARED"));
	assert_true(lacks("6.6.0", "attributes") && !lacks("6.6.0", "MAP_SHARED"));
	assert_true(lacks("6.13.9", "attributes"));
	assert_null(kr_kernel_lacks("6.14.0"));
	assert_null(kr_kernel_lacks("7.0-rc1"));
}

static void sets_of_processors_are_read_and_written(void **state)
{
	static const struct {
		const char *list, *mask;
	} same[] = {
		{"0", "1\n"}, {"0-3,8\n", "10f"}, {"31-33", "3,80000000\n"}, {"", "0"}, {"\n", "00000000,00000000"}};
	cpu_set_t list, mask;
	char text[64], cut[4];

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(same); i++) {
		assert_true(kr_cpus_of_list(same[i].list, &list) && kr_cpus_of_mask(same[i].mask, &mask));
		assert_true(CPU_EQUAL(&list, &mask));
		kr_cpus_text(&list, text, sizeof(text));
		assert_int_equal(strlen(text), strcspn(same[i].list, "\n"));
		assert_memory_equal(text, same[i].list, strlen(text));
	}
	assert_false(kr_cpus_of_list("0-x", &list));
	assert_false(kr_cpus_of_mask("fg", &mask));
	assert_true(kr_cpus_of_list("1,3,5,7", &list));
	assert_string_equal(kr_cpus_text(&list, cut, sizeof(cut)), "1,3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(old_kernels_lack_more), cmocka_unit_test(sets_of_processors_are_read_and_written)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

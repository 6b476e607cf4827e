/* What kairan doctor says of kernels. */
#include "tools/doctor/checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(old_kernels_lack_more)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

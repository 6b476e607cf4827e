/* Where the control sockets of mounts are written down.  The device's number is none that the kernel gives. */
#include "fuse/control_place.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { NO_MAJOR = 4095 };

static void expect(const char *socket)
{
	const struct kr_mounted mounted = {.dev_major = NO_MAJOR, .dev_minor = (unsigned)getpid(), .uid = geteuid()};
	char *found = NULL;
	int pid = 0, err = kr_control_place_read(&mounted, &found, &pid);

	assert_int_equal(err, socket ? 0 : -ENOENT);
	if (!socket)
		return;
	assert_string_equal(found, socket);
	assert_int_equal(pid, getpid());
	free(found);
}

static void what_is_written_down_is_found_and_taken_back(void **state)
{
	(void)state;
	expect(NULL);
	assert_int_equal(kr_control_place_write(NO_MAJOR, (unsigned)getpid(), "/first/control"), 0);
	expect("/first/control");
	kr_control_place_remove(NO_MAJOR, (unsigned)getpid(), "/first/control");
	expect(NULL);
}

static void a_path_may_be_of_any_bytes(void **state)
{
	static const char path[] = "/ \xff latin \xe9\n{\"/control";

	(void)state;
	assert_int_equal(kr_control_place_write(NO_MAJOR, (unsigned)getpid(), path), 0);
	expect(path);
	kr_control_place_remove(NO_MAJOR, (unsigned)getpid(), path);
	expect(NULL);
}

static void a_mount_that_has_the_number_next_keeps_its_note(void **state)
{
	(void)state;
	assert_int_equal(kr_control_place_write(NO_MAJOR, (unsigned)getpid(), "/first/control"), 0);
	assert_int_equal(kr_control_place_write(NO_MAJOR, (unsigned)getpid(), "/second/control"), 0);
	kr_control_place_remove(NO_MAJOR, (unsigned)getpid(), "/first/control");
	expect("/second/control");
	kr_control_place_remove(NO_MAJOR, (unsigned)getpid(), "/second/control");
	expect(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_down_is_found_and_taken_back),
		cmocka_unit_test(a_path_may_be_of_any_bytes),
		cmocka_unit_test(a_mount_that_has_the_number_next_keeps_its_note),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

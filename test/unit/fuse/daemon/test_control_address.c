/* Where the control sockets of mounts are written down.  The device's number is none that the kernel gives. */
#include "fuse/daemon/control_address.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { NO_MAJOR = 4095 };

static void expect(const char *socket)
{
	const struct kr_mounted mounted = {.dev_major = NO_MAJOR, .dev_minor = (unsigned)getpid(), .uid = geteuid()};
	char *found = NULL;
	int pid = 0, err = kr_control_address_read(&mounted, &found, &pid);

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
	assert_int_equal(kr_control_address_write(NO_MAJOR, (unsigned)getpid(), "/first/control"), 0);
	expect("/first/control");
	kr_control_address_remove(NO_MAJOR, (unsigned)getpid(), "/first/control");
	expect(NULL);
}

static void a_path_may_be_of_any_bytes(void **state)
{
	static const char path[] = "/ \xff latin \xe9\n{\"/control";

	(void)state;
	assert_int_equal(kr_control_address_write(NO_MAJOR, (unsigned)getpid(), path), 0);
	expect(path);
	kr_control_address_remove(NO_MAJOR, (unsigned)getpid(), path);
	expect(NULL);
}

static void a_mount_that_has_the_number_next_keeps_its_note(void **state)
{
	(void)state;
	assert_int_equal(kr_control_address_write(NO_MAJOR, (unsigned)getpid(), "/first/control"), 0);
	assert_int_equal(kr_control_address_write(NO_MAJOR, (unsigned)getpid(), "/second/control"), 0);
	kr_control_address_remove(NO_MAJOR, (unsigned)getpid(), "/first/control");
	expect("/second/control");
	kr_control_address_remove(NO_MAJOR, (unsigned)getpid(), "/second/control");
	expect(NULL);
}

/* True: this process is an ordinary user, and root of a user namespace. */
static bool become_root_of_a_namespace(uid_t uid)
{
	char map[40];
	int fd;

	snprintf(map, sizeof(map), "0 %u 1", (unsigned)uid);
	if (setresuid(uid, uid, uid) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 || unshare(CLONE_NEWUSER) < 0)
		return false;
	fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, map, strlen(map)) == (ssize_t)strlen(map) && geteuid() == 0;
}

/* Containers of ordinary users: /run/kairan is another's, or cannot be made. */
static void root_of_a_user_namespace_has_a_place_of_its_own(void **state)
{
	enum { NO_NAMESPACE = 77 };
	char directory[] = "/tmp/test_control_place.XXXXXX", place[64];
	uid_t uid = geteuid() ? geteuid() : 65534;
	int status = 0;
	pid_t pid;

	(void)state;
	assert_non_null(mkdtemp(directory));
	assert_int_equal(chown(directory, uid, (gid_t)-1), 0);
	pid = fork();
	if (pid == 0) {
		if (!become_root_of_a_namespace(uid))
			_exit(NO_NAMESPACE);
		setenv("XDG_RUNTIME_DIR", directory, 1);
		if (kr_control_address_write(NO_MAJOR, (unsigned)getpid(), "/first/control") < 0)
			_exit(1);
		expect("/first/control");
		kr_control_address_remove(NO_MAJOR, (unsigned)getpid(), "/first/control");
		expect(NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	snprintf(place, sizeof(place), "%s/kairan", directory);
	rmdir(place);
	assert_int_equal(rmdir(directory), 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_NAMESPACE)
		skip();
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_down_is_found_and_taken_back),
		cmocka_unit_test(a_path_may_be_of_any_bytes),
		cmocka_unit_test(a_mount_that_has_the_number_next_keeps_its_note),
		cmocka_unit_test(root_of_a_user_namespace_has_a_place_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

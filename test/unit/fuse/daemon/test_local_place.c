/* What a local directory lies on. */
#include "fuse/daemon/local_place.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static void types_have_kinds(void **state)
{
	static const struct {
		const char *type;
		enum kr_place_kind kind;
	} types[] = {
		{"ext4", KR_PLACE_DISK},
		{"xfs", KR_PLACE_DISK},
		{"fuseblk", KR_PLACE_DISK},
		{"", KR_PLACE_DISK},
		{"nfsd", KR_PLACE_DISK},
		{"tmpfs", KR_PLACE_MEMORY},
		{"overlay", KR_PLACE_LAYER},
		{"nfs4", KR_PLACE_NETWORK},
		{"fuse.sshfs", KR_PLACE_NETWORK},
		{"fuse.kairanfs", KR_PLACE_KAIRAN},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		assert_int_equal(kr_place_kind(types[i].type), types[i].kind);
}

static void a_descriptor_has_its_mounts_type(void **state)
{
	char type[KR_PLACE_TYPE];
	int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(kr_place_of(fd, type), KR_PLACE_DISK);
	assert_string_equal(type, "proc");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_have_kinds),
		cmocka_unit_test(a_descriptor_has_its_mounts_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The conformance tests of carriers over the RDMA device of this machine.  By hand: test_verbs_device ADDRESS, that of
 * the device's network interface. */
#include "test/unit/common/verbs/verbs_fixture.h"

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {CONFORMANCE(&verbs)};

	if (argc != 2) {
		fprintf(stderr, "usage: test_verbs_device ADDRESS\n");
		return 77;
	}
	listen_host = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}

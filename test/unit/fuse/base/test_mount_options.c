/* The command line of kairanfs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "fuse/base/options.h"

static struct kr_mount_options options;

/* Parses "kairanfs" and up to four more words; not the machine's own file. */
static int parse(const char *a, const char *b, const char *c, const char *d)
{
	const char *const words[] = {"kairanfs", "--config=" TEST_DIR "/../no-options.json", a, b, c, d};
	char *argv[7] = {NULL}, *owned[7];
	int argc = 0, err;

	kr_mount_options_fini(&options);
	memset(&options, 0, sizeof(options));
	for (size_t i = 0; i < KR_ARRAY_SIZE(words) && words[i]; i++, argc++)
		argv[argc] = owned[argc] = kr_xstrdup(words[i]);
	err = kr_mount_options_parse(argc, argv, &options);
	for (int i = 0; i < argc; i++)
		free(owned[i]);
	return err;
}

static void a_source_has_a_host_a_port_and_a_directory(void **state)
{
	(void)state;
	assert_int_equal(parse("fs1:/", "/mnt", NULL, NULL), 0);
	assert_string_equal(options.server.host, "fs1");
	assert_int_equal(options.server.port, 7440);
	assert_string_equal(options.subdir, "");
	assert_int_equal(parse("10.0.0.1:7000:/a/b//", "/mnt", NULL, NULL), 0);
	assert_string_equal(options.server.host, "10.0.0.1");
	assert_int_equal(options.server.port, 7000);
	assert_string_equal(options.subdir, "a/b");
	assert_int_equal(parse("[fe80::1]:7000:/", "/mnt", NULL, NULL), 0);
	assert_string_equal(options.server.host, "fe80::1");
	assert_string_equal(options.source, "[fe80::1]:7000:/");
}

static void what_cannot_be_a_mount_is_refused_with_a_reason(void **state)
{
	(void)state;
	assert_int_equal(parse(NULL, NULL, NULL, NULL), -EINVAL);
	assert_non_null(strstr(kr_fail_reason(), "usage"));
	assert_int_equal(parse("fs1:/", NULL, NULL, NULL), -EINVAL);
	assert_non_null(strstr(kr_fail_reason(), "mount point"));
	assert_int_equal(parse("nonsense", "/mnt", NULL, NULL), -EINVAL);
	assert_non_null(strstr(kr_fail_reason(), "HOST"));
	assert_int_equal(parse("fs1:0:/", "/mnt", NULL, NULL), -EINVAL);
	assert_int_equal(parse(":/", "/mnt", NULL, NULL), -EINVAL);
	assert_int_equal(parse("fs1:/", "/mnt", "/more", NULL), -EINVAL);
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "soft,hard"), -EINVAL);
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "journal_max=1K"), -EINVAL);
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "stripe_size=100000"), -EINVAL);
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "stripe_size=2T"), -EINVAL);
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "nonsense=1"), -EINVAL);
	assert_non_null(strstr(kr_fail_reason(), "nonsense"));
}

static void processors_are_a_list_of_ranges(void **state)
{
	(void)state;
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "cpus=0-2:7,soft"), 0);
	assert_true(options.soft);
	assert_int_equal(CPU_COUNT(&options.cpu_set), 4);
	assert_true(CPU_ISSET(1, &options.cpu_set) && CPU_ISSET(7, &options.cpu_set));
	assert_int_equal(parse("fs1:/", "/mnt", "--cpus=1,3", NULL), 0);
	assert_int_equal(CPU_COUNT(&options.cpu_set), 2);
	for (size_t i = 0; i < 8; i++) {
		static const char *const bad[] = {
			"cpus=x", "cpus=3-1", "cpus=1-", "cpus=1::2", "cpus=-1", "cpus=99999", "cpus=1:", "cpus=1;2"};

		assert_int_equal(parse("fs1:/", "/mnt", "-o", bad[i]), -EINVAL);
		assert_non_null(strstr(kr_fail_reason(), "cpus"));
	}
}

static void a_ring_port_is_one_or_a_range(void **state)
{
	static const char *const bad[] = {"ring_port=0", "ring_port=65536", "ring_port=x", "ring_port=7450-",
		"ring_port=-7450", "ring_port=7450-7449", "ring_port=7450-65536", "ring_port=7450-7460x",
		"ring_port= 7450", "ring_port=7450-7451-7452", "ring_port=4294974746", "ring_port=18446744073709559066",
		"ring_port=", "ring_port=0-0", "ring_port=+7450"};

	(void)state;
	assert_int_equal(parse("fs1:/", "/mnt", NULL, NULL), 0);
	assert_int_equal(options.ring_ports.low, 0);
	assert_int_equal(options.ring_ports.high, 0);
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "ring_port=7450,soft"), 0);
	assert_int_equal(options.ring_ports.low, 7450);
	assert_int_equal(options.ring_ports.high, 7450);
	assert_int_equal(parse("fs1:/", "/mnt", "--ring-port", "1-65535"), 0);
	assert_int_equal(options.ring_ports.low, 1);
	assert_int_equal(options.ring_ports.high, 65535);
	for (size_t i = 0; i < KR_ARRAY_SIZE(bad); i++) {
		assert_int_equal(parse("fs1:/", "/mnt", "-o", bad[i]), -EINVAL);
		assert_non_null(strstr(kr_fail_reason(), "ring_port"));
	}
}

static void what_mount_and_fstab_say_is_understood(void **state)
{
	(void)state;
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "rw,_netdev,nofail,x-systemd.automount,defaults,noauto"), 0);
	assert_null(options.fuse_options);
	assert_false(options.read_only);
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "ro,dev,suid,noatime,allow_other"), 0);
	assert_true(options.read_only);
	assert_true(options.allow_other);
	assert_true(options.noatime);
	assert_string_equal(options.fuse_options, "dev,suid,noatime");
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "ro,rw"), 0);
	assert_false(options.read_only);
	assert_false(options.remount);
	assert_int_equal(
		parse("fs1:/", "/mnt", "-o",
			"ro,nosuid,nodev,relatime,remount,user_id=0,group_id=0,default_permissions,allow_other"),
		0);
	assert_true(options.remount && options.read_only);
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "user_id=5"), -EINVAL);
}

static void our_own_options_have_units_and_defaults(void **state)
{
	(void)state;
	assert_int_equal(parse("fs1:/", "/mnt", "-f", NULL), 0);
	assert_true(options.foreground);
	assert_int_equal(options.close, KR_CLOSE_SYNC);
	assert_int_equal(options.drain_timeout, 30000);
	assert_int_equal(options.flush_backlog, 8 << 20);
	assert_int_equal(options.stripe_size, 0);
	assert_true(options.default_permissions);
	assert_int_equal(parse("fs1:/", "/mnt", "-o",
				 "close=async,soft,timeo=1.5,journal_max=16M,local=/x,node=n7,stripe_size=1M"),
		0);
	assert_int_equal(options.close, KR_CLOSE_ASYNC);
	assert_int_equal(options.timeo, 1500);
	assert_int_equal(options.journal_max, 16 << 20);
	assert_int_equal(options.stripe_size, 1 << 20);
	assert_string_equal(options.local, "/x");
	assert_string_equal(options.node, "n7");
}

static void a_node_without_a_disk_names_its_lender(void **state)
{
	(void)state;
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "local=@n1"), 0);
	assert_true(options.borrowed);
	assert_null(options.local);
	assert_string_equal(options.lender.host, "n1");
	assert_int_equal(options.lender.port, KR_LEND_PORT);
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "local=@[fe80::1]:7000"), 0);
	assert_string_equal(options.lender.host, "fe80::1");
	assert_int_equal(options.lender.port, 7000);
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "local=here"), 0);
	assert_false(options.borrowed);
	assert_int_equal(*options.local, '/');
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "local=@"), -EINVAL);
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "local=@n1,transport=verbs"), -EINVAL);
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "metrics=127.0.0.1:9441,local=@n1"), -EINVAL);
	assert_string_equal(kr_fail_reason(), "metrics: not with local=@n1: it is the lender's");
	assert_int_equal(parse("none", "/mnt", "-o", "view=node,local=@n1"), -EINVAL);
	assert_int_equal(parse("fs1:/", "/mnt", "-o", "view=job,job=7,local=@n1"), -EINVAL);
	assert_int_equal(parse("--lend=/scratch", NULL, NULL, NULL), 0);
	assert_string_equal(options.lend, "/scratch");
	assert_int_equal(parse("--lend=/scratch", "fs1:/", NULL, NULL), -EINVAL);
	assert_int_equal(parse("fs1:/", "/mnt", "--listen=:7000", NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_source_has_a_host_a_port_and_a_directory),
		cmocka_unit_test(what_cannot_be_a_mount_is_refused_with_a_reason),
		cmocka_unit_test(processors_are_a_list_of_ranges),
		cmocka_unit_test(a_ring_port_is_one_or_a_range),
		cmocka_unit_test(what_mount_and_fstab_say_is_understood),
		cmocka_unit_test(our_own_options_have_units_and_defaults),
		cmocka_unit_test(a_node_without_a_disk_names_its_lender),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	kr_mount_options_fini(&options);
	return failed;
}

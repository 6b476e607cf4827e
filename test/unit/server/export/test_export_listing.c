/* Listing directories of the export: what is there, once each, and positions that hold while names come and go. */
#include "test/unit/server/export/export_fixture.h"

#include <endian.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/utsname.h>

#include "test/unit/effort.h"

struct seen {
	uint64_t next;
	char name[KR_NAME_MAX + 1];
};

enum { PROBES = 200, LINKS_OF_ONE = 50000 };

/* The entries from COOKIE on, at most MAX. */
static size_t list(const struct kr_fid *fid, uint64_t cookie, size_t size, struct seen *seen, size_t max)
{
	uint8_t buffer[65536];
	size_t length, at, count = 0;
	bool end = false;

	while (!end && count < max) {
		ok(kr_export_readdir(F.export, &root_cred, fid, cookie, buffer, size, &length, &end));
		for (at = 0; at < length && count < max; at += 18u + buffer[at + 17]) {
			memcpy(&cookie, buffer + at + 8, 8);
			cookie = be64toh(cookie);
			seen[count].next = cookie;
			memcpy(seen[count].name, buffer + at + 18, buffer[at + 17]);
			seen[count++].name[buffer[at + 17]] = 0;
		}
	}
	return count;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct seen *)a)->name, ((const struct seen *)b)->name);
}

static void the_root_lists_everything_but_our_own(void **state)
{
	struct seen seen[8];
	size_t count;

	(void)state;
	make(&F.root, "a", S_IFREG | 0644);
	make(&F.root, "b", S_IFDIR | 0755);
	count = list(&F.root, 0, KR_READDIR_MIN, seen, 8);
	qsort(seen, count, sizeof(seen[0]), by_name);
	assert_int_equal(count, 4);
	assert_string_equal(seen[0].name, ".");
	assert_string_equal(seen[2].name, "a");
	assert_string_equal(seen[3].name, "b");
}

static void listing_refuses_what_is_not_a_directory_or_position(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	uint8_t buffer[KR_READDIR_MIN];
	size_t length;
	bool end;

	(void)state;
	fails(ENOTDIR, kr_export_readdir(F.export, &root_cred, &file, 0, buffer, sizeof(buffer), &length, &end));
	fails(EINVAL,
		kr_export_readdir(F.export, &root_cred, &F.root, UINT64_MAX, buffer, sizeof(buffer), &length, &end));
	fails(EINVAL, kr_export_readdir(F.export, &root_cred, &F.root, 0, buffer, 100, &length, &end));
}

/* Cookies that count the names before them. */
static bool old_tmpfs(int fd)
{
	struct utsname name;
	unsigned major = 0, minor = 0;
	struct statfs fs;

	assert_int_equal(fstatfs(fd, &fs), 0);
	assert_true(uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2);
	return fs.f_type == TMPFS_MAGIC && (major < 6 || (major == 6 && minor < 6));
}

static void large_directories_keep_their_cookies(void **state)
{
	/* Of 100,000 ext4 makes an index of two levels. */
	const size_t total = the_world->by_inode || the_world->unprivileged ? 5000 : KR_EFFORT(100000, 5000);
	const size_t step = total / PROBES;
	struct kr_fid directory = make(&F.root, "d", S_IFDIR | 0755);
	struct seen *seen = calloc(total + 2, sizeof(*seen)), again[3];
	unsigned random_state = 42;
	size_t i, at;
	char name[32], first[32];
	int dirfd;

	(void)state;
	dirfd = open(on_disk("d"), O_RDONLY | O_DIRECTORY);
	for (i = 0; i < total; i++) {
		snprintf(name, sizeof(name), "entry-%zu", i);
		if (i % LINKS_OF_ONE == 0) {
			assert_int_equal(mknodat(dirfd, name, S_IFREG | 0600, 0), 0);
			snprintf(first, sizeof(first), "%s", name);
		} else {
			assert_int_equal(linkat(dirfd, first, dirfd, name, 0), 0); /* cheaper than a file each */
		}
	}
	assert_int_equal(list(&directory, 0, 65536, seen, total + 2), total + 2);
	for (i = 0; i < PROBES; i++) {
		at = i * step + (size_t)rand_r(&random_state) % (step - 4);
		assert_int_equal(list(&directory, seen[at].next, KR_READDIR_MIN, again, 3), 3);
		assert_string_equal(again[0].name, seen[at + 1].name);
		assert_string_equal(again[2].name, seen[at + 3].name);
		/* A removal does not move the others: on tmpfs since Linux 6.6. */
		if (old_tmpfs(dirfd))
			continue;
		unlinkat(dirfd, seen[at].name, 0);
		assert_int_equal(list(&directory, seen[at].next, 4096, again, 1), 1);
		assert_string_equal(again[0].name, seen[at + 1].name);
	}
	close(dirfd);
	free(seen);
}

static int run(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(the_root_lists_everything_but_our_own),
		CASE(listing_refuses_what_is_not_a_directory_or_position),
		CASE(large_directories_keep_their_cookies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	return in_all_worlds(run);
}

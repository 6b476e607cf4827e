/* Opens and creates, the descriptors that they take, and the end of an export. */
#include "test/unit/server/export/export_fixture.h"

#include <dirent.h>
#include <sys/resource.h>

static int create_error(const char *name, bool exclusive)
{
	struct kr_create request = {.name = name, .mode = 0644, .flags = KR_OPEN_WRITE, .exclusive = exclusive};
	struct kr_attr attr;
	struct kr_fid fid;
	bool created;

	return kr_export_create(F.export, &root_cred, &F.root, &request, &created, &fid, &attr);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void an_open_is_checked(void **state)
{
	struct kr_fid directory = make(&F.root, "d", S_IFDIR | 0755), file = make(&F.root, "f", S_IFREG | 0644);
	struct kr_attr attr;

	(void)state;
	fails(EISDIR, kr_export_open(F.export, &root_cred, &directory, KR_OPEN_WRITE, &attr));
	fails(EINVAL, kr_export_open(F.export, &root_cred, &file, KR_OPEN_ACCESS, &attr));
	put_bytes(&file, 0, "bytes", 5);
	ok(kr_export_open(F.export, &root_cred, &file, KR_OPEN_READ, &attr));
	assert_int_equal(attr.size, 5);
	ok(kr_export_open(F.export, &root_cred, &file, KR_OPEN_WRITE | KR_OPEN_TRUNC, &attr));
	assert_int_equal(attr.size, 0);
	kr_export_release(F.export, &file, 2);
	kr_export_release(F.export, &file, 1); /* one too many does no harm */
	fails(EISDIR, create_error("d", false));
	fails(EEXIST, create_error("d", true));
	fails(EEXIST, create_error("f", true));
}

/* What nodes read out of their caches leaves no other trace. */
static void an_open_for_reading_counts_as_an_access(void **state)
{
	const struct timespec before[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	struct kr_time changed;
	struct kr_attr attr;
	char byte;
	int fd;

	(void)state;
	put_bytes(&file, 0, "bytes", 5);
	assert_int_equal(utimensat(AT_FDCWD, on_disk("f"), before, 0), 0);
	fd = open(on_disk("f"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, 0), 1);
	close(fd);
	ok(kr_export_getattr(F.export, &file, &attr));
	if (attr.atime.sec == 1000)
		skip(); /* the filesystem is mounted with noatime */
	assert_int_equal(utimensat(AT_FDCWD, on_disk("f"), before, 0), 0);
	ok(kr_export_open(F.export, &root_cred, &file, KR_OPEN_WRITE, &attr));
	assert_int_equal(attr.atime.sec, 1000);
	changed = attr.ctime;
	ok(kr_export_open(F.export, &root_cred, &file, KR_OPEN_READ | KR_OPEN_NOATIME, &attr));
	assert_int_equal(attr.atime.sec, 1000);
	ok(kr_export_open(F.export, &root_cred, &file, KR_OPEN_READ, &attr));
	assert_true(attr.atime.sec > 2000);
	assert_int_equal(kr_time_compare(attr.ctime, changed), 0);
	kr_export_release(F.export, &file, 3);
}

static void a_program_that_runs_cannot_be_written(void **state)
{
	struct kr_attr attr;
	struct kr_fid fid;
	char command[500];
	int to_child[2], running[2], r;
	pid_t pid;

	(void)state;
	snprintf(command, sizeof(command), "cp /bin/cat %s", on_disk("program"));
	assert_int_equal(system(command), 0);
	ok(kr_export_lookup(F.export, &root_cred, &F.root, "program", &fid, &attr));
	assert_int_equal(pipe2(to_child, O_CLOEXEC), 0);
	assert_int_equal(pipe2(running, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (dup2(to_child[0], 0) == 0)
			execl(on_disk("program"), "cat", (char *)NULL);
		_exit(1);
	}
	close(running[1]);
	assert_int_equal(read(running[0], command, 1), 0); /* the end comes when the program runs */
	close(running[0]);
	r = kr_export_open(F.export, &root_cred, &fid, KR_OPEN_WRITE, &attr);
	close(to_child[1]);
	close(to_child[0]);
	waitpid(pid, NULL, 0);
	fails(ETXTBSY, r);
	ok(kr_export_open(F.export, &root_cred, &fid, KR_OPEN_WRITE, &attr));
	kr_export_release(F.export, &fid, 1);
}

static void a_create_says_whether_it_made_the_file(void **state)
{
	struct kr_fid first, second;
	bool created;

	(void)state;
	first = create("f", KR_OPEN_WRITE, true, &created);
	assert_true(created);
	put_bytes(&first, 0, "kept", 4);
	second = create("f", KR_OPEN_BOTH | KR_OPEN_TRUNC, false, &created);
	assert_false(created);
	assert_true(kr_fid_equal(&first, &second));
	assert_text(&first, 0, "kept");
	kr_export_release(F.export, &first, 2);
	fails(EPERM, create_error(".kairan", false));
	fails(EINVAL, create_error("..", false));
}

static void a_file_created_read_only_can_be_written_by_its_creator(void **state)
{
	struct kr_create request = {.name = "f", .mode = 0, .flags = KR_OPEN_WRITE, .exclusive = true};
	struct kr_attr attr;
	struct kr_fid fid;
	bool created;

	(void)state;
	ok(kr_export_create(F.export, &root_cred, &F.root, &request, &created, &fid, &attr));
	put_bytes(&fid, 0, "text", 4);
	assert_text(&fid, 0, "text");
	assert_int_equal(attr_of(&fid).mode & 0777, 0);
	kr_export_release(F.export, &fid, 1);
}

static void unnamed_files_live_until_closed_or_get_a_name(void **state)
{
	struct kr_fid lost = create("", KR_OPEN_BOTH, false, NULL), kept = create("", KR_OPEN_BOTH, false, NULL);
	struct kr_attr attr;

	(void)state;
	assert_int_equal(attr_of(&kept).nlink, 0);
	put_bytes(&kept, 0, "kept", 4);
	ok(kr_export_link(F.export, &root_cred, &kept, &F.root, "name", &attr));
	assert_int_equal(attr.nlink, 1);
	assert_int_equal(orphans(), 1);
	kr_export_release(F.export, &kept, 1);
	kr_export_release(F.export, &lost, 1);
	assert_int_equal(orphans(), 0);
	fails(ESTALE, getattr_error(&lost));
	assert_text(&kept, 0, "kept");
}

/* --- descriptors ------------------------------------------------------------------------------ */

static int count_fds(void)
{
	DIR *stream = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(stream))
		count++;
	closedir(stream);
	return count;
}

static void open_files_do_not_cost_descriptors(void **state)
{
	enum { FILES = 300 };
	int before, i;
	char name[16];

	(void)state;
	kr_export_free(F.export);
	F.options.max_fds = 8;
	start_export();
	before = count_fds();
	for (i = 0; i < FILES; i++) {
		struct kr_fid fid;

		snprintf(name, sizeof(name), "%d", i);
		fid = create(name, KR_OPEN_BOTH, true, NULL);
		put_bytes(&fid, 0, name, strlen(name));
		assert_text(&fid, 0, name);
	}
	assert_true(count_fds() <= before + 8);
}

static void a_shortage_of_descriptors_closes_kept_ones(void **state)
{
	struct rlimit limit, tight;
	struct kr_fid fids[40];
	char name[16];
	int i;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &limit);
	tight = (struct rlimit){(rlim_t)count_fds() + 20, limit.rlim_max};
	for (i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "%d", i);
		fids[i] = make(&F.root, name, S_IFREG | 0644);
	}
	setrlimit(RLIMIT_NOFILE, &tight);
	for (i = 0; i < 40; i++)
		put_bytes(&fids[i], 0, "x", 1);
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* --- the export's end ------------------------------------------------------------------------- */

static void a_removed_or_replaced_export_is_stale(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644);
	struct kr_make request = {.name = "new", .mode = S_IFREG | 0644};
	struct kr_attr attr;
	struct kr_fid fid;
	char away[100];

	(void)state;
	snprintf(away, sizeof(away), "%s-away", F.path);
	assert_int_equal(rename(F.path, away), 0);
	fails(EIO, kr_export_tick(F.export));
	fails(EIO, getattr_error(&file));
	assert_non_null(strstr(kr_fail_reason(), F.path));
	assert_int_equal(mkdir(F.path, 0755), 0);
	fails(EIO, kr_export_tick(F.export));
	fails(EIO, kr_export_make(F.export, &root_cred, &F.root, &request, &fid, &attr));
	fails(EIO, kr_export_pwritev(F.export, &file, &(struct kr_write_piece){0, "x", 1}, 1));
	assert_int_equal(rmdir(F.path), 0);
	assert_int_equal(rename(away, F.path), 0);
	ok(kr_export_tick(F.export));
	attr_of(&file);
}

static void what_cannot_be_exported_is_refused(void **state)
{
	struct kr_export_options options = F.options;
	struct kr_export *other;
	char path[100];

	(void)state;
	fails(EBUSY, kr_export_new(&options, &other));
	snprintf(path, sizeof(path), "%s/nowhere", F.base);
	options.path = path;
	fails(ENOENT, kr_export_new(&options, &other));
	options.path = "/dev/null";
	fails(ENOTDIR, kr_export_new(&options, &other));
	snprintf(path, sizeof(path), "%s/outside", F.base);
	options.path = path;
	snprintf(path, sizeof(path), "%s/outside/.kairan", F.base);
	assert_int_equal(symlink("/tmp", path), 0);
	snprintf(path, sizeof(path), "%s/outside", F.base);
	fails(ENOTDIR, kr_export_new(&options, &other));
}

static void a_read_only_export_is_served(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644), fid;
	struct kr_make request = {.name = "new", .mode = S_IFREG | 0644};
	struct kr_export_info info;
	struct kr_attr attr;

	(void)state;
	if (!is_root() || !can_mount)
		skip();
	put_bytes(&file, 0, "text", 4);
	kr_export_free(F.export);
	assert_int_equal(mount(F.path, F.path, NULL, MS_BIND, NULL), 0);
	assert_int_equal(mount("none", F.path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
	start_export();
	kr_export_info(F.export, &info);
	assert_true(info.read_only);
	ok(kr_export_open(F.export, &root_cred, &file, KR_OPEN_READ, &attr));
	assert_text(&file, 0, "text");
	fails(EROFS, kr_export_open(F.export, &root_cred, &file, KR_OPEN_WRITE, &attr));
	fails(EROFS, kr_export_make(F.export, &root_cred, &F.root, &request, &fid, &attr));
	fails(EROFS, kr_export_remove(F.export, &root_cred, &F.root, "f", false, 0, NULL));
	kr_export_release(F.export, &file, 1);
	kr_export_free(F.export);
	assert_int_equal(umount(F.path), 0);
	start_export();
}

static int run(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(an_open_is_checked),
		CASE(an_open_for_reading_counts_as_an_access),
		CASE(a_program_that_runs_cannot_be_written),
		CASE(a_create_says_whether_it_made_the_file),
		CASE(a_file_created_read_only_can_be_written_by_its_creator),
		CASE(unnamed_files_live_until_closed_or_get_a_name),
		CASE(open_files_do_not_cost_descriptors),
		CASE(a_shortage_of_descriptors_closes_kept_ones),
		CASE(a_removed_or_replaced_export_is_stale),
		CASE(what_cannot_be_exported_is_refused),
		CASE(a_read_only_export_is_served),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	return in_all_worlds(run);
}

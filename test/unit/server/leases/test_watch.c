/* Files that are looked at for changes behind the server's back. */
#include "test/unit/server/session/server_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "server/export/export.h"
#include "server/leases/file_table.h"
#include "server/leases/watch.h"

static json_int_t counter(struct fixture *f, const char *name)
{
	json_t *status = kr_watch_status(&f->server);
	json_int_t count = json_integer_value(json_object_get(status, name));

	json_decref(status);
	return count;
}

static json_int_t looks(struct fixture *f)
{
	return counter(f, "looks");
}

static bool has_events(struct fixture *f)
{
	json_t *status = kr_watch_status(&f->server);
	bool has = strcmp(json_string_value(json_object_get(status, "mechanism")), "events") == 0;

	json_decref(status);
	return has;
}

static void a_file_is_looked_at_once_in_a_while(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid;
	uint64_t begin_ns;
	struct node *node;

	stop_server(f);
	f->options.watch = KR_WATCH_SWEEP;
	start_server(f);
	begin_ns = kr_clock_ns();
	node = joined(f, 0);
	fid = create(node, "f", 0);
	assert_int_equal(node_result(node, send_lease(node, &fid, KR_LEASE_READ), NULL), 0);
	while (looks(f) == 0)
		a_moment_later(f, node);
	assert_true((uint64_t)looks(f) <= (kr_clock_ns() - begin_ns) / (KR_WATCH_PERIOD_MS * KR_NS_PER_MS));
}

/* READ comes along with CREATE, and nothing else asks about the file. */
static void a_file_that_was_just_made_is_looked_at_too(void **state)
{
	struct fixture *f = *state;
	struct node *node;
	char path[100];
	FILE *file;

	stop_server(f);
	f->options.watch = KR_WATCH_SWEEP;
	start_server(f);
	node = joined(f, 0);
	create(node, "f", KR_LEASE_READ);
	snprintf(path, sizeof(path), "%s/f", f->export_path);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("behind our back", file);
	fclose(file);
	node_reply(node, node_asked(node, KR_MSG_RECALL), NULL);
}

/* The change that gave a file its ctime may end when nobody uses the file any more: word of it must still be
 * understood. */
static void a_file_that_has_just_changed_stays_known(void **state)
{
	struct fixture *f = *state;
	const union kr_any_msg *found;
	struct node *node;
	struct kr_fid fid;
	char path[100];

	if (!has_events(f))
		skip();
	snprintf(path, sizeof(path), "%s/f", f->export_path);
	assert_int_equal(close(creat(path, 0644)), 0);
	node = joined(f, 0);
	assert_int_equal(lookup(node, "f", &found), 0);
	fid = found->lookup_reply.file;
	assert_int_equal(
		node_call(node, KR_MSG_OPEN, &(struct kr_open_request){.file = fid, .flags = KR_OPEN_READ}, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &(struct kr_close_request){.file = fid, .count = 1}, NULL), 0);
	assert_non_null(kr_sfile_find(&f->server, &fid));
}

/* Another process writes to PATH, and sets the former mtime again.  Returns when the server has heard of it. */
static void written_by_other(struct fixture *f, struct node *node, const char *path)
{
	json_int_t before = counter(f, "events");
	pid_t child = fork();
	int status;

	if (child == 0) {
		int fd = open(path, O_WRONLY);
		struct stat st;
		bool done = fd >= 0 && fstat(fd, &st) == 0 && pwrite(fd, "x", 1, 0) == 1 &&
			futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}) == 0 && close(fd) == 0;

		_exit(!done);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	for (int i = 0; i < 200 && counter(f, "events") == before; i++)
		a_moment_later(f, node);
	assert_true(counter(f, "events") > before);
}

/* A file whose ctime is no longer young where times are coarse: its bytes have a version. */
static void make_file(struct fixture *f, const char *name, char *ret_path)
{
	int fd;

	snprintf(ret_path, 100, "%s/%s", f->export_path, name);
	fd = creat(ret_path, 0644);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "y", 1, 0), 1);
	assert_int_equal(close(fd), 0);
	usleep(60000);
}

/* The server changes the mode of FILE, and meanwhile another process writes to WRITTEN.  Returns whether the bytes of
 * FILE keep their version. */
static bool keeps_version(struct fixture *f, struct node *node, const char *file, const char *written)
{
	struct kr_own_change change;
	const union kr_any_msg *found;
	struct kr_sfile *sfile;
	struct kr_fid fid;
	uint64_t before;
	bool kept;

	assert_int_equal(lookup(node, strrchr(file, '/') + 1, &found), 0);
	fid = found->lookup_reply.file;
	kr_watch_own_begin(&f->server, &change);
	kr_watch_own_before(f->server.export, &fid, &change);
	assert_int_equal(chmod(file, 0600), 0);
	written_by_other(f, node, written);
	kr_watch_own_after(f->server.export, &fid, &change);
	kr_watch_own_of(&f->server, &fid, &change);
	sfile = kr_sfile_get(&f->server, &fid);
	before = kr_export_attr_version(f->server.export, &change.before, sfile->changes);
	assert_true(before != 0);
	kept = kr_sfile_version_at(sfile, &change.after, sfile->changes) == before;
	kr_sfile_put(sfile);
	return kept;
}

static void open_by_name(struct node *node, const char *name)
{
	const union kr_any_msg *found;
	struct kr_open_request msg = {.flags = KR_OPEN_READ};

	assert_int_equal(lookup(node, name, &found), 0);
	msg.file = found->lookup_reply.file;
	assert_int_equal(node_call(node, KR_MSG_OPEN, &msg, NULL), 0);
}

static void the_servers_change_of_a_mode_keeps_the_version_while_others_write_elsewhere(void **state)
{
	struct fixture *f = *state;
	char file[100], other[100];
	struct node *node;

	if (!has_events(f))
		skip();
	make_file(f, "f", file);
	make_file(f, "other", other);
	node = joined(f, 0);
	open_by_name(node, "f");
	assert_true(keeps_version(f, node, file, other));
}

static void the_servers_change_of_a_mode_hides_no_write_of_others(void **state)
{
	struct fixture *f = *state;
	struct node *node;
	char file[100];

	if (!has_events(f))
		skip();
	make_file(f, "f", file);
	node = joined(f, 0);
	open_by_name(node, "f");
	assert_false(keeps_version(f, node, file, file));
}

static void the_servers_change_of_a_mode_hides_no_write_to_a_file_that_is_not_in_use(void **state)
{
	struct fixture *f = *state;
	struct node *node;
	char file[100];

	if (!has_events(f))
		skip();
	make_file(f, "f", file);
	node = joined(f, 0);
	assert_false(keeps_version(f, node, file, file));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_file_is_looked_at_once_in_a_while),
		TEST(a_file_that_was_just_made_is_looked_at_too),
		TEST(a_file_that_has_just_changed_stays_known),
		TEST(the_servers_change_of_a_mode_keeps_the_version_while_others_write_elsewhere),
		TEST(the_servers_change_of_a_mode_hides_no_write_of_others),
		TEST(the_servers_change_of_a_mode_hides_no_write_to_a_file_that_is_not_in_use),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_watch", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Files that are looked at for changes behind the server's back. */
#include "test/unit/server/session/server_fixture.h"

#include <signal.h>

#include "common/base/log.h"
#include "server/leases/file_table.h"
#include "server/leases/watch.h"

static json_int_t looks(struct fixture *f)
{
	json_t *status = kr_watch_status(&f->server);
	json_int_t count = json_integer_value(json_object_get(status, "looks"));

	json_decref(status);
	return count;
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
	json_t *status = kr_watch_status(&f->server);
	const union kr_any_msg *found;
	struct node *node;
	struct kr_fid fid;
	char path[100];
	bool told = strcmp(json_string_value(json_object_get(status, "mechanism")), "events") == 0;

	json_decref(status);
	if (!told)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_file_is_looked_at_once_in_a_while),
		TEST(a_file_that_was_just_made_is_looked_at_too),
		TEST(a_file_that_has_just_changed_stays_known),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_watch", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

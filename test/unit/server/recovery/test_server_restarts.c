/* A server that comes back: grace, reclaims, and whose export it is. */
#include "test/unit/server/session/server_fixture.h"

#include <signal.h>
#include <fcntl.h>

#include "common/base/fail.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "server/base/line_log.h"
#include "server/base/state_priv.h"

static void a_restarted_server_lets_nodes_reclaim_first(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = f->nodes[1];
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_reclaim_request reclaim = {.file = fid, .opens = 1, .kinds = KR_LEASE_WRITE};
	struct kr_lookup_request look = {.name = "f"};
	struct kr_close_request close_msg = {.file = fid, .count = 1};
	const union kr_any_msg *reply;
	uint64_t id;

	stop_server(f);
	start_server(f);
	assert_true(f->server.sessions->grace.active);
	assert_int_equal(node_hello(other, false), 0);
	look.parent = other->hello.root;
	id = node_send(other, KR_MSG_LOOKUP, &look);
	settle(other);
	assert_false(is_answered(other, id));

	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.resumed, 0);
	assert_int_not_equal(node->hello.grace_ms, 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, &reply), 0);
	assert_int_equal(reply->reclaim_reply.kinds, KR_LEASE_WRITE);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_reply(node, node_asked(node, KR_MSG_QUERY), &(struct kr_query_reply){0});
	assert_int_equal(node_result(other, id, NULL), 0);
	assert_false(f->server.sessions->grace.active);
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), -EBADF);
}

/* The connection broke during the recovery, which began again before the server was done with what came first. */
static void a_file_that_is_reclaimed_again_meanwhile_is_open_once(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", 0);
	struct kr_reclaim_request reclaim = {.file = fid, .opens = 1};
	struct kr_remove_request remove_file = {.parent = node->hello.root, .name = "f"};
	struct kr_close_request close_msg = {.file = fid, .count = 1};
	uint64_t first, second;

	restart_server(f);
	assert_int_equal(node_hello(node, true), 0);
	first = node_send(node, KR_MSG_RECLAIM, &reclaim);
	second = node_send(node, KR_MSG_RECLAIM, &reclaim);
	assert_int_equal(node_result(node, first, NULL), 0);
	assert_int_equal(node_result(node, second, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_REMOVE, &remove_file, NULL), 0);
	assert_false(no_orphans(f));
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), 0);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), -EBADF);
}

static void a_nameless_open_file_outlives_a_restart(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", 0);
	struct kr_remove_request remove_file = {.parent = node->hello.root, .name = "f"};
	struct kr_reclaim_request reclaim = {.file = fid, .opens = 1};
	struct kr_getattr_request getattr = {.file = fid};
	struct kr_close_request close_msg = {.file = fid, .count = 1};

	assert_int_equal(node_call(node, KR_MSG_REMOVE, &remove_file, NULL), 0);
	restart_server(f);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_GETATTR, &getattr, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), 0);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
}

static void the_grace_period_ends_without_the_dead(void **state)
{
	struct fixture *f = *state;
	struct node *dead = joined(f, 0), *node = f->nodes[1];
	struct kr_lookup_request look = {.name = "nothing"};
	uint64_t id;

	create(dead, "f", KR_LEASE_WRITE);
	stop_server(f);
	start_server(f);
	assert_int_equal(node_hello(node, false), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	look.parent = node->hello.root;
	id = node_send(node, KR_MSG_LOOKUP, &look);
	while (!is_answered(node, id))
		a_moment_later(f, node);
	assert_int_equal(node_result(node, id, NULL), -ENOENT);
	node_disconnect(node);
	stop_server(f);
	start_server(f); /* the dead one is not waited for again, the other one is */
	assert_int_equal(kr_grace_awaited(&f->server.sessions->grace), 1);
}

/* If its record stayed and we ended now, the next instance would take the lost node for one that has kept its leases.
 */
static void nobody_goes_on_before_the_lost_are_forgotten(void **state)
{
	struct fixture *f = *state;
	struct node *dead = joined(f, 0), *node = f->nodes[1];
	struct kr_lookup_request look = {.name = "nothing"};
	char hex[KR_STATE_ID_HEX];
	int nodes;
	uint64_t id;

	create(dead, "f", KR_LEASE_WRITE);
	kr_hex_format(dead->node_id, 16, hex);
	stop_server(f);
	start_server(f);
	/* In the record's place something that cannot be unlinked, for a while. */
	nodes = openat(kr_state_dir(f->server.state), "nodes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(nodes >= 0);
	assert_int_equal(unlinkat(nodes, hex, 0), 0);
	assert_int_equal(mkdirat(nodes, hex, 0700), 0);
	assert_int_equal(node_hello(node, false), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	look.parent = node->hello.root;
	id = node_send(node, KR_MSG_LOOKUP, &look);
	while (!f->server.sessions->forget_failed)
		a_moment_later(f, node);
	settle(node);
	assert_false(is_answered(node, id));
	assert_true(f->server.sessions->grace.active);
	assert_int_equal(unlinkat(nodes, hex, AT_REMOVEDIR), 0);
	while (!is_answered(node, id))
		a_moment_later(f, node);
	assert_int_equal(node_result(node, id, NULL), -ENOENT);
	close(nodes);
}

static void two_servers_on_one_export_are_refused(void **state)
{
	struct fixture *f = *state;
	struct kr_server_options options = f->options;
	static struct kr_server second;
	char other_state[96];

	assert_int_equal(kr_server_init(&second, &f->loop, &options), -EBUSY); /* the same state directory */
	snprintf(other_state, sizeof(other_state), "%s/state2", f->directory);
	options.state = other_state;
	assert_int_equal(kr_server_init(&second, &f->loop, &options), -EBUSY); /* the same export */
}

static void another_directory_at_the_same_path_is_refused(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_server_options options = f->options;
	static struct kr_server second;
	uint8_t export_id[16];
	char moved[96], other_export[96];

	create(node, "f", 0);
	memcpy(export_id, f->server.export_id, 16);
	stop_server(f);
	snprintf(other_export, sizeof(other_export), "%s/other", f->directory);
	assert_int_equal(mkdir(other_export, 0755), 0);
	options.export_path = other_export;
	assert_int_equal(kr_server_init(&second, &f->loop, &options), -EEXIST);
	snprintf(moved, sizeof(moved), "%s/moved", f->directory);
	assert_int_equal(rename(f->export_path, moved), 0);
	/* An empty mount point: what nodes hold belongs to what is not mounted yet. */
	assert_int_equal(mkdir(f->export_path, 0755), 0);
	options.export_path = f->export_path;
	assert_int_equal(kr_server_init(&second, &f->loop, &options), -ENXIO);
	assert_non_null(strstr(kr_fail_reason(), "is its filesystem mounted?"));
	assert_int_equal(rmdir(f->export_path), 0);
	assert_int_equal(rename(moved, f->export_path), 0);
	start_server(f);
	assert_memory_equal(f->server.export_id, export_id, 16);
}

/* DIR/clock, as an instance that was alive the last time at REAL_NS has left it. */
static void write_clock(const struct fixture *f, uint64_t real_ns)
{
	struct kr_writer lines = {0};
	char hex[33];
	int dir = open(f->state_path, O_RDONLY | O_DIRECTORY);

	kr_hex_format(f->server.boot_id, 16, hex);
	kr_line_log_add(&lines, "boot %s %llu 1", hex, (unsigned long long)real_ns);
	assert_int_equal(kr_write_file(dir, "clock", lines.bytes, lines.length, 0600), 0);
	kr_writer_fini(&lines);
	close(dir);
}

static void write_peace(const struct fixture *f, const struct kr_clean_shutdown *peace)
{
	int dir = open(f->state_path, O_RDONLY | O_DIRECTORY);

	assert_int_equal(kr_clean_shutdown_write(dir, peace), 0);
	close(dir);
}

static struct kr_clean_shutdown read_peace(const struct fixture *f)
{
	struct kr_clean_shutdown peace;
	int dir = open(f->state_path, O_RDONLY | O_DIRECTORY);

	assert_int_equal(kr_clean_shutdown_read(dir, &peace), 0);
	close(dir);
	return peace;
}

/* With other ids in the state directory than those of this start. */
static void boot_the_machine(struct fixture *f)
{
	struct kr_clean_shutdown peace;

	stop_server(f);
	peace = read_peace(f);
	peace.machine[0] ^= 1;
	peace.boot[0] ^= 1;
	write_peace(f, &peace);
	start_server(f);
}

static void a_boot_of_the_machine_after_a_stop_in_peace_is_a_mere_restart(void **state)
{
	struct fixture *f = *state;
	uint8_t boot_id[16];

	assert_int_equal(read_peace(f).state, KR_CLEAN_SHUTDOWN_SERVING);
	memcpy(boot_id, f->server.boot_id, 16);
	boot_the_machine(f);
	boot_id[0] ^= 1;
	assert_memory_equal(f->server.boot_id, boot_id, 16);
	assert_int_equal(read_peace(f).state, KR_CLEAN_SHUTDOWN_SERVING);
	kr_state_not_clean(f->server.state); /* a sync has failed */
	boot_the_machine(f);
	assert_memory_not_equal(f->server.boot_id, boot_id, 16);
	boot_id[0] ^= 1;
	assert_memory_not_equal(f->server.boot_id, boot_id, 16);
}

static void a_start_that_fails_leaves_the_doubt_about_the_former_instance_to_the_next(void **state)
{
	struct fixture *f = *state;
	static struct kr_server failing;
	uint64_t alive_ns = kr_clock_real_ns() - 10000 * KR_NS_PER_S;
	char doubts[96];

	stop_server(f);
	write_clock(f, alive_ns);
	snprintf(doubts, sizeof(doubts), "%s/doubts", f->state_path);
	unlink(doubts);
	assert_int_equal(mkdir(doubts, 0700), 0);
	assert_true(kr_server_init(&failing, &f->loop, &f->options) < 0);
	assert_int_equal(rmdir(doubts), 0);
	start_server(f);
	assert_int_equal(kr_doubts_of(&f->server.daemon->doubts, alive_ns), f->server.instance);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_restarted_server_lets_nodes_reclaim_first),
		TEST(a_file_that_is_reclaimed_again_meanwhile_is_open_once),
		TEST(a_nameless_open_file_outlives_a_restart),
		TEST(the_grace_period_ends_without_the_dead),
		TEST(nobody_goes_on_before_the_lost_are_forgotten),
		TEST(two_servers_on_one_export_are_refused),
		TEST(another_directory_at_the_same_path_is_refused),
		TEST(a_boot_of_the_machine_after_a_stop_in_peace_is_a_mere_restart),
		TEST(a_start_that_fails_leaves_the_doubt_about_the_former_instance_to_the_next),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server_restarts", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

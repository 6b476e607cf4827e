/* Requests that come twice, and over another connection. */
#include "test/unit/server/session/server_fixture.h"

#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/base/log.h"
#include "common/rpc/attr_cache.h"
#include "server/session/request.h"
#include "server/session/session.h"

/* --- a disk that takes its time --------------------------------------------------------------- */

static atomic_bool disk_hangs; /* for the next directory that is removed, or file without bytes that is synced */
static atomic_int hanging, removals;
static sem_t disk;

static void hang(void)
{
	disk_hangs = false;
	hanging++;
	while (sem_wait(&disk) < 0)
		;
	hanging--;
}

/* These stand in for libc's. */
int fsync(int fd)
{
	struct stat st;

	if (disk_hangs && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
		hang();
	return (int)syscall(SYS_fsync, fd);
}

int unlinkat(int dirfd, const char *name, int flags)
{
	if (flags & AT_REMOVEDIR)
		removals++;
	if (disk_hangs && flags & AT_REMOVEDIR)
		hang();
	return (int)syscall(SYS_unlinkat, dirfd, name, flags);
}

static void let_disk_hang(void)
{
	assert_int_equal(sem_init(&disk, 0, 0), 0);
	removals = 0;
	disk_hangs = true;
}

static bool does_disk_hang(void *context)
{
	(void)context;
	return hanging > 0;
}

static void let_disk_go_on(void)
{
	assert_int_equal(sem_post(&disk), 0);
}

/* --- repetitions ------------------------------------------------------------------------------ */

static void a_repeated_request_gets_the_same_answer(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_make_request make = {.parent = node->hello.root, .name = "dir", .mode = S_IFDIR | 0755, .target = ""};
	struct kr_remove_request remove_dir = {.parent = node->hello.root, .name = "dir", .directory = 1};
	const union kr_any_msg *reply;
	struct kr_fid first;
	uint64_t made, removed;

	made = node_send(node, KR_MSG_MAKE, &make);
	assert_int_equal(node_result(node, made, &reply), 0);
	first = reply->make_reply.file;
	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, NULL), -EEXIST);
	removed = node_send(node, KR_MSG_REMOVE, &remove_dir);
	assert_int_equal(node_result(node, removed, NULL), 0);
	node_disconnect(node);
	resume(node);
	node_answer(node, made)->replies = node_answer(node, removed)->replies = 0;
	node_send_as(node, made, KR_FRAME_RESEND, KR_MSG_MAKE, &make);
	node_send_as(node, removed, KR_FRAME_RESEND, KR_MSG_REMOVE, &remove_dir);
	assert_int_equal(node_result(node, made, &reply), 0);
	assert_true(kr_fid_equal(&reply->make_reply.file, &first));
	assert_int_equal(node_result(node, removed, NULL), 0);
	assert_int_equal(lookup(node, "dir", NULL), -ENOENT); /* it was not made again */
}

static void a_repeated_open_counts_once_and_grants_nothing(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_create_request msg = {.parent = node->hello.root, .name = "f", .mode = 0644, .want = KR_LEASE_WRITE};
	struct kr_close_request close_msg = {.count = 1};
	const union kr_any_msg *reply;
	uint64_t id = node_send(node, KR_MSG_CREATE, &msg);

	assert_int_equal(node_result(node, id, &reply), 0);
	assert_int_equal(reply->create_reply.granted, KR_LEASE_WRITE);
	close_msg.file = reply->create_reply.file;
	node_disconnect(node);
	resume(node);
	node_answer(node, id)->replies = 0;
	node_send_as(node, id, KR_FRAME_RESEND, KR_MSG_CREATE, &msg);
	assert_int_equal(node_result(node, id, &reply), 0);
	assert_int_equal(reply->create_reply.granted, 0);
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), -EBADF);
}

/* Before the cut is made the node has to hear that its own bytes are durable, and meanwhile the session ends. */
static void a_cut_that_was_not_made_is_made_when_it_is_asked_for_again(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_create_request msg = {
		.parent = node->hello.root, .name = "f", .mode = 0644, .flags = KR_OPEN_BOTH | KR_OPEN_TRUNC};
	const union kr_any_msg *reply;
	uint64_t id;

	node->keeps_stable = true;
	flush_text(node, &fid, 1, "bytes");
	id = node_send(node, KR_MSG_CREATE, &msg);
	node_asked(node, KR_MSG_STABLE);
	settle(node);
	assert_false(is_answered(node, id));
	kr_session_end(kr_session_find(&f->server, node->hello.session), KR_SESSION_LOST);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.resumed, 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_send_as(node, id, KR_FRAME_RESEND, KR_MSG_CREATE, &msg);
	assert_int_equal(node_result(node, id, &reply), 0);
	assert_int_equal(reply->create_reply.attr.size, 0);
}

/* NODE is back in a session that has taken the place of the one that is lost, and asks again. */
static void ask_again_elsewhere(struct fixture *f, struct node *node, uint64_t id, uint16_t type, const void *msg)
{
	kr_session_end(kr_session_find(&f->server, node->hello.session), KR_SESSION_LOST);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.resumed, 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_send_as(node, id, KR_FRAME_RESEND, type, msg);
	settle(node);
}

struct answering {
	struct node *node, *writer;
	uint64_t id;
};

/* The writer says that it has nothing unflushed, and gives back what it is asked for. */
static bool is_answered_by_all(void *context)
{
	const struct answering *answering = context;
	const struct kr_query_reply clean = {0};

	for (size_t i = 0; i < answering->writer->asked_count; i++) {
		struct node_asked *asked = &answering->writer->asked[i];

		if (!asked->answered)
			node_reply(answering->writer, asked, asked->type == KR_MSG_QUERY ? &clean : NULL);
	}
	return is_answered(answering->node, answering->id);
}

/* Of 'f'. It is synced still when its session ends; meanwhile another node waits to write. */
static void repeat_a_cut(struct fixture *f, uint16_t type, const void *msg, int times)
{
	struct node *node = f->nodes[0], *writer = joined(f, 1);
	struct answering answering = {.node = node, .writer = writer};
	const union kr_any_msg *found;
	uint64_t lease;
	char path[128];
	struct stat now;

	snprintf(path, sizeof(path), "%s/f", f->export_path);
	assert_int_equal(truncate(path, 100), 0);
	assert_int_equal(lookup(writer, "f", &found), 0);
	let_disk_hang();
	answering.id = node_send(node, type, msg);
	assert_true(node_wait_for(&f->loop, does_disk_hang, NULL));
	lease = send_lease(writer, &found->lookup_reply.file, KR_LEASE_WRITE);
	settle(writer);
	while (times-- > 0)
		ask_again_elsewhere(f, node, answering.id, type, msg);
	assert_false(is_answered(node, answering.id) || is_answered(writer, lease));
	let_disk_go_on();
	assert_int_equal(node_result(writer, lease, NULL), 0);
	assert_int_equal(truncate(path, 5), 0); /* as its write would */
	assert_true(node_wait_for(&f->loop, is_answered_by_all, &answering));
	assert_int_equal(node_result(node, answering.id, NULL), 0);
	assert_int_equal(stat(path, &now), 0);
	assert_int_equal(now.st_size, 5);
	assert_int_equal(node_answer(node, answering.id)->replies, 1);
}

static void a_cut_that_is_under_way_is_not_made_again_when_it_is_asked_for_again(void **state)
{
	struct fixture *f = *state;
	struct kr_setattr_request cut = {.file = create(joined(f, 0), "f", 0), .valid = KR_SET_SIZE};

	repeat_a_cut(f, KR_MSG_SETATTR, &cut, 1);
}

static void nor_is_that_of_an_open_that_is_asked_for_in_three_sessions(void **state)
{
	struct fixture *f = *state;
	struct kr_create_request msg = {.name = "f", .mode = 0644, .flags = KR_OPEN_BOTH | KR_OPEN_TRUNC};

	create(joined(f, 0), "f", 0);
	msg.parent = f->nodes[0]->hello.root;
	repeat_a_cut(f, KR_MSG_CREATE, &msg, 2);
}

/* And what another makes there meanwhile stays. */
static void a_name_that_is_being_removed_is_removed_once(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_make_request make = {.parent = node->hello.root, .name = "x", .mode = S_IFDIR | 0755, .target = ""};
	struct kr_remove_request remove_dir = {.parent = node->hello.root, .name = "x", .directory = 1};
	uint64_t id, made;

	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, NULL), 0);
	let_disk_hang();
	id = node_send(node, KR_MSG_REMOVE, &remove_dir);
	assert_true(node_wait_for(&f->loop, does_disk_hang, NULL));
	made = node_send(other, KR_MSG_MAKE, &make);
	settle(other);
	ask_again_elsewhere(f, node, id, KR_MSG_REMOVE, &remove_dir);
	let_disk_go_on();
	assert_int_equal(node_result(other, made, NULL), 0);
	assert_int_equal(node_result(node, id, NULL), 0);
	assert_int_equal(lookup(other, "x", NULL), 0);
	assert_int_equal(removals, 1);
}

/* Its node may be told that nothing has happened only when that is so. */
static void what_is_under_way_for_a_former_session_is_not_withdrawn(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_setattr_request cut = {.file = create(node, "f", 0), .valid = KR_SET_SIZE, .size = 1};
	struct kr_cancel_request cancel = {0};

	assert_int_equal(node_call(node, KR_MSG_SETATTR, &cut, NULL), 0);
	let_disk_hang();
	cut.size = 0;
	cancel.request = node_send(node, KR_MSG_SETATTR, &cut);
	assert_true(node_wait_for(&f->loop, does_disk_hang, NULL));
	ask_again_elsewhere(f, node, cancel.request, KR_MSG_SETATTR, &cut);
	assert_int_equal(node_call(node, KR_MSG_CANCEL, &cancel, NULL), 0);
	settle(node);
	assert_false(is_answered(node, cancel.request));
	let_disk_go_on();
	assert_int_equal(node_result(node, cancel.request, NULL), 0);
}

static void what_waits_for_a_former_session_ends_with_the_server(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_remove_request remove_dir = {.parent = node->hello.root, .name = "x", .directory = 1};
	char path[128];
	uint64_t id;

	snprintf(path, sizeof(path), "%s/x", f->export_path);
	assert_int_equal(mkdir(path, 0755), 0);
	let_disk_hang();
	id = node_send(node, KR_MSG_REMOVE, &remove_dir);
	assert_true(node_wait_for(&f->loop, does_disk_hang, NULL));
	ask_again_elsewhere(f, node, id, KR_MSG_REMOVE, &remove_dir);
	kr_session_end(kr_session_find(&f->server, node->hello.session), KR_SESSION_STOPPED);
	let_disk_go_on(); /* in the midst of the server's end, as far as one can tell */
}

/* Nobody is left who could withdraw it when another node has forgotten, and it has cut nothing. */
static void a_cut_that_waits_for_notes_is_left_to_its_repetition(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = f->nodes[1];
	struct kr_create_request msg = {
		.parent = node->hello.root, .name = "f", .mode = 0644, .flags = KR_OPEN_BOTH | KR_OPEN_TRUNC};
	struct kr_getattr_request getattr = {.file = create(node, "f", 0)};
	struct kr_setattr_request grow = {.file = getattr.file, .valid = KR_SET_SIZE, .size = 1};
	struct answering answering = {.node = node, .writer = other};
	const union kr_any_msg *reply;
	uint64_t lease;

	joined(f, 1);
	assert_int_equal(node_call(node, KR_MSG_SETATTR, &grow, NULL), 0);
	lease = send_lease(other, &getattr.file, KR_LEASE_READ);
	assert_int_equal(node_result(other, lease, NULL), 0);
	kr_invalidation_allow(&f->server, true);
	assert_int_equal(node_call(other, KR_MSG_GETATTR, &getattr, NULL), 0);
	answering.id = node_send(node, KR_MSG_CREATE, &msg);
	node_asked(other, KR_MSG_INVALIDATE);
	ask_again_elsewhere(f, node, answering.id, KR_MSG_CREATE, &msg);
	assert_int_equal(f->server.sessions->outliving.count, 1);
	node_reply(other, node_asked(other, KR_MSG_INVALIDATE), NULL);
	node_asked(other, KR_MSG_RECALL);
	assert_int_equal(f->server.sessions->outliving.count, 0);
	assert_true(node_wait_for(&f->loop, is_answered_by_all, &answering));
	assert_int_equal(node_result(node, answering.id, &reply), 0);
	assert_int_equal(reply->create_reply.attr.size, 0);
}

/* ... who knows the file under its other name. */
static void a_repetition_is_answered_when_others_have_forgotten(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = f->nodes[1];
	struct kr_getattr_request getattr = {.file = create(node, "f", 0)};
	struct kr_link_request link_file = {.file = getattr.file, .parent = node->hello.root, .name = "x"};
	struct kr_remove_request remove_name = {.parent = node->hello.root, .name = "x"};
	uint64_t id;

	assert_int_equal(node_call(node, KR_MSG_LINK, &link_file, NULL), 0);
	joined(f, 1);
	kr_invalidation_allow(&f->server, true);
	assert_int_equal(node_call(other, KR_MSG_GETATTR, &getattr, NULL), 0);
	id = node_send(node, KR_MSG_REMOVE, &remove_name);
	node_asked(other, KR_MSG_INVALIDATE);
	ask_again_elsewhere(f, node, id, KR_MSG_REMOVE, &remove_name);
	assert_int_equal(lookup(node, "x", NULL), -ENOENT);
	assert_false(is_answered(node, id));
	node_reply(other, node_asked(other, KR_MSG_INVALIDATE), NULL);
	assert_int_equal(node_result(node, id, NULL), 0);
}

/* Its answer has the file's attributes, and so waits for a node that writes it. */
static void what_was_done_is_not_withdrawn_when_it_is_asked_for_again(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *writer = joined(f, 1);
	struct kr_setattr_request set = {
		.file = create(writer, "f", KR_LEASE_WRITE), .valid = KR_SET_MODE, .mode = 0600};
	struct kr_cancel_request cancel = {0};
	struct kr_query_reply clean = {0};

	cancel.request = node_send(node, KR_MSG_SETATTR, &set);
	node_asked(writer, KR_MSG_QUERY)->answered = true; /* as far as it is concerned */
	kr_session_end(kr_session_find(&f->server, node->hello.session), KR_SESSION_LOST);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_send_as(node, cancel.request, KR_FRAME_RESEND, KR_MSG_SETATTR, &set);
	node_asked(writer, KR_MSG_QUERY);
	assert_int_equal(node_call(node, KR_MSG_CANCEL, &cancel, NULL), 0);
	settle(node);
	assert_false(is_answered(node, cancel.request));
	node_reply(writer, node_asked(writer, KR_MSG_QUERY), &clean);
	assert_int_equal(node_result(node, cancel.request, NULL), 0);
}

static void a_parked_request_survives_its_connection(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	struct kr_lease_request msg = {.file = fid, .kinds = KR_LEASE_READ};
	uint64_t id = send_lease(reader, &fid, KR_LEASE_READ);
	struct node_asked *recall = node_asked(writer, KR_MSG_RECALL);

	node_disconnect(reader);
	resume(reader);
	node_send_as(reader, id, KR_FRAME_RESEND, KR_MSG_LEASE, &msg);
	settle(reader);
	assert_false(is_answered(reader, id));
	node_reply(writer, recall, NULL);
	assert_int_equal(node_result(reader, id, NULL), 0);
	settle(reader); /* a second answer would have come before this one's */
	assert_int_equal(node_answer(reader, id)->replies, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_repeated_request_gets_the_same_answer),
		TEST(a_repeated_open_counts_once_and_grants_nothing),
		TEST(a_cut_that_was_not_made_is_made_when_it_is_asked_for_again),
		TEST(a_cut_that_is_under_way_is_not_made_again_when_it_is_asked_for_again),
		TEST(nor_is_that_of_an_open_that_is_asked_for_in_three_sessions),
		TEST(a_name_that_is_being_removed_is_removed_once),
		TEST(what_is_under_way_for_a_former_session_is_not_withdrawn),
		TEST(what_waits_for_a_former_session_ends_with_the_server),
		TEST(a_cut_that_waits_for_notes_is_left_to_its_repetition),
		TEST(a_repetition_is_answered_when_others_have_forgotten),
		TEST(what_was_done_is_not_withdrawn_when_it_is_asked_for_again),
		TEST(a_parked_request_survives_its_connection),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server_repeats", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

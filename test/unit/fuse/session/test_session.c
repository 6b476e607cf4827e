/* A session that is lost and recovered, with connections that break at every step; the rpc under it is simulated. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/base/local_dir.h"
#include "fuse/session/login.h"
#include "fuse/base/options.h"
#include "fuse/session/rpc.h"
#include "fuse/session/session.h"

enum { CALLS = 32, FILES = 3, LEASE_MS = 3600000 };

struct call {
	uint16_t type;
	kr_rpc_fn callback;
	void *context;
};
static struct {
	const struct kr_rpc_events *events;
	void *context;
	struct call calls[CALLS]; /* unanswered, in their order */
	size_t count;
	bool open;
	uint16_t unqueued; /* there is no memory for requests of this type... */
	unsigned queued;   /* ... after so many */
	bool reset;
} rpc;
static struct {
	int collected, locked, resumed, live;
	uint32_t flags;                   /* of the latest HELLO */
	int reclaimed[FILES], err[FILES]; /* times, and what was last told */
} heard;
static struct kr_mount_options options;
static struct kr_mount mount;
static uv_loop_t loop;

/* --- around the session ----------------------------------------------------------------------- */

int kr_rpc_direct(struct kr_rpc *unused, uint16_t type, const void *msg, kr_rpc_fn callback, void *context)
{
	(void)unused;
	assert_true(rpc.count < CALLS);
	if (type == KR_MSG_HELLO)
		heard.flags = ((const struct kr_hello_request *)msg)->flags;
	if (type == rpc.unqueued && rpc.queued-- == 0)
		return -ENOMEM;
	rpc.calls[rpc.count++] = (struct call){type, callback, context};
	return 0;
}
uint64_t kr_rpc_call(struct kr_rpc *unused, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count,
	unsigned flags, kr_rpc_fn callback, void *context)
{
	(void)unused, (void)type, (void)msg, (void)slices, (void)count, (void)flags, (void)callback, (void)context;
	return 1;
}
void kr_rpc_start(struct kr_rpc *unused, const struct kr_rpc_events *events, void *context)
{
	(void)unused;
	rpc.events = events;
	rpc.context = context;
}
void kr_rpc_set_session(struct kr_rpc *unused, uint64_t session)
{
	(void)unused, (void)session;
}
void kr_rpc_open_answers(struct kr_rpc *unused)
{
	(void)unused;
}
void kr_rpc_open(struct kr_rpc *unused)
{
	(void)unused;
	rpc.open = true;
}
void kr_rpc_reset(struct kr_rpc *unused, const char *reason)
{
	(void)unused;
	if (!rpc.unqueued)
		fail_msg("the session ends the connection: %s", reason);
	rpc.reset = true;
}
uint64_t kr_rpc_heard_ns(const struct kr_rpc *unused)
{
	(void)unused;
	return kr_clock_ns();
}
int kr_login_new(struct kr_mount *unused, struct kr_login **ret_login)
{
	(void)unused, (void)ret_login;
	return -ENOSYS;
}
void kr_login_free(struct kr_login *login)
{
	(void)login;
}
void kr_login_start(struct kr_login *login, void (*done)(void *context, int err), void *context)
{
	(void)login, (void)done, (void)context;
}
void kr_login_stop(struct kr_login *login)
{
	(void)login;
}

enum kr_security kr_login_unmask(const struct kr_login *login, uint8_t ring_key[32])
{
	(void)login, (void)ring_key;
	return 0;
}
const char *kr_local_node_name(const struct kr_local *local)
{
	(void)local;
	return "node1";
}
uint64_t kr_local_incarnation(const struct kr_local *local)
{
	(void)local;
	return 1;
}
const uint8_t *kr_local_node_id(const struct kr_local *local)
{
	static const uint8_t id[16] = {1};

	(void)local;
	return id;
}

/* --- the files -------------------------------------------------------------------------------- */

static void collect(struct kr_mount *unused, kr_reclaim_add_fn add, void *context)
{
	(void)unused;
	heard.collected++;
	for (uint8_t i = 0; i < FILES; i++)
		add(context, &(struct kr_reclaim_item){.file = {.length = 1, .bytes = {i}}, .opens = 1});
}

static void reclaimed(struct kr_mount *unused, const struct kr_fid *file, int err, const struct kr_reclaim_reply *reply)
{
	(void)unused;
	assert_true((err == 0) == (reply != NULL));
	heard.reclaimed[file->bytes[0]]++;
	heard.err[file->bytes[0]] = err;
}

static void reclaim_locks(struct kr_mount *unused)
{
	(void)unused;
	assert_int_equal(rpc.count, 0); /* before RECLAIM_DONE */
	heard.locked++;
}

static void resumed(struct kr_mount *unused)
{
	(void)unused;
	heard.resumed++;
}

static void on_hello(void *context, int err)
{
	(void)context;
	assert_int_equal(err, 0);
}

static void on_live(void *context)
{
	(void)context;
	heard.live++;
}

/* --- the server ------------------------------------------------------------------------------- */

/* Answers the oldest request, which is of TYPE. */
static void answer(uint16_t type, int err, const void *reply)
{
	struct call call = rpc.calls[0];

	assert_true(rpc.count > 0);
	assert_int_equal(call.type, type);
	memmove(rpc.calls, rpc.calls + 1, --rpc.count * sizeof(rpc.calls[0]));
	call.callback(call.context, err, reply, NULL);
}

static void answer_reclaim(int err)
{
	const struct kr_reclaim_reply reply = {0};

	answer(KR_MSG_RECLAIM, err, err ? NULL : &reply);
}

static void answer_done(void)
{
	const struct kr_reclaim_done_reply reply = {};

	answer(KR_MSG_RECLAIM_DONE, 0, &reply);
}

/* As conn.c ends: what is unanswered first, then the connection. */
static void break_connection(void)
{
	rpc.open = false;
	while (rpc.count)
		answer(rpc.calls[0].type, -ECONNRESET, NULL);
	rpc.events->on_disconnected(rpc.context, -ECONNRESET, "closed by the peer");
}

static void greet(void)
{
	const struct sockaddr_storage address = {
		.ss_family = AF_UNIX}; /* of which there is no way to ask for our side */

	rpc.events->on_connecting(rpc.context, (const struct sockaddr *)&address);
}

/* The server knows SESSION, or has made it. */
static void connect_to(uint64_t session, bool known)
{
	const struct kr_hello_reply reply = {.proto = KR_PROTO_VERSION,
		.session = session,
		.resumed = known,
		.lease_ms = LEASE_MS,
		.root_attr.mode = S_IFDIR,
		.late = !known};

	greet();
	answer(KR_MSG_HELLO, 0, &reply);
}

/* --- tests ------------------------------------------------------------------------------------ */

static const struct kr_session_hooks hooks = {
	.collect = collect, .reclaimed = reclaimed, .reclaim_locks = reclaim_locks, .resumed = resumed};

static void assert_times(int first, int second, int third)
{
	assert_int_equal(heard.reclaimed[0], first);
	assert_int_equal(heard.reclaimed[1], second);
	assert_int_equal(heard.reclaimed[2], third);
}

/* With a session that went live once. */
static int set_up(void **state)
{
	static char source[] = "server:/";

	*state = NULL;
	memset(&rpc, 0, sizeof(rpc));
	memset(&heard, 0, sizeof(heard));
	options = (struct kr_mount_options){.source = source};
	uv_loop_init(&loop);
	mount = (struct kr_mount){.options = &options, .loop = &loop};
	if (kr_session_new(&mount, &mount.session))
		return -1;
	kr_session_set_hooks(mount.session, &hooks);
	kr_session_start(mount.session, LEASE_MS, on_hello, NULL);
	kr_session_begin(mount.session, on_live, NULL);
	connect_to(1, false);
	for (int i = 0; i < FILES; i++)
		answer_reclaim(0);
	answer_done();
	assert_int_equal(heard.live, 1);
	assert_true(rpc.open);
	memset(&heard, 0, sizeof(heard));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kr_session_free(mount.session);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

/* Until the server has judged all that the journal held, whatever sessions that takes. */
static void the_server_is_told_of_a_loss_of_power(void **state)
{
	(void)state;
	break_connection();
	mount.power_lost = true;
	connect_to(2, false);
	assert_int_equal(heard.flags, KR_HELLO_POWER_LOST);
	assert_true(kr_session_facts(mount.session)->late);
	break_connection();
	mount.power_lost = false;
	connect_to(3, false);
	assert_int_equal(heard.flags, 0);
}

static void a_session_that_the_server_knows_goes_on(void **state)
{
	(void)state;
	break_connection();
	connect_to(1, true);
	assert_int_equal(heard.collected, 0);
	assert_int_equal(heard.resumed, 1);
	assert_true(rpc.open);
}

static void one_that_it_does_not_know_is_recovered(void **state)
{
	(void)state;
	break_connection();
	connect_to(2, false);
	answer_reclaim(0);
	answer_reclaim(-ESTALE);
	assert_int_equal(heard.locked, 0);
	answer_reclaim(0);
	assert_int_equal(heard.locked, 1);
	assert_false(rpc.open);
	answer_done();
	assert_true(rpc.open);
	assert_times(1, 1, 1);
	assert_int_equal(heard.err[1], -ESTALE);
}

/* What a connection takes with it is no answer: a file whose late bytes nobody has judged would be set aside for good,
 * and leases that nobody has refused would be gone. */
static void a_connection_that_breaks_decides_nothing(void **state)
{
	(void)state;
	break_connection();
	connect_to(2, false);
	answer_reclaim(0);
	break_connection();
	assert_times(1, 0, 0);
	assert_int_equal(heard.locked, 0);
	connect_to(3, false);
	assert_int_equal(heard.collected, 2);
	break_connection();
	assert_times(1, 0, 0);
	connect_to(4, false);
	for (int i = 0; i < FILES; i++)
		answer_reclaim(0);
	assert_times(2, 1, 1);
	assert_int_equal(heard.locked, 1);
	answer_done();
	assert_true(rpc.open);
}

/* Also when the server has made the session: what was not finished there starts over. */
static void a_recovery_whose_end_is_lost_starts_over(void **state)
{
	(void)state;
	break_connection();
	connect_to(2, false);
	for (int i = 0; i < FILES; i++)
		answer_reclaim(0);
	assert_int_equal(heard.locked, 1);
	break_connection();
	connect_to(2, true);
	assert_int_equal(heard.collected, 2);
	assert_false(rpc.open);
	for (int i = 0; i < FILES; i++)
		answer_reclaim(0);
	answer_done();
	assert_times(2, 2, 2);
	assert_true(rpc.open);
}

static void restore(struct kr_mount *unused, kr_restore_add_fn add, void *context)
{
	(void)unused;
	assert_int_equal(heard.collected, 0);
	for (uint8_t i = 0; i < FILES; i++)
		add(context, &(struct kr_restore_request){.file = {.length = 1, .bytes = {i}}, .name = "name"});
}

static void nothing_is_reclaimed_before_all_is_restored(void **state)
{
	const struct kr_session_hooks restoring = {.restore = restore,
		.collect = collect,
		.reclaimed = reclaimed,
		.reclaim_locks = reclaim_locks,
		.resumed = resumed};

	(void)state;
	kr_session_set_hooks(mount.session, &restoring);
	break_connection();
	connect_to(2, false);
	answer(KR_MSG_RESTORE, 0, &(struct kr_restore_reply){});
	break_connection(); /* all is asked for again */
	connect_to(3, false);
	answer(KR_MSG_RESTORE, -EEXIST, NULL);
	answer(KR_MSG_RESTORE, -ESTALE, NULL);
	assert_int_equal(heard.collected, 0);
	answer(KR_MSG_RESTORE, 0, &(struct kr_restore_reply){});
	assert_int_equal(heard.collected, 1);
	for (int file = 0; file < FILES; file++)
		answer_reclaim(0);
	answer_done();
	assert_int_equal(heard.resumed, 1);
	kr_session_set_hooks(mount.session, &hooks);
}

/* Nothing of it may be passed over, and no recovery waits for an answer to what was never asked. */
static void what_cannot_be_asked_for_want_of_memory_is_asked_on_the_next_connection(void **state)
{
	static const uint16_t types[] = {KR_MSG_HELLO, KR_MSG_RECLAIM, KR_MSG_RECLAIM_DONE};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(types); i++) {
		const uint64_t session = 2 + i;

		break_connection();
		rpc.unqueued = types[i];
		rpc.queued = types[i] == KR_MSG_RECLAIM ? FILES - 1 : 0;
		rpc.reset = false;
		if (types[i] == KR_MSG_HELLO)
			greet();
		else
			connect_to(session, false);
		while (rpc.count && rpc.calls[0].type == KR_MSG_RECLAIM)
			answer_reclaim(0);
		assert_true(rpc.reset);
		assert_false(rpc.open);
		break_connection();
		rpc.unqueued = 0;
		connect_to(session, false);
		for (int file = 0; file < FILES; file++)
			answer_reclaim(0);
		answer_done();
		assert_true(rpc.open);
	}
	assert_int_equal(heard.live, 0); /* told once, before */
	assert_int_equal(heard.resumed, 3);
}

static struct {
	int calls, err;
} first;

static void on_first_hello(void *context, int err)
{
	(void)context;
	first.calls++;
	first.err = err;
}

/* One that is not connected yet, with so much time for it. */
static int set_up_unconnected(void **state)
{
	static char source[] = "server:/";

	*state = NULL;
	memset(&rpc, 0, sizeof(rpc));
	memset(&first, 0, sizeof(first));
	options = (struct kr_mount_options){.source = source, .connect_timeout = 50};
	uv_loop_init(&loop);
	mount = (struct kr_mount){.options = &options, .loop = &loop};
	if (kr_session_new(&mount, &mount.session))
		return -1;
	kr_session_set_hooks(mount.session, &hooks);
	kr_session_start(mount.session, options.connect_timeout, on_first_hello, NULL);
	return 0;
}

static void a_first_connection_that_cannot_be_made_is_waited_for(void **state)
{
	static const int errors[] = {-ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH, -ENOENT, -EAGAIN, -ETIMEDOUT};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(errors); i++)
		rpc.events->on_disconnected(rpc.context, errors[i], "not yet");
	greet();
	break_connection(); /* by a server that stops just now */
	assert_int_equal(first.calls, 0);
	connect_to(1, false);
	assert_int_equal(first.calls, 1);
	assert_int_equal(first.err, 0);
}

static void one_that_a_server_refuses_or_that_is_to_no_kairand_is_not(void **state)
{
	(void)state;
	greet();
	answer(KR_MSG_HELLO, -EPROTONOSUPPORT, NULL);
	assert_int_equal(first.calls, 1);
	assert_int_equal(first.err, -EPROTONOSUPPORT);
	tear_down(state);
	set_up_unconnected(state);
	rpc.events->on_disconnected(rpc.context, -EBADMSG, "not our language");
	assert_int_equal(first.calls, 1);
	assert_int_equal(first.err, -EBADMSG);
}

static void the_wait_ends_with_the_latest_reason(void **state)
{
	(void)state;
	rpc.events->on_disconnected(rpc.context, -ENETUNREACH, "network is unreachable");
	rpc.events->on_disconnected(rpc.context, -ECONNREFUSED, "connection refused");
	while (first.calls == 0)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(first.err, -ETIMEDOUT);
	assert_non_null(
		strstr(kr_fail_reason(), "connection refused (is kairand running there?); gave up after 0.05 s"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(the_server_is_told_of_a_loss_of_power),
		TEST(a_session_that_the_server_knows_goes_on),
		TEST(one_that_it_does_not_know_is_recovered),
		TEST(a_connection_that_breaks_decides_nothing),
		TEST(a_recovery_whose_end_is_lost_starts_over),
		TEST(nothing_is_reclaimed_before_all_is_restored),
		TEST(what_cannot_be_asked_for_want_of_memory_is_asked_on_the_next_connection),
		cmocka_unit_test_setup_teardown(
			a_first_connection_that_cannot_be_made_is_waited_for, set_up_unconnected, tear_down),
		cmocka_unit_test_setup_teardown(
			one_that_a_server_refuses_or_that_is_to_no_kairand_is_not, set_up_unconnected, tear_down),
		cmocka_unit_test_setup_teardown(the_wait_ends_with_the_latest_reason, set_up_unconnected, tear_down),
	};

	kr_log_init("test_session", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

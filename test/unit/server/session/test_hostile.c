/* Nodes that do not play by the rules: who leaves questions unanswered, answers what it was not asked, claims what it
 * has not, and sends numbers from the ends of their ranges.  An honest node is always there, and nothing may happen to
 * it.
 */
#include "test/unit/server/session/hostile_fixture.h"

#include <fcntl.h>

#include "common/auth/pair_conn.h"
#include "server/leases/file_table.h"

/* The same of the honest one, a moment later. */
static void a_moment_later_both(struct fixture *f)
{
	pass_a_moment(f);
	ping(f->nodes[HOSTILE]);
	assert_true(ping(f->nodes[HONEST]));
}

/* --- questions that nobody answers ------------------------------------------------------------ */

static void who_leaves_a_recall_unanswered_loses_its_session(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_READ);

	node_asked(f->nodes[HOSTILE], KR_MSG_RECALL);
	while (!is_answered(f->nodes[HONEST], id))
		a_moment_later_both(f);
	assert_int_equal(node_result(f->nodes[HONEST], id, NULL), 0);
	assert_int_equal(f->server.sessions->lost, 1);
	assert_null(kr_session_find(&f->server, f->nodes[HOSTILE]->hello.session));
}

static void who_leaves_a_question_for_attributes_unanswered_loses_its_session(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = node_send(f->nodes[HONEST], KR_MSG_GETATTR, &(struct kr_getattr_request){.file = fid});

	node_asked(f->nodes[HOSTILE], KR_MSG_QUERY);
	while (!is_answered(f->nodes[HONEST], id))
		a_moment_later_both(f);
	assert_int_equal(node_result(f->nodes[HONEST], id, NULL), 0);
	assert_int_equal(f->server.sessions->lost, 1);
}

/* Rounds that come and are answered are work, however long it takes in all. */
static void who_flushes_may_take_its_time(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_READ), seq = 0;
	struct node_asked *recall = node_asked(f->nodes[HOSTILE], KR_MSG_RECALL);

	for (int moment = 0; moment < 4 * (LEASE_MS / MOMENT_MS); moment++) {
		assert_int_equal(node_call(f->nodes[HOSTILE], KR_MSG_FLUSH,
					 &(struct kr_flush_request){.file = fid, .flags = 1, .seq = ++seq}, NULL),
			0);
		a_moment_later(f, f->nodes[HONEST]);
		assert_false(is_answered(f->nodes[HONEST], id));
	}
	node_reply(f->nodes[HOSTILE], recall, NULL);
	assert_int_equal(node_result(f->nodes[HONEST], id, NULL), 0);
	assert_int_equal(f->server.sessions->lost, 0);
}

/* Flushes of another file are none. */
static void flushing_something_else_does_not_count(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE),
		      other = create_as(f->nodes[HOSTILE], "g", 0, KR_LEASE_WRITE);
	uint64_t id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_READ), seq = 0;

	node_asked(f->nodes[HOSTILE], KR_MSG_RECALL);
	while (!is_answered(f->nodes[HONEST], id)) {
		if (f->nodes[HOSTILE]->conn && f->nodes[HOSTILE]->answer_count < NODE_ANSWERS_MAX - 1)
			node_send(f->nodes[HOSTILE], KR_MSG_FLUSH,
				&(struct kr_flush_request){.file = other, .flags = 1, .seq = ++seq});
		a_moment_later(f, f->nodes[HONEST]);
	}
	assert_int_equal(f->server.sessions->lost, 1);
}

static void the_clock_of_a_question_begins_anew_with_the_connection(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fid = create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE);
	uint64_t id = send_lease(f->nodes[HONEST], &fid, KR_LEASE_READ);

	node_asked(f->nodes[HOSTILE], KR_MSG_RECALL);
	for (int moment = 0; moment < LEASE_MS / MOMENT_MS * 3 / 4; moment++)
		a_moment_later(f, f->nodes[HONEST]);
	node_disconnect(f->nodes[HOSTILE]);
	f->nodes[HOSTILE]->asked_count = 0;
	assert_int_equal(node_hello(f->nodes[HOSTILE], true), 0);
	assert_int_equal(f->nodes[HOSTILE]->hello.resumed, 1);
	node_reply(f->nodes[HOSTILE], node_asked(f->nodes[HOSTILE], KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(f->nodes[HONEST], id, NULL), 0);
	assert_int_equal(f->server.sessions->lost, 0);
}

/* --- what is claimed, and what is not there --------------------------------------------------- */

static void try_all_on_secret(struct fixture *f)
{
	const struct kr_cred user = {.uid = USER, .gid = USER};
	const struct kr_fid secret = secret_file;
	struct node *node = f->nodes[HOSTILE];

	for (uint32_t flags = 0; flags <= (KR_OPEN_BOTH | KR_OPEN_TRUNC); flags++)
		REFUSED(node, OPEN, open, .cred = user, .file = secret, .flags = flags, .want = KR_LEASE_ALL);
	REFUSED(node, OPEN, open, .cred = user, .file = secret, .flags = KR_OPEN_EXECUTE);
	REFUSED(node, LEASE, lease, .file = secret, .kinds = KR_LEASE_READ);
	REFUSED(node, LEASE, lease, .file = secret, .kinds = KR_LEASE_WRITE);
	REFUSED(node, JOIN, join, .file = secret, .version = 1);
	REFUSED(node, STAGE, stage, .file = secret, .ms = 1);
	REFUSED(node, REPARENT, reparent, .file = secret, .node = f->nodes[HONEST]->hello.node);
	REFUSED(node, REPARENT, reparent, .file = secret, .node = f->nodes[HONEST]->hello.node,
		.complaint = KR_COMPLAINT_SLOW);
	REFUSED(node, FLUSH, flush, .file = secret, .flags = 1, .seq = UINT64_MAX);
	REFUSED(node, FLUSH, flush, .file = secret, .flags = 0, .seq = 1, .bytes = UINT64_MAX);
	REFUSED(node, FLUSH, flush, .file = secret, .flags = 3, .seq = 1);
	REFUSED(node, FALLOCATE, fallocate, .cred = user, .file = secret, .length = 1);
	REFUSED(node, SEEK, seek, .file = secret, .whence = SEEK_DATA);
	REFUSED(node, COPY, copy, .cred = user, .from = secret, .to = own_file, .length = 1);
	REFUSED(node, COPY, copy, .cred = user, .from = own_file, .to = secret, .length = 1);
	for (uint32_t bit = 0; bit < 8; bit++)
		REFUSED(node, SETATTR, setattr, .cred = user, .file = secret, .valid = 1u << bit | 1u << 9, .uid = USER,
			.gid = USER);
	REFUSED(node, SETXATTR, setxattr, .cred = user, .file = secret, .name = "user.mine",
		.value = {(const uint8_t *)"x", 1});
	REFUSED(node, GETXATTR, getxattr, .cred = user, .file = secret, .name = "user.mine", .size = UINT32_MAX);
	REFUSED(node, LINK, link, .cred = {.uid = 0}, .file = secret, .parent = node->hello.root, .name = "mine");
	REFUSED(node, LOCK, lock, .file = secret, .owner = 1, .kind = 2, .last = UINT64_MAX);
	REFUSED(node, RECLAIM_LOCK, reclaim_lock, .file = secret, .owner = 1, .kind = 2, .last = UINT64_MAX);
	REFUSED(node, CLOSE, close, .file = secret, .count = 1);
	REFUSED(node, CLOSE, close, .file = secret, .count = UINT32_MAX);
}

static void a_user_gets_nothing_of_others_files(void **state)
{
	struct fixture *f = with_a_user(state);

	try_all_on_secret(f);
	undisturbed(f);
}

static void what_is_reclaimed_without_having_been_there_gives_no_right(void **state)
{
	struct fixture *f = with_a_user(state);
	struct kr_reclaim_request reclaim = {
		.file = secret_file, .opens = 1, .kinds = KR_LEASE_ALL, .first = 1, .last = 1, .resend = 1};
	const union kr_any_msg *reply;
	int err = node_call(f->nodes[HOSTILE], KR_MSG_RECLAIM, &reclaim, &reply);

	assert_true(err < 0 || reply->reclaim_reply.kinds == 0);
	if (err == 0) /* counted as an open: closed again, so that the rest is as before */
		assert_int_equal(node_call(f->nodes[HOSTILE], KR_MSG_CLOSE,
					 &(struct kr_close_request){.file = secret_file, .count = 1}, NULL),
			0);
	try_all_on_secret(f);
	undisturbed(f);
}

/* The same number again, on a session that cannot know what it was asked for then. */
static int create_again(struct fixture *f, uint64_t id, const struct kr_create_request *msg)
{
	struct node *node = f->nodes[HOSTILE];

	kr_session_end(kr_session_find(&f->server, node->hello.session), KR_SESSION_LOST);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_hello(node, true), 0);
	confine(f, node);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_answer(node, id)->replies = 0;
	node_send_as(node, id, KR_FRAME_RESEND, KR_MSG_CREATE, msg);
	return node_result(node, id, NULL);
}

/* What somebody has made he may open again whatever its mode; what he has only emptied, or given away, is not his. */
static void what_was_opened_is_not_opened_again_for_more(void **state)
{
	struct fixture *f = with_a_user(state);
	struct kr_setattr_request drop_box = {
		.file = create_as(f->nodes[HONEST], "box", 0, 0), .valid = KR_SET_MODE, .mode = 0622};
	struct kr_create_request msg = {.cred = {.uid = USER, .gid = USER},
		.parent = f->nodes[HOSTILE]->hello.root,
		.name = "box",
		.mode = 0600,
		.flags = KR_OPEN_WRITE | KR_OPEN_TRUNC};
	char path[PATH_MAX];
	uint64_t id;

	assert_int_equal(node_call(f->nodes[HONEST], KR_MSG_SETATTR, &drop_box, NULL), 0);
	id = node_send(f->nodes[HOSTILE], KR_MSG_CREATE, &msg);
	assert_int_equal(node_result(f->nodes[HOSTILE], id, NULL), 0);
	msg.flags = KR_OPEN_BOTH | KR_OPEN_TRUNC;
	assert_int_equal(create_again(f, id, &msg), -EACCES);

	msg = (struct kr_create_request){.cred = {.uid = USER, .gid = USER},
		.parent = msg.parent,
		.name = "mine",
		.flags = KR_OPEN_BOTH | KR_OPEN_TRUNC};
	snprintf(path, sizeof(path), "%s/mine", f->export_path);
	for (uint8_t exclusive = 0; exclusive < 2; exclusive++) {
		msg.exclusive = exclusive;
		id = node_send(f->nodes[HOSTILE], KR_MSG_CREATE, &msg);
		assert_int_equal(node_result(f->nodes[HOSTILE], id, NULL), 0);
		assert_int_equal(create_again(f, id, &msg), 0);
		assert_int_equal(chown(path, 0, 0), 0); /* given away */
		assert_int_equal(chmod(path, 0666), 0);
		assert_int_equal(create_again(f, id, &msg), 0);
		assert_int_equal(chmod(path, 0600), 0);
		assert_int_equal(create_again(f, id, &msg), exclusive ? -EEXIST : -EACCES);
		assert_int_equal(unlink(path), 0);
	}
}

static void what_is_given_back_for_others_stays_theirs(void **state)
{
	struct fixture *f = with_a_user(state);
	uint64_t parked = send_lease(f->nodes[HOSTILE], &own_file, KR_LEASE_READ);

	node_call(f->nodes[HOSTILE], KR_MSG_RETURN,
		&(struct kr_return_request){.file = secret_file, .kinds = KR_LEASE_ALL}, NULL);
	for (uint64_t id = 0; id < 40; id++)
		node_call(f->nodes[HOSTILE], KR_MSG_CANCEL, &(struct kr_cancel_request){.request = id}, NULL);
	node_result(f->nodes[HOSTILE], parked, NULL);
	undisturbed(f);
}

static void a_user_has_files_staged_by_its_own_node_alone(void **state)
{
	struct fixture *f = with_a_user(state);
	struct node *user = f->nodes[HOSTILE], *honest = f->nodes[HONEST];
	const union kr_any_msg *reply;
	uint64_t id;

	kr_session_find(&f->server, honest->hello.session)->ring.port = 1;
	kr_session_find(&f->server, user->hello.session)->ring.port = 1;
	id = node_send(user, KR_MSG_STAGE, &(struct kr_stage_request){.file = own_file, .ms = 1});
	node_reply(user, node_asked(user, KR_MSG_PREFETCH), &(struct kr_prefetch_reply){.done = 1});
	assert_int_equal(node_result(user, id, &reply), 0);
	assert_int_equal(reply->stage_reply.nodes, 1);
	undisturbed(f);
}

static void answers_to_what_was_not_asked_do_no_harm(void **state)
{
	struct fixture *f = with_a_user(state);
	const uint16_t types[] = {KR_MSG_RECALL, KR_MSG_QUERY, KR_MSG_ROUND, KR_MSG_STABLE, KR_MSG_UPSTREAM};
	uint64_t id = node_send(f->nodes[HOSTILE], KR_MSG_GETATTR, &(struct kr_getattr_request){.file = secret_file});

	for (size_t i = 0; i < KR_ARRAY_SIZE(types); i++) {
		struct kr_query_reply lie = {.dirty = 1, .end = UINT64_MAX};

		for (uint64_t ask = 0; ask < 8 && f->nodes[HOSTILE]->conn; ask++)
			kr_conn_reply(f->nodes[HOSTILE]->conn, types[i], ask, 0, 0,
				types[i] == KR_MSG_QUERY ? (void *)&lie : &(struct kr_round_reply){0}, NULL, 0);
	}
	node_reply(f->nodes[HONEST], node_asked(f->nodes[HONEST], KR_MSG_QUERY),
		&(struct kr_query_reply){0}); /* the true one */
	while (f->nodes[HOSTILE]->conn && !is_answered(f->nodes[HOSTILE], id))
		assert_true(ping(f->nodes[HONEST]));
	undisturbed(f);
}

struct ring_call {
	int err;
	bool ended;
};

static void ring_call_ended(void *context, int err)
{
	*(struct ring_call *)context = (struct ring_call){err, true};
}

static bool ring_call_has_ended(void *context)
{
	return ((struct ring_call *)context)->ended;
}

/* With the honest node's number and session, but not its ring key; and with one's own key, but a ticket that is made
 * up. */
static void a_ring_key_is_not_guessed(void **state)
{
	struct fixture *f = with_a_user(state);
	struct node *caller = node_new(&f->loop, kr_listen_port(&f->server), 9);

	for (int i = 0; i < 2; i++) {
		const struct kr_hello_reply *who = i == 0 ? &f->nodes[HONEST]->hello : &f->nodes[HOSTILE]->hello;
		struct kr_pair_caller self = {.node = who->node, .session = who->session};
		struct kr_hop_address to = {.address = "127.0.0.1", .session = who->session};
		struct ring_call call = {0};

		memcpy(self.ring_key, f->nodes[HOSTILE]->hello.ring_key, sizeof(self.ring_key));
		memset(to.ticket, i, sizeof(to.ticket));
		node_connect(caller);
		kr_pair_open(caller->conn, &to, &self, ring_call_ended, &call);
		assert_true(node_wait_for(&f->loop, ring_call_has_ended, &call));
		assert_true(call.err < 0);
		node_disconnect(caller);
	}
	node_free(caller);
	undisturbed(f);
}

/* A holder of WRITE may say how long the file will be, but not that a directory, or any file, is what none can be. */
static void lies_about_sizes_are_not_passed_on(void **state)
{
	struct fixture *f = *state;
	struct kr_fid fids[2] = {create_as(f->nodes[HOSTILE], "f", 0, KR_LEASE_WRITE), f->nodes[HOSTILE]->hello.root};
	const struct kr_query_reply lies[2] = {{.dirty = 1, .end = UINT64_MAX}, {.dirty = 1, .end = 123456789}};
	const union kr_any_msg *reply;

	assert_int_equal(
		node_result(f->nodes[HOSTILE], send_lease(f->nodes[HOSTILE], &fids[1], KR_LEASE_WRITE), NULL), 0);
	for (int i = 0; i < 2; i++) {
		uint64_t id =
			node_send(f->nodes[HONEST], KR_MSG_GETATTR, &(struct kr_getattr_request){.file = fids[i]});

		node_reply(f->nodes[HOSTILE], node_asked(f->nodes[HOSTILE], KR_MSG_QUERY), &lies[i]);
		assert_int_equal(node_result(f->nodes[HONEST], id, &reply), 0);
		assert_true(reply->getattr_reply.attr.size < 123456789);
	}
}

/* --- numbers ---------------------------------------------------------------------------------- */

static void extremes_are_refused_on_ones_own_file_too(void **state)
{
	static const uint64_t far[] = {INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1, UINT64_MAX};
	struct fixture *f = with_a_user(state);
	const struct kr_cred user = {.uid = USER, .gid = USER};
	struct node *node = f->nodes[HOSTILE];

	for (size_t i = 0; i < KR_ARRAY_SIZE(far); i++) {
		REFUSED(node, FALLOCATE, fallocate, .cred = user, .file = own_file, .offset = far[i], .length = far[i]);
		REFUSED(node, FALLOCATE, fallocate, .cred = user, .file = own_file, .offset = 1, .length = far[i]);
		REFUSED(node, SEEK, seek, .file = own_file, .offset = far[i], .whence = SEEK_DATA);
		REFUSED(node, SEEK, seek, .file = own_file, .offset = 0, .whence = UINT32_MAX - (uint32_t)i);
		REFUSED(node, SETATTR, setattr, .cred = user, .file = own_file, .valid = KR_SET_SIZE, .size = far[i]);
		REFUSED(node, COPY, copy, .cred = user, .from = own_file, .from_offset = far[i], .to = own_file,
			.to_offset = 1, .length = far[i]);
		REFUSED(node, COPY, copy, .cred = user, .from = own_file, .from_offset = 0, .to = own_file,
			.to_offset = far[i], .length = 2);
		REFUSED(node, LEASE, lease, .file = own_file, .kinds = (uint8_t)(4 + i));
		REFUSED(node, RECLAIM, reclaim, .file = own_file, .opens = UINT32_MAX - (uint32_t)i,
			.kinds = KR_LEASE_ALL);
		node_call(node, KR_MSG_READDIR,
			&(struct kr_readdir_request){
				.cred = user, .file = node->hello.root, .cookie = far[i], .size = UINT32_MAX},
			NULL); /* an end or an error, as the filesystem likes */
	}
	REFUSED(node, LEASE, lease, .file = own_file, .kinds = 0);
	undisturbed(f);
}

/* --- as much as there is ---------------------------------------------------------------------- */

static int open_own(struct node *node)
{
	return node_call(node, KR_MSG_OPEN,
		&(struct kr_open_request){.cred = {.uid = USER, .gid = USER}, .file = own_file, .flags = KR_OPEN_READ},
		NULL);
}

static void user_has_so_many_files_in_all(struct fixture *f, struct kr_session *session, const struct kr_fid *other)
{
	const struct kr_open_request open = {.cred = {.uid = USER, .gid = USER}, .file = *other};
	struct kr_session *second = kr_session_find(&f->server, f->nodes[HONEST]->hello.session);
	struct kr_key *key = second->trust.key;

	second->leases.files += KR_USER_FILES_MAX;
	second->trust.key = session->trust.key; /* as if it were another one of the same user's */
	session->leases.files += KR_SESSION_FILES_ALWAYS;
	assert_int_equal(node_call(f->nodes[HOSTILE], KR_MSG_OPEN, &open, NULL), -ENFILE);
	session->leases.files -= KR_SESSION_FILES_ALWAYS; /* a few each may have always */
	assert_int_equal(node_call(f->nodes[HOSTILE], KR_MSG_OPEN, &open, NULL), 0);
	session->leases.files += KR_SESSION_FILES_ALWAYS;
	second->trust.key = key; /* somebody else's do not count */
	assert_int_equal(node_call(f->nodes[HOSTILE], KR_MSG_OPEN, &open, NULL), 0);
	second->leases.files -= KR_USER_FILES_MAX;
	session->leases.files -= KR_SESSION_FILES_ALWAYS;
	assert_int_equal(node_call(f->nodes[HOSTILE], KR_MSG_CLOSE,
				 &(struct kr_close_request){.file = *other, .count = 2}, NULL),
		0);
}

static void a_session_uses_so_many_files_and_opens_each_so_often(void **state)
{
	struct fixture *f = with_a_user(state);
	struct node *node = f->nodes[HOSTILE];
	struct kr_session *session = kr_session_find(&f->server, node->hello.session);
	struct kr_attachment *attachment = kr_attachment_find(kr_sfile_find(&f->server, &own_file), session);
	struct kr_fid other = create_as(node, "other", USER, 0);
	struct kr_create_request another = {
		.cred = {.uid = USER, .gid = USER}, .parent = node->hello.root, .name = "another", .mode = 0600};

	assert_int_equal(session->leases.files, 2);
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &(struct kr_close_request){.file = other, .count = 1}, NULL), 0);
	assert_int_equal(session->leases.files, 1);
	session->leases.files += KR_SESSION_FILES_MAX - 1;
	assert_int_equal(open_own(node), 0);
	assert_int_equal(node_call(node, KR_MSG_OPEN,
				 &(struct kr_open_request){.cred = {.uid = USER, .gid = USER}, .file = other}, NULL),
		-ENFILE);
	assert_int_equal(node_call(node, KR_MSG_CREATE, &another, NULL), -ENFILE);
	assert_int_equal(node_result(node, send_lease(node, &other, KR_LEASE_READ), NULL), -ENFILE);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &(struct kr_reclaim_request){.file = other, .opens = 1}, NULL),
		-ENFILE);
	session->leases.files -= KR_SESSION_FILES_MAX - 1;
	user_has_so_many_files_in_all(f, session, &other);
	attachment->opens += KR_ATTACHMENT_OPENS_MAX - 2;
	assert_int_equal(open_own(node), -ENFILE);
	another.name = "own";
	assert_int_equal(node_call(node, KR_MSG_CREATE, &another, NULL), -ENFILE);
	another.flags = KR_OPEN_BOTH | KR_OPEN_TRUNC;
	assert_int_equal(node_call(node, KR_MSG_CREATE, &another, NULL), -ENFILE);
	attachment->opens -= KR_ATTACHMENT_OPENS_MAX - 2;
	assert_int_equal(open_own(node), 0);
	undisturbed(f);
}

static bool is_paused(void *context)
{
	return ((struct kr_session *)context)->flow.paused_running;
}

/* Who has much under way is not listened to until some of it is done; less is much when all together hold much memory.
 */
static void a_session_holds_so_many_bytes_and_fewer_when_memory_is_tight(void **state)
{
	struct fixture *f = with_a_user(state);
	struct node *node = f->nodes[HOSTILE];
	struct kr_session *session = kr_session_find(&f->server, node->hello.session);
	/* In the end the session of a node. */
	size_t held[] = {KR_SESSION_HELD_MAX, KR_SESSION_HELD_TIGHT_USER, KR_SESSION_HELD_TIGHT};
	struct kr_buf *others = NULL;

	for (int i = 0; i < 3; i++) {
		uint64_t id;

		if (i == 2) {
			kr_key_put(session->trust.key);
			session->trust.key = NULL;
		}
		if (i == 1)
			others = kr_buf_new(KR_SESSION_MEMORY + 1); /* never touched: it only counts */
		assert_int_equal(session->flow.held, 0);
		session->flow.held = held[i] / 2; /* a request itself counts, too */
		assert_true(ping(node));
		assert_false(session->flow.paused_running);
		session->flow.held = held[i] + 1;
		assert_true(ping(node)); /* after this it is not read from */
		id = node_send(node, KR_MSG_PING, NULL);
		assert_true(node_wait_for(&f->loop, is_paused, session));
		assert_true(ping(f->nodes[HONEST]));
		assert_false(is_answered(node, id));
		session->flow.held = 0;
		kr_session_pressure(session);
		assert_int_equal(node_result(node, id, NULL), 0);
	}
	kr_buf_put(others);
	undisturbed(f);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup_two, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_leaves_a_recall_unanswered_loses_its_session),
		TEST(who_leaves_a_question_for_attributes_unanswered_loses_its_session),
		TEST(who_flushes_may_take_its_time),
		TEST(flushing_something_else_does_not_count),
		TEST(the_clock_of_a_question_begins_anew_with_the_connection),
		TEST(a_user_gets_nothing_of_others_files),
		TEST(what_is_reclaimed_without_having_been_there_gives_no_right),
		TEST(what_was_opened_is_not_opened_again_for_more),
		TEST(what_is_given_back_for_others_stays_theirs),
		TEST(a_user_has_files_staged_by_its_own_node_alone),
		TEST(answers_to_what_was_not_asked_do_no_harm),
		TEST(a_ring_key_is_not_guessed),
		TEST(lies_about_sizes_are_not_passed_on),
		TEST(extremes_are_refused_on_ones_own_file_too),
		TEST(a_session_uses_so_many_files_and_opens_each_so_often),
		TEST(a_session_holds_so_many_bytes_and_fewer_when_memory_is_tight),
	};

	signal(SIGPIPE, SIG_IGN);
	kr_log_init("test_hostile", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The server's core against scripted nodes over real connections: sessions, repetitions, leases, grace. */
#include "test/unit/server_fixture.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fail.h"
#include "common/hex.h"
#include "common/log.h"
#include "server/export.h"
#include "server/listen.h"
#include "server/options.h"
#include "server/server.h"
#include "server/session.h"
#include "server/state_priv.h"
#include "server/watch.h"

/* --- HELLO and bad peers -------------------------------------------------------------------------------------------- */

static void hello_opens_a_session(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);

	assert_int_equal(node->hello.proto, KR_PROTO_VERSION);
	assert_int_not_equal(node->hello.session, 0);
	assert_int_equal(node->hello.resumed, 0);
	assert_int_not_equal(node->hello.node, 0);
	assert_int_equal(node->hello.lease_ms, LEASE_MS);
	assert_true(S_ISDIR(node->hello.root_attr.mode));
	assert_memory_equal(node->hello.export_id, f->server.export_id, 16);
}

static void hello_of_another_protocol_is_refused(void **state)
{
	struct fixture *f = *state;
	struct node *node = f->nodes[0];
	struct kr_hello_request hello = {.proto_min = KR_PROTO_VERSION + 1, .proto_max = 9, .node_name = "future", .ring_address = "", .subdir = ""};

	node_connect(node);
	assert_int_equal(node_call(node, KR_MSG_HELLO, &hello, NULL), -EPROTONOSUPPORT);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
}

static void hello_for_a_missing_subdirectory_is_refused(void **state)
{
	struct fixture *f = *state;
	struct node *node = f->nodes[0];
	struct kr_hello_request hello = {.proto_min = KR_PROTO_VERSION, .proto_max = KR_PROTO_VERSION, .node_name = "n", .ring_address = "", .subdir = "no/dir"};

	node_connect(node);
	assert_int_equal(node_call(node, KR_MSG_HELLO, &hello, NULL), -ENOENT);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
}

static void a_request_before_hello_is_refused(void **state)
{
	struct fixture *f = *state;
	struct node *node = f->nodes[0];

	node_connect(node);
	assert_int_equal(node_call(node, KR_MSG_PING, NULL, NULL), -EPROTO);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
}

static int raw_connect(struct fixture *f)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(kr_listen_port(&f->server)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

struct raw_wait {
	int fd;
	uint8_t *bytes;
	size_t length, wanted;
	bool ended;
};

static bool raw_arrived(void *context)
{
	struct raw_wait *wait = context;
	ssize_t got = recv(wait->fd, wait->bytes + wait->length, wait->wanted - wait->length, MSG_DONTWAIT);

	if (got > 0)
		wait->length += (size_t)got;
	wait->ended |= got == 0 || (got < 0 && errno != EAGAIN);
	return wait->ended || wait->length == wait->wanted;
}

static void garbage_ends_its_connection_only(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	uint8_t garbage[4096], answer[1];
	struct raw_wait wait = {.bytes = answer, .wanted = 1};

	for (unsigned seed = 1; seed <= 20; seed++) {
		uint32_t random = seed * 2654435761u;

		for (size_t i = 0; i < sizeof(garbage); i++) {
			random = random * 1664525u + 1013904223u;
			garbage[i] = (uint8_t)(random >> 24);
		}
		wait.fd = raw_connect(f);
		assert_int_equal(send(wait.fd, garbage, sizeof(garbage), MSG_NOSIGNAL), sizeof(garbage));
		wait.ended = false;
		assert_true(node_wait_for(&f->loop, raw_arrived, &wait));
		assert_true(wait.ended);
		close(wait.fd);
	}
	settle(node);
}

/* Sends a frame as it is and returns the status of its reply. */
static uint32_t raw_exchange(struct fixture *f, int fd, uint16_t type, uint64_t id, const void *fields, uint32_t length)
{
	struct kr_frame_header header = {.type = type, .id = id, .fields_length = length};
	uint8_t bytes[KR_FRAME_HEADER], rest[8192];
	struct raw_wait wait = {.fd = fd, .bytes = bytes, .wanted = sizeof(bytes)};

	kr_frame_header_encode(&header, bytes);
	assert_int_equal(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
	if (length)
		assert_int_equal(send(fd, fields, length, MSG_NOSIGNAL), length);
	assert_true(node_wait_for(&f->loop, raw_arrived, &wait));
	assert_false(wait.ended);
	assert_int_equal(kr_frame_header_decode(bytes, &header), 0);
	assert_int_equal(header.id, id);
	assert_true(header.flags & KR_FRAME_REPLY);
	wait = (struct raw_wait){.fd = fd, .bytes = rest, .wanted = header.fields_length};
	if (wait.wanted)
		assert_true(node_wait_for(&f->loop, raw_arrived, &wait));
	return header.status;
}

static int raw_session(struct fixture *f)
{
	struct kr_hello_request hello = {.proto_min = KR_PROTO_VERSION, .proto_max = KR_PROTO_VERSION, .node_name = "raw", .node_id = {99}, .ring_address = "",
		.subdir = ""};
	struct kr_writer w;
	int fd = raw_connect(f);

	kr_writer_init(&w);
	assert_int_equal(kr_msg_encode(KR_MSG_HELLO, false, &hello, &w), 0);
	assert_int_equal(raw_exchange(f, fd, KR_MSG_HELLO, 1, w.bytes, (uint32_t)w.length), 0);
	kr_writer_fini(&w);
	return fd;
}

static void undecodable_requests_get_one_answer_each(void **state)
{
	struct fixture *f = *state;
	uint32_t proto = kr_status_from_errno(-EPROTO);
	struct kr_lookup_request msg = {.parent = {.length = 3}, .name = "x"};
	struct kr_writer w;
	int fd = raw_session(f);
	uint64_t id = 2;

	kr_writer_init(&w);
	assert_int_equal(kr_msg_encode(KR_MSG_LOOKUP, false, &msg, &w), 0);
	for (uint32_t length = 0; length < w.length; length++)
		assert_int_equal(raw_exchange(f, fd, KR_MSG_LOOKUP, id++, w.bytes, length), proto);
	assert_int_equal(raw_exchange(f, fd, 999, id++, "abc", 3), proto);                /* unknown */
	assert_int_equal(raw_exchange(f, fd, KR_MSG_RECALL, id++, w.bytes, 4), proto);    /* wrong direction */
	assert_int_equal(raw_exchange(f, fd, KR_MSG_HOP_HELLO, id++, w.bytes, 4), proto); /* wrong connection */
	assert_int_equal(raw_exchange(f, fd, KR_MSG_HELLO, id++, w.bytes, 4), proto);     /* once is enough */
	assert_int_equal(raw_exchange(f, fd, KR_MSG_PING, id++, NULL, 0), 0);
	kr_writer_fini(&w);
	close(fd);
}

static void a_forged_file_identity_is_stale(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_getattr_request msg = {.file = node->hello.root};

	msg.file.bytes[msg.file.length - 1] ^= 1;
	assert_int_equal(node_call(node, KR_MSG_GETATTR, &msg, NULL), -ESTALE);
	assert_int_equal(node_result(node, send_lease(node, &msg.file, KR_LEASE_READ), NULL), -ESTALE);
	assert_int_equal(node_result(node, send_lease(node, &node->hello.root, 8), NULL), -EINVAL);
}

static void status_is_told_before_hello_and_after(void **state)
{
	struct fixture *f = *state;
	struct kr_status_request msg = {.what = "status", .argument = ""}, unknown = {.what = "secrets", .argument = ""};

	node_connect(f->nodes[1]);
	assert_int_equal(node_call(f->nodes[1], KR_MSG_STATUS, &msg, NULL), 0);
	assert_int_equal(node_call(f->nodes[1], KR_MSG_STATUS, &unknown, NULL), -EOPNOTSUPP);
	joined(f, 0);
	assert_int_equal(node_call(f->nodes[0], KR_MSG_STATUS, &msg, NULL), 0);
	settle(f->nodes[0]);
}

/* --- repetitions ---------------------------------------------------------------------------------------------------- */

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

static void an_id_used_twice_ends_the_connection(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	struct kr_lease_request msg = {.file = fid, .kinds = KR_LEASE_READ};
	int fd = raw_session(f);
	struct kr_writer w;
	struct kr_frame_header header = {.type = KR_MSG_LEASE, .id = 7};
	uint8_t frame[KR_FRAME_HEADER], answer[1];
	struct raw_wait wait = {.fd = fd, .bytes = answer, .wanted = 1};

	(void)reader;
	kr_writer_init(&w);
	assert_int_equal(kr_msg_encode(KR_MSG_LEASE, false, &msg, &w), 0);
	header.fields_length = (uint32_t)w.length;
	kr_frame_header_encode(&header, frame);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(send(fd, frame, sizeof(frame), MSG_NOSIGNAL), sizeof(frame));
		assert_int_equal(send(fd, w.bytes, w.length, MSG_NOSIGNAL), w.length);
	}
	kr_writer_fini(&w);
	assert_true(node_wait_for(&f->loop, raw_arrived, &wait));
	assert_true(wait.ended);
	close(fd);
	settle(writer);
}

/* --- leases --------------------------------------------------------------------------------------------------------- */

static void a_lease_is_recalled_for_another_node(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	uint64_t id = send_lease(reader, &fid, KR_LEASE_READ);
	struct node_asked *recall = node_asked(writer, KR_MSG_RECALL);

	assert_int_equal(recall->msg.recall_request.kinds, KR_LEASE_WRITE);
	assert_true(kr_fid_equal(&recall->msg.recall_request.file, &fid));
	settle(reader);
	assert_false(is_answered(reader, id));
	node_reply(writer, recall, NULL);
	assert_int_equal(node_result(reader, id, NULL), 0);
}

static void an_interrupted_wait_for_a_lease_ends(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	uint64_t id = send_lease(reader, &fid, KR_LEASE_READ);
	struct kr_cancel_request cancel = {.request = id};

	node_asked(writer, KR_MSG_RECALL);
	assert_int_equal(node_call(reader, KR_MSG_CANCEL, &cancel, NULL), 0);
	assert_int_equal(node_result(reader, id, NULL), -EINTR);
	assert_int_equal(node_call(reader, KR_MSG_CANCEL, &cancel, NULL), 0); /* too late is fine */
	node_reply(writer, node_asked(writer, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(writer, send_lease(writer, &fid, KR_LEASE_ALL), NULL), 0);
}

static void a_recall_is_repeated_on_the_next_connection(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	uint64_t id = send_lease(reader, &fid, KR_LEASE_READ);

	node_asked(writer, KR_MSG_RECALL)->answered = true; /* lost with the connection */
	node_disconnect(writer);
	resume(writer);
	assert_true(node_asked(writer, KR_MSG_RECALL)->flags & KR_FRAME_RESEND);
	node_reply(writer, node_asked(writer, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(reader, id, NULL), 0);
}

static void attributes_include_what_another_node_has_not_flushed(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	struct kr_getattr_request getattr = {.file = fid};
	struct kr_lookup_request look = {.parent = reader->hello.root, .name = "f"};
	struct kr_query_reply dirty = {.dirty = 1, .end = 123456, .mtime = {.sec = INT64_C(4000000000), .nsec = 5}};
	const union kr_any_msg *reply;
	uint64_t id = node_send(reader, KR_MSG_GETATTR, &getattr);

	node_reply(writer, node_asked(writer, KR_MSG_QUERY), &dirty);
	assert_int_equal(node_result(reader, id, &reply), 0);
	assert_int_equal(reply->getattr_reply.attr.size, 123456);
	assert_int_equal(reply->getattr_reply.attr.mtime.sec, INT64_C(4000000000));
	assert_int_equal(reply->getattr_reply.attr.version, 0);
	id = node_send(reader, KR_MSG_LOOKUP, &look);
	node_reply(writer, node_asked(writer, KR_MSG_QUERY), &dirty);
	assert_int_equal(node_result(reader, id, &reply), 0);
	assert_int_equal(reply->lookup_reply.attr.size, 123456);
	assert_int_equal(node_call(writer, KR_MSG_GETATTR, &getattr, &reply), 0); /* the writer itself is not asked */
	assert_int_equal(reply->getattr_reply.attr.size, 0);
}

static void a_question_to_a_node_that_dies_is_answered_without_it(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_getattr_request getattr = {.file = create(writer, "f", KR_LEASE_WRITE)};
	struct kr_cancel_request cancel = {0};
	uint64_t id = node_send(reader, KR_MSG_GETATTR, &getattr), canceled = node_send(reader, KR_MSG_GETATTR, &getattr);

	node_asked(writer, KR_MSG_QUERY);
	cancel.request = canceled;
	assert_int_equal(node_call(reader, KR_MSG_CANCEL, &cancel, NULL), 0);
	assert_int_equal(node_result(reader, canceled, NULL), -EINTR);
	node_disconnect(writer);
	while (!is_answered(reader, id))
		settle(reader); /* stays alive meanwhile */
	assert_int_equal(node_result(reader, id, NULL), 0);
}

static void a_truncation_waits_until_others_have_dropped_their_leases(void **state)
{
	struct fixture *f = *state;
	struct node *reader = joined(f, 0), *cutter = joined(f, 1);
	struct kr_fid fid = create(reader, "f", KR_LEASE_READ);
	struct kr_setattr_request set = {.file = fid, .valid = KR_SET_SIZE, .size = 10};
	const union kr_any_msg *reply;
	uint64_t id = node_send(cutter, KR_MSG_SETATTR, &set), second;

	node_asked(reader, KR_MSG_RECALL);
	second = send_lease(reader, &fid, KR_LEASE_READ); /* waits behind the truncation */
	settle(cutter);
	assert_false(is_answered(cutter, id));
	node_reply(reader, node_asked(reader, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(cutter, id, &reply), 0);
	assert_int_equal(reply->setattr_reply.attr.size, 10);
	assert_int_equal(node_result(reader, second, &reply), 0);
	assert_int_equal(reply->lease_reply.attr.size, 10);
	set.size = 20;
	set.file = create(cutter, "own", KR_LEASE_ALL);
	assert_int_equal(node_call(cutter, KR_MSG_SETATTR, &set, NULL), 0); /* one's own leases do not matter */
	assert_int_equal(cutter->asked_count, 0);
}

static void copies_in_both_directions_do_not_wait_for_each_other(void **state)
{
	struct fixture *f = *state;
	struct node *a = joined(f, 0), *b = joined(f, 1);
	struct kr_fid one = create(a, "one", 0), two = create(b, "two", 0);
	struct kr_copy_request there = {.from = one, .to = two, .length = 100}, back = {.from = two, .to = one, .length = 100};
	uint64_t ids[20];

	for (int i = 0; i < 20; i += 2) {
		ids[i] = node_send(a, KR_MSG_COPY, &there);
		ids[i + 1] = node_send(b, KR_MSG_COPY, &back);
	}
	for (int i = 0; i < 20; i += 2) {
		assert_int_equal(node_result(a, ids[i], NULL), 0);
		assert_int_equal(node_result(b, ids[i + 1], NULL), 0);
	}
}

/* --- the ends of sessions ------------------------------------------------------------------------------------------- */

static void a_silent_session_is_lost_and_its_leases_are_free(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	uint64_t id = send_lease(reader, &fid, KR_LEASE_READ), old = writer->hello.session;

	node_disconnect(writer);
	while (!is_answered(reader, id))
		settle(reader);
	assert_int_equal(node_result(reader, id, NULL), 0);
	assert_int_equal(f->server.sessions_lost, 1);
	assert_int_equal(node_hello(writer, true), 0);
	assert_int_equal(writer->hello.resumed, 0);
	assert_int_not_equal(writer->hello.session, old);
}

static void a_parked_request_ends_with_its_session(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);

	send_lease(reader, &fid, KR_LEASE_READ);
	node_asked(writer, KR_MSG_RECALL);
	node_disconnect(reader);
	for (uint64_t since = kr_clock_ns(); kr_clock_ns() - since < LEASE_MS * KR_NS_PER_MS / 2;)
		settle(writer);
	node_disconnect(writer);
	writer->asked_count = 0;
	resume(writer); /* which may leave the question unanswered anew, and so longer than the reader lives */
	while (f->server.sessions_lost == 0)
		settle(writer);
	assert_non_null(kr_session_find(&f->server, writer->hello.session));
	node_reply(writer, node_asked(writer, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(writer, send_lease(writer, &fid, KR_LEASE_ALL), NULL), 0); /* nobody is in the way */
}

static void a_new_session_replaces_the_one_of_the_same_node(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	memcpy(f->nodes[2]->node_id, node->node_id, 16);
	joined(f, 2);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_result(other, send_lease(other, &fid, KR_LEASE_READ), NULL), 0);
	assert_int_equal(f->server.session_count, 2);
}

/* The bytes that a killed daemon left in its journal are between the kill and the flush nobody else's to read past. */
static void what_a_killed_daemon_may_have_written_is_waited_for(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1), *heir = f->nodes[2];
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_reclaim_request reclaim = {.file = fid, .kinds = KR_LEASE_ALL};
	struct kr_getattr_request getattr = {.file = fid};
	struct kr_query_reply dirty = {.dirty = 1, .end = 77};
	const union kr_any_msg *reply;
	uint64_t read = send_lease(other, &fid, KR_LEASE_READ), stat = node_send(other, KR_MSG_GETATTR, &getattr);

	node_asked(node, KR_MSG_RECALL);
	node_disconnect(node);
	memcpy(heir->node_id, node->node_id, 16);
	assert_int_equal(node_hello(heir, false), 0);
	settle(other);
	assert_int_equal(node_call(heir, KR_MSG_RECLAIM, &reclaim, &reply), 0);
	assert_int_equal(reply->reclaim_reply.kinds, KR_LEASE_ALL);
	assert_false(is_answered(other, read));
	assert_false(is_answered(other, stat));
	assert_int_equal(heir->asked_count, 1); /* its size is not asked before it knows it */
	assert_int_equal(node_call(heir, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_reply(heir, node_asked(heir, KR_MSG_QUERY), &dirty);
	assert_int_equal(node_result(other, stat, &reply), 0);
	assert_int_equal(reply->getattr_reply.attr.size, 77);
	assert_false(is_answered(other, read));
	node_reply(heir, node_asked(heir, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(other, read, NULL), 0);
}

static void what_an_heir_does_not_need_is_free(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_ALL);
	uint64_t read = send_lease(other, &fid, KR_LEASE_READ);

	memcpy(f->nodes[2]->node_id, node->node_id, 16);
	memcpy(f->nodes[3]->node_id, node->node_id, 16);
	assert_int_equal(node_hello(f->nodes[2], false), 0); /* dies before it has reclaimed anything */
	assert_int_equal(node_hello(f->nodes[3], false), 0);
	settle(other);
	assert_false(is_answered(other, read));
	assert_int_equal(node_call(f->nodes[3], KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_int_equal(node_result(other, read, NULL), 0);
	assert_int_equal(f->nodes[3]->asked_count, 0);
	assert_int_equal(f->server.session_count, 2);
}

static void goodbye_ends_a_session_at_once(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	assert_int_equal(node_call(node, KR_MSG_GOODBYE, NULL, NULL), 0);
	assert_int_equal(node_result(other, send_lease(other, &fid, KR_LEASE_READ), NULL), 0);
	assert_int_equal(f->server.session_count, 1);
}

static void an_open_file_outlives_its_name(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", 0);
	struct kr_remove_request remove_file = {.parent = other->hello.root, .name = "f"};
	struct kr_getattr_request getattr = {.file = fid};
	struct kr_close_request close_msg = {.file = fid, .count = 1};
	const union kr_any_msg *reply;

	assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove_file, NULL), 0);
	assert_int_equal(lookup(other, "f", NULL), -ENOENT);
	assert_int_equal(node_call(node, KR_MSG_GETATTR, &getattr, &reply), 0);
	assert_int_equal(reply->getattr_reply.attr.nlink, 0);
	assert_false(no_orphans(f));
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), 0);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
	assert_int_equal(node_call(node, KR_MSG_GETATTR, &getattr, NULL), -ESTALE);
}

static void a_nameless_file_goes_when_late_bytes_are_flushed(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_remove_request remove_file = {.parent = node->hello.root, .name = "f"};
	struct kr_close_request close_msg = {.file = fid, .count = 1};

	assert_int_equal(node_call(node, KR_MSG_REMOVE, &remove_file, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), 0);
	node_asked(node, KR_MSG_RECALL);
	settle(node);
	assert_false(no_orphans(f)); /* its flush would still find it */
	node_reply(node, node_asked(node, KR_MSG_RECALL), NULL);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
}

static int flush_bytes(struct node *node, const struct kr_fid *fid)
{
	struct kr_range extent = {.offset = 0, .length = 5};
	struct kr_buf *buf = kr_buf_new(5);
	struct kr_slice slice = {.buf = buf, .length = 5};
	struct kr_flush_request flush = {.file = *fid, .seq = 1, .bytes = 5, .flags = 1, .mtime = {.sec = 1},
		.checksum = kr_checksum("bytes", 5), .extents = {&extent, 1}};
	struct node_answer *answer = &node->answers[node->answer_count++];
	int err;

	memcpy(buf->data, "bytes", 5);
	buf->length = 5;
	*answer = (struct node_answer){.id = 1 << 21};
	assert_int_equal(kr_conn_request_as(node->conn, answer->id, 0, KR_MSG_FLUSH, &flush, &slice, 1, node_on_reply, answer), 0);
	err = node_result(node, answer->id, NULL);
	kr_buf_put(buf);
	return err;
}

static void bytes_of_a_removed_file_are_taken_and_dropped(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_remove_request remove_file = {.parent = other->hello.root, .name = "f"};
	struct kr_close_request close_msg = {.file = fid, .count = 1};

	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), 0); /* close=async: the journal has it */
	assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove_file, NULL), 0);
	assert_int_equal(flush_bytes(node, &fid), 0);
}

/* Its node was killed with the file open, and has bytes of it in its journal. */
static void bytes_of_a_nameless_file_that_nobody_reopens_are_dropped(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_remove_request remove_file = {.parent = node->hello.root, .name = "f"};
	struct kr_reclaim_request reclaim = {.file = fid, .kinds = KR_LEASE_WRITE};

	assert_int_equal(node_call(node, KR_MSG_REMOVE, &remove_file, NULL), 0);
	stop_server(f);
	start_server(f);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_hello(node, false), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &reclaim, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_true(node_wait_for(&f->loop, no_orphans, f));
	assert_int_equal(flush_bytes(node, &fid), 0);
}

/* --- restarts ------------------------------------------------------------------------------------------------------- */

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
	assert_true(f->server.grace.active);
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
	assert_false(f->server.grace.active);
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), -EBADF);
}

static void exchange(struct node *node, uint64_t id, uint16_t flags, const struct kr_rename_request *msg)
{
	node_answer(node, id)->replies = 0;
	node_send_as(node, id, flags, KR_MSG_RENAME, msg);
}

static void what_was_executed_is_not_executed_again_by_the_next_instance(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_make_request make = {.parent = node->hello.root, .name = "a", .mode = S_IFDIR | 0755, .target = ""};
	struct kr_remove_request remove_c = {.parent = node->hello.root, .name = "c", .directory = 1};
	struct kr_rename_request rename_msg = {.parent = node->hello.root, .name = "a", .new_parent = node->hello.root,
		.new_name = "b", .flags = 2};
	const union kr_any_msg *reply;
	struct kr_fid first;
	uint64_t exchanged, removed;

	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, &reply), 0);
	first = reply->make_reply.file;
	make.name = "b";
	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, NULL), 0);
	make.name = "c";
	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, NULL), 0);
	exchanged = node_send(node, KR_MSG_RENAME, &rename_msg);
	assert_int_equal(node_result(node, exchanged, NULL), 0);
	removed = node_send(node, KR_MSG_REMOVE, &remove_c);
	assert_int_equal(node_result(node, removed, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, NULL), 0); /* as somebody else would */

	stop_server(f);
	start_server(f);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	exchange(node, exchanged, KR_FRAME_RESEND, &rename_msg);
	assert_int_equal(node_result(node, exchanged, NULL), 0);
	node_answer(node, removed)->replies = 0;
	node_send_as(node, removed, KR_FRAME_RESEND, KR_MSG_REMOVE, &remove_c);
	assert_int_equal(node_result(node, removed, NULL), 0);
	assert_int_equal(lookup(node, "b", &reply), 0);
	assert_true(kr_fid_equal(&reply->lookup_reply.file, &first));
	assert_int_equal(lookup(node, "c", NULL), 0);
}

static void a_truncation_is_not_repeated_by_the_next_instance(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", 0);
	struct kr_setattr_request cut = {.file = fid, .valid = KR_SET_SIZE, .size = 0};
	struct kr_open_request open_msg = {.file = fid, .flags = KR_OPEN_BOTH | KR_OPEN_TRUNC};
	const union kr_any_msg *reply;
	uint64_t cut_id = node_send(node, KR_MSG_SETATTR, &cut), open_id;
	char path[128];
	FILE *file;

	assert_int_equal(node_result(node, cut_id, NULL), 0);
	open_id = node_send(node, KR_MSG_OPEN, &open_msg);
	assert_int_equal(node_result(node, open_id, NULL), 0);
	snprintf(path, sizeof(path), "%s/f", f->export_path);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("later", file);
	fclose(file);

	stop_server(f);
	start_server(f);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_answer(node, cut_id)->replies = node_answer(node, open_id)->replies = 0;
	node_send_as(node, cut_id, KR_FRAME_RESEND, KR_MSG_SETATTR, &cut);
	assert_int_equal(node_result(node, cut_id, &reply), 0);
	assert_int_equal(reply->setattr_reply.attr.size, 5);
	node_send_as(node, open_id, KR_FRAME_RESEND, KR_MSG_OPEN, &open_msg);
	assert_int_equal(node_result(node, open_id, &reply), 0);
	assert_int_equal(reply->open_reply.attr.size, 5);
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
	stop_server(f);
	start_server(f);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
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
		settle(node);
	assert_int_equal(node_result(node, id, NULL), -ENOENT);
	node_disconnect(node);
	stop_server(f);
	start_server(f); /* the dead one is not waited for again, the other one is */
	assert_int_equal(kr_grace_awaited(&f->server.grace), 1);
}

static bool has_failed_to_forget(void *context)
{
	return ((struct fixture *)context)->server.forget_failed;
}

/* If its record stayed and we ended now, the next instance would take the lost node for one that has kept its leases. */
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
	assert_true(node_wait_for(&f->loop, has_failed_to_forget, f));
	settle(node);
	assert_false(is_answered(node, id));
	assert_true(f->server.grace.active);
	assert_int_equal(unlinkat(nodes, hex, AT_REMOVEDIR), 0);
	while (!is_answered(node, id))
		settle(node);
	assert_int_equal(node_result(node, id, NULL), -ENOENT);
	close(nodes);
}

static void what_an_earlier_instance_executed_counts_as_done(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_make_request make = {.parent = node->hello.root, .name = "dir", .mode = S_IFDIR | 0755, .target = "",
		.cred = {.uid = getuid(), .gid = getgid()}};
	struct kr_remove_request remove_it = {.parent = node->hello.root, .name = "gone", .directory = 1};
	struct kr_rename_request move = {.parent = node->hello.root, .name = "dir", .new_parent = node->hello.root,
		.new_name = "moved"};
	struct kr_create_request exclusive = {.parent = node->hello.root, .name = "x", .mode = 0644, .exclusive = 1,
		.cred = make.cred};
	const union kr_any_msg *reply;
	uint64_t first = node->next_id, id;

	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_CREATE, &exclusive, NULL), 0);
	stop_server(f);
	start_server(f);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_answer(node, first)->replies = node_answer(node, first + 1)->replies = 0;
	node_send_as(node, first, KR_FRAME_RESEND, KR_MSG_MAKE, &make);
	assert_int_equal(node_result(node, first, NULL), 0);
	node_send_as(node, first + 1, KR_FRAME_RESEND, KR_MSG_CREATE, &exclusive);
	assert_int_equal(node_result(node, first + 1, &reply), 0);
	assert_int_equal(reply->create_reply.created, 1);
	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, NULL), -EEXIST);           /* a new one is judged as it is */
	assert_int_equal(node_call(node, KR_MSG_CREATE, &exclusive, NULL), -EEXIST);
	assert_int_equal(node_call(node, KR_MSG_REMOVE, &remove_it, NULL), -ENOENT);
	assert_int_equal(node_call(node, KR_MSG_RENAME, &move, NULL), 0);
	id = node->next_id++; /* not sent before, and not to an earlier session: no excuse */
	node_send_as(node, id, KR_FRAME_RESEND, KR_MSG_RENAME, &move);
	assert_int_equal(node_result(node, id, NULL), -ENOENT);
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
		settle(node);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(hello_opens_a_session),
		TEST(hello_of_another_protocol_is_refused),
		TEST(hello_for_a_missing_subdirectory_is_refused),
		TEST(a_request_before_hello_is_refused),
		TEST(garbage_ends_its_connection_only),
		TEST(undecodable_requests_get_one_answer_each),
		TEST(a_forged_file_identity_is_stale),
		TEST(status_is_told_before_hello_and_after),
		TEST(a_repeated_request_gets_the_same_answer),
		TEST(a_repeated_open_counts_once_and_grants_nothing),
		TEST(a_parked_request_survives_its_connection),
		TEST(an_id_used_twice_ends_the_connection),
		TEST(a_lease_is_recalled_for_another_node),
		TEST(an_interrupted_wait_for_a_lease_ends),
		TEST(a_recall_is_repeated_on_the_next_connection),
		TEST(attributes_include_what_another_node_has_not_flushed),
		TEST(a_question_to_a_node_that_dies_is_answered_without_it),
		TEST(a_truncation_waits_until_others_have_dropped_their_leases),
		TEST(copies_in_both_directions_do_not_wait_for_each_other),
		TEST(a_silent_session_is_lost_and_its_leases_are_free),
		TEST(a_parked_request_ends_with_its_session),
		TEST(a_new_session_replaces_the_one_of_the_same_node),
		TEST(what_a_killed_daemon_may_have_written_is_waited_for),
		TEST(what_an_heir_does_not_need_is_free),
		TEST(goodbye_ends_a_session_at_once),
		TEST(an_open_file_outlives_its_name),
		TEST(a_nameless_file_goes_when_late_bytes_are_flushed),
		TEST(bytes_of_a_removed_file_are_taken_and_dropped),
		TEST(bytes_of_a_nameless_file_that_nobody_reopens_are_dropped),
		TEST(a_restarted_server_lets_nodes_reclaim_first),
		TEST(what_was_executed_is_not_executed_again_by_the_next_instance),
		TEST(a_truncation_is_not_repeated_by_the_next_instance),
		TEST(a_nameless_open_file_outlives_a_restart),
		TEST(the_grace_period_ends_without_the_dead),
		TEST(nobody_goes_on_before_the_lost_are_forgotten),
		TEST(what_an_earlier_instance_executed_counts_as_done),
		TEST(two_servers_on_one_export_are_refused),
		TEST(a_file_is_looked_at_once_in_a_while),
		TEST(a_file_that_was_just_made_is_looked_at_too),
		TEST(another_directory_at_the_same_path_is_refused),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
